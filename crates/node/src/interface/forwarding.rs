//! Hands packets on between two interfaces: a bridge or a router made of this machine, and rules that each
//! packet is held against on its way.

use std::fs;
use std::io;
use std::time::{Duration, Instant};

use vioperf_model::scenario::IpVersion;
use vioperf_model::wire::{ForwardingConfig, ForwardingFacts, ForwardingWay};
use vioperf_netlink::{AccessFamily, AccessList, NetlinkError, Socket, packet_filter};

use super::{InterfaceError, find};

/// The bridge's name; this machine is our own.
const BRIDGE: &str = "forward0";

/// More rules than a conductor asks for, and those that lead to them.
const MOST_RULES: usize = 100_000;

/// Why packets could not be handed on.
#[derive(Debug, thiserror::Error)]
pub enum ForwardingError {
    /// There is no such interface.
    #[error("{0}")]
    Interface(String),
    /// The kernel refused a setting.
    #[error("cannot write {path}: {source}: has the guest's kernel IP forwarding?")]
    Setting {
        /// Which.
        path: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// The kernel refused the rules.
    #[error(
        "cannot load the packet filter's rules: {0}; the guest's kernel needs nftables (nf_tables), for a bridge also CONFIG_NF_TABLES_BRIDGE"
    )]
    Rules(NetlinkError),
    /// The rules are not those that were asked for.
    #[error("{asked} rules were to be loaded, {found} stand in the way of packets")]
    NotInForce {
        /// So many were asked for.
        asked: u32,
        /// So many are there.
        found: u32,
    },
    /// The kernel refused a request about links.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
}

impl From<InterfaceError> for ForwardingError {
    fn from(error: InterfaceError) -> Self {
        Self::Interface(error.to_string())
    }
}

/// Makes this machine hand packets on, and says what it then really does.
///
/// # Errors
/// [`ForwardingError`].
pub fn forward(config: &ForwardingConfig) -> Result<ForwardingFacts, ForwardingError> {
    match config.way {
        ForwardingWay::Bridge => bridge(config)?,
        ForwardingWay::Router => route(config.ip)?,
    }
    let asked = config.firewall_rules;
    if asked > 0 {
        let family = match config.way {
            ForwardingWay::Bridge => AccessFamily::Bridge,
            ForwardingWay::Router => AccessFamily::Forwarded,
        };
        let is_ipv6 = config.ip == IpVersion::Ipv6;
        let list = AccessList { family, is_ipv6, rules: asked };
        list.install().map_err(ForwardingError::Rules)?;
    }
    let found = if asked > 0 { dropping_rules()? } else { 0 };
    if found != asked {
        return Err(ForwardingError::NotInForce { asked, found });
    }
    Ok(ForwardingFacts { way: config.way, firewall_rules: found })
}

/// Makes the interfaces ports of a bridge, in whose place nobody has an address.
fn bridge(config: &ForwardingConfig) -> Result<(), ForwardingError> {
    let mut socket = Socket::open()?;
    socket.create_bridge(BRIDGE)?;
    let bridge = socket.link_by_name(BRIDGE)?.index;
    let mut mtu = None;
    for interface in &config.interfaces {
        let link = find(&mut socket, interface, Instant::now(), Duration::ZERO)?;
        socket.flush_addresses(link.index)?;
        socket.set_master(link.index, Some(bridge))?;
        mtu = mtu.or(Some(link.mtu));
    }
    if let Some(mtu) = mtu {
        socket.set_mtu(bridge, mtu)?;
    }
    Ok(socket.set_up(bridge)?)
}

fn route(ip: IpVersion) -> Result<(), ForwardingError> {
    let path = match ip {
        IpVersion::Ipv4 => "/proc/sys/net/ipv4/ip_forward",
        IpVersion::Ipv6 => "/proc/sys/net/ipv6/conf/all/forwarding",
    };
    fs::write(path, "1").map_err(|source| ForwardingError::Setting { path, source })
}

/// Rules that end a packet's way, of all chains: this machine has none but ours.
fn dropping_rules() -> Result<u32, ForwardingError> {
    let (_, rules, _) = packet_filter(MOST_RULES).map_err(ForwardingError::Rules)?;
    let count = rules.iter().filter(|rule| rule.ends).count();
    Ok(u32::try_from(count).unwrap_or(u32::MAX))
}
