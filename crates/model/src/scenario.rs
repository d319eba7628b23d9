//! The scenario: what a user writes to say what is measured. Reading it from text, with errors
//! that point at their line, is [`crate::scenario_file`].

mod changes;
mod checks;
mod factors;
mod guest;
mod libvirt;
mod machine;
mod parts;
mod scale;
mod storage;
mod topology;
mod variants;

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::interface_settings::InterfaceSettings;
use crate::libvirt::LibvirtDomain;
use crate::units::{BitRate, CoreLoad, Ratio, TimeSpan};
use crate::workload::Workload;

pub use changes::Changes;
pub use factors::{AS_IT_IS, Factor, Factors};
pub use guest::{Accel, DeviceOption, Guest, Reuse, Vhost};
pub use machine::{HugePages, MachineType};
pub use parts::Part;
pub use scale::{LEAST_DURATION, LEAST_WARMUP, Scale, ScaleError};
pub use storage::{AsyncIo, CacheMode, Drive, ImageFormat, Preallocation, Storage, StorageKind};
pub use topology::{Chain, FarEnd, Neighbour, Topology};
pub use variants::Variant;

pub use crate::switch::SwitchKind;

pub(crate) use factors::USUAL;

use variants::is_default;

/// A whole scenario.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its name, also the first part of a run directory's name.
    pub name: String,
    /// The question it answers, shown at the top of the report.
    pub question: String,
    /// What every duration is multiplied by, the budget too: `0.02` or `"1/60"`, as `--scale` says it. No trial becomes
    /// shorter than 200 ms by it, no warm-up than 100 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "1"))]
    pub scale: Option<Scale>,
    /// Published figures, or those of a run of one's own, that the report sets its results beside, by their names:
    /// `["kvm-bridge-2011"]`. [references.md](references.md) has more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-absent" = "none"))]
    pub reference: Vec<String>,
    /// What connects the endpoints.
    #[serde(default)]
    pub testbed: Testbed,
    /// The guest.
    #[serde(default)]
    pub guest: Guest,
    /// The load, and how long it is measured.
    pub workload: Workload,
    /// What is varied. Every combination of levels is a cell.
    #[serde(default)]
    pub factors: Factors,
    /// What is measured in turn to be compared; none, or at least two.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variants: Vec<Variant>,
    /// How often it is measured.
    #[serde(default)]
    pub repeat: Repeat,
    /// What it is made of, where one measurement does not say all: each part is a plan and a run of its own, measured
    /// in turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
}

/// What connects the endpoints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Testbed {
    /// What connects the endpoints; [switches.md](switches.md) tells how each is made.
    pub switch: SwitchKind,
    /// The bridge of the host's own (Linux's, or Open vSwitch's) that switches `bridge` and `openvswitch` are.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "the lab's own"))]
    pub bridge: Option<String>,
    /// The interface of this host that the switch is made of, where it always is (`sriov`, `sriov-host`): the
    /// physical function of a card with SR-IOV.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "none"))]
    pub interface: Option<String>,
    /// MTU of every link of the path, in bytes: 576 to 65521, and over IPv6 1280 at least.
    pub mtu: u32,
    /// Rate that the link of the peer, and so every path, is held to each way, counted from the Ethernet header on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "as fast as it goes"))]
    pub rate: Option<BitRate>,
    /// Which cores the lab's threads run on; [testbeds.md](testbeds.md#cores) has more.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("x-absent" = "`free`"))]
    pub placement: Placement,
    /// Cores for some of these threads by themselves, with `placement = "apart"` or `"exclusive"`: `{ vhost = [4],
    /// nodes = [5] }`.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("x-absent" = "as `placement` says"))]
    pub cores: ThreadCores,
    /// Which Internet protocol carries the load.
    pub ip: IpVersion,
    /// How the peer's end of its link is set up, and that of a baseline's second namespace.
    #[serde(skip_serializing_if = "InterfaceSettings::is_empty")]
    #[schemars(extend("x-absent" = "the driver's"))]
    pub peer: InterfaceSettings,
    /// Where the far end of every load is.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("x-absent" = "`remote`"))]
    pub far_end: FarEnd,
    /// What stands between the switch and the far end.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("x-absent" = "`none`"))]
    pub chain: Chain,
    /// Rules of a packet filter (nftables) that every packet is held against in between, none of which matches: in
    /// the guest of the chain, or where there is none on the host's switch; up to 20 000.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("x-absent" = "`0`"))]
    pub firewall_rules: u32,
    /// What else runs beside the guest under test.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("x-absent" = "`none`"))]
    pub neighbour: Neighbour,
    /// Work of the host during every trial, baselines too, beside what the test takes, 100 % being one core: `"250
    /// %"`; as many threads burn as it takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "none"))]
    pub host_load: Option<CoreLoad>,
    /// Where the bytes of disks are: the guest's, and the file that a baseline reads and writes.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("x-absent" = "a file in `/var/tmp`"))]
    pub storage: Storage,
    /// The machine at the other end: where `vioperf serve` runs (`host`, `host:port`; the token is taken from
    /// `VIOPERF_TOKEN`), or one that your ssh gets to (`ssh://user@host`). Then there is no lab, and switch and
    /// guest are without meaning; the far end is what directions call the guest. [serve.md](serve.md) has more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "a lab on this machine"))]
    pub server: Option<String>,
    /// The virtual machine of libvirt's that the server is: its hypervisor is watched too, and with `factors.nic` or a
    /// `source` it is changed, which `--allow-change` has to allow. [libvirt.md](libvirt.md) has more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "none"))]
    pub libvirt: Option<LibvirtDomain>,
}

