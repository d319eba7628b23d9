//! The addresses of a lab's network. It is in no real network's way: IPv4 from RFC 2544's range for
//! benchmarks, IPv6 a unique local network (RFC 4193).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use vioperf_model::scenario::IpVersion;

/// How many leading bits name the network.
pub fn prefix_length(ip: IpVersion) -> u8 {
    match ip {
        IpVersion::Ipv4 => 16,
        IpVersion::Ipv6 => 64,
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

/// The guest that was started after so many others. No two in a row have the same, so that no
/// neighbour entry is stale; after 62 500 it begins again: by then none is left.
pub fn of_guest(ip: IpVersion, number: u16) -> IpAddr {
    let [high, low] = [number / 250 % 250, number % 250].map(|n| u8::try_from(n).unwrap_or(0));
    address(ip, high + 1, low + 1)
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
    use super::*;

    #[test]
    fn guests_in_a_row_have_different_addresses() {
        for ip in [IpVersion::Ipv4, IpVersion::Ipv6] {
            let mut seen = std::collections::BTreeSet::from([peer(ip), second(ip)]);
            assert!((0..10_000).all(|number| seen.insert(of_guest(ip, number))));
        }
    }

    #[test]
    fn ipv6_addresses_are_unique_local_ones() {
        let IpAddr::V6(address) = peer(IpVersion::Ipv6) else { panic!("not IPv6") };
        assert!(address.is_unique_local());
        assert_eq!(address.to_string(), "fd76:696f:7066::1");
    }
}
