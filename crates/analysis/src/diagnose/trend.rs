//! Cells that got faster or slower over the run.

use super::{Evidence, picture, trials_of, with_pictures};
use crate::result::{CellAnalysis, Finding, Picture, PictureOrder, Severity};
use crate::shapes;
use crate::wording;

pub fn check(evidence: &Evidence<'_>) -> Vec<Finding> {
    with_pictures(
        "trend-over-run",
        Severity::Doubt,
        "Cells got faster or slower over the run",
        &evidence.cells.iter().filter_map(seen).collect::<Vec<_>>(),
        "From the first trial to the last. Percentages of the baseline are made inside of blocks and \
         suffer less than rates do; look for what changes with time (temperature, memory, other \
         programs).",
    )
}

fn seen(cell: &CellAnalysis) -> Option<(Picture, String)> {
    let values = trials_of(cell);
    let said = wording::signed_percent(100.0 * shapes::trend(&values)?.change);
    Some((picture(cell, PictureOrder::Block, values, Vec::new()), said))
}
