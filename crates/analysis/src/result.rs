//! What the analysis gives: `report --format json`, and the input of every other format.
//!
//! Units are in the names. A number that could not be derived is absent with its reasons
//! ([`Metric::absent`]), never zero.

mod costs;
mod counters;
mod courses;
mod disk;
mod findings;
mod hops;
mod ledger;
mod limits;
mod loads;
mod machines;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use vioperf_model::nic::NicKind;
use vioperf_model::plan::{CellId, Level, VariantOf};
use vioperf_model::record::{Place, RunInfo};
use vioperf_model::sample::{InterfaceFacts, PacketFilter};
use vioperf_model::scenario::{IpVersion, SwitchKind};
use vioperf_model::workload::{Direction, Workload};

use crate::compare::result::RunComparison;
use crate::measure::Measure;
use crate::references::BesideReference;

pub use costs::{CpuShare, CpuUser, ServiceDemand};
pub use counters::{
    ExitsPerPacket, Layers, MachineLayers, MovedCounter, PathLayers, PlaceCounters, ProcessorWork,
    SocketLayers,
};
pub use courses::{CourseDip, CourseIntervals, CourseOf, RateOverTime, TimeCourse};
pub use disk::{Disk, OperationTimes};
pub use findings::{Finding, Picture, PictureOrder, Severity, VoidTrial};
pub use hops::{Hop, HopPlace, PathHops};
pub use ledger::{Ledger, LedgerTrials, Loss, LossPlace};
pub use limits::{Confidence, Fact, Limit};
pub use loads::{
    BothWays, CurvePoint, DatagramDemand, Datagrams, LatencyAnalysis, Percentile, RateSearch,
    SearchGoal, TransactionDemand, Transactions,
};
pub use machines::{
    CoreStates, CoreUse, DiskBeside, Machine, MachineUse, OtherGuestUse, QemuUse, ThreadsOn,
};

/// Version of [`RunAnalysis`]. Raised when a reader of the older version would misread.
pub const ANALYSIS_SCHEMA_VERSION: u32 = 1;

/// Everything that is known about a run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RunAnalysis {
    /// What has to be said before any number: that guests ran under software emulation.
    pub notice: Option<String>,
    /// [`ANALYSIS_SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// The question that the scenario asks.
    pub question: String,
    /// The answer in plain sentences, the first one being the advice.
    pub headline: Vec<String>,
    /// The variants beside each other; absent of a run without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variants: Option<RunComparison>,
    /// The run beside published figures; empty where none was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<BesideReference>,
    /// The paths that were compared, best first.
    pub ranking: Vec<Ranked>,
    /// Every cell, in the plan's order.
    pub cells: Vec<CellAnalysis>,
    /// Bottlenecks and doubts, gravest first.
    pub findings: Vec<Finding>,
    /// Trials that do not count.
    pub void_trials: Vec<VoidTrial>,
    /// The run as it was recorded: versions, command line, scenario, plan, host, QEMU, its end.
    pub run: RunInfo,
}

/// A number over the trials of a cell.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Metric {
    /// Mean and interval; absent when no trial has a value.
    pub summary: Option<Summary>,
    /// The value of every trial that has one, in the order of blocks.
    pub values: Vec<TrialValue>,
    /// Why trials have none, and how many: the reason is the key.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub absent: BTreeMap<String, u32>,
}

impl Metric {
    /// The mean, where there is one.
    pub fn mean(&self) -> Option<f64> {
        self.summary.as_ref().map(|summary| summary.mean)
    }

    /// The reason that most trials without a value have, where there is no mean.
    pub fn reason(&self) -> Option<&str> {
        if self.summary.is_some() {
            return None;
        }
        self.absent.iter().max_by_key(|(_, trials)| **trials).map(|(reason, _)| reason.as_str())
    }
}

/// The value of one trial.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct TrialValue {
    /// The trial's position in the run.
    pub sequence: u32,
    /// Its block.
    pub block: u32,
    /// The value, in the unit of the metric.
    pub value: f64,
}

/// Mean and interval of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Summary {
    /// Trials (for a ratio: pairs of trials of one block) that it is made from.
    pub n: usize,
    /// Arithmetic mean; of ratios the geometric mean.
    pub mean: f64,
    /// Standard deviation of the trials; absent for one trial, and for ratios.
    pub standard_deviation: Option<f64>,
    /// 95 % interval of the mean (Student's t; of ratios that of their logarithms, transformed
    /// back); absent for one trial.
    pub interval_95: Option<Interval>,
}

impl Summary {
    /// Half the width of the interval.
    pub fn half_width(&self) -> Option<f64> {
        self.interval_95.map(|interval| (interval.high - interval.low) / 2.0)
    }
}

/// From where to where.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// How far a cell is from the scenario's goal.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Settling {
    /// How wide the 95 % intervals of the headline metric and of its part of the baseline's may be, to
    /// either side.
    pub goal_percent: f64,
    /// How wide the wider of them is; absent of fewer than two trials.
    pub half_width_percent: Option<f64>,
    /// Whether that is within the goal, of at least three trials.
    pub is_settled: bool,
    /// So many more trials of the same scatter would reach it; absent where that cannot be told, or
    /// are more than anybody would wait for.
    pub further_trials: Option<u32>,
}

