//! Datagrams that were sent and never arrived.

use super::{Evidence, about_cells, above};
use crate::result::{Finding, Severity};

/// Less than this is not worth a note.
const LOSS_PERCENT: f64 = 0.1;

/// Where datagrams bear no numbers, less than this is within the reach of the two ends' samples,
/// which do not lie at the same moments.
const UNNUMBERED_LOSS_PERCENT: f64 = 1.0;

pub fn check(evidence: &Evidence<'_>) -> Vec<Finding> {
    let mut cells = above(evidence.cells, LOSS_PERCENT, |cell| {
        // What a search loses is what it looks for.
        let datagrams = cell.datagrams.as_ref().filter(|_| cell.rate_search.is_none())?;
        let numbered = datagrams.duplicated.mean().is_some();
        let least = if numbered { LOSS_PERCENT } else { UNNUMBERED_LOSS_PERCENT };
        Some(&datagrams.lost_percent).filter(|lost| lost.mean() > Some(least))
    });
    for (id, what) in &mut cells {
        let cell = evidence.cells.iter().find(|cell| cell.id == *id);
        let Some(datagrams) = cell.and_then(|cell| cell.datagrams.as_ref()) else { continue };
        if let Some(drops) = datagrams.socket_drops.mean().filter(|drops| *drops >= 1.0) {
            // What is joined is dropped joined.
            let unit = if datagrams.segmentation { "messages" } else { "datagrams" };
            what.push_str(&format!(", {drops:.0} {unit} a trial at the receiver's sockets"));
        }
    }
    about_cells(
        "datagrams-lost",
        Severity::Note,
        "Datagrams were lost between sender and receiver",
        &cells,
        "In percent of those sent. What arrived is what counts; the sender gave more than the path or \
         the receiver took. What the receiver's sockets had no room for is told beside it; \
         the rest was dropped on the way.",
    )
}
