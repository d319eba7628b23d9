//! Trials that lie far from all others of their cell.

use super::{Evidence, picture, trials_of, with_pictures};
use crate::result::{CellAnalysis, Finding, Picture, PictureOrder, Severity};
use crate::shapes;

pub fn check(evidence: &Evidence<'_>) -> Vec<Finding> {
    with_pictures(
        "outliers",
        Severity::Doubt,
        "Single trials lie far from all others of their cell",
        &evidence.cells.iter().filter_map(seen).collect::<Vec<_>>(),
        "They count, and move the mean: see in the record what was otherwise in that trial (time, guest, \
         retransmissions, other programs), and measure more blocks.",
    )
}

fn seen(cell: &CellAnalysis) -> Option<(Picture, String)> {
    let values = trials_of(cell);
    let off = shapes::outliers(&values);
    if off.is_empty() {
        return None;
    }
    let unit = cell.measure().unit;
    let trials = &cell.headline().values;
    let said: Vec<String> = off
        .iter()
        .filter_map(|at| trials.get(*at))
        .map(|trial| format!("{} in block {}", unit.short(trial.value), trial.block + 1))
        .collect();
    let said = format!("{} of {} trials: {}", off.len(), values.len(), said.join(", "));
    Some((picture(cell, PictureOrder::Block, values, off), said))
}