/// One combination of factor levels and what was measured of it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CellAnalysis {
    /// Its name.
    pub id: CellId,
    /// The NIC model, the machine at the other end, or `baseline`; with the levels of its guest and the
    /// variant, if there are any.
    pub path: String,
    /// Paravirtual or emulated; absent for a baseline.
    pub kind: Option<NicKind>,
    /// The variant; absent where there are none, and for a baseline that is the same for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variant: Option<VariantOf>,
    /// Whether no guest is in its path.
    pub is_baseline: bool,
    /// The switch.
    pub switch: SwitchKind,
    /// MTU of the path.
    pub mtu_bytes: u32,
    /// What carries the load.
    pub ip: IpVersion,
    /// Levels of what is varied beside these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<Level>,
    /// Parallel connections.
    pub streams: u16,
    /// Which way the payload goes.
    pub direction: Direction,
    /// The load.
    pub workload: Workload,
    /// The metric that the cell is ranked by, as a path in here (`receiver_bits_per_second`,
    /// `datagrams.received_per_second`, `transactions.per_second`).
    pub headline_metric: &'static str,
    /// How often it was tried.
    pub trials: TrialCounts,
    /// What limits it, the first most of all; empty where nothing is known to.
    pub limits: Vec<Limit>,
    /// How far it is from the scenario's goal; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settling: Option<Settling>,
    /// Payload that arrived at the receiver.
    pub receiver_bits_per_second: Metric,
    /// The same of each way, where payload goes both ways at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub both_ways: Option<BothWays>,
    /// Payload of what kept the path busy beside what is measured, as it arrived; absent where there
    /// was nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background_bits_per_second: Option<Metric>,
    /// Payload that the sender's kernel took.
    pub sender_bits_per_second: Metric,
    /// Datagrams; absent for a load that has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<Datagrams>,
    /// What was searched; absent for a load that is no search.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_search: Option<RateSearch>,
    /// Transactions; absent for a load that has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transactions: Option<Transactions>,
    /// Reads and writes of a disk; absent for a load of another kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<Disk>,
    /// Both ends of a path between two machines; absent in a lab.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub between: Option<BetweenMachines>,
    /// What TCP said of the sender's connections; absent where the load has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpState>,
    /// The headline metric, in percent of that of the baseline of the same block.
    pub percent_of_baseline: Metric,
    /// The host's cores.
    pub host: MachineUse,
    /// The guest's cores; absent for a baseline.
    pub guest: Option<MachineUse>,
    /// QEMU's threads; absent for a baseline.
    pub qemu: Option<QemuUse>,
    /// The guests beside the one under test, each with its cores: a far end, one that forwards, a neighbour.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_guests: Vec<OtherGuestUse>,
    /// Who used the host's cores, in the order in which they are stacked; empty where they were not watched.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cpu_shares: Vec<CpuShare>,
    /// CPU time per payload received.
    pub service_demand: ServiceDemand,
    /// TCP retransmissions in the sender's network namespace.
    pub retransmissions: Retransmissions,
    /// Bytes per packet in the payload's direction along the path.
    pub bytes_per_packet: BytesPerPacket,
    /// From starting QEMU until the guest's NIC had a carrier.
    pub guest_ready_ms: Metric,
    /// By how much the parties' clocks may differ, in percent of the window.
    pub clock_error_percent_of_window: Metric,
    /// What kept the host's cores busy beside the watched processes and interrupts; 100 is one core.
    pub unexplained_host_busy_percent_of_core: Metric,
    /// Where every datagram went, of all its trials together; absent where the load is not one of
    /// datagrams, or its counters are missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ledger: Option<Ledger>,
    /// The same trial by trial.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ledger_trials: Option<LedgerTrials>,
    /// Packets along the path, hop by hop, each way for itself; of streams over TCP.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hops: Vec<PathHops>,
    /// Peak and sustained rate, and dips; absent of a load that is no stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_over_time: Option<RateOverTime>,
    /// How its median trial went, and those with the lowest and the highest headline metric; empty where the
    /// samples are too few.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub courses: Vec<TimeCourse>,
    /// What became of packets, layer by layer.
    pub layers: Layers,
    /// Every counter of the layers that moved, party by party.
    pub counters: Vec<PlaceCounters>,
    /// The interfaces under test as they really were.
    pub ends: Vec<EndFacts>,
    /// The cores that the host's threads of the lab could run on, as the kernel told when trials were over.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub threads_on: Vec<ThreadsOn>,
}

impl CellAnalysis {
    /// What its load is measured by.
    pub fn measure(&self) -> &'static Measure {
        Measure::of(self.workload.kind)
    }

    /// The metric that it is ranked by.
    pub fn headline(&self) -> &Metric {
        (self.measure().read)(self).unwrap_or(&self.receiver_bits_per_second)
    }

    /// How long its transactions, or the operations of its disk, took; absent for a load that has neither.
    pub fn latency(&self) -> Option<&LatencyAnalysis> {
        let of_disk = self.disk.as_ref().map(|disk| &disk.latency);
        self.transactions.as_ref().map(|transactions| &transactions.latency).or(of_disk)
    }
}

