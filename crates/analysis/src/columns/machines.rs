//! Columns of the machines beside the host and the guest under test: the same for each.

use vioperf_model::record::Place;

use super::{Column, OF_CORE, Source};

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
    columns
}

/// The list is made once, and lives as long as the program.
fn kept(text: String) -> &'static str {
    text.leak()
}
