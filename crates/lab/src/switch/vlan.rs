//! Linux bridges with a VLAN, in the two ways that hosts have them: one bridge that filters VLANs, whose ports
//! are untagged members of one; and a bridge of the VLAN's own, which the wire to the peer enters by a VLAN
//! sub-interface, so that frames are tagged on that wire. Both ends of it are in the host's kernel then, the
//! peer's as well.
//!
//! Sources: bridge(8), `Documentation/networking/bridge.rst` of Linux.

use vioperf_netlink::{NetlinkError, PortVlan, Socket, Upper, VethEnd};

use super::bridge::Bridge;
use super::{
    Backing, GuestEnd, NamespaceEnd, NearEnds, Part, Room, Row, Site, Switch, SwitchError, Wire,
    lack, ports,
};

/// One bridge that filters.
pub(super) const FILTERING: Row = Row {
    name: "vlan-filtering",
    lacks: |_, _| {
        lack::kernel(
            |socket| socket.create_vlan_bridge("tried"),
            "bridge that filters VLANs",
            "a kernel with CONFIG_BRIDGE_VLAN_FILTERING, and `sudo modprobe bridge`",
        )
    },
    backing: Backing::Tap,
    near_ends: NearEnds::Both,
    // The bridge itself is in no VLAN.
    room: Room { host_interface: None, ..Room::LINUX_BRIDGE },
    open: |_| Box::new(Filtering::default()),
};

/// A bridge for the VLAN alone.
pub(super) const OWN_BRIDGE: Row = Row {
    name: "bridge-per-vlan",
    lacks: |_, _| lack::kernel(try_vlan, "VLAN sub-interfaces (8021q)", "`sudo modprobe 8021q`"),
    backing: Backing::Tap,
    near_ends: NearEnds::Both,
    room: Room::LINUX_BRIDGE,
    open: |_| Box::new(OwnBridge { bridge: Bridge::default() }),
};

/// The VLAN's number: any does.
const VLAN: u16 = 100;

/// What the wire is called at the peer's end, below its VLAN.
const TRUNK: &str = "trunk0";

fn try_vlan(socket: &mut Socket) -> Result<(), NetlinkError> {
    socket.create_veth(&VethEnd::new("below"), &VethEnd::new("other"))?;
    let below = socket.link_by_name("below")?.index;
    socket.create_vlan(&Upper { name: "tried", below, mac: None, mtu: None, namespace: None }, VLAN)
}

/// What every port is a member of.
const MEMBER: PortVlan = PortVlan { id: VLAN, is_default: true, is_untagged: true };

#[derive(Debug, Default)]
struct Filtering {
    bridge: Bridge,
}

/// Makes a port a member of the VLAN.
fn join(site: &mut Site<'_>, port: &str) -> Result<(), SwitchError> {
    let index = site.socket.link_by_name(port)?.index;
    Ok(site.socket.add_port_vlan(index, MEMBER)?)
}

impl Switch for Filtering {
    fn set_up(&mut self, site: &mut Site<'_>) -> Result<(), SwitchError> {
        site.socket.create_vlan_bridge(super::bridge::NAME)?;
        self.bridge.adopt(site)
    }

    fn connect_namespace(
        &mut self,
        site: &mut Site<'_>,
        end: NamespaceEnd<'_>,
    ) -> Result<Option<String>, SwitchError> {
        let port = self.bridge.connect_namespace(site, end)?;
        port.iter().try_for_each(|port| join(site, port))?;
        Ok(port)
    }

    fn connect_guest(
        &mut self,
        site: &mut Site<'_>,
        guest: &GuestEnd<'_>,
    ) -> Result<Wire, SwitchError> {
        let wire = self.bridge.connect_guest(site, guest)?;
        join(site, &wire.name)?;
        Ok(wire)
    }

    fn verify(&mut self, site: &mut Site<'_>, wire: &str) -> Result<String, SwitchError> {
        self.bridge.verify(site, wire)?;
        let vlans = site.socket.port_vlans()?;
        let index = site.socket.link_by_name(wire)?.index;
        let of_port: Vec<PortVlan> =
            vlans.iter().filter(|(port, _)| *port == index).map(|(_, vlan)| *vlan).collect();
        if of_port != [MEMBER] {
            let what =
                format!("{wire} should be a member of VLAN {VLAN} alone, it is of {of_port:?}");
            return Err(SwitchError::NotInForce { switch: FILTERING.name, what });
        }
        Ok(format!("a tap on a Linux bridge that filters VLANs, untagged in VLAN {VLAN}"))
    }

    fn tear_down(&mut self, socket: &mut Socket) -> Vec<SwitchError> {
        self.bridge.tear_down(socket)
    }
}

#[derive(Debug)]
struct OwnBridge {
    bridge: Bridge,
}

impl Switch for OwnBridge {
    fn set_up(&mut self, site: &mut Site<'_>) -> Result<(), SwitchError> {
        self.bridge.set_up(site)
    }

    fn connect_namespace(
        &mut self,
        site: &mut Site<'_>,
        end: NamespaceEnd<'_>,
    ) -> Result<Option<String>, SwitchError> {
        if end.part == Part::Second {
            return self.bridge.connect_namespace(site, end);
        }
        let wire = ports::veth(site, &NamespaceEnd { interface: TRUNK, ..end })?;
        let index = ports::prepare(site, &wire)?;
        site.socket.set_up(index)?;
        let inner = format!("{wire}.{VLAN}");
        let upper = Upper { name: &inner, below: index, mac: None, mtu: None, namespace: None };
        site.socket.create_vlan(&upper, VLAN)?;
        self.bridge.attach(site, &inner)?;
        let mut there = Socket::open_in(end.namespace())?;
        let below = there.link_by_name(TRUNK)?.index;
        there.set_up(below)?;
        let upper =
            Upper { name: end.interface, below, mac: Some(end.mac), mtu: None, namespace: None };
        there.create_vlan(&upper, VLAN)?;
        Ok(Some(wire))
    }

    fn connect_guest(
        &mut self,
        site: &mut Site<'_>,
        guest: &GuestEnd<'_>,
    ) -> Result<Wire, SwitchError> {
        self.bridge.connect_guest(site, guest)
    }

    fn verify(&mut self, site: &mut Site<'_>, wire: &str) -> Result<String, SwitchError> {
        self.bridge.verify(site, wire)?;
        let inner = format!("{}.{VLAN}", Part::Peer.name());
        let link = site.socket.link_by_name(&inner)?;
        let below = site.socket.link_by_name(Part::Peer.name())?.index;
        if link.kind.as_deref() != Some("vlan") || link.below != Some(below) {
            let what = format!("{inner} is no VLAN of the wire to the peer: {link:?}");
            return Err(SwitchError::NotInForce { switch: OWN_BRIDGE.name, what });
        }
        Ok(format!("a tap on a Linux bridge, VLAN {VLAN} on the wire to the peer"))
    }

    fn tear_down(&mut self, socket: &mut Socket) -> Vec<SwitchError> {
        let mut errors = self.bridge.tear_down(socket);
        let wire = Part::Peer.name().to_owned();
        errors.extend(ports::delete(socket, std::iter::once(wire)));
        errors
    }
}
