//! Loads that ended before they were told to.

use vioperf_model::plan::CellId;

use super::{Evidence, about_cells};
use crate::result::{CellAnalysis, Finding, Severity};

pub fn check(evidence: &Evidence<'_>) -> Vec<Finding> {
    let reason = |cell: &CellAnalysis| {
        let mut trials = evidence.gathered.of_cell(&cell.id)?.completed.iter();
        let reason = trials.find_map(|readings| readings.ended_early.clone())?;
        Some((cell.id.clone(), reason))
    };
    let mut cells: Vec<(CellId, String)> = evidence.cells.iter().filter_map(reason).collect();
    cells.sort();
    about_cells(
        "load-ended-early",
        Severity::Doubt,
        "Loads ended before the window did",
        &cells,
        "The rate of these cells is too low: find out why a connection ended.",
    )
}
