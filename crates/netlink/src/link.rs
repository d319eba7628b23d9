//! Interfaces: reading them, creating, changing, moving and deleting them.

use std::os::fd::{AsRawFd, BorrowedFd};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage, LinkVfInfo,
    State, VfInfo, VfInfoMac,
};
use nix::errno::Errno;
use nix::unistd::Pid;

use crate::socket::{Socket, Subject};
use crate::virtual_link::{MacvlanMode, mode_of};
use crate::{Mac, NetlinkError, Result};

/// What an interface says of its ability to pass packets (RFC 2863 `ifOperStatus`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OperState {
    /// The driver does not say (loopback, many virtual devices); see [`Link::running`] instead.
    #[default]
    Unknown,
    /// No packets: no carrier, or administratively down.
    Down,
    /// No packets: what lies below is down.
    LowerLayerDown,
    /// Waits for an outside event, such as authentication.
    Dormant,
    /// Passes packets.
    Up,
    /// Another of RFC 2863's states.
    Other,
}

/// 64-bit packet and byte counters of an interface since it was created (`rtnl_link_stats64`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received, without the frame check sequence.
    pub rx_bytes: u64,
    /// Received packets that were thrown away for want of room or of a receiver.
    pub rx_dropped: u64,
    /// Received packets with an error.
    pub rx_errors: u64,
    /// Received packets that the device had no buffer for.
    pub rx_missed: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets thrown away on their way out.
    pub tx_dropped: u64,
    /// Packets that failed on their way out.
    pub tx_errors: u64,
}

/// An interface, as the kernel described it at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Link {
    /// Its number in this namespace.
    pub index: u32,
    /// Its name in this namespace.
    pub name: String,
    /// Its hardware address, where it is an Ethernet one.
    pub mac: Option<Mac>,
    /// Largest payload of a frame, in bytes.
    pub mtu: u32,
    /// Administratively up (`IFF_UP`).
    pub up: bool,
    /// Up, and has carrier (`IFF_LOWER_UP`).
    pub carrier: bool,
    /// Operationally up (`IFF_RUNNING`).
    pub running: bool,
    /// What the driver says of it.
    pub oper_state: OperState,
    /// Queueing discipline; `noop` throws every packet away, and stands until the kernel has noticed
    /// the carrier of a link that is up.
    pub qdisc: Option<String>,
    /// `veth`, `bridge`, `tun`…; nothing for hardware and its imitations.
    pub kind: Option<String>,
    /// Index of the bridge (or bond…) it is a port of.
    pub master: Option<u32>,
    /// Index of the interface that it lies on (a macvtap's, a VLAN's), or of a veth's other end.
    pub below: Option<u32>,
    /// Of a macvlan or macvtap, how it reaches the others.
    pub macvlan_mode: Option<MacvlanMode>,
    /// Number of transmit queues it was created with.
    pub tx_queues: Option<u32>,
    /// Number of receive queues it was created with.
    pub rx_queues: Option<u32>,
    /// Its counters, where the kernel gave them.
    pub counters: Option<Counters>,
}

/// A network namespace, named by something that lives in it.
#[derive(Debug, Clone, Copy)]
pub enum NamespaceRef<'fd> {
    /// That of a process, by its pid as the caller's pid namespace sees it.
    Pid(Pid),
    /// That of an open `/proc/…/ns/net`.
    Fd(BorrowedFd<'fd>),
}

impl NamespaceRef<'_> {
    pub(crate) fn attribute(self) -> LinkAttribute {
        match self {
            Self::Pid(pid) => LinkAttribute::NetNsPid(pid.as_raw().cast_unsigned()),
            Self::Fd(fd) => LinkAttribute::NetNsFd(fd.as_raw_fd()),
        }
    }
}

/// One end of a veth pair that is to be created.
#[derive(Debug, Clone, Copy)]
pub struct VethEnd<'a> {
    /// Its name, in the namespace it shall live in.
    pub name: &'a str,
    /// Its hardware address; the kernel invents one where none is given.
    pub mac: Option<Mac>,
    /// Its MTU in bytes; 1500 where none is given.
    pub mtu: Option<u32>,
    /// Where it shall live; the socket's namespace where none is given.
    pub namespace: Option<NamespaceRef<'a>>,
}

