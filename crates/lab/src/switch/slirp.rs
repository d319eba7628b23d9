//! slirp, QEMU's `-netdev user`: no switch, no tap and no other program. QEMU itself ends the guest's connections and makes
//! sockets of its own for them, in its main loop. It stands in the second namespace, as passt does, and the guest's addresses are
//! that namespace's too, so that the peer reaches them; ports are forwarded one by one, so there are few.
//!
//! slirp answers for no neighbour but its own gateway, so the guest reaches the peer by way of that. It carries IPv4 with
//! an MTU of 1500 bytes, which nothing changes.
//!
//! Sources: qemu(1), `-netdev user`; `src/slirp.c` and `src/if.h` of libslirp.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use super::behind_host::{BehindHost, nobody_beside, speak_from};
use super::{
    Backend, Backing, GuestEnd, NamespaceEnd, NearEnds, Room, Row, Site, Slirp, Switch,
    SwitchError, Wire,
};

pub(super) const ROW: Row = Row {
    name: "slirp",
    lacks: |_, _| None,
    backing: Backing::Slirp,
    // Two could not listen to the same ports, though one of their guests rests.
    near_ends: NearEnds::Either,
    room: Room::ONE_GUEST,
    open: |_| Box::new(OfQemu { host: BehindHost::of(ROW.name) }),
};

/// Below those that Linux gives to connections by itself. QEMU listens to each, for TCP and for UDP, and looks at all of
/// them whenever it wakes up.
const PORTS: RangeInclusive<u16> = 28_672..=28_799;

/// `IF_MTU_DEFAULT` of libslirp.
const MTU: u32 = 1500;

/// A wire, and the namespace where QEMU stands.
#[derive(Debug)]
struct OfQemu {
    host: BehindHost,
}

impl Switch for OfQemu {
    fn connect_namespace(
        &mut self,
        site: &mut Site<'_>,
        end: NamespaceEnd<'_>,
    ) -> Result<Option<String>, SwitchError> {
        self.host.connect(site, &end)
    }

    fn connect_guest(
        &mut self,
        site: &mut Site<'_>,
        guest: &GuestEnd<'_>,
    ) -> Result<Wire, SwitchError> {
        let failed = |what: String| SwitchError::Program { switch: ROW.name, what };
        let Some(&IpAddr::V4(address)) = guest.addresses.first() else {
            return Err(failed("a lab's slirp carries IPv4 alone: take `ip = \"ipv4\"`".into()));
        };
        if site.mtu > MTU {
            let what = format!("its MTU is {MTU} bytes, not {}: take no larger one", site.mtu);
            return Err(failed(what));
        }
        let (pid, interface) = self.host.take_addresses(guest)?;
        // Were the sockets bound to the guest's address, slirp would take every datagram for one of the guest's own, which
        // the guest throws away.
        speak_from(pid, interface, address.into(), guest.prefix_length)?;
        let gateway = nobody_beside(address.into(), 254);
        let forward = |kind: &str, port: u16| format!("{kind}::{port}-{address}:{port}");
        let backend = Slirp {
            network: format!("{address}/{}", guest.prefix_length),
            gateway,
            name_server: nobody_beside(address.into(), 253),
            forwards: PORTS.flat_map(|port| [forward("tcp", port), forward("udp", port)]).collect(),
        };
        let wire = Wire::without_port("slirp".to_owned(), Backend::Slirp(backend));
        Ok(Wire { beside: Some(pid), ports: Some(PORTS), gateway: Some(gateway), ..wire })
    }

    fn verify(&mut self, _: &mut Site<'_>, _: &str) -> Result<String, SwitchError> {
        Ok("slirp in QEMU's main loop, in the second namespace".to_owned())
    }
}
