//! Routes to networks behind a router.

use std::net::IpAddr;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::socket::{Socket, Subject};
use crate::{Address, Result};

impl Socket {
    /// Reaches a network by a router that an interface is on a network with; a route that was there
    /// gives way.
    ///
    /// # Errors
    /// When the kernel refuses: `ENETUNREACH` where the router is in no network of the interface's.
    pub fn set_route(&mut self, index: u32, network: Address, gateway: IpAddr) -> Result<()> {
        self.add_route(index, network, RouteAttribute::Gateway(address(gateway)))
    }

    /// Reaches a network that an interface is on from that address of the machine's, where a socket has chosen
    /// none; a route that was there gives way.
    ///
    /// # Errors
    /// When the kernel refuses: `EINVAL` where the machine has not the address.
    pub fn set_source(&mut self, index: u32, network: Address, source: IpAddr) -> Result<()> {
        self.add_route(index, network, RouteAttribute::PrefSource(address(source)))
    }

    fn add_route(&mut self, index: u32, network: Address, how: RouteAttribute) -> Result<()> {
        let mut message = RouteMessage::default();
        message.header.address_family = match network.address {
            IpAddr::V4(_) => AddressFamily::Inet,
            IpAddr::V6(_) => AddressFamily::Inet6,
        };
        message.header.destination_prefix_length = network.prefix_length;
        message.header.table = RouteHeader::RT_TABLE_MAIN;
        message.header.protocol = RouteProtocol::Static;
        message.header.scope = match how {
            RouteAttribute::Gateway(_) => RouteScope::Universe,
            _ => RouteScope::Link,
        };
        message.header.kind = RouteType::Unicast;
        message.attributes.push(RouteAttribute::Destination(address(masked(network))));
        message.attributes.push(how);
        message.attributes.push(RouteAttribute::Oif(index));
        let interface = self.named(index);
        let subject = Subject { operation: "add a route by", interface: &interface };
        let request = RouteNetlinkMessage::NewRoute(message);
        self.change(subject, request, NLM_F_CREATE | NLM_F_REPLACE)
    }
}

fn address(address: IpAddr) -> RouteAddress {
    match address {
        IpAddr::V4(address) => RouteAddress::Inet(address),
        IpAddr::V6(address) => RouteAddress::Inet6(address),
    }
}

/// The address of the network itself.
fn masked(network: Address) -> IpAddr {
    let length = u32::from(network.prefix_length);
    match network.address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32_u32.saturating_sub(length)).unwrap_or(0);
            IpAddr::V4((u32::from(address) & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128_u32.saturating_sub(length)).unwrap_or(0);
            IpAddr::V6((u128::from(address) & mask).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_no_bits_of_hosts() {
        let masked = |address: &str, prefix_length| {
            let address = address.parse().unwrap();
            masked(Address { address, prefix_length }).to_string()
        };
        assert_eq!(masked("198.19.7.9", 16), "198.19.0.0");
        assert_eq!(masked("198.19.7.9", 32), "198.19.7.9");
        assert_eq!(masked("198.19.7.9", 0), "0.0.0.0");
        assert_eq!(masked("fd76::1:2", 64), "fd76::");
    }
}
