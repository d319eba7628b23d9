//! What a switch has room for beside a guest and two namespaces.

use vioperf_model::scenario::{Chain, FarEnd, Neighbour, Topology};

use super::Lack;

/// What else can be on a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// The interface by which the host itself is on it.
    pub(super) host_interface: Option<&'static str>,
    /// Whether guests on it reach each other.
    pub(super) several_guests: bool,
    /// Whether a guest that forwards can stand between it and the peer.
    pub(super) chain: bool,
    /// Whether rules of the host's bridge family see what it hands on.
    pub(super) rules: bool,
    /// Whether the peer's wire has an end of the lab's own, so that it can be held to a rate both ways.
    pub(super) peer_port: bool,
}

impl Room {
    /// For one guest and the peer, and nobody else.
    pub(super) const ONE_GUEST: Self = Self {
        host_interface: None,
        several_guests: false,
        chain: false,
        rules: false,
        peer_port: false,
    };

    /// For what a Linux bridge has.
    pub(super) const LINUX_BRIDGE: Self = Self {
        host_interface: Some(super::bridge::NAME),
        several_guests: true,
        chain: true,
        rules: true,
        peer_port: true,
    };

    /// For what a bridge that the host had before has: its packet filter and its addresses stay as they are.
    pub(super) const ON_HOST: Self =
        Self { several_guests: true, peer_port: true, ..Self::ONE_GUEST };

    /// Why the peer's link cannot be held to a rate.
    pub(super) fn lacks_rate(self) -> Option<Lack> {
        let lack = || {
            Lack::new(
                "it has no port for the peer that could be held to a rate",
                "leave testbed.rate out",
            )
        };
        (!self.peer_port).then(lack)
    }

    /// Why that cannot be had, and what to do.
    pub(super) fn lacks(self, topology: Topology) -> Option<Lack> {
        const OTHER: &str = "leave it out for this switch, or take the switch `bridge`";
        let Topology { far_end, chain, neighbour, .. } = topology;
        let wanting = [
            (
                far_end == FarEnd::Host && self.host_interface.is_none(),
                "the host itself has no address on it",
            ),
            (
                far_end == FarEnd::Guest && !self.several_guests,
                "two guests on it do not reach each other",
            ),
            (
                neighbour != Neighbour::None && !self.several_guests,
                "it has no room for a second guest",
            ),
            (
                chain != Chain::None && !self.chain,
                "a guest that forwards cannot stand between it and the peer",
            ),
            (
                topology.rules_of_switch() > 0 && !self.rules,
                "what it hands on passes no packet filter of the host",
            ),
        ];
        let found = wanting.into_iter().find(|(is_wanting, _)| *is_wanting);
        found.map(|(_, found)| Lack::new(found, OTHER))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wire_without_a_port_is_held_to_no_rate() {
        let lack = Room::ONE_GUEST.lacks_rate().unwrap();
        assert!(lack.advice.contains("testbed.rate"), "{lack}");
        assert!(Room::LINUX_BRIDGE.lacks_rate().is_none() && Room::ON_HOST.lacks_rate().is_none());
    }

    #[test]
    fn what_a_wire_alone_cannot_have_is_refused_with_a_reason() {
        let plain = Topology::default();
        assert!(Room::ONE_GUEST.lacks(plain).is_none());
        let wanted = [
            Topology { far_end: FarEnd::Host, ..plain },
            Topology { far_end: FarEnd::Guest, ..plain },
            Topology { chain: Chain::Router, firewall_rules: 5, ..plain },
            Topology { firewall_rules: 1, ..plain },
            Topology { neighbour: Neighbour::Idle, ..plain },
        ];
        for topology in wanted {
            assert!(Room::ONE_GUEST.lacks(topology).is_some(), "{topology}");
            assert!(Room::LINUX_BRIDGE.lacks(topology).is_none(), "{topology}");
        }
    }
}
