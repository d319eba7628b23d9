//! Clocks that are too poorly related for a common window.

use super::{Evidence, about_cells, above};
use crate::result::{Finding, Severity};

const POOR_PERCENT_OF_WINDOW: f64 = 1.0;

pub fn check(evidence: &Evidence<'_>) -> Vec<Finding> {
    let cells = above(evidence.cells, POOR_PERCENT_OF_WINDOW, |cell| {
        Some(&cell.clock_error_percent_of_window)
    });
    about_cells(
        "clocks-poorly-related",
        Severity::Doubt,
        "The clocks of the two ends are poorly related",
        &cells,
        "In percent of the window, which the ends may have cut by so much differently. Measure \
         longer (workload.duration), or free a core for the control channel.",
    )
}
