//! What cannot be in the trials of a cell. Trials that are missing are findings of their own.

use vioperf_model::plan::Cell;
use vioperf_model::scenario::Testbed;
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
    let trials = analysed.receiver_bits_per_second.values.iter().map(|value| value.sequence);
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
    let latency = |name: &str| read(name).and_then(at);
    let datagrams = read("datagrams_received_per_second").and_then(at);
    Told {
        operations_per_second: datagrams.filter(|_| counts_whole_datagrams(analysed)),
        operation_bytes: Some(analysed.workload.payload_bytes() as f64),
        bytes_per_second: bits.map(|bits| bits / 8.0).into_iter().collect(),
        latency_mean_us: latency("latency_mean_us"),
        latency_max_us: latency("latency_max_us"),
        bits_per_second: bits.into_iter().collect(),
        link_bits_per_second: link(&cell.testbed, analysed.direction),
        ..Told::default()
    }
}

/// Whether every datagram has the payload that was asked for; a search has several rates, and its
/// readings are not of one window.
fn counts_whole_datagrams(analysed: &CellAnalysis) -> bool {
    matches!(analysed.workload.kind, WorkloadKind::UdpStream | WorkloadKind::PacketRate)
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
