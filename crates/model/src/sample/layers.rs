//! Counters of the layers that packets pass on a machine. What matters of them is by how much they
//! grew while the load ran, so that they are read twice a trial.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BlockDeviceCounters, InterfaceCounters};

/// Read before the first sample, when nothing moves yet, and after the last one, when all has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LayerCounters {
    /// When reading began: `CLOCK_MONOTONIC` of the node's machine, in nanoseconds.
    pub monotonic_ns: u64,
    /// Packets that each core took from its backlog and its devices: `/proc/net/softnet_stat`.
    /// Of the whole machine, whatever the network namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub softnet: Option<Vec<SoftnetCore>>,
    /// Soft interrupts of the network on each core: `/proc/softirqs`. Of the whole machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soft_interrupts: Option<Vec<SoftInterrupts>>,
    /// Interrupts on each core: `/proc/interrupts`. Of the whole machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupts: Option<Interrupts>,
    /// What drivers count (`ethtool -S`), by interface and the driver's own name; what stands at 0 is
    /// left out, and an interface whose driver counts nothing is too. The counters of queues that
    /// vmxnet3 puts under headings have the heading before their name (`Tx Queue#0 ucast pkts tx`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices: Option<BTreeMap<String, BTreeMap<String, u64>>>,
    /// Every queueing discipline of the node's network namespace (tc(8)).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qdiscs: Option<Vec<QdiscCounters>>,
    /// Counters of IP, UDP and TCP in the node's network namespace, by the names that nstat(8) gives
    /// them (`UdpRcvbufErrors`, `TcpExtTCPTimeouts`): `/proc/net/snmp`, `netstat` and `snmp6`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocols: Option<BTreeMap<String, u64>>,
    /// Connection tracking of the node's network namespace; absent where none is loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conntrack: Option<ConntrackCounters>,
    /// Packets that the access list of a lab (`testbed.firewall_rules`) counted, where there is one in the
    /// node's network namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_list: Option<AccessListCounters>,
    /// Block devices and partitions that ever did anything, by name: `/proc/diskstats`. Of the whole machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disks: Option<BTreeMap<String, BlockDeviceCounters>>,
    /// Time that work stood still for want of something: `/proc/pressure`. Of the whole machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pressure: Option<BTreeMap<String, StallTimes>>,
    /// What a CPU quota held the node back by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<QuotaCounters>,
    /// What an Open vSwitch between the endpoints counted. Of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_vswitch: Option<OpenVswitchCounters>,
    /// What the processors counted on all cores of the machine; on one node of each machine only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware: Option<HardwareCounters>,
    /// What KVM counted of the guest, all its virtual CPUs together, by KVM's own names (`exits`,
    /// `io_exits`, `mmio_exits`, `halt_exits`, `irq_injections`, …; QEMU's `query-stats`). Of the host, beside
    /// a guest that KVM runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kvm: Option<BTreeMap<String, u64>>,
    /// Context switches of every thread of the watched processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switches: Option<Vec<ThreadSwitches>>,
}

/// A line of `/proc/net/softnet_stat` (`softnet_seq_show`, net/core/net-procfs.c). The kernel counts
/// in 32 bits, which wrap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SoftnetCore {
    /// The number of the core.
    pub core: u32,
    /// Packets that it processed.
    pub processed: u32,
    /// Packets that it dropped as its backlog was full (`net.core.netdev_max_backlog`).
    pub dropped: u32,
    /// How often it had to leave work for later, its budget or time used up
    /// (`net.core.netdev_budget`, `netdev_budget_usecs`).
    pub time_squeeze: u32,
    /// How often another core woke it up for packets steered to it (RPS).
    pub received_rps: u32,
    /// Packets that the flow limit dropped (`net.core.flow_limit_cpu_bitmap`).
    pub flow_limit: u32,
    /// Packets in its backlog at that moment; absent before Linux 5.10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backlog: Option<u32>,
}

/// Soft interrupts of one core.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SoftInterrupts {
    /// The number of the core.
    pub core: u32,
    /// `NET_RX`: receiving.
    pub net_rx: u64,
    /// `NET_TX`: sending what could not be sent at once, and freeing what was sent.
    pub net_tx: u64,
}

/// Interrupts on each core.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Interrupts {
    /// The numbers of the cores, in the order of the counts.
    pub cores: Vec<u32>,
    /// All of each core: devices, timers, and what cores ask of each other.
    pub total: Vec<u64>,
    /// Those of the network devices in the node's network namespace, one by one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<InterruptLine>,
}

