//! Whose cores were how busy, for a terminal: every machine of a cell.

use vioperf_analysis::measure::Unit;
use vioperf_analysis::result::{CellAnalysis, CoreUse, DiskBeside, Machine, RunAnalysis};

use super::table::{Column, number, text};
use super::text::wrap;
use super::values::{NO_VALUE, mean, whole, with_interval};

/// Columns of [`rows`].
pub const CORES: &[Column] = &[
    text("cell"),
    text("core"),
    number("busy"),
    number("user"),
    number("system"),
    number("irq"),
    number("softirq"),
    number("guest"),
    number("steal"),
    number("idle"),
];

/// A machine's cores, one row each.
pub fn rows(cell: &CellAnalysis, machine: &Machine<'_>) -> Vec<Vec<String>> {
    let state = |percent: Option<f64>| {
        percent.map_or_else(|| NO_VALUE.to_owned(), |percent| format!("{percent:.0}"))
    };
    let row = |core: &CoreUse| {
        let states = &core.mean_percent;
        vec![
            cell.id.to_string(),
            format!("{} {}", machine.name, core.core),
            whole(&core.busy_percent),
            state(states.user),
            state(states.system),
            state(states.irq),
            state(states.softirq),
            state(states.guest),
            state(states.steal),
            state(states.idle),
        ]
    };
    machine.cores.cores.iter().map(row).collect()
}

/// What each cell's guests beside the one under test did, one paragraph a cell of at most so many columns.
pub fn other_guests(analysis: &RunAnalysis, columns: usize) -> String {
    let mut lines = String::new();
    for cell in &analysis.cells {
        let machines = cell.other_guests.iter().filter_map(|guest| cell.machine(guest.place));
        let told: Vec<String> = machines.map(|machine| other_guest(&machine)).collect();
        if !told.is_empty() {
            lines.push_str(&wrap(&cell.id.0, columns, "  ", "  "));
            lines.push_str(&wrap(&told.join("; "), columns, "    ", "    "));
        }
    }
    lines
}

/// `far guest 71 %, its QEMU 39 % (vCPUs 32 %), waiting for a core 96 %`.
fn other_guest(machine: &Machine<'_>) -> String {
    let own = format!("{} {} %", machine.name, whole(&machine.cores.busy_percent_of_core));
    let Some(qemu) = machine.qemu else { return own };
    let disk = machine.disk.map(|disk| format!(", its disk {}", disk_beside(disk)));
    format!(
        "{own}, its QEMU {} % (vCPUs {} %), waiting for a core {} %{}",
        whole(&qemu.total_percent_of_core),
        whole(&qemu.vcpu_percent_of_core),
        whole(&qemu.waiting_percent_of_core),
        disk.unwrap_or_default(),
    )
}

/// What a neighbour did to its disk (`8.31 ± 0.2 k/s, 34 MB/s, mean 110 µs`).
pub fn disk_beside(disk: &DiskBeside) -> String {
    format!(
        "{}, {} MB/s, mean {} µs",
        with_interval(&disk.operations_per_second, Unit::Operations),
        mean(&disk.mb_per_second),
        mean(&disk.mean_us),
    )
}
