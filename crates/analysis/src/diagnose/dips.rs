//! Loads that stood still for a while.

use super::{Evidence, picture, with_pictures};
use crate::result::{CellAnalysis, Finding, Picture, PictureOrder, Severity};
use crate::shapes::{Course, Dip};

pub fn check(evidence: &Evidence<'_>) -> Vec<Finding> {
    let seen = |cell: &CellAnalysis| -> Option<(Picture, String)> {
        if cell.workload.burst.is_some_and(|burst| burst > 1) {
            // Between bursts it is meant to stand still.
            return None;
        }
        let trials = &evidence.gathered.of_cell(&cell.id)?.completed;
        let dips: Vec<(u32, &Course, Dip)> = trials
            .iter()
            .filter_map(|t| Some((t.block, t.course.as_ref()?, t.course.as_ref()?.dip?)))
            .collect();
        let longest = dips.iter().max_by(|a, b| a.2.seconds.total_cmp(&b.2.seconds))?;
        let (block, course, dip) = longest;
        let said = format!(
            "{} of {} trials, the longest {:.1} s, {:.1} s into the trial of block {}",
            dips.len(),
            trials.len(),
            dip.seconds,
            dip.from_seconds,
            block + 1
        );
        Some((picture(cell, PictureOrder::TenthOfTrial, course.tenths.to_vec(), Vec::new()), said))
    };
    with_pictures(
        "dips",
        Severity::Doubt,
        "Loads stood still for a while, and went on",
        &evidence.cells.iter().filter_map(seen).collect::<Vec<_>>(),
        "Nothing arrived although it did before and after. Over TCP a stop of 0.2 s or more is that of a \
         retransmission's time-out: look for drops (rings, queues, the switch), or for a guest or host \
         that was not given a core.",
    )
}
