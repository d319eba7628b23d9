//! What a lab is to be, and its guests.

use vioperf_model::record::CorePlacement;
use vioperf_model::scenario::{IpVersion, SwitchKind, Topology};
use vioperf_model::units::BitRate;

use crate::namespace::ProcessCommand;
use crate::qemu::{DiskSpec, NicSpec};
use crate::switch::NearEnd;

/// What a lab is made of.
#[derive(Debug, Clone)]
pub struct LabSpec {
    /// What connects the endpoints.
    pub switch: SwitchKind,
    /// The interface of the host that it is made of, if it is.
    pub interface: Option<String>,
    /// What is at the near end, where the switch has room for one kind alone.
    pub near: NearEnd,
    /// MTU of the switch and of the endpoints, in bytes.
    pub mtu: u32,
    /// What else is on the switch, and what stands between it and the far end.
    pub topology: Topology,
    /// What carries the load, which rules are about.
    pub ip: IpVersion,
    /// Rate that the link of the peer is held to, each way; none leaves it as fast as it goes.
    pub rate: Option<BitRate>,
    /// Which cores its threads are held to; none leaves them to the scheduler.
    pub placement: Option<CorePlacement>,
    /// The far end of every load, in a namespace of its own.
    pub peer: ProcessCommand,
    /// The other end of the baseline, in a namespace of its own.
    pub second: ProcessCommand,
    /// The far end of every load where that is the host itself, in the sandbox's namespace.
    pub host_end: ProcessCommand,
    /// Samples the host's counters, in the sandbox's namespace.
    pub observer: ProcessCommand,
}

/// A guest that is to be started.
#[derive(Debug, Clone, Copy)]
pub struct GuestSpec<'a> {
    /// What it is for: the first is the one under test.
    pub part: GuestPart,
    /// Its NIC, where a load goes over one.
    pub nic: Option<&'a NicSpec>,
    /// Of one that forwards: its NIC towards the far end.
    pub far_nic: Option<&'a NicSpec>,
    /// Its disk, where that is read and written.
    pub disk: Option<&'a DiskSpec>,
}

impl<'a> GuestSpec<'a> {
    /// The guest under test, with that NIC.
    #[must_use]
    pub fn under_test(nic: &'a NicSpec) -> Self {
        Self { part: GuestPart::UnderTest, nic: Some(nic), far_nic: None, disk: None }
    }
}

/// What a guest of a lab is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuestPart {
    /// It is the near end of every load.
    UnderTest,
    /// It is the far end.
    FarEnd,
    /// It hands on what goes from one to the other.
    Forwarder,
    /// It is there beside them.
    Neighbour,
}
