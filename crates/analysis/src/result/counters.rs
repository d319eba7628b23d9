//! Counters of the layers that packets pass, over a whole load: from before it began until it had
//! ended, warm-up included.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use vioperf_model::record::Place;

use super::Metric;

/// What became of packets, layer by layer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Layers {
    /// The host, all its network namespaces together.
    pub host: MachineLayers,
    /// The guest; absent for a baseline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guest: Option<MachineLayers>,
    /// Interfaces and queues on the way.
    pub path: PathLayers,
    /// The sockets at both ends.
    pub sockets: SocketLayers,
    /// Context switches of QEMU's threads a second; absent for a baseline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qemu_switches_per_second: Option<Metric>,
    /// How often KVM had to leave the guest for each packet; absent for a baseline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exits_per_packet: Option<ExitsPerPacket>,
}

/// How often the guest's virtual CPUs were left for each packet that its interface under test received or
/// sent (KVM's statistics). Each costs a microsecond or more, and one that ends in QEMU several.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct ExitsPerPacket {
    /// For anything (`exits`).
    pub all: Metric,
    /// For an access to a port (`io_exits`): registers of old devices, and doorbells of some.
    pub io: Metric,
    /// For an access to a device's memory that is emulated (`mmio_exits`).
    pub mmio: Metric,
    /// As there was nothing to do (`halt_exits`).
    pub halt: Metric,
    /// Interrupts that were injected (`irq_injections`).
    pub interrupts_injected: Metric,
}

/// What the processors of a machine did for each packet that the interface under test of the near end (the
/// guest, or its stand-in) received or sent, whoever it was done for (perf_event_open(2)).
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct ProcessorWork {
    /// Cycles.
    pub cycles_per_packet: Metric,
    /// Instructions.
    pub instructions_per_packet: Metric,
    /// Misses of the last cache.
    pub cache_misses_per_packet: Metric,
}

/// What a machine's kernel did for packets.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct MachineLayers {
    /// Packets dropped as a core's backlog was full (`net.core.netdev_max_backlog`).
    pub softnet_dropped: Metric,
    /// How often a core had to leave packets for later (`net.core.netdev_budget`).
    pub softnet_squeezed: Metric,
    /// Soft interrupts for receiving (`NET_RX`) a second, of all cores.
    pub receive_soft_interrupts_per_second: Metric,
    /// Soft interrupts for sending (`NET_TX`) a second, of all cores.
    pub send_soft_interrupts_per_second: Metric,
    /// Interrupts a second, of all cores: devices, timers, and what cores ask of each other.
    pub interrupts_per_second: Metric,
    /// Interrupts of network devices a second, of all cores; absent where there is no such device.
    pub network_interrupts_per_second: Metric,
    /// Time in which some task waited for a core, in percent (pressure stall information).
    pub cpu_stalled_percent: Metric,
    /// What its processors did for each packet.
    pub processors: ProcessorWork,
    /// What taking samples cost while the load ran, of all nodes there together; 100 is one core. What the
    /// layers took before and after it is not in it.
    pub sampler_percent_of_core: Metric,
}

/// Packets dropped on their way, by where: each the increase of all interfaces, or queueing disciplines,
/// of that network namespace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct PathLayers {
    /// By the sender's queueing disciplines (tc(8)).
    pub sender_qdisc_dropped: Metric,
    /// By the sender's interfaces, either way.
    pub sender_interface_dropped: Metric,
    /// By the queueing disciplines of the switch's ports and of taps.
    pub switch_qdisc_dropped: Metric,
    /// By the switch, its ports and taps, either way: what a guest does not fetch in time is dropped
    /// by its tap.
    pub switch_interface_dropped: Metric,
    /// By the receiver's interfaces, either way, for want of a buffer of the device too.
    pub receiver_interface_dropped: Metric,
}

/// What sockets had to drop or do again.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct SocketLayers {
    /// Datagrams that the receiver's sockets had no room for (`UdpRcvbufErrors`).
    pub receiver_udp_buffer_errors: Metric,
    /// Datagrams that came to the receiver but to no socket (`UdpNoPorts`).
    pub receiver_udp_no_port: Metric,
    /// Datagrams that the sender's sockets had no room for (`UdpSndbufErrors`).
    pub sender_udp_buffer_errors: Metric,
    /// Retransmission time-outs of the sender's connections (`TcpExtTCPTimeouts`).
    pub sender_tcp_timeouts: Metric,
    /// Segments that the receiver's sockets dropped: backlog or receive queue full, out of order with no
    /// room, window closed (`TcpExtTCPBacklogDrop`, `RcvQDrop`, `OFODrop`, `ZeroWindowDrop`).
    pub receiver_tcp_dropped: Metric,
}

/// What a party counted, over the trials that count.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PlaceCounters {
    /// Whose counters they are. Those of a whole machine (`softnet`, `soft-interrupts`,
    /// `interrupts`, `pressure`)
    /// are left out of a lab's endpoints on the host: they are in those of the host.
    pub place: Place,
    /// Trials that have them.
    pub trials: u32,
    /// Between the two readings of a trial, in seconds, on average.
    pub mean_seconds: f64,
    /// Those that moved in any trial.
    pub moved: Vec<MovedCounter>,
    /// How many others were read, and stood still in every trial.
    pub unmoved: u32,
    /// What could not be read in how many trials: the reason is the key.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub absent: BTreeMap<String, u32>,
}

/// One counter.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MovedCounter {
    /// The layer that it is of (`softnet`, `protocols`…).
    pub layer: String,
    /// The core, interface, queue or thread there; empty where there is but one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub of: String,
    /// Its name.
    pub counter: String,
    /// By how much it grew in a trial, on average; of a level, where it stood at the end.
    pub mean: f64,
    /// The same of the trial in which it was most.
    pub max: u64,
}
