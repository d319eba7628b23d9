//! Loads that ended before they were told to.

use std::collections::BTreeMap;

use vioperf_model::plan::CellId;
use vioperf_model::record::Outcome;

use super::{Evidence, about_cells};
use crate::result::{Finding, Severity};

pub fn check(evidence: &Evidence<'_>) -> Vec<Finding> {
    let mut cells: BTreeMap<&CellId, &str> = BTreeMap::new();
    for trial in evidence.trials.iter().filter(|trial| trial.outcome == Outcome::Completed) {
        for party in &trial.parties {
            let early = party.report.load.as_ref().and_then(|load| load.ended_early.as_deref());
            if let Some(reason) = early {
                cells.entry(&trial.cell).or_insert(reason);
            }
        }
    }
    let cells: Vec<(CellId, String)> =
        cells.into_iter().map(|(cell, reason)| (cell.clone(), reason.to_owned())).collect();
    about_cells(
        "load-ended-early",
        Severity::Doubt,
        "Loads ended before the window did",
        &cells,
        "The rate of these cells is too low: find out why a connection ended.",
    )
}
