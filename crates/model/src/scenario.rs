//! The scenario: what a user writes to say what is measured. Reading it from text, with errors
//! that point at their line, is [`crate::scenario_file`].

mod guest;
mod variants;

use std::fmt;
use std::ops::RangeInclusive;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::levels::Levels;
use crate::nic::NicModel;
use crate::units::{BitRate, ByteSize, Ratio, TimeSpan};
use crate::workload::{Background, Direction, Receivers, Transport, Workload, WorkloadKind};

pub use guest::{Accel, DeviceOption, Guest, GuestChanges, Reuse};
pub use variants::{TestbedChanges, Variant};

pub use crate::switch::SwitchKind;

use variants::is_default;

/// A whole scenario.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its name, also the first part of a run directory's name.
    pub name: String,
    /// The question it answers, shown at the top of the report.
    pub question: String,
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
}

/// What connects the endpoints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Testbed {
    /// The switch.
    pub switch: SwitchKind,
    /// MTU of every link of the path, in bytes.
    pub mtu: u32,
    /// Rate that the link of the peer, and so every path, is held to each way, counted from the Ethernet
    /// header on. Absent: as fast as it goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<BitRate>,
    /// Which cores the lab's threads run on.
    #[serde(skip_serializing_if = "is_default")]
    pub placement: Placement,
    /// Which Internet protocol carries the load.
    pub ip: IpVersion,
    /// The machine at the other end, where `vioperf serve` runs (`vioperf test` writes it): then there
    /// is no lab, and switch and guest are without meaning. The far end is what directions call the
    /// guest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
}

impl Default for Testbed {
    fn default() -> Self {
        Self {
            switch: SwitchKind::default(),
            mtu: 1500,
            rate: None,
            placement: Placement::default(),
            ip: IpVersion::Ipv4,
            server: None,
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
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Free => "free",
            Self::Apart => "apart",
        })
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

const UDP_HEADER_BYTES: u32 = 8;

/// Slowest and fastest link in bits per second: a frame takes 0.2 s at the one, and the other is
/// beyond what one core moves.
const LINK_RATES: RangeInclusive<u64> = 64_000..=400_000_000_000;

/// What is varied.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Factors {
    /// NIC models; each gives cells beside the baseline's.
    pub nic: Levels<NicModel>,
    /// Numbers of parallel connections.
    #[serde(skip_serializing_if = "Levels::is_empty")]
    pub streams: Levels<u16>,
    /// Directions.
    #[serde(skip_serializing_if = "Levels::is_empty")]
    pub direction: Levels<Direction>,
    /// UDP payloads of a datagram.
    #[serde(skip_serializing_if = "Levels::is_empty")]
    pub payload: Levels<ByteSize>,
    /// Ways of sharing the receiving port.
    #[serde(skip_serializing_if = "Levels::is_empty")]
    pub receivers: Levels<Receivers>,
    /// What carries requests.
    #[serde(skip_serializing_if = "Levels::is_empty")]
    pub transport: Levels<Transport>,
    /// What else is on the path meanwhile.
    #[serde(skip_serializing_if = "Levels::is_empty")]
    pub background: Levels<Background>,
    /// Switches.
    #[serde(skip_serializing_if = "Levels::is_empty")]
    pub switch: Levels<SwitchKind>,
    /// MTUs in bytes.
    #[serde(skip_serializing_if = "Levels::is_empty")]
    pub mtu: Levels<u32>,
    /// Internet protocols.
    #[serde(skip_serializing_if = "Levels::is_empty")]
    pub ip: Levels<IpVersion>,
}

