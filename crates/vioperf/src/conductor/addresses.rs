//! The addresses of a lab's network. It is in no real network's way: IPv4 from RFC 2544's range for
//! benchmarks, IPv6 a unique local network (RFC 4193).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use vioperf_model::scenario::IpVersion;
use vioperf_model::workload::Workload;

/// How many leading bits name the network: where a router is between the ends, each of the two.
pub fn prefix_length(ip: IpVersion, is_routed: bool) -> u8 {
    match (ip, is_routed) {
        (IpVersion::Ipv4, false) => 15,
        (IpVersion::Ipv4, true) => 16,
        (IpVersion::Ipv6, _) => 64,
    }
}

/// The same host in the network behind the router.
pub fn beyond_router(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let [first, second, high, low] = address.octets();
            IpAddr::V4(Ipv4Addr::new(first, second | 1, high, low))
        }
        IpAddr::V6(address) => {
            let [a, b, c, subnet, e, f, g, host] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, subnet | 1, e, f, g, host))
        }
    }
}

/// The far end of every load.
pub fn peer(ip: IpVersion) -> IpAddr {
    address(ip, 0, 1)
}

/// The near end of a baseline.
pub fn second(ip: IpVersion) -> IpAddr {
    address(ip, 0, 2)
}

/// The far end of every load where that is the host itself.
pub fn host_end(ip: IpVersion) -> IpAddr {
    address(ip, 0, 3)
}

/// The guest that was started after so many others. No two in a row have the same, so that no
/// neighbour entry is stale; after 62 500 it begins again: by then none is left.
pub fn of_guest(ip: IpVersion, number: u16) -> IpAddr {
    let [high, low] = [number / 250 % 250, number % 250].map(|n| u8::try_from(n).unwrap_or(0));
    address(ip, high + 1, low + 1)
}

/// Whose further addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// The far end's.
    Peer,
    /// The host's own end's.
    HostEnd,
    /// The near end's of a baseline.
    Second,
    /// Those of the guest that was started after so many others.
    Guest(u16),
}

/// An end has at most so many beside its main address.
const MOST_FURTHER: u16 = 63;
/// So many guests in a row have different ones.
const GUESTS_APART: u16 = 1_000;

/// What an end has beside its main address: as many as the load wants at either end.
pub fn further(ip: IpVersion, owner: Owner, workload: &Workload) -> Vec<IpAddr> {
    let wanted = workload.addresses_per_end();
    let first = 1 + match owner {
        Owner::Guest(number) => number % GUESTS_APART * MOST_FURTHER,
        Owner::Peer => GUESTS_APART * MOST_FURTHER,
        Owner::Second => (GUESTS_APART + 1) * MOST_FURTHER,
        Owner::HostEnd => (GUESTS_APART + 2) * MOST_FURTHER,
    };
    let numbers = first..first + wanted.saturating_sub(1).min(MOST_FURTHER);
    let address = |number: u16| match ip {
        IpVersion::Ipv4 => {
            let [high, low] = number.to_be_bytes();
            IpAddr::V4(Ipv4Addr::new(198, 19, high, low))
        }
        IpVersion::Ipv6 => IpAddr::V6(Ipv6Addr::new(0xfd76, 0x696f, 0x7066, 0, 0, 0, 1, number)),
    };
    numbers.map(address).collect()
}

fn address(ip: IpVersion, high: u8, low: u8) -> IpAddr {
    match ip {
        IpVersion::Ipv4 => IpAddr::V4(Ipv4Addr::new(198, 18, high, low)),
        IpVersion::Ipv6 => {
            let host = u16::from_be_bytes([high, low]);
            IpAddr::V6(Ipv6Addr::new(0xfd76, 0x696f, 0x7066, 0, 0, 0, 0, host))
        }
    }
}

#[cfg(test)]
mod tests {
    use vioperf_model::workload::WorkloadKind;

    use super::*;

    #[test]
    fn guests_in_a_row_have_different_addresses() {
        for ip in [IpVersion::Ipv4, IpVersion::Ipv6] {
            let mut seen = std::collections::BTreeSet::from([peer(ip), second(ip), host_end(ip)]);
            assert!((0..10_000).all(|number| seen.insert(of_guest(ip, number))));
        }
    }

    #[test]
    fn a_router_has_a_network_on_either_side() {
        for (ip, beyond) in
            [(IpVersion::Ipv4, "198.19.0.1"), (IpVersion::Ipv6, "fd76:696f:7066:1::1")]
        {
            let (near, far) = (peer(ip), beyond_router(peer(ip)));
            assert_eq!(far, beyond.parse::<IpAddr>().unwrap());
            assert!(near != far && beyond_router(far) == far);
        }
    }

    #[test]
    fn further_addresses_are_of_one_end_alone() {
        let workload = Workload {
            source_addresses: Some(64),
            destination_addresses: Some(3),
            ..Workload::new(WorkloadKind::PacketRate)
        };
        let owners = [0, 1, 2, GUESTS_APART - 1].map(Owner::Guest);
        let owners = [&owners[..], &[Owner::Peer, Owner::Second, Owner::HostEnd]].concat();
        for ip in [IpVersion::Ipv4, IpVersion::Ipv6] {
            let mut all: Vec<IpAddr> =
                owners.iter().flat_map(|owner| further(ip, *owner, &workload)).collect();
            all.extend([peer(ip), second(ip), host_end(ip), of_guest(ip, 0)]);
            let distinct: std::collections::BTreeSet<&IpAddr> = all.iter().collect();
            assert_eq!((all.len(), distinct.len()), (owners.len() * 63 + 4, owners.len() * 63 + 4));
            let plain = Workload::new(WorkloadKind::PacketRate);
            assert!(further(ip, Owner::Peer, &plain).is_empty());
        }
    }

    #[test]
    fn ipv6_addresses_are_unique_local_ones() {
        let IpAddr::V6(address) = peer(IpVersion::Ipv6) else { panic!("not IPv6") };
        assert!(address.is_unique_local());
        assert_eq!(address.to_string(), "fd76:696f:7066::1");
    }
}
