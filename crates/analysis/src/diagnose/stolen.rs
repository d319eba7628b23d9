//! The host is a virtual machine itself, and was not given its cores.

use vioperf_model::plan::CellId;

use super::{Evidence, about_cells};
use crate::result::{CellAnalysis, Finding, Severity};
use crate::wording;

/// Stolen time of all the host's cores from which it matters, in percent of one core.
const STOLEN_PERCENT: f64 = 10.0;

pub fn check(evidence: &Evidence<'_>) -> Vec<Finding> {
    let stolen = |cell: &CellAnalysis| -> f64 {
        cell.host.cores.iter().filter_map(|core| core.mean_percent.steal).sum()
    };
    let mut over: Vec<(f64, CellId)> = evidence
        .cells
        .iter()
        .map(|cell| (stolen(cell), cell.id.clone()))
        .filter(|(stolen, _)| *stolen > STOLEN_PERCENT)
        .collect();
    over.sort_by(|a, b| b.0.total_cmp(&a.0));
    let cells: Vec<(CellId, String)> =
        over.into_iter().map(|(stolen, id)| (id, wording::percent(stolen))).collect();
    about_cells(
        "time-stolen",
        Severity::Doubt,
        "The host is a virtual machine that was denied its cores",
        &cells,
        "In percent of one core, as the host's kernel counts stolen time. Other machines on the same \
         hardware moved these numbers: measure where the cores are its own.",
    )
}
