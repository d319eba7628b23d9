//! Fewer trials than an interval needs.

use vioperf_model::plan::CellId;

use super::{Evidence, about_cells};
use crate::result::{Finding, Severity};
use crate::wording::count;

/// With fewer, the t interval says next to nothing (of two trials it is 12.7 standard errors wide).
const LEAST_TRIALS: usize = 3;

pub fn check(evidence: &Evidence<'_>) -> Vec<Finding> {
    if evidence.run.scenario.testbed.server.is_some() {
        // Nothing is compared there, and the report says it beside the numbers.
        return Vec::new();
    }
    let trials = |cell: &crate::result::CellAnalysis| cell.headline().values.len();
    let cells: Vec<(CellId, String)> = evidence
        .cells
        .iter()
        .filter(|cell| (1..LEAST_TRIALS).contains(&trials(cell)))
        .map(|cell| (cell.id.clone(), count(trials(cell), "trial")))
        .collect();
    about_cells(
        "too-few-trials",
        Severity::Doubt,
        "Fewer than 3 trials: the scatter is not known",
        &cells,
        "Measure at least 3 blocks (--blocks 3); until then read these as single observations.",
    )
}
