//! What cannot be in the trials of a cell. Trials that are missing are findings of their own.

use vioperf_model::plan::Cell;
use vioperf_model::scenario::Testbed;
use vioperf_model::units::ByteSize;
use vioperf_model::workload::{Direction, WorkloadKind};

use super::{Impossible, Told, ToldMachine, impossible};
use crate::columns;
use crate::result::{CellAnalysis, MachineUse, Metric};

/// Everything that cannot be, with the trial's place in the run where it is of one; `host_cores` are online.
pub fn of_cell(
    cell: &Cell,
    analysed: &CellAnalysis,
    host_cores: u32,
) -> Vec<(Option<u32>, Impossible)> {
    let trials = analysed.headline().values.iter().map(|value| value.sequence);
    let of_trial = |sequence: u32| {
        let found = impossible(&of_trial(cell, analysed, sequence));
        found.into_iter().map(move |found| (Some(sequence), found))
    };
    let whole = Told { machines: machines(cell, analysed, host_cores), ..Told::default() };
    let of_whole = impossible(&whole).into_iter().map(|found| (None, found));
    trials.flat_map(of_trial).chain(of_whole).collect()
}

fn of_trial(cell: &Cell, analysed: &CellAnalysis, sequence: u32) -> Told {
    let at = |metric: &Metric| {
        metric.values.iter().find(|value| value.sequence == sequence).map(|value| value.value)
    };
    let read = |name: &str| columns::named(name).and_then(|column| column.read(analysed));
    let bits = at(&analysed.receiver_bits_per_second);
    let of = |name: &str| read(name).and_then(at);
    let (operations, size, bytes) = match analysed.workload.kind {
        // Of a mix no operation has the size of all.
        WorkloadKind::Disk if analysed.workload.mix.is_empty() => (
            of("disk_operations_per_second"),
            cell.value_of("block_size").and_then(|size| size.parse::<ByteSize>().ok()),
            of("disk_mb_per_second").map(|megabytes| megabytes * 1e6),
        ),
        // Every datagram has the payload that was asked for; a search has several rates, whose readings are of no
        // one window.
        WorkloadKind::UdpStream | WorkloadKind::PacketRate => (
            of("datagrams_received_per_second"),
            Some(ByteSize::from_bytes(analysed.workload.payload_bytes())),
            bits.map(|bits| bits / 8.0),
        ),
        _ => (None, None, None),
    };
    Told {
        operations_per_second: operations,
        operation_bytes: size.map(|size| size.as_bytes() as f64),
        bytes_per_second: bytes.into_iter().collect(),
        latency_mean_us: of("latency_mean_us").or_else(|| of("disk_read_mean_us")),
        latency_max_us: of("latency_max_us").or_else(|| of("disk_read_max_us")),
        bits_per_second: bits.into_iter().collect(),
        link_bits_per_second: link(&cell.testbed, analysed.direction),
        ..Told::default()
    }
}

/// What the path is held to, both ways together where payload goes both ways.
fn link(testbed: &Testbed, direction: Direction) -> Option<f64> {
    let rate = testbed.rate?.as_bits_per_second() as f64;
    Some(if direction == Direction::Both { 2.0 * rate } else { rate })
}

/// Means over the trials: of a short one alone ticks tell too little.
fn machines(cell: &Cell, analysed: &CellAnalysis, host_cores: u32) -> Vec<ToldMachine> {
    let machine = |name: &str, cores: Option<u32>, used: &MachineUse| ToldMachine {
        name: name.to_owned(),
        cores,
        percent_of_all: used.busy_percent_of_core.mean(),
        ..ToldMachine::default()
    };
    let guest = analysed.guest.as_ref().zip(cell.guest.as_ref());
    let guest = guest.map(|(used, guest)| machine("the guest", guest.vcpus.map(u32::from), used));
    let is_watched = cell.testbed.server.is_none();
    let host = is_watched.then(|| machine("the host", Some(host_cores), &analysed.host));
    host.into_iter().chain(guest).collect()
}
