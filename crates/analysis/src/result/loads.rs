//! What belongs to certain kinds of load.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::Metric;

/// Payload that arrived, each way for itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct BothWays {
    /// At the guest.
    pub to_guest_bits_per_second: Metric,
    /// From the guest, at the peer.
    pub from_guest_bits_per_second: Metric,
}

/// What became of datagrams.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Datagrams {
    /// UDP payload of one.
    pub payload_bytes: u64,
    /// Whether many pass the stack as one (`UDP_SEGMENT`, `UDP_GRO`): then they are not packets on a
    /// wire.
    pub segmentation: bool,
    /// That the receiver was given.
    pub received_per_second: Metric,
    /// That the sender's kernel took.
    pub sent_per_second: Metric,
    /// Of those sent: by their numbers where they bear any, else by both rates.
    pub lost_percent: Metric,
    /// That arrived when the receiver's sockets had no room, in a trial; with segmentation messages of
    /// many.
    pub socket_drops: Metric,
    /// That arrived again, in a trial.
    pub duplicated: Metric,
    /// That arrived after a later one, in a trial (RFC 4737).
    pub reordered: Metric,
    /// Smoothed variation of the transit time (RFC 3550).
    pub jitter_us: Metric,
    /// What one takes on an Ethernet wire: payload, headers (46 bytes over IPv4, at least a frame of
    /// 64), preamble (8) and gap (12); absent where it is not one frame.
    pub bytes_on_wire: Option<u64>,
    /// Received, in percent of what a wire can carry of the rate that the link is held to, else of the speed that the near end's
    /// card claims.
    pub percent_of_wire_rate: Metric,
    /// CPU time per datagram received.
    pub service_demand: DatagramDemand,
}

/// The highest rates at which no more is lost than goals allow (draft-ietf-bmwg-mlrsearch).
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct RateSearch {
    /// The lower bound of the goal that allows most loss: what paths are ranked by.
    pub lower_bound_per_second: Metric,
    /// That, in percent of what a wire can carry of the rate that the link is held to, else of the speed that the near end's
    /// card claims.
    pub percent_of_wire_rate: Metric,
    /// The highest rate that was tried.
    pub max_rate_per_second: Metric,
    /// Every goal, by ascending loss.
    pub goals: Vec<SearchGoal>,
}

impl RateSearch {
    /// The goal that allows no loss, if that is one.
    pub fn non_drop(&self) -> Option<&SearchGoal> {
        self.goals.iter().find(|goal| goal.allowed_loss_percent == 0.0)
    }

    /// The goal that allows most.
    pub fn most_allowed(&self) -> Option<&SearchGoal> {
        self.goals.last()
    }
}

/// What a search proved of a goal.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct SearchGoal {
    /// `NDR`, or `PDR 0.5 %`.
    pub name: String,
    /// So much may be lost.
    pub allowed_loss_percent: f64,
    /// The highest rate proved good below the upper bound.
    pub lower_bound_per_second: Metric,
    /// The lowest rate proved bad.
    pub upper_bound_per_second: Metric,
    /// What typically arrives at the lower bound: the draft's conditional throughput.
    pub throughput_per_second: Metric,
    /// How the searches ended, and how many so.
    pub ends: BTreeMap<&'static str, u32>,
    /// Median loss at the lowest rate, of paths that are refused for it.
    pub loss_at_min_rate_percent: Metric,
}

/// CPU time per datagram received, as in [`ServiceDemand`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct DatagramDemand {
    /// All busy time of all cores of the host.
    pub host_ns: Metric,
    /// QEMU's threads.
    pub qemu_ns: Metric,
    /// All busy time of all cores of the guest.
    pub guest_ns: Metric,
}

/// Requests and their responses.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Transactions {
    /// Responses that the one who asked received.
    pub per_second: Metric,
    /// Requests that were not answered in time, in a trial.
    pub timeouts: Metric,
    /// How long they took.
    pub latency: LatencyAnalysis,
    /// CPU time per transaction.
    pub service_demand: TransactionDemand,
}

/// CPU time per transaction, or per operation of a disk, as in [`ServiceDemand`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct TransactionDemand {
    /// All busy time of all cores of the host.
    pub host_us: Metric,
    /// QEMU's threads.
    pub qemu_us: Metric,
    /// All busy time of all cores of the guest.
    pub guest_us: Metric,
}

/// Latency of transactions, or of a disk's operations.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct LatencyAnalysis {
    /// p50 to p99.99, ascending.
    pub percentiles: Vec<Percentile>,
    /// Mean.
    pub mean_us: Metric,
    /// Mean, less that of the baseline of the same block.
    pub added_mean_us: Metric,
    /// The longest of each trial.
    pub max_us: Metric,
    /// Transactions of all trials together.
    pub transactions: u64,
    /// Percentiles of all trials together, as far as ten transactions lie beyond.
    pub curve: Vec<CurvePoint>,
}

impl LatencyAnalysis {
    /// The percentile of that name (`p99`).
    pub fn percentile(&self, name: &str) -> Option<&Percentile> {
        self.percentiles.iter().find(|percentile| percentile.name == name)
    }
}

/// A percentile of latency.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Percentile {
    /// `p99`.
    pub name: &'static str,
    /// The part of transactions that took no longer.
    pub quantile: f64,
    /// With fewer transactions in a trial it is not told: ten have to lie beyond it.
    pub least_transactions: u64,
    /// So long.
    pub us: Metric,
    /// The same, less that of the baseline of the same block.
    pub added_us: Metric,
}

/// A point of a curve of percentiles.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct CurvePoint {
    /// One transaction in so many took longer: 1 / (1 - quantile).
    pub one_in: f64,
    /// Than this.
    pub us: f64,
}
