//! Addresses and neighbour entries of an interface.

use std::net::IpAddr;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::address::{
    AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage, AddressScope,
};
use netlink_packet_route::neighbour::{NeighbourMessage, NeighbourState};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use nix::errno::Errno;

use crate::link::by_index;
use crate::socket::{Socket, Subject};
use crate::{NetlinkError, Result};

/// An address of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    /// The address.
    pub address: IpAddr,
    /// How many of its leading bits name the network.
    pub prefix_length: u8,
}

impl Socket {
    /// The addresses of an interface, link-local ones included.
    ///
    /// # Errors
    /// When the kernel refuses or its answer cannot be read.
    pub fn addresses(&mut self, index: u32) -> Result<Vec<Address>> {
        let messages = self.address_messages(index)?;
        Ok(messages
            .iter()
            .filter_map(|message| {
                let address = own_address(message)?;
                Some(Address { address, prefix_length: message.header.prefix_len })
            })
            .collect())
    }

    /// Adds an address. An IPv6 one is usable at once: no duplicate address detection (RFC 4862),
    /// which would cost a second in a network that we made ourselves.
    ///
    /// # Errors
    /// `EEXIST` when the interface has it already, `EACCES` when IPv6 is disabled there.
    pub fn add_address(&mut self, index: u32, address: Address) -> Result<()> {
        let mut message = AddressMessage::default();
        message.header.index = index;
        message.header.prefix_len = address.prefix_length;
        message.header.scope = AddressScope::Universe;
        message.attributes.push(AddressAttribute::Local(address.address));
        message.attributes.push(AddressAttribute::Address(address.address));
        match address.address {
            IpAddr::V4(_) => message.header.family = AddressFamily::Inet,
            IpAddr::V6(_) => {
                message.header.family = AddressFamily::Inet6;
                message.header.flags = AddressHeaderFlags::Nodad;
                message.attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
            }
        }
        let interface = self.named(index);
        let subject = Subject { operation: "add an address to", interface: &interface };
        let request = RouteNetlinkMessage::NewAddress(message);
        self.change(subject, request, NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Removes every address of an interface, but for IPv6's link-local ones, which the kernel gives
    /// by itself and without which neighbour discovery does not work.
    ///
    /// # Errors
    /// When the kernel refuses one of them; those before it are gone.
    pub fn flush_addresses(&mut self, index: u32) -> Result<()> {
        let interface = self.named(index);
        let subject = Subject { operation: "remove an address of", interface: &interface };
        for message in self.address_messages(index)? {
            let link_local = matches!(own_address(&message), Some(IpAddr::V6(address))
                if address.is_unicast_link_local());
            if link_local {
                continue;
            }
            let outcome = self.change(subject, RouteNetlinkMessage::DelAddress(message), 0);
            // Secondary addresses go with their primary one: gone is what was wanted.
            ignore(outcome, Errno::EADDRNOTAVAIL)?;
        }
        Ok(())
    }

    /// Forgets the learned neighbours of an interface (ARP and NDP): after a NIC was exchanged for
    /// another behind the same address, the old hardware address would be asked for until it expires.
    ///
    /// # Errors
    /// When the kernel refuses; an entry that vanished meanwhile is no error.
    pub fn flush_neighbours(&mut self, index: u32) -> Result<()> {
        let interface = self.named(index);
        let subject = Subject { operation: "forget a neighbour of", interface: &interface };
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut request = NeighbourMessage::default();
            request.header.family = family;
            let answers =
                self.dump("list neighbours", RouteNetlinkMessage::GetNeighbour(request))?;
            for answer in answers {
                let RouteNetlinkMessage::NewNeighbour(entry) = answer else { continue };
                // NOARP ones (multicast, loopback) are the kernel's own and cannot be wrong.
                if entry.header.ifindex != index || entry.header.state == NeighbourState::Noarp {
                    continue;
                }
                let outcome = self.change(subject, RouteNetlinkMessage::DelNeighbour(entry), 0);
                ignore(outcome, Errno::ENOENT)?;
            }
        }
        Ok(())
    }

    /// How many neighbours of an interface the kernel holds an entry for, its own aside.
    ///
    /// # Errors
    /// When the kernel refuses or its answer cannot be read.
    pub fn neighbour_count(&mut self, index: u32) -> Result<usize> {
        let request = RouteNetlinkMessage::GetNeighbour(NeighbourMessage::default());
        let answers = self.dump("list neighbours", request)?;
        Ok(answers
            .iter()
            .filter(|answer| {
                matches!(answer, RouteNetlinkMessage::NewNeighbour(entry)
                    if entry.header.ifindex == index
                        && entry.header.state != NeighbourState::Noarp)
            })
            .count())
    }

    fn address_messages(&mut self, index: u32) -> Result<Vec<AddressMessage>> {
        let request = RouteNetlinkMessage::GetAddress(AddressMessage::default());
        let answers = self.dump("list addresses", request)?;
        Ok(answers
            .into_iter()
            .filter_map(|answer| match answer {
                RouteNetlinkMessage::NewAddress(message) if message.header.index == index => {
                    Some(message)
                }
                _ => None,
            })
            .collect())
    }

    pub(crate) fn named(&mut self, index: u32) -> String {
        self.link_by_index(index).map_or_else(|_| by_index(index), |link| link.name)
    }
}

/// The interface's own address: of a point-to-point one the local, else the only one given.
fn own_address(message: &AddressMessage) -> Option<IpAddr> {
    let local = message.attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Local(address) => Some(*address),
        _ => None,
    });
    local.or_else(|| {
        message.attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Address(address) => Some(*address),
            _ => None,
        })
    })
}

fn ignore(outcome: Result<()>, expected: Errno) -> Result<()> {
    match outcome {
        Err(NetlinkError::Refused { errno, .. }) if errno == expected => Ok(()),
        other => other,
    }
}
