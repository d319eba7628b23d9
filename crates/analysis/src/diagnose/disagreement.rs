//! Sender and receiver that saw different rates.

use vioperf_model::plan::CellId;
use vioperf_model::workload::WorkloadKind;

use super::{Evidence, about_cells};
use crate::result::{Finding, Severity};
use crate::wording::rate;

/// Buffers in between fill and drain; over a whole window that is less than this, in percent.
const DISAGREE_PERCENT: f64 = 5.0;

pub fn check(evidence: &Evidence<'_>) -> Vec<Finding> {
    let cells: Vec<(CellId, String)> = evidence
        .cells
        .iter()
        // What a path may lose is another finding, and a request need not weigh what its response does.
        .filter(|cell| cell.workload.kind == WorkloadKind::TcpStream)
        .filter_map(|cell| {
            let sent = cell.sender_bits_per_second.mean()?;
            let received = cell.receiver_bits_per_second.mean()?;
            let apart = (sent - received).abs() > received * DISAGREE_PERCENT / 100.0;
            apart.then(|| {
                (cell.id.clone(), format!("{} sent, {} received", rate(sent), rate(received)))
            })
        })
        .collect();
    about_cells(
        "sender-receiver-disagree",
        Severity::Doubt,
        "Sender and receiver disagree by more than 5 %",
        &cells,
        "What arrived is reported. Over TCP the rest sat in buffers: measure longer \
         (workload.duration, workload.warmup).",
    )
}