impl Default for Testbed {
    fn default() -> Self {
        Self {
            switch: SwitchKind::default(),
            bridge: None,
            interface: None,
            mtu: 1500,
            rate: None,
            placement: Placement::default(),
            cores: ThreadCores::default(),
            ip: IpVersion::Ipv4,
            peer: InterfaceSettings::default(),
            far_end: FarEnd::default(),
            chain: Chain::default(),
            firewall_rules: 0,
            neighbour: Neighbour::default(),
            host_load: None,
            storage: Storage::default(),
            server: None,
            libvirt: None,
        }
    }
}

/// Who decides which cores a lab's threads run on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// The host's scheduler, as it does for guests that nobody pinned.
    #[default]
    Free,
    /// vioperf: each virtual CPU has a core of its own, the peer and what else QEMU does the others.
    Apart,
    /// The same, on cores that nobody else on the machine is on: a partition of cgroup v2's cpuset.
    Exclusive,
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Free => "free",
            Self::Apart => "apart",
            Self::Exclusive => "exclusive",
        })
    }
}

/// Cores for threads of a lab by themselves. What is absent runs where everything else that is no virtual CPU does.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ThreadCores {
    /// The guest's virtual CPUs, one after the other.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vcpus: Vec<u16>,
    /// Workers of vhost.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vhost: Vec<u16>,
    /// I/O threads of QEMU.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub io: Vec<u16>,
    /// The far end's node, where that is on the host.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<u16>,
    /// Everything else.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<u16>,
}

impl ThreadCores {
    /// Each of them, by its key.
    pub fn by_key(&self) -> [(&'static str, &[u16]); 5] {
        [
            ("vcpus", &self.vcpus),
            ("vhost", &self.vhost),
            ("io", &self.io),
            ("nodes", &self.nodes),
            ("others", &self.others),
        ]
    }
}

/// The Internet protocols.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum IpVersion {
    /// Version 4 (RFC 791).
    #[default]
    Ipv4,
    /// Version 6 (RFC 8200): a header of 20 bytes more.
    Ipv6,
}

impl IpVersion {
    /// Bytes of its header, without options or extensions.
    pub fn header_bytes(self) -> u32 {
        match self {
            Self::Ipv4 => 20,
            Self::Ipv6 => 40,
        }
    }
}

impl fmt::Display for IpVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ipv4 => "ipv4",
            Self::Ipv6 => "ipv6",
        })
    }
}

/// How often a scenario is measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Repeat {
    /// Passes over all cells; with a goal the least.
    pub blocks: u32,
    /// Goes on until the 95 % interval of every cell's mean, and of its ratio to the baseline, is no wider than
    /// this to either side, such as `"5 %"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "as many blocks as `blocks` says"))]
    pub goal: Option<Ratio>,
    /// With a goal: so many passes at most, and never fewer than `blocks`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "20"))]
    pub most_blocks: Option<u32>,
    /// With a goal: a cell that has reached it is not measured any more. Baselines always are, as every ratio needs
    /// its own.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(extend("x-absent" = "`false`"))]
    pub stop_settled: bool,
    /// Each trial waits, but not for ever, until nobody else uses the physical cores, and one at whose ends
    /// somebody did is measured again: [statistics.md](statistics.md#undisturbed-trials).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(extend("x-absent" = "`false`"))]
    pub undisturbed: bool,
    /// Seed of the order inside the blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "drawn, and recorded"))]
    pub seed: Option<u64>,
    /// No block is begun that would not end within this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "none"))]
    pub budget: Option<TimeSpan>,
    /// How often a cell is tried in a block before it is given up there.
    pub attempts: u32,
}

/// Passes at most where a goal is given and nothing else said.
const MOST_BLOCKS: u32 = 20;

impl Repeat {
    /// Whether the number of passes depends on what is measured: a goal is given, and more passes are
    /// allowed than have to be.
    pub fn may_settle(&self) -> bool {
        self.goal.is_some() && self.blocks < self.blocks_at_most()
    }

    /// Passes over all cells at most.
    pub fn blocks_at_most(&self) -> u32 {
        match self.goal {
            Some(_) => self.most_blocks.unwrap_or(MOST_BLOCKS).max(self.blocks),
            None => self.blocks,
        }
    }
}

impl Default for Repeat {
    fn default() -> Self {
        Self {
            blocks: 3,
            goal: None,
            most_blocks: None,
            stop_settled: false,
            undisturbed: false,
            seed: None,
            budget: None,
            attempts: 2,
        }
    }
}

/// Something in a scenario that contradicts itself or cannot be meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contradiction {
    /// The key it is about, dotted (`workload.duration`).
    pub key: String,
    /// What is wrong and what to write instead.
    pub message: String,
}
