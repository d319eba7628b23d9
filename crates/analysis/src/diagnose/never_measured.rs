//! Cells without a single trial that counts.

use vioperf_model::plan::CellId;

use super::{Evidence, about_cells};
use crate::result::{Finding, Severity};
use crate::wording::count;

pub fn check(evidence: &Evidence<'_>) -> Vec<Finding> {
    if evidence.run.scenario.testbed.server.is_some() {
        // The report says it where the numbers would be.
        return Vec::new();
    }
    let cells: Vec<(CellId, String)> = evidence
        .cells
        .iter()
        .filter(|cell| cell.headline().summary.is_none())
        .map(|cell| {
            let void = usize::try_from(cell.trials.void).unwrap_or(usize::MAX);
            let why = match (cell.trials.completed, void) {
                (0, 0) => "never tried".to_owned(),
                (0, void) => format!("{} void", count(void, "trial")),
                _ => cell.headline().reason().unwrap_or("no reason known").to_owned(),
            };
            (cell.id.clone(), why)
        })
        .collect();
    about_cells(
        "never-measured",
        Severity::Warning,
        "Cells without a measurement",
        &cells,
        "They have no number here, which is not the number zero; see the void trials for the cause.",
    )
}
