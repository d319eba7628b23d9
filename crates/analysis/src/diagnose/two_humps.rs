//! Trials that fall into two groups.

use super::{Evidence, picture, trials_of, with_pictures};
use crate::result::{CellAnalysis, Finding, Picture, PictureOrder, Severity};
use crate::shapes;

pub fn check(evidence: &Evidence<'_>) -> Vec<Finding> {
    with_pictures(
        "two-humps",
        Severity::Doubt,
        "Trials fall into two groups with nothing in between",
        &evidence.cells.iter().filter_map(seen).collect::<Vec<_>>(),
        "The mean is a value that no trial had. Something takes one of two states (where threads run, \
         which core serves interrupts, whether packets merge): hold it fixed, or make it a factor.",
    )
}

fn seen(cell: &CellAnalysis) -> Option<(Picture, String)> {
    let values = trials_of(cell);
    let humps = shapes::humps(&values)?;
    let unit = cell.measure().unit;
    let said = format!(
        "{} around {}, {} around {}",
        humps.low_trials,
        unit.short(humps.low),
        humps.high_trials,
        unit.short(humps.high)
    );
    Some((picture(cell, PictureOrder::Block, values, Vec::new()), said))
}
