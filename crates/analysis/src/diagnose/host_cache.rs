//! Operations of a disk that the host's memory answered, and not its disk.

use vioperf_model::plan::{Cell, CellId};
use vioperf_model::scenario::StorageKind;

use super::{Evidence, about_cells};
use crate::result::{Disk, Finding, Severity};
use crate::wording::percent;

/// A device below that moved less than this part of what the load moved was not asked for the rest.
const LEAST_PERCENT_OF_LOAD: f64 = 70.0;

pub fn check(evidence: &Evidence<'_>) -> Vec<Finding> {
    let cells: Vec<(CellId, String)> = evidence
        .cells
        .iter()
        .filter_map(|cell| {
            let planned = evidence.run.plan.cells.iter().find(|planned| planned.id == cell.id);
            Some((cell.id.clone(), why(planned, cell.disk.as_ref()?)?))
        })
        .collect();
    about_cells(
        "host-cache-in-path",
        Severity::Doubt,
        "Memory answered in place of the disk",
        &cells,
        "These are numbers of a page cache, or of a file in memory, not of a disk: guest.drive.cache = \"none\" or \
         \"directsync\" goes past the host's cache (QEMU: cache=none; libvirt: <driver cache='none'/>), testbed.storage on \
         a disk past tmpfs, and `losetup --direct-io=on` past the cache of a loop device's file. What only the path costs \
         they tell all the same.",
    )
}

/// How memory is seen to have answered, and by what cause, where that is known.
fn why(planned: Option<&Cell>, disk: &Disk) -> Option<String> {
    let is_tmpfs = planned.is_some_and(|cell| cell.testbed.storage.kind == StorageKind::Tmpfs);
    if disk.in_memory || is_tmpfs {
        return Some("its bytes are in memory (tmpfs), no disk is below".to_owned());
    }
    // A baseline reads the file itself.
    let cache = planned.and_then(|cell| Some(cell.guest.as_ref()?.drive.cache));
    let cached = cache.filter(|cache| !cache.is_direct());
    let device = planned.and_then(|cell| cell.testbed.storage.block_device());
    let on_loop = device.filter(|device| device.starts_with("/dev/loop"));
    let name = disk.devices.join(", ");
    let moved = disk.device_percent_of_load.mean();
    let little = moved.filter(|moved| *moved < LEAST_PERCENT_OF_LOAD);
    let little = little.map(|moved| {
        format!("the host's disk {name} moved {} of the bytes that the load did", percent(moved))
    });
    match (little, cached) {
        (Some(little), Some(cache)) => {
            Some(format!("guest.drive.cache = \"{cache}\" asks the host's page cache; {little}"))
        }
        (Some(little), None) => Some(match on_loop {
            Some(device) => {
                format!("the loop device {device} asks the page cache of its file; {little}")
            }
            None => little,
        }),
        (None, Some(cache)) if moved.is_none() => Some(format!(
            "guest.drive.cache = \"{cache}\" asks the host's page cache; what its disk did is not known"
        )),
        (None, _) if disk.direct == Some(false) => {
            Some("the disk refused O_DIRECT to the load itself".to_owned())
        }
        (None, _) => None,
    }
}
