//! Gives an interface its address, MTU and carrier, and says what it then really is.

pub(crate) mod ethtool;
mod forwarding;
mod impair;
mod offloads;
mod settings;
mod steering;

use std::net::IpAddr;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use vioperf_model::interface_settings::InterfaceSettings;
use vioperf_model::sample::{InterfaceFacts, QueueCounts};
use vioperf_model::wire::{InterfaceConfig, InterfaceSelector, Route};
use vioperf_netlink::{Address, Link, Mac, NetlinkError, Socket};

pub use forwarding::{ForwardingError, forward};
pub use impair::{ImpairError, impair};

/// Time between two looks at an interface that is awaited.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// The longest wait that a conductor may ask for: the message loop answers nobody meanwhile.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// Why an interface could not be made ready.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InterfaceError {
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
    #[error("`{mac}` is not a MAC address; write it like 52:54:00:12:34:56")]
    Mac { mac: String },
    #[error(
        "no interface {wanted} appeared within {waited:?}; there are {present}: is the driver loaded, the NIC plugged?"
    )]
    NeverAppeared { wanted: String, waited: Duration, present: String },
    #[error(transparent)]
    Settings(#[from] settings::SettingsError),
    #[error(
        "`{name}` does not take an MTU of {asked} bytes: {reason}; ask for one that its driver supports"
    )]
    MtuRefused { name: String, asked: u32, reason: NetlinkError },
    #[error(
        "`{name}` has an MTU of {given} bytes, {asked} were asked for: its driver allows no more"
    )]
    MtuIgnored { name: String, asked: u32, given: u32 },
    #[error("`{name}` has no carrier after {waited:?}: is the other end of its link up?")]
    NoCarrier { name: String, waited: Duration },
    #[error(
        "no interface of this machine has the address {address}: is there address translation on the way?"
    )]
    NotHere { address: IpAddr },
    #[error("the kernel does not give ports {first} to {last} to sockets: {source}")]
    Ports { first: u16, last: u16, source: std::io::Error },
    #[error("{address}/{prefix_length} is no address: the prefix is at most {} bits long", bits(.address))]
    Prefix { address: IpAddr, prefix_length: u8 },
}

/// Brings the loopback interface up, which is down where a network namespace was just made.
///
/// # Errors
/// When the kernel refuses.
pub fn bring_loopback_up() -> Result<(), NetlinkError> {
    let mut socket = Socket::open()?;
    let index = socket.link_by_name("lo")?.index;
    socket.set_up(index)
}

