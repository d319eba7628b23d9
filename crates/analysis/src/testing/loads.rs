//! Synthetic runs of every kind of load.

use vioperf_model::plan::{Cell, Plan};
use vioperf_model::record::{Party, Probe, SearchRecord, TrialRecord};
use vioperf_model::sample::{
    DatagramOutcome, DiskCounters, DiskOutcome, LatencyHistogram, LoadOutcome,
};
use vioperf_model::scenario::Factors;
use vioperf_model::section::SectionName;
use vioperf_model::wire::Role;
use vioperf_model::workload::{Transport, WorkloadKind};

use super::{Course, Synthetic, driver, hypervisor, run_info, scatter, trials, whole};

/// So much more than arrives is sent by a synthetic packet-rate load: a fifth of it is lost.
pub const PACKETS_SENT_FACTOR: f64 = 1.25;
/// Of a synthetic UDP stream's numbered datagrams.
pub const UDP_LOST_PERCENT: f64 = 1.0;

impl Synthetic {
    /// A calm run under KVM with a load of that kind: virtio, e1000e and rtl8139.
    pub fn of_kind(kind: WorkloadKind) -> Self {
        if kind == WorkloadKind::TcpStream {
            return Self::calm_kvm();
        }
        let mut run = run_info(&["virtio", "e1000e", "rtl8139"]);
        run.hypervisor = Some(hypervisor(false));
        run.scenario.name = kind.name().into();
        run.scenario.workload.kind = kind;
        let nic = run.scenario.factors.nic.clone();
        run.scenario.factors = factors(kind, Factors::of_nics(nic));
        run.plan = Plan::new(&run.scenario, super::SEED);
        let mut trials = trials(&run, |cell, block| Course {
            rate: units_per_second(cell) * bits(cell) * scatter(cell, block, 0.01),
            vcpu: 50.0,
            main_loop: 10.0,
            vhost: 30.0,
            guest_busy: 60.0,
            node: 15.0,
            has_guest: !cell.is_baseline(),
            driver: driver(cell),
            speed_mbit_per_s: (cell.path_name() == "e1000e").then_some(1_000),
        });
        for trial in &mut trials {
            if let Some(cell) = run.plan.cell(&trial.cell) {
                if kind == WorkloadKind::Disk {
                    work_on_disk(cell, trial);
                    continue;
                }
                count(cell, trial);
                if kind == WorkloadKind::RateSearch {
                    trial.search = Some(search(units_per_second(cell)));
                }
            }
        }
        Self { run, trials }
    }
}

fn factors(kind: WorkloadKind, factors: Factors) -> Factors {
    match kind {
        WorkloadKind::RateSearch => varied(factors, "payload", ["18 B", "1472 B"]),
        WorkloadKind::PacketRate => {
            let factors = varied(factors, "payload", ["18 B", "1472 B"]);
            varied(factors, "receivers", ["one", "reuseport"])
        }
        WorkloadKind::RequestResponse => varied(factors, "transport", ["tcp", "udp"]),
        _ => factors,
    }
}

/// The factors, with a key of the load varied too.
pub(super) fn varied<const N: usize>(
    factors: Factors,
    key: &str,
    levels: [impl Into<serde_json::Value>; N],
) -> Factors {
    factors.clone().vary(SectionName::Workload, key, levels).unwrap_or(factors)
}

/// Datagrams or transactions.
fn units_per_second(cell: &Cell) -> f64 {
    let (datagrams, transactions) = match &*cell.path_name() {
        "baseline" => (500e3, 50e3),
        "virtio" => (300e3, 20e3),
        "e1000e" => (50e3, 5e3),
        _ => (8e3, 2e3),
    };
    if cell.workload.kind.is_of_datagrams() { datagrams } else { transactions }
}

/// Of a datagram, or of a request of one byte.
fn bits(cell: &Cell) -> f64 {
    8.0 * if cell.workload.kind.is_of_datagrams() {
        cell.workload.payload_bytes() as f64
    } else {
        1.0
    }
}