/// Both ends of a path between two machines.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct BetweenMachines {
    /// The machine that `vioperf test` was started on.
    pub client: MachineEnd,
    /// The one where `vioperf serve` ran, or that ssh got to.
    pub server: MachineEnd,
    /// The machine that runs the server, where that is a virtual one and its hypervisor was watched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hypervisor: Option<HypervisorUse>,
}

/// The third party: the hypervisor of one end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct HypervisorUse {
    /// Its cores, whatever they did.
    pub machine: MachineUse,
    /// CPU time of all its cores per unit of the headline metric: a bit, a datagram or a transaction.
    pub cpu_seconds_per_unit: Metric,
    /// The threads that run the guest.
    pub qemu: QemuUse,
}

/// One end of a path between two machines.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct MachineEnd {
    /// Its cores, whatever they did.
    pub machine: MachineUse,
    /// CPU time of all its cores per unit of the headline metric: a bit, a datagram or a transaction.
    pub cpu_seconds_per_unit: Metric,
    /// CPU time of vioperf's own process there, from start to stop; 100 is one core.
    pub node_percent_of_core: Metric,
}

/// What TCP said of the sender's connections at their end (`TCP_INFO`, tcp(7)).
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct TcpState {
    /// Smoothed round-trip time, the mean of all connections.
    pub rtt_us: Metric,
    /// Its variation, the mean of all connections.
    pub rtt_variation_us: Metric,
    /// Congestion window of a connection, the mean of all.
    pub congestion_window_bytes: Metric,
    /// Maximum segment size towards the receiver.
    pub send_mss_bytes: Metric,
    /// Segments that all connections together sent again, warm-up included.
    pub retransmissions: Metric,
}

/// How often a cell was tried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TrialCounts {
    /// By the plan.
    pub planned: u32,
    /// That count.
    pub completed: u32,
    /// That came to nothing.
    pub void: u32,
    /// That were measured again, as others used the physical cores meanwhile.
    pub disturbed: u32,
}

/// TCP retransmissions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Retransmissions {
    /// Segments sent again inside the window.
    pub segments: Metric,
    /// Per million segments sent.
    pub per_million_segments_sent: Metric,
}

/// Bytes per packet, frame headers included, as each interface counts them: more than the MTU where
/// segmentation is left to a later place or received packets are merged.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct BytesPerPacket {
    /// Sent by the sender's interface.
    pub sender: Metric,
    /// Through the guest's tap on the host.
    pub tap: Metric,
    /// Received by the receiver's interface.
    pub receiver: Metric,
}

/// An interface under test.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct EndFacts {
    /// Whose it is.
    pub place: Place,
    /// Release of that machine's kernel.
    pub kernel_release: String,
    /// Trials in which it was just so (its MAC and place on the bus aside).
    pub trials: u32,
    /// What it is and has.
    pub interface: InterfaceFacts,
    /// Rules that packets are held against there; absent where they could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packet_filter: Option<PacketFilter>,
}

/// A path in the ranking: the cells that differ in nothing but the load.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Ranked {
    /// The NIC model, with the switch and the MTU where those vary.
    pub path: String,
    /// What of that a person chooses: without what the path meets, such as a neighbour, and without variants that change
    /// the load alone.
    pub choice: String,
    /// The NIC model.
    pub nic: String,
    /// Paravirtual or emulated.
    pub kind: NicKind,
    /// Geometric mean of the percentages of its workloads, block by block.
    pub percent_of_baseline: Metric,
    /// The percentage of each workload.
    pub workloads: Vec<RankedWorkload>,
    /// Whether every workload of the plan was measured; ranked behind those of which all were.
    pub complete: bool,
    /// In percent of the best, as pairs inside blocks; absent for the best itself.
    pub versus_best: Option<Comparison>,
}

/// One workload of a ranked path.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RankedWorkload {
    /// The cell.
    pub cell: CellId,
    /// Parallel connections.
    pub streams: u16,
    /// Which way the payload goes.
    pub direction: Direction,
    /// The load in words (`towards the guest, 4 streams`).
    pub title: String,
    /// In percent of the fastest baseline with the same load; absent where either was not measured.
    pub percent_of_baseline: Option<Summary>,
    /// That baseline: another than the cell's own where the host's own paths differ, as over several switches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub divided_by: Option<CellId>,
    /// What it adds to the baseline's p50; absent where the load has no latency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub added_p50_us: Option<Summary>,
    /// What it adds to the baseline's p99.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub added_p99_us: Option<Summary>,
}

/// Two paths compared.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Comparison {
    /// The one in percent of the other.
    pub percent: Summary,
    /// Whether the interval excludes 100 %; absent without an interval.
    pub told_apart: Option<bool>,
}
