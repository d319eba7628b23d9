//! QEMU's main loop is the bottleneck.

use super::{Evidence, about_cells, above};
use crate::result::{Finding, Severity};

const SATURATED_PERCENT: f64 = 90.0;

pub fn check(evidence: &Evidence<'_>) -> Vec<Finding> {
    let cells = above(evidence.cells, SATURATED_PERCENT, |cell| {
        cell.qemu.as_ref().map(|qemu| &qemu.main_loop_percent_of_core)
    });
    about_cells(
        "main-loop-saturated",
        Severity::Note,
        "QEMU's main loop uses a whole core: it is the bottleneck",
        &cells,
        "Every packet passes through this one thread. With virtio, vhost-net moves it into the \
         kernel; emulated cards cannot.",
    )
}
