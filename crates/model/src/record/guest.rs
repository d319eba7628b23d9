//! What is stored of a trial's guests, and of the cores that its threads were held to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Place;
use crate::scenario::Drive;
use crate::wire::{DiskFacts, ForwardingFacts};

/// How a trial's guest came about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GuestSetup {
    /// So much of QEMU's memory was in huge pages when the guest was ready, in MiB; absent when reused, and where
    /// the kernel does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub huge_pages_mib: Option<u64>,
    /// Its CPU, as QEMU told it when the guest was ready; absent when reused, and where QEMU does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor: Option<Processor>,
    /// Restored, booted, or still there from the trial before.
    pub origin: GuestOrigin,
    /// From starting QEMU until the guest's NIC had a carrier, in milliseconds; absent when reused.
    pub ready_ms: Option<u64>,
    /// The way of its frames on the host, as it was seen to be when the guest was started; absent when
    /// reused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The switch's port that its NIC is on, as the host's samples call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<String>,
    /// Its disk, where that is read and written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskSetup>,
    /// The other guests of the cell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<OtherGuest>,
}

impl GuestSetup {
    /// One of which nothing more is known.
    #[must_use]
    pub fn of(origin: GuestOrigin) -> Self {
        Self {
            huge_pages_mib: None,
            processor: None,
            origin,
            ready_ms: None,
            path: None,
            port: None,
            disk: None,
            others: Vec::new(),
        }
    }
}

/// A guest's disk, as the guest and QEMU told of it when the guest was ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiskSetup {
    /// As the guest sees it.
    #[serde(flatten)]
    pub facts: DiskFacts,
    /// Where its bytes are on the host, in words.
    pub place: String,
    /// How QEMU hands it out: format and cache mode as QEMU itself told, the rest as it was started with.
    pub drive: Drive,
}

/// A CPU model of QEMU's, and what a guest has of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Processor {
    /// Its name, as `-cpu help` lists it.
    pub model: String,
    /// Features of it that the accelerator cannot give here, by QEMU's names (`unavailable-features`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<String>,
}

/// A guest beside the one under test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OtherGuest {
    /// What it is there for.
    pub place: Place,
    /// As [`GuestSetup::path`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// As [`GuestSetup::port`]; of one that forwards the port on the side of the guest under test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<String>,
    /// Of one that forwards: the port on the side of the far end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub far_port: Option<String>,
    /// How it forwards, and by how many rules it holds packets against, as it told itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forwarding: Option<ForwardingFacts>,
    /// As [`GuestSetup::disk`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskSetup>,
}

/// Which of the host's cores the threads of a lab were held to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct CorePlacement {
    /// The guest's virtual CPUs, each a core as long as there are any; of a baseline the second
    /// namespace.
    pub near: Vec<u16>,
    /// The peer, and of QEMU and vhost all that is no virtual CPU, but for what has cores of its own below.
    pub others: Vec<u16>,
    /// Workers of vhost, where they have cores of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vhost: Vec<u16>,
    /// I/O threads of QEMU, likewise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub io: Vec<u16>,
    /// The node of the far end on the host, likewise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<u16>,
    /// Whether nobody else was on any of these: a partition of cgroup v2's cpuset.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exclusive: bool,
}

impl CorePlacement {
    /// A list of cores as the kernel writes it (`0-2,5`).
    ///
    /// # Errors
    /// When it is none.
    pub fn parse_list(list: &str) -> Result<Vec<u16>, std::num::ParseIntError> {
        let mut cores = Vec::new();
        for part in list.trim().split(',').filter(|part| !part.is_empty()) {
            let (from, until) = part.split_once('-').unwrap_or((part, part));
            cores.extend(from.trim().parse::<u16>()?..=until.trim().parse()?);
        }
        Ok(cores)
    }

    /// Every core of it, in order.
    pub fn all(&self) -> Vec<u16> {
        let mut all = [&self.near, &self.others, &self.vhost, &self.io, &self.nodes]
            .map(Clone::clone)
            .concat();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// How a guest came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GuestOrigin {
    /// Restored from the snapshot for this trial.
    Restored,
    /// Booted for this trial.
    Booted,
    /// It had served the trial before.
    Reused,
}
