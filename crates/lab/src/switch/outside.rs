//! Ports in the host's own network namespace, on a bridge that the host had before. The bridge stays as it is: they have
//! its MTU, and hardware addresses above any other's, as a bridge takes the lowest of its ports' where it has none of its
//! own (`br_stp_recalculate_bridge_id`, net/bridge/br_stp_if.c). Their names say whose they are.

use std::rc::Rc;

use vioperf_model::switch::port_on_host;
use vioperf_netlink::{Link, Mac, NetlinkError, Socket, VethEnd};

use super::{Backend, GuestEnd, NamespaceEnd, Part, Site, SwitchError, Wire, lack::Lack, ports};
use crate::host_ports::{BridgeKind, HostPorts};
use crate::tap::Tap;

/// Guests of a lab have so many different ports' names: no two run that are so far apart.
const GUEST_NAMES: u32 = 10_000;

/// A bridge of the host's, and our ports on it.
#[derive(Debug)]
pub(super) struct Outside {
    /// Its kind, in messages.
    switch: &'static str,
    /// As it was.
    pub(super) bridge: Link,
    ports: Vec<String>,
    /// They go from the bridge with this at the latest.
    _leave: Rc<HostPorts>,
}

impl Outside {
    /// Looks at the bridge, and writes down that it is to have ports.
    pub(super) fn take(
        switch: &'static str,
        site: &mut Site<'_>,
        kind: BridgeKind,
    ) -> Result<Self, SwitchError> {
        let missing = || SwitchError::Program { switch, what: "no interface is named".to_owned() };
        let interface = site.interface.ok_or_else(missing)?;
        let leave = site.sandbox.host_ports(interface, kind)?;
        let bridge = site.socket.link_by_name(interface)?;
        Ok(Self { switch, bridge, ports: Vec::new(), _leave: leave })
    }

    /// A veth pair to an endpoint's namespace: the name of the near end, which is down and on no bridge.
    pub(super) fn veth(
        &mut self,
        site: &mut Site<'_>,
        end: &NamespaceEnd<'_>,
    ) -> Result<String, SwitchError> {
        let port = self.vacant(site, end.part.name())?;
        let number = match end.part {
            Part::Peer => 0,
            Part::Second => 1,
        };
        let (mac, mtu) = (Some(port_address(0, number)), Some(self.bridge.mtu));
        let near = VethEnd { mac, mtu, ..VethEnd::new(&port) };
        site.socket.create_veth(&near, &ports::far(site, end))?;
        self.silence(site, &port)?;
        self.ports.push(port.clone());
        Ok(port)
    }

    /// A tap for a guest, down and on no bridge. It goes with its last descriptor.
    pub(super) fn tap(
        &mut self,
        site: &mut Site<'_>,
        guest: &GuestEnd<'_>,
    ) -> Result<Wire, SwitchError> {
        let number = guest.number % GUEST_NAMES;
        let port = self.vacant(site, &format!("tap{number}"))?;
        let step = "go into the host's network namespace";
        let made = site.sandbox.host().within(|| Tap::create(&port, guest.queues));
        let Tap { name, queues } = made.map_err(|source| SwitchError::Io { step, source })??;
        let index = site.socket.link_by_name(&name)?.index;
        site.socket.set_mac(index, port_address(1, number))?;
        site.socket.set_mtu(index, self.bridge.mtu)?;
        self.silence(site, &name)?;
        self.ports.push(name.clone());
        Ok(Wire::of_port(name, Backend::Tap(queues)))
    }

    /// Ports that were there and are not any more, as their guest has gone: from now on they are forgotten.
    pub(super) fn gone(&mut self, socket: &mut Socket) -> Vec<String> {
        let mut is_there = |name: &String| socket.link_by_name(name).is_ok();
        let (there, gone) = self.ports.drain(..).partition(|name| is_there(name));
        self.ports = there;
        gone
    }

    /// Looks whether the bridge is as it was.
    pub(super) fn check_unchanged(&self, socket: &mut Socket) -> Result<(), SwitchError> {
        let Link { name, mac, mtu, .. } = &self.bridge;
        let now = socket.link_by_name(name)?;
        if (now.mac, now.mtu) == (*mac, *mtu) {
            return Ok(());
        }
        let what = format!(
            "{name} had {} and an MTU of {mtu}, and has {} and {} with a port of vioperf's: give it an address and an MTU \
             of its own (`ip link set {name} address {}`)",
            in_words(*mac),
            in_words(now.mac),
            now.mtu,
            in_words(*mac),
        );
        Err(SwitchError::NotInForce { switch: self.switch, what })
    }