fn bits(address: &IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Does what a conductor asks of an interface, all within the time that it gives.
pub(crate) fn configure(config: &InterfaceConfig) -> Result<InterfaceFacts, InterfaceError> {
    let InterfaceConfig { address, prefix_length, mtu, .. } = *config;
    if prefix_length > bits(&address) {
        return Err(InterfaceError::Prefix { address, prefix_length });
    }
    let waited = config.timeout.as_duration().min(LONGEST_WAIT);
    let deadline = Instant::now() + waited;
    let mut socket = Socket::open()?;
    let link = find(&mut socket, &config.interface, deadline, waited)?;
    let index = link.index;
    set_mtu(&mut socket, &link, mtu)?;
    socket.flush_addresses(index)?;
    for address in std::iter::once(address).chain(config.further_addresses.iter().copied()) {
        socket.add_address(index, Address { address, prefix_length })?;
    }
    socket.set_up(index)?;
    for Route { network, prefix_length, gateway } in config.routes.iter().copied() {
        socket.set_route(index, Address { address: network, prefix_length }, gateway)?;
    }
    let link = await_carrier(&mut socket, &link, deadline, waited)?;
    if let Some((first, last)) = config.ports {
        let path = "/proc/sys/net/ipv4/ip_local_port_range";
        let written = std::fs::write(path, format!("{first} {last}"));
        written.map_err(|source| InterfaceError::Ports { first, last, source })?;
    }
    // Only now: some drivers set their offloads anew when they come up. Others go down for their rings.
    let mac = link.mac.map(|mac| mac.to_string()).unwrap_or_default();
    settings::apply(&link, &mac, &config.settings)?;
    let link = await_carrier(&mut socket, &link, deadline, waited)?;
    // Whoever had the peer's address before may have had another MAC address.
    socket.flush_neighbours(index)?;
    Ok(facts(&link))
}

/// Sets a port up, and nothing but what is asked for.
pub(crate) fn set_port(
    interface: &str,
    wanted: &InterfaceSettings,
) -> Result<InterfaceFacts, InterfaceError> {
    let mut socket = Socket::open()?;
    let link = socket.link_by_name(interface)?;
    let mac = link.mac.map(|mac| mac.to_string()).unwrap_or_default();
    settings::apply(&link, &mac, wanted)?;
    Ok(facts(&socket.link_by_index(link.index)?))
}

/// What the interface that has an address is now.
pub(crate) fn of_address(address: IpAddr) -> Result<InterfaceFacts, InterfaceError> {
    let mut socket = Socket::open()?;
    for link in socket.links()? {
        let has = socket.addresses(link.index)?.iter().any(|its| its.address == address);
        if has {
            return Ok(facts(&link));
        }
    }
    Err(InterfaceError::NotHere { address })
}

fn find(
    socket: &mut Socket,
    wanted: &InterfaceSelector,
    deadline: Instant,
    waited: Duration,
) -> Result<Link, InterfaceError> {
    loop {
        let found = match wanted {
            InterfaceSelector::Name(name) => socket.link_by_name(name),
            InterfaceSelector::Mac(mac) => {
                let parsed: Mac =
                    mac.parse().map_err(|_| InterfaceError::Mac { mac: mac.clone() })?;
                socket.link_by_mac(parsed)
            }
        };
        match found {
            Err(NetlinkError::NoSuchLink { .. }) if Instant::now() < deadline => sleep(LOOK_EVERY),
            Err(NetlinkError::NoSuchLink { what }) => {
                return Err(InterfaceError::NeverAppeared {
                    wanted: format!("with {what}"),
                    waited,
                    present: present(socket),
                });
            }
            other => return Ok(other?),
        }
    }
}

/// What interfaces there are, for a message.
fn present(socket: &mut Socket) -> String {
    let links = socket.links().unwrap_or_default();
    let names: Vec<String> = links
        .iter()
        .map(|link| match link.mac {
            Some(mac) => format!("{} ({mac})", link.name),
            None => link.name.clone(),
        })
        .collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

fn set_mtu(socket: &mut Socket, link: &Link, asked: u32) -> Result<(), InterfaceError> {
    if link.mtu == asked {
        return Ok(());
    }
    let name = || link.name.clone();
    socket.set_mtu(link.index, asked).map_err(|reason| InterfaceError::MtuRefused {
        name: name(),
        asked,
        reason,
    })?;
    let given = socket.link_by_index(link.index)?.mtu;
    if given == asked {
        Ok(())
    } else {
        Err(InterfaceError::MtuIgnored { name: name(), asked, given })
    }
}

fn await_carrier(
    socket: &mut Socket,
    link: &Link,
    deadline: Instant,
    waited: Duration,
) -> Result<Link, InterfaceError> {
    loop {
        let now = socket.link_by_index(link.index)?;
        if has_carrier(&now) {
            return Ok(now);
        }
        if Instant::now() >= deadline {
            return Err(InterfaceError::NoCarrier { name: now.name, waited });
        }
        sleep(LOOK_EVERY);
    }
}

/// Whether packets pass. Not by the operational state, which the kernel brings up to date only once a
/// second (net/core/link_watch.c): a carrier and a queueing discipline are all that a packet needs.
fn has_carrier(link: &Link) -> bool {
    link.carrier && link.qdisc.as_deref() != Some("noop")
}

/// What an interface is now; what its driver does not tell is absent with the reason.
fn facts(link: &Link) -> InterfaceFacts {
    let mut facts = InterfaceFacts {
        name: link.name.clone(),
        mac: link.mac.map(|mac| mac.to_string()).unwrap_or_default(),
        mtu: link.mtu,
        carrier: has_carrier(link),
        ..InterfaceFacts::default()
    };
    // Of this network namespace for certain, which /sys may not be.
    facts.queues = match (link.rx_queues, link.tx_queues) {
        (Some(rx), Some(tx)) => Some(QueueCounts { rx, tx }),
        _ => None,
    };
    ethtool::complete(&mut facts);
    match steering::read(Path::new("/sys/class/net"), &facts.name, &facts.mac) {
        Ok(steering) => facts.steering = Some(steering),
        Err(reason) => drop(facts.absent.insert("steering".to_owned(), reason)),
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interface_of_an_address_is_found_and_a_stranger_is_named() {
        let found = of_address("127.0.0.1".parse().unwrap()).unwrap();
        assert_eq!((found.name.as_str(), found.carrier), ("lo", true));
        let error = of_address("192.0.2.77".parse().unwrap()).unwrap_err().to_string();
        assert!(error.contains("192.0.2.77") && error.contains("translation"), "{error}");
    }
}
