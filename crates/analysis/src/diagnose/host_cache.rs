//! Operations of a disk that the host's memory answered, and not its disk.

use vioperf_model::plan::CellId;

use super::{Evidence, about_cells};
use crate::result::{Finding, Severity};
use crate::wording::percent;

/// A device below that moved less than this part of what the load moved was not asked for the rest.
const LEAST_PERCENT_OF_LOAD: f64 = 70.0;

pub fn check(evidence: &Evidence<'_>) -> Vec<Finding> {
    let cells: Vec<(CellId, String)> = evidence
        .cells
        .iter()
        .filter_map(|cell| {
            let disk = cell.disk.as_ref()?;
            let moved = disk.device_percent_of_load.mean();
            let what = match (disk.direct, moved.filter(|moved| *moved < LEAST_PERCENT_OF_LOAD)) {
                (_, Some(moved)) => format!(
                    "the host's busiest disk moved {} of the bytes that the load did",
                    percent(moved)
                ),
                (Some(false), None) => "the disk refused O_DIRECT to the load itself".to_owned(),
                _ => return None,
            };
            Some((cell.id.clone(), what))
        })
        .collect();
    about_cells(
        "host-cache-in-path",
        Severity::Doubt,
        "Memory answered in place of the disk",
        &cells,
        "These are numbers of a page cache, or of a file in memory, not of a disk: guest.drive.cache = \"none\" or \
         \"directsync\" goes past the host's cache (QEMU: cache=none; libvirt: <driver cache='none'/>), and \
         testbed.storage on a disk past tmpfs. What only the path costs they tell all the same.",
    )
}
