//! Records that do not fit the plan.

use vioperf_model::plan::CellId;

use super::{Evidence, about_cells};
use crate::result::{Finding, Severity};
use crate::wording::count;

pub fn check(evidence: &Evidence<'_>) -> Vec<Finding> {
    let unknown = evidence.gathered.unknown.iter();
    let cells: Vec<(CellId, String)> =
        unknown.map(|(cell, n)| (cell.clone(), count(*n, "trial"))).collect();
    about_cells(
        "unknown-cell",
        Severity::Warning,
        "Trials of cells that the plan does not have",
        &cells,
        "They were left aside. Check that run.json and trials.jsonl belong together.",
    )
}
