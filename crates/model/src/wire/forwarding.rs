//! What a guest that hands packets on is told, and what it tells.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::InterfaceSelector;
use crate::scenario::IpVersion;

/// A network that is reached by a router.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// An address of the network.
    pub network: IpAddr,
    /// Length of its prefix in bits.
    pub prefix_length: u8,
    /// The router's address in the interface's own network.
    pub gateway: IpAddr,
}

/// What [`Request::Forward`] asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForwardingConfig {
    /// How.
    pub way: ForwardingWay,
    /// Between which two interfaces.
    pub interfaces: [InterfaceSelector; 2],
    /// Internet protocol of the packets that rules are about.
    pub ip: IpVersion,
    /// Rules of a packet filter that each packet is held against.
    pub firewall_rules: u32,
}

/// How packets are handed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ForwardingWay {
    /// By a bridge, which the interfaces are ports of.
    Bridge,
    /// From network to network (RFC 1812).
    Router,
}

/// How packets are handed on, as the kernel says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ForwardingFacts {
    /// How.
    pub way: ForwardingWay,
    /// Rules that each packet is held against on its way, as they were read back from the kernel.
    pub firewall_rules: u32,
}