impl<'a> VethEnd<'a> {
    /// An end of that name in the socket's namespace, the rest left to the kernel.
    #[must_use]
    pub fn new(name: &'a str) -> Self {
        Self { name, mac: None, mtu: None, namespace: None }
    }

    fn attributes(&self) -> Vec<LinkAttribute> {
        let mut attributes = vec![LinkAttribute::IfName(self.name.to_owned())];
        attributes.extend(self.mac.map(|mac| LinkAttribute::Address(mac.0.to_vec())));
        attributes.extend(self.mtu.map(LinkAttribute::Mtu));
        attributes.extend(self.namespace.map(NamespaceRef::attribute));
        attributes
    }
}

impl Socket {
    /// Every interface of the namespace, by index.
    ///
    /// # Errors
    /// When the kernel refuses or its answer cannot be read.
    pub fn links(&mut self) -> Result<Vec<Link>> {
        let request = RouteNetlinkMessage::GetLink(LinkMessage::default());
        let answers = self.dump("list interfaces", request)?;
        Ok(answers.into_iter().filter_map(link_of).collect())
    }

    /// The interface of that name.
    ///
    /// # Errors
    /// [`NetlinkError::NoSuchLink`] when there is none.
    pub fn link_by_name(&mut self, name: &str) -> Result<Link> {
        checked_name(name)?;
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(name.to_owned()));
        self.one_link(name, message, || format!("name `{name}`"))
    }

    /// The interface of that index.
    ///
    /// # Errors
    /// [`NetlinkError::NoSuchLink`] when there is none.
    pub fn link_by_index(&mut self, index: u32) -> Result<Link> {
        self.one_link(&by_index(index), about(index), || format!("index {index}"))
    }

    /// The interface with that hardware address (the first, where several share it).
    ///
    /// # Errors
    /// [`NetlinkError::NoSuchLink`] when there is none.
    pub fn link_by_mac(&mut self, mac: Mac) -> Result<Link> {
        self.links()?
            .into_iter()
            .find(|link| link.mac == Some(mac))
            .ok_or_else(|| NetlinkError::NoSuchLink { what: format!("hardware address {mac}") })
    }

    fn one_link(
        &mut self,
        interface: &str,
        message: LinkMessage,
        what: impl Fn() -> String,
    ) -> Result<Link> {
        let subject = Subject { operation: "read interface", interface };
        let missing = || NetlinkError::NoSuchLink { what: what() };
        match self.get(subject, RouteNetlinkMessage::GetLink(message)) {
            Ok(answers) => answers.into_iter().find_map(link_of).ok_or_else(missing),
            Err(NetlinkError::Refused { errno: Errno::ENODEV, .. }) => Err(missing()),
            Err(error) => Err(error),
        }
    }

    /// Creates a veth pair, each end where it is wanted; both ends are down.
    ///
    /// # Errors
    /// When a name is taken or malformed, a namespace is gone, or permission is missing.
    pub fn create_veth(&mut self, end: &VethEnd<'_>, peer: &VethEnd<'_>) -> Result<()> {
        checked_name(end.name)?;
        checked_name(peer.name)?;
        let mut peer_message = LinkMessage::default();
        peer_message.attributes = peer.attributes();
        let mut message = LinkMessage::default();
        message.attributes = end.attributes();
        message.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer_message))),
        ]));
        self.create("create the veth pair", end.name, message)
    }

    /// Creates a bridge, down and without ports.
    ///
    /// # Errors
    /// When the name is taken or malformed, or permission is missing.
    pub fn create_bridge(&mut self, name: &str) -> Result<()> {
        checked_name(name)?;
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(name.to_owned()));
        message.attributes.push(LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Bridge)]));
        self.create("create the bridge", name, message)
    }

    pub(crate) fn create(
        &mut self,
        operation: &'static str,
        interface: &str,
        message: LinkMessage,
    ) -> Result<()> {
        self.change(
            Subject { operation, interface },
            RouteNetlinkMessage::NewLink(message),
            NLM_F_CREATE | NLM_F_EXCL,
        )
    }

    /// Makes an interface a port of a bridge, or with `None` of nothing.
    ///
    /// # Errors
    /// When either does not exist, or the interface cannot be a port (loopback, another bridge).
    pub fn set_master(&mut self, index: u32, master: Option<u32>) -> Result<()> {
        self.set("set the master of", index, LinkAttribute::Controller(master.unwrap_or(0)))
    }

    /// Brings an interface up.
    ///
    /// # Errors
    /// When it does not exist or the driver refuses.
    pub fn set_up(&mut self, index: u32) -> Result<()> {
        self.set_flag("bring up", index, LinkFlags::Up, LinkFlags::Up)
    }

    /// Brings an interface down.
    ///
    /// # Errors
    /// When it does not exist.
    pub fn set_down(&mut self, index: u32) -> Result<()> {
        self.set_flag("bring down", index, LinkFlags::empty(), LinkFlags::Up)
    }

    /// Lets an interface take the frames of every multicast group (`IFF_ALLMULTI`).
    ///
    /// # Errors
    /// When it does not exist.
    pub fn set_all_multicast(&mut self, index: u32) -> Result<()> {
        let flag = LinkFlags::Allmulti;
        self.set_flag("let all multicast through to", index, flag, flag)
    }

    fn set_flag(
        &mut self,
        operation: &'static str,
        index: u32,
        flags: LinkFlags,
        changed: LinkFlags,
    ) -> Result<()> {
        let mut message = about(index);
        message.header.flags = flags;
        message.header.change_mask = changed;
        self.modify(operation, index, message)
    }

    /// Sets the MTU, in bytes.
    ///
    /// # Errors
    /// `EINVAL` when the driver does not take that size.
    pub fn set_mtu(&mut self, index: u32, mtu: u32) -> Result<()> {
        self.set("set the MTU of", index, LinkAttribute::Mtu(mtu))
    }

    /// Sets the hardware address.
    ///
    /// # Errors
    /// `EBUSY` where the driver wants the interface down for that.
    pub fn set_mac(&mut self, index: u32, mac: Mac) -> Result<()> {
        self.set("set the hardware address of", index, LinkAttribute::Address(mac.0.to_vec()))
    }

    /// Sets the hardware address of a virtual function, by its number, of the card whose physical function this is: its
    /// driver finds it so, wherever it runs.
    ///
    /// # Errors
    /// When the card has no such function.
    pub fn set_function_mac(&mut self, index: u32, function: u32, mac: Mac) -> Result<()> {
        let own = VfInfo::Mac(VfInfoMac::new(function, &mac.0));
        let list = LinkAttribute::VfInfoList(vec![LinkVfInfo(vec![own])]);
        self.set("set the hardware address of a virtual function of", index, list)
    }

    /// Renames an interface; before Linux 6.2 it must be down for that.
    ///
    /// # Errors
    /// When the name is taken or malformed.
    pub fn rename(&mut self, index: u32, name: &str) -> Result<()> {
        checked_name(name)?;
        self.set("rename", index, LinkAttribute::IfName(name.to_owned()))
    }

    /// Moves an interface to another network namespace; it arrives there down.
    ///
    /// # Errors
    /// When the namespace is gone or the kind of interface cannot be moved.
    pub fn move_to(&mut self, index: u32, namespace: NamespaceRef<'_>) -> Result<()> {
        self.set("move to another namespace", index, namespace.attribute())
    }

    /// Moves an interface that is down to another network namespace, where it is called `name`: the name that it has
    /// may be taken there.
    ///
    /// # Errors
    /// As [`Self::move_to`]; when the name is malformed, or taken there: then it may be there by its own name.
    pub fn move_as(&mut self, index: u32, namespace: NamespaceRef<'_>, name: &str) -> Result<()> {
        checked_name(name)?;
        let mut message = about(index);
        message.attributes.push(namespace.attribute());
        message.attributes.push(LinkAttribute::IfName(name.to_owned()));
        self.modify("move to another namespace", index, message)
    }

    /// Deletes an interface (both ends of a veth pair).
    ///
    /// # Errors
    /// When it does not exist or is not of a kind that can be deleted.
    pub fn delete(&mut self, index: u32) -> Result<()> {
        let interface = by_index(index);
        let subject = Subject { operation: "delete", interface: &interface };
        self.change(subject, RouteNetlinkMessage::DelLink(about(index)), 0)
    }

    fn set(&mut self, operation: &'static str, index: u32, value: LinkAttribute) -> Result<()> {
        let mut message = about(index);
        message.attributes.push(value);
        self.modify(operation, index, message)
    }

    /// Sends the change; only an error pays for looking up the name it is reported under.
    fn modify(&mut self, operation: &'static str, index: u32, message: LinkMessage) -> Result<()> {
        let interface = by_index(index);
        let subject = Subject { operation, interface: &interface };
        // RTM_NEWLINK rather than RTM_SETLINK: some attributes are taken only there.
        let outcome = self.change(subject, RouteNetlinkMessage::NewLink(message), 0);
        outcome.map_err(|error| match error {
            NetlinkError::Refused { operation, errno, said, .. } => {
                let interface = self.link_by_index(index).map_or(interface, |link| link.name);
                NetlinkError::Refused { operation, interface, errno, said }
            }
            other => other,
        })
    }
}