/// The near end alone loads: its own disk. Three of four operations read.
fn work_on_disk(cell: &Cell, trial: &mut TrialRecord) {
    trial.parties.retain(|party| !party.place.is_far_end());
    for party in trial.parties.iter_mut().filter(|party| party.role != Role::Observer) {
        party.role = Role::Disk;
        let mut operations = 0;
        for load in party.report.samples.iter_mut().filter_map(|sample| sample.load.as_mut()) {
            operations = load.bytes;
            let (reads, writes) = (operations - operations / 4, operations / 4);
            load.disk = Some(DiskCounters {
                reads,
                writes,
                bytes_read: reads * 4096,
                bytes_written: writes * 4096,
            });
        }
        let per_second = units_per_second(cell);
        let of = |operations| histogram(operations, per_second);
        let (reads, writes) = (operations - operations / 4, operations / 4);
        party.report.load = Some(LoadOutcome {
            latency: Some(of(operations)),
            disk: Some(Box::new(DiskOutcome {
                direct: true,
                reach_bytes: cell.workload.file_size_bytes(),
                size_bytes: cell.workload.file_size_bytes(),
                reads: of(reads),
                writes: of(writes),
                ..DiskOutcome::default()
            })),
            ..LoadOutcome::default()
        });
    }
}

/// Gives the load's counters what belongs to its kind.
fn count(cell: &Cell, trial: &mut TrialRecord) {
    let udp = cell.workload.transport == Some(Transport::Udp);
    for party in &mut trial.parties {
        let sends = match party.role {
            Role::Sender { .. } => true,
            Role::Receiver { .. } => false,
            Role::Disk | Role::Observer => continue,
        };
        let more = match (cell.workload.kind, sends) {
            (WorkloadKind::PacketRate, true) => PACKETS_SENT_FACTOR,
            (WorkloadKind::UdpStream, true) => 1.0 + UDP_LOST_PERCENT / 99.0,
            _ => 1.0,
        };
        for load in party.report.samples.iter_mut().filter_map(|sample| sample.load.as_mut()) {
            load.bytes = whole(load.bytes as f64 * more);
            if cell.workload.kind.is_of_datagrams() {
                load.datagrams = Some(load.bytes / cell.workload.payload_bytes());
            } else {
                load.transactions = Some(load.bytes);
            }
        }
        party.report.load = outcome(cell, party, sends, udp);
    }
}

fn outcome(cell: &Cell, party: &Party, sends: bool, udp: bool) -> Option<LoadOutcome> {
    let moved = party.report.samples.last()?.load?;
    let mut outcome = LoadOutcome::default();
    match cell.workload.kind {
        WorkloadKind::UdpStream if !sends => {
            let received = moved.datagrams?;
            outcome.socket_drops = Some(received / 200);
            outcome.datagrams = Some(DatagramOutcome {
                received,
                lost: whole(received as f64 * UDP_LOST_PERCENT / (100.0 - UDP_LOST_PERCENT)),
                duplicated: 3,
                reordered: 7,
                jitter_ns: 12_500,
                ..DatagramOutcome::default()
            });
        }
        WorkloadKind::RequestResponse | WorkloadKind::ConnectRate if sends => {
            outcome.latency = Some(histogram(moved.transactions?, units_per_second(cell)));
            outcome.timeouts = udp.then_some(2);
        }
        _ => {}
    }
    Some(outcome)
}

/// Half of the transactions take 0.7 of the mean time between them, and every further 0.15 half as
/// many.
fn histogram(transactions: u64, per_second: f64) -> LatencyHistogram {
    let between_ns = 1e9 / per_second;
    let mut histogram = LatencyHistogram::default();
    let mut left = transactions;
    let mut factor = 0.7;
    while left > 0 {
        let count = left.div_ceil(2);
        let latency_ns = whole(between_ns * factor);
        histogram.buckets.push([latency_ns, count]);
        histogram.sum_ns += latency_ns * count;
        histogram.maximum_ns = latency_ns;
        left -= count;
        factor += 0.15;
    }
    histogram.minimum_ns = whole(between_ns * 0.7);
    histogram
}

/// A search by which so many datagrams a second are good for the default goal that allows some loss,
/// four fifths of them for the one that allows none, and 1 % more is bad.
fn search(per_second: f64) -> SearchRecord {
    let probe = |part: f64, lost: f64| {
        let rate = whole(per_second * part);
        Probe {
            asked_per_second: Some(rate),
            asked_ns: 1_000_000_000,
            began_after_ns: 0,
            took_ns: 1_000_000_000,
            sent: rate,
            not_sent: 0,
            received: whole(per_second * part * (1.0 - lost)),
            socket_drops: None,
        }
    };
    let each = [(0.8, 0.0), (0.808, 0.001), (1.0, 0.004), (1.01, 0.006)];
    let probes = each.map(|(part, lost)| [probe(part, lost); 3]);
    SearchRecord {
        min_rate: whole(per_second / 80.0),
        max_rate: whole(per_second * 1.25),
        probes: probes.concat(),
        shown_probe: Some(6),
        out_of_time: false,
    }
}
