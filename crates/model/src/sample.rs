//! Raw counters with the time they were read at. Rates are derived later, when read.
//!
//! A group of counters that cannot be read is absent (`None`) in every sample, and
//! [`NodeReport::absent`] tells the reason once.

mod disk;
mod frequencies;
mod layers;
mod packet_filter;
mod settings;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use disk::{BlockDeviceCounters, DiskCounters, DiskEngine, DiskOutcome};
pub use frequencies::{CoreFrequencyNow, CoreThrottles};
pub use layers::{
    AccessListCounters, ConntrackCounters, HardwareCounters, InterruptLine, Interrupts,
    LayerCounters, OpenVswitchCounters, QdiscCounters, QuotaCounters, SoftInterrupts, SoftnetCore,
    StallTimes, ThreadSwitches,
};
pub use packet_filter::{FilterHook, PacketFilter};
pub use settings::{Coalescing, PacketSteering};

/// Everything one node read at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// When reading began: `CLOCK_MONOTONIC` of the node's machine, in nanoseconds.
    pub monotonic_ns: u64,
    /// What the load has moved so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadCounters>,
    /// The same of the node's further legs, in the order they were prepared in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further_loads: Vec<LoadCounters>,
    /// Time spent by each core since boot, in clock ticks ([`NodeReport::ticks_per_second`]),
    /// in the order of the cores: `/proc/stat` (proc_stat(5)).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<Vec<CoreTicks>>,
    /// How fast the cores ran, those that tell it: `cpufreq/scaling_cur_freq`. Observers only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frequencies: Option<Vec<CoreFrequencyNow>>,
    /// How often heat has throttled the cores, those that tell it: `thermal_throttle/`. Observers only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttles: Option<Vec<CoreThrottles>>,
    /// Counters of every interface in the node's network namespace but loopback, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interfaces: Option<BTreeMap<String, InterfaceCounters>>,
    /// TCP counters of the node's network namespace: `/proc/net/snmp` (RFC 4022).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpCounters>,
    /// CPU time that was burned on purpose since the start (`Prepare::burn`), by the burning thread's
    /// own clock, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burned_ns: Option<u64>,
    /// CPU time of every thread of the watched processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<Vec<ThreadTimes>>,
}

impl Sample {
    /// What the load of a leg has moved: 0 is the first that was prepared.
    pub fn load_of_leg(&self, leg: usize) -> Option<&LoadCounters> {
        match leg.checked_sub(1) {
            None => self.load.as_ref(),
            Some(further) => self.further_loads.get(further),
        }
    }
}

/// What a load has moved since it was started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LoadCounters {
    /// Payload bytes that the kernel took from the application (sender) or gave it (receiver); of a disk
    /// both together.
    pub bytes: u64,
    /// Calls that moved them; of a disk operations.
    pub calls: u64,
    /// Datagrams moved, where the load is one of datagrams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<u64>,
    /// Transactions ended: a response received (sender), a request answered (receiver).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transactions: Option<u64>,
    /// Operations ended, where the load is one of a disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskCounters>,
    /// When all of this was counted, by the clock of the sample, where that was earlier: fio tells of itself now and
    /// then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted_at_ns: Option<u64>,
}

/// Time one core spent in each state, in clock ticks: a `cpuN` line of `/proc/stat`.
/// `guest` time is contained in `user`, `guest_nice` in `nice`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CoreTicks {
    /// The number of the core.
    pub core: u32,
    /// In user mode.
    pub user: u64,
    /// In user mode, niced.
    pub nice: u64,
    /// In the kernel.
    pub system: u64,
    /// Idle.
    pub idle: u64,
    /// Idle with I/O outstanding.
    pub iowait: u64,
    /// Serving interrupts.
    pub irq: u64,
    /// Serving soft interrupts (most of packet processing).
    pub softirq: u64,
    /// Wanted to run but the hypervisor ran something else.
    pub steal: u64,
    /// Running a virtual CPU.
    pub guest: u64,
    /// Running a niced virtual CPU.
    pub guest_nice: u64,
}