/// How often a scenario is measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Repeat {
    /// Passes over all cells; with a goal the least.
    pub blocks: u32,
    /// Goes on until the 95 % interval of every cell's mean, and of its ratio to the baseline, is no
    /// wider than this to either side. Absent: as many blocks as `blocks` says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goal: Option<Ratio>,
    /// With a goal: so many passes at most, 20 where absent, and never fewer than `blocks`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most_blocks: Option<u32>,
    /// With a goal: a cell that has reached it is not measured any more. Baselines always are, as
    /// every ratio needs its own.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stop_settled: bool,
    /// Each trial waits, but not for ever, until nobody else uses the physical cores, and one at whose
    /// ends somebody did is measured again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub undisturbed: bool,
    /// Seed of the order inside the blocks; absent draws one, and records it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// No block is begun that would not end within this time.
    #[serde(skip_serializing_if = "Option::is_none")]
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
    pub key: &'static str,
    /// What is wrong and what to write instead.
    pub message: String,
}

impl Scenario {
    /// Everything that contradicts itself, so that it can be reported at once.
    pub fn contradictions(&self) -> Vec<Contradiction> {
        let mut found = Vec::new();
        let mut check = |wrong: bool, key: &'static str, message: String| {
            if wrong {
                found.push(Contradiction { key, message });
            }
        };
        let well_named = !self.name.is_empty()
            && self.name.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
        check(
            !well_named,
            "name",
            format!("`{}` names no directory: use letters, digits, - and _", self.name),
        );
        self.check_testbed(&mut check);
        self.guest.contradictions().into_iter().for_each(|it| check(true, it.key, it.message));
        self.check_variants(&mut check);
        self.check_workload(&mut check);
        self.check_datagrams(&mut check);
        check(
            !(1..=1000).contains(&self.repeat.blocks),
            "repeat.blocks",
            "needs 1 to 1000 blocks; 3 are the least for an interval".into(),
        );
        check(
            self.repeat.goal.is_some_and(|goal| !(0.000_1..=1.0).contains(&goal.as_f64())),
            "repeat.goal",
            "a goal is a part of the mean, from 0.01 % to 100 %".into(),
        );
        for (key, is_set) in [
            ("repeat.most_blocks", self.repeat.most_blocks.is_some()),
            ("repeat.stop_settled", self.repeat.stop_settled),
        ] {
            let message = "nothing settles without a goal: give repeat.goal, such as \"5 %\"";
            check(is_set && self.repeat.goal.is_none(), key, message.into());
        }
        check(
            self.repeat.most_blocks.is_some_and(|most| !(1..=1000).contains(&most)),
            "repeat.most_blocks",
            "needs 1 to 1000 blocks".into(),
        );
        check(
            !(1..=10).contains(&self.repeat.attempts),
            "repeat.attempts",
            "needs 1 to 10 attempts".into(),
        );
        found
    }

    fn check_testbed(&self, check: &mut impl FnMut(bool, &'static str, String)) {
        let of_variants = self.variants.iter().filter_map(|variant| variant.testbed.mtu);
        let mtus: Vec<u32> =
            self.factors.mtu.or(self.testbed.mtu).into_iter().chain(of_variants).collect();
        for mtu in mtus.iter().filter(|mtu| !(576..=65_521).contains(*mtu)) {
            let key = if self.factors.mtu.is_empty() { "testbed.mtu" } else { "factors.mtu" };
            check(true, key, format!("an MTU of {mtu} is not between 576 and 65521 bytes"));
        }
        let over_ipv6 = self.factors.ip.or(self.testbed.ip).contains(&IpVersion::Ipv6);
        for mtu in mtus.iter().filter(|mtu| over_ipv6 && (576..1280).contains(*mtu)) {
            let key = if self.factors.mtu.is_empty() { "testbed.mtu" } else { "factors.mtu" };
            let message = "IPv6 needs an MTU of at least 1280 bytes (RFC 8200, section 5)";
            check(true, key, format!("an MTU of {mtu} is too little: {message}"));
        }
        check(
            self.testbed.server.is_some() && !self.factors.nic.is_empty(),
            "factors.nic",
            "between two machines there is no guest, so no NIC of one: leave it out".into(),
        );
        let rate = self.testbed.rate;
        let rates = self.variants.iter().map(|variant| variant.testbed.rate).chain([rate]);
        check(
            rates.flatten().any(|rate| !LINK_RATES.contains(&rate.as_bits_per_second())),
            "testbed.rate",
            "a link has between 64 kbit/s and 400 Gbit/s".into(),
        );
        check(
            rate.is_some() && self.testbed.server.is_some(),
            "testbed.rate",
            "between two machines the link is what it is: leave the rate out".into(),
        );
        check(
            self.testbed.placement != Placement::Free && self.testbed.server.is_some(),
            "testbed.placement",
            "between two machines vioperf places nothing: give sender_cpus and receiver_cpus"
                .into(),
        );
        let factors = &self.factors;
        let repeated = [
            ("factors.nic", factors.nic.repeated().map(ToString::to_string)),
            ("factors.streams", factors.streams.repeated().map(ToString::to_string)),
            ("factors.direction", factors.direction.repeated().map(ToString::to_string)),
            ("factors.payload", factors.payload.repeated().map(ToString::to_string)),
            ("factors.receivers", factors.receivers.repeated().map(ToString::to_string)),
            ("factors.transport", factors.transport.repeated().map(ToString::to_string)),
            ("factors.background", factors.background.repeated().map(ToString::to_string)),
            ("factors.switch", factors.switch.repeated().map(ToString::to_string)),
            ("factors.mtu", factors.mtu.repeated().map(ToString::to_string)),
            ("factors.ip", factors.ip.repeated().map(ToString::to_string)),
        ];
        for (key, level) in repeated {
            let level = level.unwrap_or_default();
            check(!level.is_empty(), key, format!("the level {level} is listed twice"));
        }
    }

    /// No datagram is sent in pieces: each must fit into a packet of every path.
    fn check_datagrams(&self, check: &mut impl FnMut(bool, &'static str, String)) {
        let mut said = Vec::new();
        for cell in crate::plan::cells(self) {
            use WorkloadKind::{PacketRate, RateSearch, UdpStream};
            let kinds = [UdpStream, PacketRate, RateSearch];
            // The path between two machines is the nodes' to know.
            if cell.server.is_some() || !kinds.contains(&cell.workload.kind) {
                continue;
            }
            let room = cell.mtu.saturating_sub(cell.ip.header_bytes() + UDP_HEADER_BYTES);
            let payload = cell.workload.payload_bytes();
            let message = format!(
                "{payload} B do not fit into a packet: {room} B is the most over {} with an MTU of {}",
                cell.ip, cell.mtu
            );
            if payload > u64::from(room) && !said.contains(&message) {
                check(true, self.written_at("workload.payload"), message.clone());
                said.push(message);
            }
        }
    }

    /// Levels are held to the same limits as the workload's own keys, each combination for itself:
    /// what one level makes of the load another may contradict.
    fn check_workload(&self, check: &mut impl FnMut(bool, &'static str, String)) {
        let mut said = Vec::new();
        for contradiction in crate::plan::workloads(self).iter().flat_map(Workload::contradictions)
        {
            if !said.contains(&contradiction) {
                check(true, self.written_at(contradiction.key), contradiction.message.clone());
                said.push(contradiction);
            }
        }
    }

    /// Where the value of a workload's key was written: among the factors, if it is varied.
    fn written_at(&self, key: &'static str) -> &'static str {
        let factors = &self.factors;
        let varied = [
            ("workload.streams", "factors.streams", factors.streams.is_empty()),
            ("workload.direction", "factors.direction", factors.direction.is_empty()),
            ("workload.payload", "factors.payload", factors.payload.is_empty()),
            ("workload.receivers", "factors.receivers", factors.receivers.is_empty()),
            ("workload.transport", "factors.transport", factors.transport.is_empty()),
            ("workload.background", "factors.background", factors.background.is_empty()),
        ];
        let factor = varied.into_iter().find(|(own, _, is_empty)| *own == key && !is_empty);
        factor.map_or(key, |(_, factor, _)| factor)
    }
}
