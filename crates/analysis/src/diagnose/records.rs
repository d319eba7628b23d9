//! Records that do not fit the plan.

use std::collections::{BTreeMap, BTreeSet};

use vioperf_model::plan::CellId;

use super::{Evidence, about_cells};
use crate::result::{Finding, Severity};
use crate::wording::count;

pub fn check(evidence: &Evidence<'_>) -> Vec<Finding> {
    let known: BTreeSet<&CellId> = evidence.run.plan.cells.iter().map(|cell| &cell.id).collect();
    let mut unknown: BTreeMap<&CellId, usize> = BTreeMap::new();
    for trial in evidence.trials.iter().filter(|trial| !known.contains(&trial.cell)) {
        *unknown.entry(&trial.cell).or_default() += 1;
    }
    let cells: Vec<(CellId, String)> =
        unknown.into_iter().map(|(cell, n)| (cell.clone(), count(n, "trial"))).collect();
    about_cells(
        "unknown-cell",
        Severity::Warning,
        "Trials of cells that the plan does not have",
        &cells,
        "They were left aside. Check that run.json and trials.jsonl belong together.",
    )
}