/// 64-bit interface counters: `struct rtnl_link_stats64` (linux/if_link.h).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InterfaceCounters {
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets received (after receive merging, where the driver merges).
    pub rx_packets: u64,
    /// Received packets dropped, by the kernel (`rx_dropped`) or by the device for want of a buffer
    /// (`rx_missed_errors`): added, as `/proc/net/dev` does.
    pub rx_dropped: u64,
    /// Receive errors.
    pub rx_errors: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets sent (a segmentation-offload packet counts once).
    pub tx_packets: u64,
    /// Packets dropped on sending.
    pub tx_dropped: u64,
    /// Send errors.
    pub tx_errors: u64,
}

/// TCP counters of a network namespace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TcpCounters {
    /// `InSegs`.
    pub segments_received: u64,
    /// `OutSegs`: sent, retransmissions excluded.
    pub segments_sent: u64,
    /// `RetransSegs`.
    pub segments_retransmitted: u64,
}

/// CPU time of one thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadTimes {
    /// The watched process it belongs to, by the label that was asked for.
    pub process: String,
    /// Thread id in the node's process namespace.
    pub tid: i32,
    /// The thread's name (`/proc/PID/task/TID/comm`).
    pub name: String,
    /// Time on a CPU in nanoseconds (`/proc/PID/task/TID/schedstat`, first field).
    pub on_cpu_ns: u64,
    /// Time runnable but waiting for a CPU in nanoseconds (`schedstat`, second field); absent where
    /// the kernel does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_ns: Option<u64>,
}

/// What a node hands over after a trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeReport {
    /// Clock ticks per second in [`CoreTicks`] (`sysconf(_SC_CLK_TCK)`).
    pub ticks_per_second: u32,
    /// The samples, oldest first.
    pub samples: Vec<Sample>,
    /// Counters of every layer, before the load began and after it had ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<LayerCounters>,
    /// Rules that packets are held against.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet_filter: Option<Box<PacketFilter>>,
    /// Groups of counters that could not be read (`cores`, `interfaces`, …) and why.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub absent: BTreeMap<String, String>,
    /// How the load ended; absent on a node that only observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadOutcome>,
    /// The same of the node's further legs, in the order they were prepared in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further_loads: Vec<LoadOutcome>,
    /// CPU time that the node itself used from start to stop, user and system, in nanoseconds.
    pub node_cpu_ns: u64,
    /// The part of it that reading samples and layers took, in nanoseconds.
    #[serde(default)]
    pub sampler_cpu_ns: u64,
    /// Of that, what the layers took: before anything moved, and when all had ended.
    #[serde(default)]
    pub layers_cpu_ns: u64,
}

impl NodeReport {
    /// How the load of a leg ended: 0 is the first that was prepared.
    pub fn load_of_leg(&self, leg: usize) -> Option<&LoadOutcome> {
        match leg.checked_sub(1) {
            None => self.load.as_ref(),
            Some(further) => self.further_loads.get(further),
        }
    }

    /// How all its loads ended.
    pub fn loads(&self) -> impl Iterator<Item = &LoadOutcome> {
        self.load.iter().chain(&self.further_loads)
    }
}

