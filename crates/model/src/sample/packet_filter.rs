//! What packet filter stands in the path of packets.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Rules of packet filters in the node's network namespace, as they stood when the load was prepared.
/// A packet is held against one rule after the other until one decides, so that many of them cost time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PacketFilter {
    /// Places on the way of packets that have rules (nft(8)), those of iptables-nft included.
    pub hooks: Vec<FilterHook>,
    /// All rules of nftables, those of chains that no packet of the load comes to included.
    pub nftables_rules: u32,
    /// Whether there were more than are looked at.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub incomplete: bool,
    /// Rules of each table of the older iptables and ip6tables (`ip filter`, `ip6 nat`); the kernel does
    /// not tell where in them a packet goes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub iptables_rules: BTreeMap<String, u32>,
    /// Whether packets that a bridge hands on pass the rules of IP too
    /// (`net.bridge.bridge-nf-call-iptables`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bridge_calls_ip: bool,
}

/// A place on the way of packets, and the rules there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FilterHook {
    /// Packets of what: `ip`, `ip6`, `inet` (both), `bridge` or `netdev`.
    pub family: String,
    /// `ingress`, `prerouting`, `input`, `forward`, `output`, `postrouting` or `egress`.
    pub hook: String,
    /// Chains that begin there.
    pub chains: u32,
    /// Rules that a packet of an established connection is held against if none that is about some
    /// packets only decides before: those of the chains, and of the chains that all packets are led to,
    /// up to one that decides for every packet or for those of established connections.
    pub rules: u32,
}
