//! Packets along the path of streams, hop by hop.

use schemars::JsonSchema;
use serde::Serialize;
use vioperf_model::workload::Direction;

use super::Metric;

/// One way of a path. Where payload goes both ways at once, the acknowledgements of the other way are
/// among the packets.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PathHops {
    /// Which way.
    pub direction: Direction,
    /// Segments that the sender sent again, in the window.
    pub segments_retransmitted: Metric,
    /// From the sender's TCP to the receiver's; a place that was not seen is left out.
    pub hops: Vec<Hop>,
}

/// What passed a place.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Hop {
    /// The place.
    pub place: HopPlace,
    /// Packets, as they are there: one that is cut later counts once, and so do several that were merged.
    pub packets_per_second: Metric,
    /// Bytes of one: at interfaces with all headers, in TCP payload alone.
    pub bytes_per_packet: Metric,
}

/// Where packets are counted, in the order of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HopPlace {
    /// The sender's TCP: segments (`OutSegs`), as long as the path takes them at most, before any is
    /// left to be cut by a card.
    SenderTcp,
    /// The sender's interface: up to 64 KiB where the card, or nobody, cuts them (TSO, GSO).
    SenderInterface,
    /// Into the switch: of a guest its tap.
    SwitchIn,
    /// Out of the switch: to a guest its tap.
    SwitchOut,
    /// The receiver's interface: more than the MTU where they were never cut, or the card merges them
    /// (LRO, receive offload of virtio).
    ReceiverInterface,
    /// The receiver's TCP (`InSegs`), after they were merged (GRO).
    ReceiverTcp,
}

impl HopPlace {
    /// Every place, in the order of the path.
    pub const ALL: [Self; 6] = [
        Self::SenderTcp,
        Self::SenderInterface,
        Self::SwitchIn,
        Self::SwitchOut,
        Self::ReceiverInterface,
        Self::ReceiverTcp,
    ];

    /// The place in words, for the head of a column.
    pub fn title(self) -> &'static str {
        match self {
            Self::SenderTcp => "sender's TCP",
            Self::SenderInterface => "sender's interface",
            Self::SwitchIn => "into the switch",
            Self::SwitchOut => "out of the switch",
            Self::ReceiverInterface => "receiver's interface",
            Self::ReceiverTcp => "receiver's TCP",
        }
    }
}

impl PathHops {
    /// What passed that place.
    pub fn at(&self, place: HopPlace) -> Option<&Hop> {
        self.hops.iter().find(|hop| hop.place == place)
    }
}
