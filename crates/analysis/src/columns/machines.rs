//! Columns of the machines beside the host and the guest under test: the same for each.

use vioperf_model::record::Place;

use super::{Column, OF_CORE, Source, US};
use crate::result::{Machine, Metric};

/// One after the other, in the order of [`Place::MACHINES`].
pub(super) fn columns() -> Vec<Column> {
    // Those have columns of their own, as most is told of them.
    let beside = |place: &Place| ![Place::Host, Place::Guest].contains(place);
    Place::MACHINES.into_iter().filter(beside).flat_map(of_machine).collect()
}

fn of_machine(place: Place) -> Vec<Column> {
    let machine = place.key().replace('-', "_");
    let mut columns = vec![Column {
        name: kept(format!("{machine}_busy_percent_of_core")),
        unit: OF_CORE,
        about: kept(format!("busy time of all cores of the {place}")),
        source: Source::Machine(place, |machine| Some(&machine.cores.busy_percent_of_core)),
    }];
    columns.extend(place.qemu_label().map(|_| Column {
        name: kept(format!("{machine}_qemu_percent_of_core")),
        unit: OF_CORE,
        about: kept(format!("CPU time of all threads of the QEMU that runs the {place}")),
        source: Source::Machine(place, |machine| {
            machine.qemu.map(|qemu| &qemu.total_percent_of_core)
        }),
    }));
    columns.extend((place == Place::Neighbour).then(disk_beside).into_iter().flatten());
    columns
}

/// What a neighbour did to its disk.
fn disk_beside() -> [Column; 3] {
    let column = |name, unit, about, read: for<'a> fn(Machine<'a>) -> Option<&'a Metric>| Column {
        name,
        unit,
        about,
        source: Source::Machine(Place::Neighbour, read),
    };
    [
        column(
            "neighbour_disk_operations_per_second",
            "operations/s",
            "reads and writes of the neighbour's own disk that ended",
            |machine| Some(&machine.disk?.operations_per_second),
        ),
        column(
            "neighbour_disk_mb_per_second",
            "MB/s",
            "read and written there, in megabytes of 1 000 000 bytes",
            |machine| Some(&machine.disk?.mb_per_second),
        ),
        column("neighbour_disk_mean_us", US, "mean response time there", |machine| {
            Some(&machine.disk?.mean_us)
        }),
    ]
}

/// The list is made once, and lives as long as the program.
fn kept(text: String) -> &'static str {
    text.leak()
}
