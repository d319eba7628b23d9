//! How an interface is set up.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// For how long, and how many packets, an interrupt is put off (`ETHTOOL_GCOALESCE`); 0 is not at all,
/// or not by that.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Coalescing {
    /// After a packet was received, in microseconds.
    pub rx_us: u32,
    /// Packets received.
    pub rx_frames: u32,
    /// After a packet was sent, in microseconds.
    pub tx_us: u32,
    /// Packets sent.
    pub tx_frames: u32,
    /// Whether the driver adapts the first two to the load.
    pub adaptive_rx: bool,
    /// Whether it adapts the others.
    pub adaptive_tx: bool,
}

/// Cores that packets are steered to by software, queue by queue, as masks in hexadecimal
/// (Documentation/networking/scaling.rst).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PacketSteering {
    /// Cores that process what a queue received (RPS); 0 is the one that was interrupted.
    pub receive: Vec<String>,
    /// Cores that send by a queue (XPS); empty where there is but one queue.
    pub transmit: Vec<String>,
}
