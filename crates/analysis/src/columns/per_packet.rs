//! Columns of what a packet costs the processors, and KVM.

use super::{Column, column};
use crate::result::{CellAnalysis, ExitsPerPacket, Metric, ProcessorWork};

const CYCLES: &str = "cycles";
const INSTRUCTIONS: &str = "instructions";
const MISSES: &str = "cache misses";
const EXITS: &str = "exits";

/// Packets are those that the near end's interface under test received or sent.
pub(super) const COLUMNS: &[Column] = &[
    column("host_cycles_per_packet", CYCLES, "cycles of all the host's cores per packet", |c| {
        Some(&c.layers.host.processors.cycles_per_packet)
    }),
    column(
        "host_instructions_per_packet",
        INSTRUCTIONS,
        "instructions of all the host's cores per packet",
        |c| Some(&c.layers.host.processors.instructions_per_packet),
    ),
    column(
        "host_cache_misses_per_packet",
        MISSES,
        "misses of the last cache of all the host's cores per packet",
        |c| Some(&c.layers.host.processors.cache_misses_per_packet),
    ),
    column("guest_cycles_per_packet", CYCLES, "cycles of the guest's cores per packet", |c| {
        guest(c, |work| &work.cycles_per_packet)
    }),
    column(
        "guest_instructions_per_packet",
        INSTRUCTIONS,
        "instructions of the guest's cores per packet",
        |c| guest(c, |work| &work.instructions_per_packet),
    ),
    column(
        "guest_cache_misses_per_packet",
        MISSES,
        "misses of the last cache of the guest's cores per packet",
        |c| guest(c, |work| &work.cache_misses_per_packet),
    ),
    column("kvm_exits_per_packet", EXITS, "times that KVM left the guest per packet", |c| {
        exits(c, |exits| &exits.all)
    }),
    column("kvm_io_exits_per_packet", EXITS, "of them, for an access to a port", |c| {
        exits(c, |exits| &exits.io)
    }),
    column("kvm_mmio_exits_per_packet", EXITS, "of them, for an emulated device's memory", |c| {
        exits(c, |exits| &exits.mmio)
    }),
    column("kvm_halt_exits_per_packet", EXITS, "of them, as there was nothing to do", |c| {
        exits(c, |exits| &exits.halt)
    }),
    column(
        "kvm_interrupts_injected_per_packet",
        "interrupts",
        "interrupts that KVM injected into the guest per packet",
        |c| exits(c, |exits| &exits.interrupts_injected),
    ),
];

fn guest(cell: &CellAnalysis, read: fn(&ProcessorWork) -> &Metric) -> Option<&Metric> {
    Some(read(&cell.layers.guest.as_ref()?.processors))
}

fn exits(cell: &CellAnalysis, read: fn(&ExitsPerPacket) -> &Metric) -> Option<&Metric> {
    cell.layers.exits_per_packet.as_ref().map(read)
}
