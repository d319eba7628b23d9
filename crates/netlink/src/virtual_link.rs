//! Interfaces on top of others, and VLANs of bridges.

use netlink_packet_route::link::{
    AfSpecBridge, BridgeVlanInfo, BridgeVlanInfoFlags, InfoBridge, InfoData, InfoKind, InfoMacVlan,
    InfoMacVtap, InfoVlan, LinkAttribute, LinkExtentMask, LinkInfo, LinkMessage, MacVlanMode,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::link::{NamespaceRef, by_index, checked_name};
use crate::socket::{Socket, Subject};
use crate::{Mac, Result};

/// How the macvlans and macvtaps on one interface reach each other (`macvlan_mode` of the kernel's
/// `if_link.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MacvlanMode {
    /// Directly.
    Bridge,
    /// By way of a switch outside that sends frames back where they came from.
    Vepa,
    /// Not at all.
    Private,
    /// There is one alone, and the interface below is its own.
    Passthru,
}

impl MacvlanMode {
    fn of(mode: MacVlanMode) -> Option<Self> {
        match mode {
            MacVlanMode::Bridge => Some(Self::Bridge),
            MacVlanMode::Vepa => Some(Self::Vepa),
            MacVlanMode::Private => Some(Self::Private),
            MacVlanMode::Passthrough => Some(Self::Passthru),
            _ => None,
        }
    }

    fn attribute(self) -> MacVlanMode {
        match self {
            Self::Bridge => MacVlanMode::Bridge,
            Self::Vepa => MacVlanMode::Vepa,
            Self::Private => MacVlanMode::Private,
            Self::Passthru => MacVlanMode::Passthrough,
        }
    }
}

/// The mode, where it is a macvlan or a macvtap.
pub(crate) fn mode_of(infos: &[LinkInfo]) -> Option<MacvlanMode> {
    infos.iter().find_map(|info| match info {
        LinkInfo::Data(InfoData::MacVlan(data)) => data.iter().find_map(|it| match it {
            InfoMacVlan::Mode(mode) => MacvlanMode::of(*mode),
            _ => None,
        }),
        LinkInfo::Data(InfoData::MacVtap(data)) => data.iter().find_map(|it| match it {
            InfoMacVtap::Mode(mode) => MacvlanMode::of(*mode),
            _ => None,
        }),
        _ => None,
    })
}

/// An interface that is to be made on top of another.
#[derive(Debug, Clone, Copy)]
pub struct Upper<'a> {
    /// Its name, in the namespace it shall live in.
    pub name: &'a str,
    /// Index of the one below, in the socket's namespace.
    pub below: u32,
    /// Its hardware address; where none is given the kernel's choice.
    pub mac: Option<Mac>,
    /// Its MTU in bytes; that of the one below where none is given.
    pub mtu: Option<u32>,
    /// Where it shall live; the socket's namespace where none is given.
    pub namespace: Option<NamespaceRef<'a>>,
}

impl Upper<'_> {
    fn message(&self, kind: InfoKind, data: InfoData) -> LinkMessage {
        let mut message = LinkMessage::default();
        let attributes = &mut message.attributes;
        attributes.push(LinkAttribute::IfName(self.name.to_owned()));
        attributes.push(LinkAttribute::Link(self.below));
        attributes.extend(self.mac.map(|mac| LinkAttribute::Address(mac.0.to_vec())));
        attributes.extend(self.mtu.map(LinkAttribute::Mtu));
        attributes.extend(self.namespace.map(NamespaceRef::attribute));
        let info = vec![LinkInfo::Kind(kind), LinkInfo::Data(data)];
        attributes.push(LinkAttribute::LinkInfo(info));
        message
    }
}

/// A VLAN of a bridge's port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortVlan {
    /// Its number.
    pub id: u16,
    /// Frames that come without a tag are put into it.
    pub is_default: bool,
    /// Frames leave without its tag.
    pub is_untagged: bool,
}

impl Socket {
    /// Creates a macvlan, down.
    ///
    /// # Errors
    /// `EBUSY` or `EINVAL` where another mode on the same interface forbids it; as for every interface.
    pub fn create_macvlan(&mut self, upper: &Upper<'_>, mode: MacvlanMode) -> Result<()> {
        checked_name(upper.name)?;
        let data = InfoData::MacVlan(vec![InfoMacVlan::Mode(mode.attribute())]);
        self.create("create the macvlan", upper.name, upper.message(InfoKind::MacVlan, data))
    }

    /// Creates a macvtap, down: its frames are read from and written to a device file of its own.
    ///
    /// # Errors
    /// As [`Socket::create_macvlan`].
    pub fn create_macvtap(&mut self, upper: &Upper<'_>, mode: MacvlanMode) -> Result<()> {
        checked_name(upper.name)?;
        let data = InfoData::MacVtap(vec![InfoMacVtap::Mode(mode.attribute())]);
        self.create("create the macvtap", upper.name, upper.message(InfoKind::MacVtap, data))
    }

