//! What each kind of load is measured by: one row a kind. Ranking, percentages of the baseline and
//! every format of the report work on what is said here.

use vioperf_model::record::TrialRecord;
use vioperf_model::sample::LoadCounters;
use vioperf_model::workload::{Workload, WorkloadKind};

use crate::latency::Latency;
use crate::rates;
use crate::result::{CellAnalysis, Metric};
use crate::wording;

/// Which value is the good one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// Rates.
    Higher,
    /// Latencies, losses.
    Lower,
}

/// Whose counters are the truth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truth {
    /// What arrived.
    Receiver,
    /// What was answered, as the one who asked saw it.
    Sender,
}

/// What goes along the path, and is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Payload in bits.
    Bits,
    /// Datagrams.
    Datagrams,
    /// Requests with their responses.
    Transactions,
    /// Reads and writes of a disk.
    Operations,
}

impl Unit {
    /// The unit that suits a rate, short (`Mbit/s`, `k/s`), and by how much to divide.
    pub fn scale(self, per_second: f64) -> (&'static str, f64) {
        match self {
            Self::Bits => wording::rate_unit(per_second),
            Self::Datagrams | Self::Transactions | Self::Operations => {
                wording::count_rate_unit(per_second)
            }
        }
    }

    /// A rate, short: for a table or chart whose heading says what is counted (`444 k/s`).
    pub fn short(self, per_second: f64) -> String {
        let (unit, factor) = self.scale(per_second);
        format!("{} {unit}", wording::three_digits(per_second / factor))
    }

    /// A rate that says what is counted (`444 k datagrams/s`).
    pub fn text(self, per_second: f64) -> String {
        let noun = match self {
            Self::Bits => return self.short(per_second),
            Self::Datagrams => "datagrams/s",
            Self::Transactions => "transactions/s",
            Self::Operations => "operations/s",
        };
        let (unit, factor) = self.scale(per_second);
        let prefix = unit.trim_end_matches("/s");
        let space = if prefix.is_empty() { "" } else { " " };
        format!("{} {prefix}{space}{noun}", wording::three_digits(per_second / factor))
    }

    /// How much of it comes at once at least: a full segment of payload, or one.
    pub(crate) fn grain(self) -> f64 {
        match self {
            Self::Bits => 1_448.0 * 8.0,
            Self::Datagrams | Self::Transactions | Self::Operations => 1.0,
        }
    }

    /// The counter that it is read from, and how many of the unit one count is.
    pub fn counter(self) -> (fn(&LoadCounters) -> Option<u64>, f64) {
        match self {
            Self::Bits => (|load| Some(load.bytes), 8.0),
            Self::Datagrams => (|load| load.datagrams, 1.0),
            Self::Transactions => (|load| load.transactions, 1.0),
            Self::Operations => (|load| load.disk.map(|disk| disk.operations()), 1.0),
        }
    }

    /// Whether each of it takes a time that is measured: from a request to its response, from when an
    /// operation was begun to when it has ended.
    pub fn is_timed(self) -> bool {
        matches!(self, Self::Transactions | Self::Operations)
    }
}

/// CPU time per unit of work on the host, of it QEMU's, and in the guest.
pub type Demand<'a> = [&'a Metric; 3];

/// How a kind of load is measured.
#[derive(Debug)]
pub struct Measure {
    /// The headline metric's place in a cell of `report --format json`.
    pub metric: &'static str,
    /// What is counted.
    pub unit: Unit,
    /// Whose counters the headline metric is read from.
    pub truth: Truth,
    /// Which value of the headline metric is the good one.
    pub better: Better,
    /// The headline metric's name in the head of a table.
    pub title: &'static str,
    /// The same in a sentence.
    pub noun: &'static str,
    /// Of what a path keeps a part, in a sentence.
    pub kept: &'static str,
    /// The headline metric.
    pub read: fn(&CellAnalysis) -> Option<&Metric>,
    /// What was sent, in the same unit; for loads whose sender and receiver can count differently.
    pub sent: fn(&CellAnalysis) -> Option<&Metric>,
    /// Heads of columns of the service demand: the host's, of it QEMU's, the guest's.
    pub demand_heads: [&'static str; 3],
    /// Unit of the service demand.
    pub demand_unit: &'static str,
    /// What the service demand is per.
    pub demand_per: &'static str,
    /// CPU time per unit of work.
    pub demand: fn(&CellAnalysis) -> Option<Demand<'_>>,
    /// Whether the path loses what is too much, so that more sent than received is loss. Over TCP it
    /// is a doubt about the measurement.
    pub may_lose: bool,
    /// Whether the load has TCP segments, which can be sent again.
    pub may_retransmit: bool,
}

impl Measure {
    /// The row of a kind.
    pub fn of(kind: WorkloadKind) -> &'static Self {
        match kind {
            WorkloadKind::TcpStream => &TCP_STREAM,
            WorkloadKind::UdpStream => &UDP_STREAM,
            WorkloadKind::PacketRate => &PACKET_RATE,
            WorkloadKind::RequestResponse => &REQUEST_RESPONSE,
            WorkloadKind::ConnectRate => &CONNECT_RATE,
            WorkloadKind::RateSearch => &RATE_SEARCH,
            WorkloadKind::Disk => &DISK,
        }
    }
}