/// An interrupt of a network device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InterruptLine {
    /// What the driver calls it (`virtio1-input.0`, `eth0-TxRx-0`).
    pub name: String,
    /// So many on each core.
    pub counts: Vec<u64>,
}

/// A queueing discipline (tc(8)). The kernel counts packets and drops in 32 bits, which wrap.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QdiscCounters {
    /// Its interface.
    pub interface: String,
    /// `fq_codel`, `tbf`, `noqueue`…
    pub kind: String,
    /// What it is called by (`8001:`); `0:` of those that the kernel gave an interface by itself.
    pub handle: String,
    /// Where it is: `root`, `ingress` or the class that it is in (`8001:2`).
    pub parent: String,
    /// Bytes that left it.
    pub bytes: u64,
    /// Packets that left it.
    pub packets: u32,
    /// Packets that it dropped.
    pub drops: u32,
    /// How often it held a packet back for its rate.
    pub overlimits: u32,
    /// How often a packet came back as the device could not take it.
    pub requeues: u32,
    /// Packets that waited in it at that moment.
    pub queued_packets: u32,
    /// Bytes that waited in it at that moment.
    pub queued_bytes: u32,
}

/// Connection tracking (nf_conntrack) of a network namespace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConntrackCounters {
    /// Connections that are tracked at that moment (`net.netfilter.nf_conntrack_count`).
    pub entries: u64,
    /// So many at most (`net.netfilter.nf_conntrack_max`); absent where the kernel does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_entries: Option<u64>,
    /// Packets of no connection that can be tracked: `invalid` of `/proc/net/stat/nf_conntrack`, of
    /// all cores, as the following.
    pub invalid: u64,
    /// Entries that could not be made.
    pub insert_failed: u64,
    /// Packets dropped, as the table was full or memory short.
    pub dropped: u64,
    /// Entries that were given up before their time to make room.
    pub early_dropped: u64,
}

/// Counters in the chain of an access list, one before its rules and one behind them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AccessListCounters {
    /// Packets that came to the first rule.
    pub entered: u64,
    /// Packets that no rule has matched.
    pub passed: u64,
}

/// How long work stood still (Documentation/accounting/psi.rst), in microseconds since boot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StallTimes {
    /// For some of the tasks.
    pub some_us: u64,
    /// For all of them at the same time; absent where the kernel does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_us: Option<u64>,
}

/// What a CPU quota (`cpu.max`, `cpu.cfs_quota_us`) held the control group of a node back by: `cpu.stat`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuotaCounters {
    /// Periods in which it was used up (`nr_throttled`).
    pub throttled_periods: u64,
    /// For how long the group then stood still, each core by itself (`throttled_usec`), in microseconds.
    pub throttled_us: u64,
}

/// Datapaths of an Open vSwitch (`ovs-appctl dpctl/show -s`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OpenVswitchCounters {
    /// Packets for which a flow was there.
    pub hits: u64,
    /// Packets for which ovs-vswitchd had to be asked.
    pub misses: u64,
    /// Of those, dropped as it was asked too much.
    pub lost: u64,
    /// Its ports by their names: received is what came into the switch. What it does not tell stands at 0.
    pub ports: BTreeMap<String, InterfaceCounters>,
}

/// What processors count (perf_event_open(2)), of all cores together, in user mode, kernel and guests, since
/// the node began to count. Where others count too, an event has its counter but a part of the time: what it
/// came to is the count times enabled over running time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HardwareCounters {
    /// Cycles (`PERF_COUNT_HW_CPU_CYCLES`).
    pub cycles: u64,
    /// Instructions that were completed (`PERF_COUNT_HW_INSTRUCTIONS`).
    pub instructions: u64,
    /// Accesses that missed the last cache, mostly (`PERF_COUNT_HW_CACHE_MISSES`).
    pub cache_misses: u64,
    /// For how long they were wanted, in nanoseconds, core by core added up.
    pub enabled_ns: u64,
    /// For how long they were counted, likewise.
    pub running_ns: u64,
}

/// Context switches of one thread: `/proc/PID/task/TID/status` (proc_pid_status(5)).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadSwitches {
    /// The watched process it belongs to, by the label that was asked for.
    pub process: String,
    /// Thread id in the node's process namespace.
    pub tid: i32,
    /// The thread's name.
    pub name: String,
    /// It waited for something.
    pub voluntary: u64,
    /// It was made to leave its core.
    pub nonvoluntary: u64,
    /// The cores that it may run on, as the kernel lists them (`0-2,5`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<String>,
}
