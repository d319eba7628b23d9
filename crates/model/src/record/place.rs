//! Where the parties of a trial are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where a party is.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// The far end, a namespace on the host: the same for baselines and guests.
    Peer,
    /// The far end where that is an address of the host itself.
    HostEnd,
    /// The far end where that is a guest too.
    FarGuest,
    /// The near end of a baseline, a namespace on the host.
    Second,
    /// The guest: the near end of every other cell.
    Guest,
    /// A guest between switch and far end that hands on what comes; it only observes itself.
    Forwarder,
    /// A guest beside the one under test; it observes itself, and is no end of what is measured.
    Neighbour,
    /// The host itself, or the hypervisor of a virtual machine at the other end of a path between two
    /// machines: it only observes the cores, the switch's ports and QEMU's threads.
    Host,
    /// Between two machines: the one that vioperf was started on.
    Client,
    /// Between two machines: the other, where `vioperf serve` runs.
    Server,
}

impl Place {
    /// Those that have cores of their own which only they tell of, in the order of tables: the rest
    /// are processes of the host.
    pub const MACHINES: [Self; 7] = [
        Self::Host,
        Self::Guest,
        Self::FarGuest,
        Self::Forwarder,
        Self::Neighbour,
        Self::Client,
        Self::Server,
    ];

    /// As records write it.
    pub fn key(self) -> &'static str {
        match self {
            Self::Peer => "peer",
            Self::HostEnd => "host-end",
            Self::FarGuest => "far-guest",
            Self::Second => "second",
            Self::Guest => "guest",
            Self::Forwarder => "forwarder",
            Self::Neighbour => "neighbour",
            Self::Host => "host",
            Self::Client => "client",
            Self::Server => "server",
        }
    }

    /// As people call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Peer => "peer",
            Self::HostEnd => "host's end",
            Self::FarGuest => "far guest",
            Self::Forwarder => "forwarding guest",
            Self::Neighbour => "neighbour",
            Self::Second => "second endpoint",
            Self::Guest => "guest",
            Self::Host => "host",
            Self::Client => "client",
            Self::Server => "server",
        }
    }

    /// Of a guest: the label under which the host's samples have the threads of its QEMU.
    pub fn qemu_label(self) -> Option<&'static str> {
        match self {
            Self::Guest => Some("qemu"),
            Self::FarGuest => Some("qemu-far"),
            Self::Forwarder => Some("qemu-forwarder"),
            Self::Neighbour => Some("qemu-neighbour"),
            _ => None,
        }
    }

    /// Whether it is the far end of a path: what directions call *to the guest* comes from there.
    pub fn is_far_end(self) -> bool {
        self.is_far_end_of_lab() || self == Self::Client
    }

    /// The same, in a lab.
    pub fn is_far_end_of_lab(self) -> bool {
        matches!(self, Self::Peer | Self::HostEnd | Self::FarGuest)
    }

    /// Whether it is an end of a lab's path in a process of the host, whose cores and kernel it shares.
    pub fn is_end_on_host(self) -> bool {
        matches!(self, Self::Peer | Self::HostEnd | Self::Second)
    }

    /// Whether it is in a guest, with cores and a kernel of its own.
    pub fn is_in_guest(self) -> bool {
        matches!(self, Self::Guest | Self::FarGuest | Self::Forwarder | Self::Neighbour)
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_records_and_guests_have_a_qemu_each() {
        let mut labels: Vec<&str> = Vec::new();
        for place in Place::MACHINES {
            assert_eq!(serde_json::to_value(place).unwrap(), place.key());
            assert_eq!(place.qemu_label().is_some(), place.is_in_guest(), "{place}");
            labels.extend(place.qemu_label());
        }
        for place in [Place::Peer, Place::HostEnd, Place::Second] {
            assert_eq!(serde_json::to_value(place).unwrap(), place.key());
            assert!(place.is_end_on_host() && !Place::MACHINES.contains(&place));
        }
        labels.sort_unstable();
        labels.dedup();
        assert_eq!(labels.len(), 4);
    }
}
