//! What backends have in common that end a guest's connections and make the host's own sockets for them: a wire from the
//! peer to the second namespace, which is the host here, and the guest's addresses on that host's interface.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use nix::errno::Errno;
use nix::unistd::Pid;
use vioperf_netlink::{Address, NamespaceRef, Socket};

use super::pair::Pair;
use super::{GuestEnd, NamespaceEnd, Part, Site, SwitchError};

/// A wire, and the namespace that is the host.
#[derive(Debug)]
pub(super) struct BehindHost {
    switch: &'static str,
    pair: Pair,
    host: Option<(Pid, String)>,
}

impl BehindHost {
    /// Not wired yet.
    pub(super) fn of(switch: &'static str) -> Self {
        Self { switch, pair: Pair::of(switch), host: None }
    }

    /// Remembers the peer, and wires the host to it. There is no port.
    pub(super) fn connect(
        &mut self,
        site: &mut Site<'_>,
        end: &NamespaceEnd<'_>,
    ) -> Result<Option<String>, SwitchError> {
        if end.part == Part::Second {
            self.host = Some((end.pid, end.interface.to_owned()));
        }
        self.pair.connect(site, end)?;
        Ok(None)
    }

    /// Gives the host the guest's addresses: the host, and the name of its interface.
    pub(super) fn take_addresses(&self, guest: &GuestEnd<'_>) -> Result<(Pid, &str), SwitchError> {
        let (switch, what) = (self.switch, "it has no host".to_owned());
        let (pid, interface) = self.host.as_ref().ok_or(SwitchError::Program { switch, what })?;
        add_addresses(*pid, interface, guest)?;
        Ok((*pid, interface))
    }
}

/// Has the host's sockets that are bound to no address of their own speak to the guest's network from the guest's.
pub(super) fn speak_from(
    pid: Pid,
    interface: &str,
    source: IpAddr,
    prefix_length: u8,
) -> Result<(), SwitchError> {
    let mut there = Socket::open_in(NamespaceRef::Pid(pid))?;
    let index = there.link_by_name(interface)?.index;
    // Either half of the network: both routes are narrower than the interface's own, which stays.
    let prefix_length = prefix_length + 1;
    for address in halves(source, prefix_length) {
        there.set_source(index, Address { address, prefix_length }, source)?;
    }
    Ok(())
}

/// An address in either half of a network whose halves have prefixes of that length.
fn halves(address: IpAddr, prefix_length: u8) -> [IpAddr; 2] {
    let other = match address {
        IpAddr::V4(address) => {
            let bit = 1_u32.checked_shl(32_u32.saturating_sub(prefix_length.into())).unwrap_or(0);
            IpAddr::V4((u32::from(address) ^ bit).into())
        }
        IpAddr::V6(address) => {
            let bit = 1_u128.checked_shl(128_u32.saturating_sub(prefix_length.into())).unwrap_or(0);
            IpAddr::V6((u128::from(address) ^ bit).into())
        }
    };
    [address, other]
}

/// Gives the host the guest's addresses.
fn add_addresses(pid: Pid, interface: &str, guest: &GuestEnd<'_>) -> Result<(), SwitchError> {
    let mut there = Socket::open_in(NamespaceRef::Pid(pid))?;
    let index = there.link_by_name(interface)?.index;
    for &address in guest.addresses {
        let prefix_length = if address.is_ipv4() { 32 } else { 128 };
        match there.add_address(index, Address { address, prefix_length }) {
            Err(error) if error.errno() == Some(Errno::EEXIST) => {}
            outcome => outcome?,
        }
    }
    Ok(())
}

/// An address beside another one, that nobody has.
pub(super) fn nobody_beside(address: IpAddr, number: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, _] = address.octets();
            Ipv4Addr::new(a, b, c, number).into()
        }
        IpAddr::V6(address) => {
            let [a, b, c, d, e, f, g, _] = address.segments();
            Ipv6Addr::new(a, b, c, d, e, f, g, 0xff00 | u16::from(number)).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_two_halves() {
        let halves = |address: &str, length| {
            halves(address.parse().unwrap(), length).map(|address: IpAddr| address.to_string())
        };
        assert_eq!(halves("198.18.1.1", 16), ["198.18.1.1", "198.19.1.1"]);
        assert_eq!(halves("fd76::1", 65), ["fd76::1", "fd76::8000:0:0:1"]);
    }
}