    /// Creates a VLAN sub-interface, down: what leaves it goes out below with that tag.
    ///
    /// # Errors
    /// `EOPNOTSUPP` where the kernel has no 8021q; as for every interface.
    pub fn create_vlan(&mut self, upper: &Upper<'_>, id: u16) -> Result<()> {
        checked_name(upper.name)?;
        let data = InfoData::Vlan(vec![InfoVlan::Id(id)]);
        self.create("create the VLAN", upper.name, upper.message(InfoKind::Vlan, data))
    }

    /// Creates a bridge whose ports have VLANs, down and without ports. No VLAN is a port's by itself.
    ///
    /// # Errors
    /// `EOPNOTSUPP` where the kernel has no VLAN filtering; as for every interface.
    pub fn create_vlan_bridge(&mut self, name: &str) -> Result<()> {
        checked_name(name)?;
        let data = vec![InfoBridge::VlanFiltering(true), InfoBridge::VlanDefaultPvid(0)];
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(name.to_owned()));
        message.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Bridge),
            LinkInfo::Data(InfoData::Bridge(data)),
        ]));
        self.create("create the VLAN-filtering bridge", name, message)
    }

    /// Makes a bridge's port a member of a VLAN.
    ///
    /// # Errors
    /// When it is no port of a bridge, or the bridge filters no VLANs.
    pub fn add_port_vlan(&mut self, index: u32, vlan: PortVlan) -> Result<()> {
        let interface = by_index(index);
        let subject = Subject { operation: "add the VLAN to", interface: &interface };
        let request = RouteNetlinkMessage::SetLink(port_vlan_message(index, vlan));
        self.change(subject, request, 0)
    }

    /// The VLANs of every port of every bridge: the port's index, and one of its VLANs.
    ///
    /// # Errors
    /// When the kernel refuses or its answer cannot be read.
    pub fn port_vlans(&mut self) -> Result<Vec<(u32, PortVlan)>> {
        let mut message = LinkMessage::default();
        message.header.interface_family = AddressFamily::Bridge;
        message.attributes.push(LinkAttribute::ExtMask(vec![LinkExtentMask::Brvlan]));
        let answers = self.dump("list VLANs of ports", RouteNetlinkMessage::GetLink(message))?;
        Ok(answers.into_iter().flat_map(vlans_of).collect())
    }
}

fn port_vlan_message(index: u32, vlan: PortVlan) -> LinkMessage {
    let mut flags = BridgeVlanInfoFlags::empty();
    flags.set(BridgeVlanInfoFlags::Pvid, vlan.is_default);
    flags.set(BridgeVlanInfoFlags::Untagged, vlan.is_untagged);
    let info = BridgeVlanInfo { flags, vid: vlan.id };
    let mut message = LinkMessage::default();
    message.header.interface_family = AddressFamily::Bridge;
    message.header.index = index;
    message.attributes.push(LinkAttribute::AfSpecBridge(vec![AfSpecBridge::VlanInfo(info)]));
    message
}

fn vlans_of(message: RouteNetlinkMessage) -> Vec<(u32, PortVlan)> {
    let RouteNetlinkMessage::NewLink(message) = message else { return Vec::new() };
    let index = message.header.index;
    let vlan = |spec: &AfSpecBridge| match spec {
        AfSpecBridge::VlanInfo(info) => Some((
            index,
            PortVlan {
                id: info.vid,
                is_default: info.flags.contains(BridgeVlanInfoFlags::Pvid),
                is_untagged: info.flags.contains(BridgeVlanInfoFlags::Untagged),
            },
        )),
        _ => None,
    };
    let specs = message.attributes.iter().filter_map(|attribute| match attribute {
        LinkAttribute::AfSpecBridge(specs) => Some(specs),
        _ => None,
    });
    specs.flatten().filter_map(vlan).collect()
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::Emitable;

    use super::*;

    #[test]
    fn a_port_s_vlan_is_written_as_the_kernel_reads_it() {
        let vlan = PortVlan { id: 100, is_default: true, is_untagged: true };
        let message = port_vlan_message(7, vlan);
        let mut bytes = vec![0; message.buffer_len()];
        message.emit(&mut bytes);
        // `struct ifinfomsg`: family AF_BRIDGE, padding, type, index, flags, change.
        assert_eq!((bytes[0], bytes[4]), (7, 7));
        // IFLA_AF_SPEC (26), in it IFLA_BRIDGE_VLAN_INFO (2): flags PVID | UNTAGGED (6), number.
        assert_eq!(bytes[16..], [12, 0, 26, 0, 8, 0, 2, 0, 6, 0, 100, 0]);
        let read = vlans_of(RouteNetlinkMessage::NewLink(message));
        assert_eq!(read, [(7, vlan)]);
    }
}
