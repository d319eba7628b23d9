//! The guests beside the one under test: each with its cores, and the threads that ran it.

use maud::{Markup, html};
use vioperf_analysis::result::{CellAnalysis, DiskBeside, Machine};

use super::tables;
use crate::report::machines::disk_beside;
use crate::report::values::Workload;

/// A row a guest; nothing where no cell has one.
pub fn table(workload: &Workload<'_>) -> Markup {
    let guests = workload.cells.iter().map(|cell| cell.other_guests.len());
    let count: usize = guests.sum();
    let disks: Vec<(&CellAnalysis, &str, &DiskBeside)> = workload
        .cells
        .iter()
        .flat_map(|cell| {
            let told = cell.other_guests.iter().filter_map(|guest| cell.machine(guest.place));
            told.filter_map(|machine| Some((*cell, machine.name, machine.disk?)))
        })
        .collect();
    html! {
        @if count > 0 {
            div.scroll tabindex="0" {
                table {
                    caption { "Guests beside the one under test, in percent of one core" }
                    (tables::cpu_head(["guest", "its cores"], "its QEMU’s threads"))
                    tbody {
                        @for cell in &workload.cells {
                            @for guest in &cell.other_guests {
                                @if let Some(machine) = cell.machine(guest.place) {
                                    (row(cell, &machine))
                                }
                            }
                        }
                    }
                }
            }
            @for (cell, name, disk) in disks {
                p { (cell.path) ": beside it the " (name) "’s own disk did " (disk_beside(disk)) "." }
            }
        }
    }
}

fn row(cell: &CellAnalysis, machine: &Machine<'_>) -> Markup {
    html! {
        tr {
            (tables::path_name(cell))
            td.text { (machine.name) }
            (tables::cores(machine.cores))
            (tables::qemu(machine.qemu))
        }
    }
}