    /// Deletes all ports.
    pub(super) fn delete(&mut self, socket: &mut Socket) -> Vec<SwitchError> {
        ports::delete(socket, self.ports.drain(..))
    }

    /// The names of all ports.
    pub(super) fn ports(&self) -> &[String] {
        &self.ports
    }

    /// What a port is called, if nobody has one of that name.
    fn vacant(&self, site: &mut Site<'_>, role: &str) -> Result<String, SwitchError> {
        let port = port_on_host(role);
        match site.socket.link_by_name(&port) {
            Err(NetlinkError::NoSuchLink { .. }) => Ok(port),
            Err(error) => Err(error.into()),
            Ok(_) => {
                let what = format!(
                    "the host has an interface {port} already: wait for the end of the vioperf that has it, or delete it"
                );
                Err(SwitchError::NotInForce { switch: self.switch, what })
            }
        }
    }

    fn silence(&self, site: &Site<'_>, port: &str) -> Result<(), SwitchError> {
        let step = "go into the host's network namespace";
        let silenced = site.sandbox.host().within(|| ports::silence(port));
        silenced.map_err(|source| SwitchError::Io { step, source })
    }
}

fn in_words(mac: Option<Mac>) -> String {
    mac.map(|mac| mac.to_string()).unwrap_or_default()
}

/// Above every address that a network card has, and locally administered.
fn port_address(kind: u8, number: u32) -> Mac {
    let [_, _, high, low] = number.to_be_bytes();
    Mac([0xfe, 0xff, 0xff, kind, high, low])
}

/// What is in the way of any bridge of the host's; else the interface.
pub(super) fn find(interface: &str) -> Result<(Socket, Link), Lack> {
    if !nix::unistd::geteuid().is_root() {
        let what = format!("only root may put ports on {interface}, a bridge of the host's");
        let advice =
            "run vioperf as root, or leave testbed.bridge out: then the bridge is the lab's own";
        return Err(Lack::new(what, advice));
    }
    let unreadable = |error: NetlinkError| Lack::new(error.to_string(), "run vioperf as root");
    let mut socket = Socket::open().map_err(unreadable)?;
    match socket.link_by_name(interface) {
        Ok(link) => Ok((socket, link)),
        Err(NetlinkError::NoSuchLink { .. }) => {
            let links = socket.links().map_err(unreadable)?;
            let is_bridge = |link: &&Link| link.kind.as_deref() == Some("bridge");
            let bridges: Vec<&str> =
                links.iter().filter(is_bridge).map(|link| link.name.as_str()).collect();
            let advice = match bridges.is_empty() {
                true => "`ip link` lists those that are; no Linux bridge is here".to_owned(),
                false => format!("the Linux bridges here are {}", bridges.join(", ")),
            };
            Err(Lack::new(format!("there is no interface {interface}"), advice))
        }
        Err(error) => Err(unreadable(error)),
    }
}

/// What is in the way of that MTU on a bridge of the host's.
pub(super) fn narrows(interface: &str, mtu: u32) -> Option<Lack> {
    let (_, link) = find(interface).ok()?;
    (link.mtu < mtu).then(|| {
        let what = format!("{interface} has an MTU of {}, less than {mtu}", link.mtu);
        let advice =
            format!("`testbed.mtu = {}`; vioperf does not alter a bridge of the host's", link.mtu);
        Lack::new(what, advice)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_have_addresses_above_all_others() {
        let cards = [Mac([0xfc, 0xff, 0xff, 0xff, 0xff, 0xff]), Mac([0x52, 0x54, 0, 1, 2, 3])];
        let ports = [port_address(0, 0), port_address(0, 1), port_address(1, 9_999)];
        for port in ports {
            assert!(port.0[0] & 3 == 2, "a local address, of one interface");
            assert!(cards.iter().all(|card| card.0 < port.0));
        }
        assert!(ports[0] != ports[1] && ports[1] != ports[2]);
    }
}
