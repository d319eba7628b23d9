//! Requests that were not answered in time.

use vioperf_model::plan::CellId;

use super::{Evidence, about_cells};
use crate::result::{Finding, Severity};
use crate::wording::three_digits;

pub fn check(evidence: &Evidence<'_>) -> Vec<Finding> {
    let cells: Vec<(CellId, String)> = evidence
        .cells
        .iter()
        .filter_map(|cell| {
            let mean = cell.transactions.as_ref()?.timeouts.mean().filter(|mean| *mean > 0.0)?;
            Some((cell.id.clone(), format!("{} a trial", three_digits(mean))))
        })
        .collect();
    about_cells(
        "requests-timed-out",
        Severity::Doubt,
        "Requests were not answered in time",
        &cells,
        "A time-out is not in the percentiles, and its stream stood still meanwhile: latency is worse \
         than it looks, and the rate lower than without the loss.",
    )
}