/// How a load ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadOutcome {
    /// One entry a connection.
    pub streams: Vec<StreamOutcome>,
    /// What became of the datagrams, as the receiver of a numbered load saw it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<DatagramOutcome>,
    /// Datagrams that arrived when the receiving sockets had no room (`SO_MEMINFO`, socket(7)); with
    /// `segmentation`, messages of up to 64 datagrams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket_drops: Option<u64>,
    /// Datagrams that came to a receiver but are not of its load, or damaged: thrown away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreign_datagrams: Option<u64>,
    /// Latency of transactions, as their sender saw it, or of a disk's operations; of those that began
    /// after the warm-up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencyHistogram>,
    /// Datagrams of requests and responses over UDP, from the first to the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchanged: Option<Exchanged>,
    /// Requests of a UDP load, sent after the warm-up, that were not answered in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<u64>,
    /// Requests of an open loop that were due but never sent, as too many were under way at the end;
    /// datagrams of a load with a rate that were due but not sent in time, and so never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_sent: Option<u64>,
    /// The smallest buffers that any of its sockets had at the end, as the kernel tells them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket_buffers: Option<SocketBuffers>,
    /// What became of payload that was sent with `MSG_ZEROCOPY`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zerocopy: Option<ZerocopyOutcome>,
    /// How a disk was read and written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<Box<DiskOutcome>>,
    /// One entry a thread of the load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<LoadThread>,
    /// Why the load ended before it was told to, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_early: Option<String>,
}

/// Datagrams that one end of a load of requests and responses sent and received, warm-up included, and
/// of a sender also those that came while it waited for its last answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Exchanged {
    /// That the kernel took from it.
    pub sent: u64,
    /// That it was given, answers that came too late included.
    pub received: u64,
}

/// What became of the time of one thread of a load, in nanoseconds. What is left of it, it slept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LoadThread {
    /// From when the thread began to when it ended.
    pub lived_ns: u64,
    /// On a CPU in user mode and in the kernel, soft interrupts that it served on the way included
    /// (`CLOCK_THREAD_CPUTIME_ID`, clock_gettime(2)).
    pub on_cpu_ns: u64,
    /// Able to run but waiting for a CPU (`/proc/thread-self/schedstat`, second field); absent where
    /// the kernel does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_ns: Option<u64>,
}

/// Sizes of a socket's two buffers in bytes: twice what an application asked for, as the kernel
/// doubles it for its own bookkeeping (`SO_SNDBUF`, `SO_RCVBUF`, socket(7)). Where nothing was asked
/// for, those of TCP are what the kernel's tuning came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SocketBuffers {
    /// Of the send buffer.
    pub send_bytes: u64,
    /// Of the receive buffer.
    pub receive_bytes: u64,
}

/// What the kernel told about sends with `MSG_ZEROCOPY`
/// (Documentation/networking/msg_zerocopy.rst).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ZerocopyOutcome {
    /// Calls.
    pub sent: u64,
    /// Of them, those whose payload the kernel needs no more.
    pub completed: u64,
    /// Of the completed, those whose payload it copied all the same, as it does on every path that
    /// ends on this machine.
    pub copied: u64,
}

/// What became of numbered datagrams: of all that were sent, where the sender could tell their
/// number; of a flow whose end was not heard, of those up to the highest number that arrived.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DatagramOutcome {
    /// Arrived, duplicates not counted.
    pub received: u64,
    /// Never arrived.
    pub lost: u64,
    /// Arrived again.
    pub duplicated: u64,
    /// Arrived after one with a higher number (RFC 4737).
    pub reordered: u64,
    /// Smoothed variation of the transit time in nanoseconds (RFC 3550, section 6.4.1), the mean of
    /// all flows.
    pub jitter_ns: u64,
    /// Arrived so late that it could not be told any more whether it had arrived before: counted as
    /// lost too, unless it was a duplicate.
    #[serde(default)]
    pub late: u64,
}

/// Counts of latencies in buckets no wider than 1 % of their value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyHistogram {
    /// `[upper end of the bucket in nanoseconds, count]`, ascending, empty ones left out.
    pub buckets: Vec<[u64; 2]>,
    /// Exact smallest, in nanoseconds.
    pub minimum_ns: u64,
    /// Exact largest, in nanoseconds.
    pub maximum_ns: u64,
    /// Exact sum, in nanoseconds: with the count it gives the mean.
    pub sum_ns: u64,
}

/// One connection at its end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StreamOutcome {
    /// Payload bytes moved.
    pub bytes: u64,
    /// The kernel's view at the end (`TCP_INFO`), where it could be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpStreamInfo>,
}