pub(crate) fn by_index(index: u32) -> String {
    format!("#{index}")
}

fn about(index: u32) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message
}

/// The kernel's rule (`dev_valid_name`), asked here so that the error can say it.
pub(crate) fn checked_name(name: &str) -> Result<()> {
    let well_formed = (1..=15).contains(&name.len())
        && name != "."
        && name != ".."
        && !name.bytes().any(|byte| matches!(byte, b'/' | b':' | 0) || byte.is_ascii_whitespace());
    if well_formed { Ok(()) } else { Err(NetlinkError::BadName { name: name.to_owned() }) }
}

fn link_of(message: RouteNetlinkMessage) -> Option<Link> {
    let RouteNetlinkMessage::NewLink(message) = message else { return None };
    let flags = message.header.flags;
    let mut link = Link {
        index: message.header.index,
        up: flags.contains(LinkFlags::Up),
        carrier: flags.contains(LinkFlags::LowerUp),
        running: flags.contains(LinkFlags::Running),
        ..Link::default()
    };
    for attribute in message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name = name,
            LinkAttribute::Address(bytes) => link.mac = bytes.try_into().ok().map(Mac),
            LinkAttribute::Mtu(mtu) => link.mtu = mtu,
            LinkAttribute::Qdisc(name) => link.qdisc = Some(name),
            LinkAttribute::OperState(state) => link.oper_state = oper_state(state),
            LinkAttribute::Controller(index) => link.master = Some(index),
            LinkAttribute::NumTxQueues(queues) => link.tx_queues = Some(queues),
            LinkAttribute::NumRxQueues(queues) => link.rx_queues = Some(queues),
            LinkAttribute::Link(index) => link.below = Some(index),
            LinkAttribute::LinkInfo(infos) => {
                link.kind = infos.iter().find_map(kind_of);
                link.macvlan_mode = mode_of(&infos);
            }
            LinkAttribute::Stats64(stats) => {
                link.counters = Some(Counters {
                    rx_packets: stats.rx_packets,
                    rx_bytes: stats.rx_bytes,
                    rx_dropped: stats.rx_dropped,
                    rx_errors: stats.rx_errors,
                    rx_missed: stats.rx_missed_errors,
                    tx_packets: stats.tx_packets,
                    tx_bytes: stats.tx_bytes,
                    tx_dropped: stats.tx_dropped,
                    tx_errors: stats.tx_errors,
                });
            }
            _ => {}
        }
    }
    Some(link)
}

fn kind_of(info: &LinkInfo) -> Option<String> {
    match info {
        LinkInfo::Kind(kind) => Some(kind.to_string()),
        _ => None,
    }
}

fn oper_state(state: State) -> OperState {
    match state {
        State::Unknown => OperState::Unknown,
        State::Down => OperState::Down,
        State::LowerLayerDown => OperState::LowerLayerDown,
        State::Dormant => OperState::Dormant,
        State::Up => OperState::Up,
        _ => OperState::Other,
    }
}