/// The headline metric of one trial of that load, with the median latency where the load
/// has one, for a line of progress (`862 Mbit/s`; `9800 transactions/s, p50 98.1 µs`). Absent where
/// it cannot be told.
pub fn headline_of(workload: &Workload, trial: &TrialRecord) -> Option<String> {
    let measure = Measure::of(workload.kind);
    let rate = rates::headline(trial, workload).ok()?;
    let median = Latency::of_trial(trial).ok().and_then(|latency| latency.quantile_us(0.5));
    let median =
        median.map_or_else(String::new, |us| format!(", p50 {} µs", wording::three_digits(us)));
    Some(measure.unit.text(rate) + &median)
}

const STREAM: Measure = Measure {
    metric: "receiver_bits_per_second",
    unit: Unit::Bits,
    truth: Truth::Receiver,
    better: Better::Higher,
    title: "throughput",
    noun: "throughput",
    kept: "path",
    read: |cell| Some(&cell.receiver_bits_per_second),
    sent: |cell| Some(&cell.sender_bits_per_second),
    demand_heads: ["host\nµs/KiB", "QEMU\nµs/KiB", "guest\nµs/KiB"],
    demand_unit: "µs/KiB",
    demand_per: "KiB received",
    demand: |cell| {
        let demand = &cell.service_demand;
        Some([&demand.host_us_per_kib, &demand.qemu_us_per_kib, &demand.guest_us_per_kib])
    },
    may_lose: false,
    may_retransmit: true,
};

static TCP_STREAM: Measure = STREAM;

const DATAGRAMS: Measure =
    Measure { kept: "UDP throughput", may_lose: true, may_retransmit: false, ..STREAM };

static UDP_STREAM: Measure = DATAGRAMS;

const PACKETS: Measure = Measure {
    metric: "datagrams.received_per_second",
    unit: Unit::Datagrams,
    title: "datagrams\nreceived",
    noun: "rate of datagrams received",
    kept: "datagram rate",
    read: |cell| Some(&cell.datagrams.as_ref()?.received_per_second),
    sent: |cell| Some(&cell.datagrams.as_ref()?.sent_per_second),
    demand_heads: ["host ns\neach", "QEMU ns\neach", "guest ns\neach"],
    demand_unit: "ns each",
    demand_per: "datagram received",
    demand: |cell| {
        let demand = &cell.datagrams.as_ref()?.service_demand;
        Some([&demand.host_ns, &demand.qemu_ns, &demand.guest_ns])
    },
    ..DATAGRAMS
};

static PACKET_RATE: Measure = PACKETS;

static RATE_SEARCH: Measure = Measure {
    metric: "rate_search.lower_bound_per_second",
    title: "datagrams\nwithin goal",
    noun: "highest rate of datagrams within the loss that is allowed",
    kept: "highest rate within the loss that is allowed",
    read: |cell| Some(&cell.rate_search.as_ref()?.lower_bound_per_second),
    sent: |_| None,
    ..PACKETS
};

const TRANSACTIONS: Measure = Measure {
    metric: "transactions.per_second",
    unit: Unit::Transactions,
    truth: Truth::Sender,
    title: "transactions",
    noun: "rate of transactions",
    kept: "transaction rate",
    read: |cell| Some(&cell.transactions.as_ref()?.per_second),
    sent: |_| None,
    demand_heads: ["host µs\neach", "QEMU µs\neach", "guest µs\neach"],
    demand_unit: "µs each",
    demand_per: "transaction",
    demand: |cell| {
        let demand = &cell.transactions.as_ref()?.service_demand;
        Some([&demand.host_us, &demand.qemu_us, &demand.guest_us])
    },
    may_lose: false,
    may_retransmit: true,
    ..STREAM
};

static REQUEST_RESPONSE: Measure = TRANSACTIONS;

static CONNECT_RATE: Measure = Measure {
    title: "connections",
    noun: "rate of connections",
    kept: "connection rate",
    ..TRANSACTIONS
};

static DISK: Measure = Measure {
    metric: "disk.operations_per_second",
    unit: Unit::Operations,
    title: "operations",
    noun: "rate of operations",
    kept: "rate of disk operations",
    read: |cell| Some(&cell.disk.as_ref()?.operations_per_second),
    demand_per: "operation",
    demand: |cell| {
        let demand = &cell.disk.as_ref()?.service_demand;
        Some([&demand.host_us, &demand.qemu_us, &demand.guest_us])
    },
    may_retransmit: false,
    ..TRANSACTIONS
};