/// Extract of `struct tcp_info` (tcp(7), linux/tcp.h).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TcpStreamInfo {
    /// Smoothed round-trip time in microseconds.
    pub rtt_us: u32,
    /// Its variation in microseconds.
    pub rtt_variation_us: u32,
    /// Congestion window in segments.
    pub congestion_window_segments: u32,
    /// Maximum segment size towards the peer in bytes.
    pub send_mss_bytes: u32,
    /// Segments retransmitted since the connection began.
    pub retransmissions: u32,
    /// Bytes acknowledged by the peer.
    pub bytes_acked: u64,
    /// MTU of the path as TCP knows it (`tcpi_pmtu`), in bytes.
    #[serde(default)]
    pub path_mtu_bytes: u32,
    /// Largest segment that arrived lately (`tcpi_rcv_mss`), in bytes.
    #[serde(default)]
    pub receive_mss_bytes: u32,
    /// The least round-trip time in the last five minutes (`tcpi_min_rtt`, Linux 4.6), in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least_rtt_us: Option<u32>,
    /// What the connection waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<TcpLimits>,
}

/// For how long a connection's sender had data under way, and what kept it from sending more, in
/// microseconds since it began (Linux 4.10). The rest of the busy time it was held back by its
/// congestion window, by pacing or by its own speed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TcpLimits {
    /// Data was under way or waiting (`tcpi_busy_time`).
    pub busy_us: u64,
    /// Of it, limited by the window that the receiver allows (`tcpi_rwnd_limited`).
    pub receive_window_us: u64,
    /// Of it, limited by the sender's own buffer (`tcpi_sndbuf_limited`).
    pub send_buffer_us: u64,
}

/// What an interface really is and has: what the trial was run with, not what was asked for.
/// A field is `None` when the driver does not tell; [`InterfaceFacts::absent`] says why.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InterfaceFacts {
    /// Interface name.
    pub name: String,
    /// MAC address, lower case with colons.
    pub mac: String,
    /// MTU in bytes.
    pub mtu: u32,
    /// Whether the link is up.
    pub carrier: bool,
    /// Bound driver (`ETHTOOL_GDRVINFO`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Its version (of in-tree drivers: the kernel release).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver_version: Option<String>,
    /// Where on the bus it sits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bus_address: Option<String>,
    /// Link speed the device claims, in Mbit/s (`ETHTOOL_GLINKSETTINGS`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_mbit_per_s: Option<u32>,
    /// Whether the link is full duplex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_duplex: Option<bool>,
    /// Queues in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<QueueCounts>,
    /// Ring sizes in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rings: Option<RingSizes>,
    /// How interrupts are put off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coalescing: Option<Coalescing>,
    /// Of the table that spreads received packets over queues by their hash (RSS,
    /// `ETHTOOL_GRXFHINDIR`): so many entries name each queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash_entries: Option<Vec<u32>>,
    /// Which cores each queue's packets are steered to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steering: Option<PacketSteering>,
    /// Every offload feature and whether it is active, by `ethtool -k`'s kernel name
    /// (`tx-tcp-segmentation`, `rx-gro`, …).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub offloads: BTreeMap<String, bool>,
    /// What the driver does not tell, and the reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub absent: BTreeMap<String, String>,
}

/// Receive and transmit queues: those in use by `ETHTOOL_GCHANNELS` where the driver tells, else those
/// that it made (`IFLA_NUM_RX_QUEUES`, `IFLA_NUM_TX_QUEUES`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueueCounts {
    /// Receive queues.
    pub rx: u32,
    /// Transmit queues.
    pub tx: u32,
}

/// Descriptor ring sizes (`ETHTOOL_GRINGPARAM`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RingSizes {
    /// Receive descriptors.
    pub rx: u32,
    /// Transmit descriptors.
    pub tx: u32,
}
