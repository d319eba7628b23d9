//! No switch: one wire from the peer to the near end, and nothing else on it. The guest's tap itself is
//! the peer's interface, as where a host holds the address of a guest's network and forwards nothing;
//! the baseline's wire is a veth pair between the two namespaces. So this is what a tap costs, without
//! the bridge that others have beside it.

use std::os::fd::OwnedFd;

use vioperf_netlink::{NamespaceRef, Socket};

use super::pair::Pair;
use super::{
    Backend, Backing, GuestEnd, NamespaceEnd, NearEnd, NearEnds, Part, Room, Row, Site, Switch,
    SwitchError, Wire, ports,
};
use crate::tap::Tap;

pub(super) const ROW: Row = Row {
    name: "none",
    lacks: |_, _| None,
    backing: Backing::Tap,
    near_ends: NearEnds::Either,
    room: Room::ONE_GUEST,
    open: |near| {
        Box::new(Direct { near, pair: Pair::of(ROW.name), queues: Vec::new(), parked: Vec::new() })
    },
};

/// What the tap is called until the peer has it.
const TAP: &str = "tap0";

/// A wire.
#[derive(Debug)]
struct Direct {
    near: NearEnd,
    pair: Pair,
    /// The tap, where a guest is the near end. Kept, so that the peer's interface stays when a guest
    /// makes room for the next.
    queues: Vec<OwnedFd>,
    /// Ports in the sandbox that lead nowhere.
    parked: Vec<String>,
}

impl Switch for Direct {
    fn connect_namespace(
        &mut self,
        site: &mut Site<'_>,
        end: NamespaceEnd<'_>,
    ) -> Result<Option<String>, SwitchError> {
        match (end.part, self.near) {
            (Part::Peer, NearEnd::Guest { queues }) => {
                self.pair.connect(site, &end)?;
                self.give_tap(site, &end, queues)?;
            }
            (_, NearEnd::Second) => self.pair.connect(site, &end)?,
            // It has no part in it: a wire that leads nowhere, as every endpoint has an interface.
            (Part::Second, NearEnd::Guest { .. }) => {
                let (port, _) = ports::veth_up(site, &end)?;
                self.parked.push(port);
            }
        }
        Ok(None)
    }

    fn connect_guest(&mut self, _: &mut Site<'_>, _: &GuestEnd<'_>) -> Result<Wire, SwitchError> {
        let copies: std::io::Result<Vec<OwnedFd>> =
            self.queues.iter().map(OwnedFd::try_clone).collect();
        let step = "duplicate the tap's descriptor";
        let queues = copies.map_err(|source| SwitchError::Io { step, source })?;
        if queues.is_empty() {
            return Err(not_in_force("this lab was brought up for a baseline".to_owned()));
        }
        Ok(Wire::without_port(TAP.to_owned(), Backend::Tap(queues)))
    }

    fn verify(&mut self, _: &mut Site<'_>, _: &str) -> Result<String, SwitchError> {
        let peer = self.pair.peer()?;
        let namespace = NamespaceRef::Pid(peer.pid);
        let link = Socket::open_in(namespace)?.link_by_name(&peer.interface)?;
        // The tap has a carrier as long as somebody reads it.
        if link.kind.as_deref() != Some("tun") || !link.carrier {
            let what = format!("the peer's {} is no tap with a carrier: {link:?}", peer.interface);
            return Err(not_in_force(what));
        }
        Ok("a tap, which is the peer's own interface".to_owned())
    }

    fn tear_down(&mut self, socket: &mut Socket) -> Vec<SwitchError> {
        self.queues.clear();
        ports::delete(socket, self.parked.drain(..))
    }
}

impl Direct {
    /// Makes the tap and moves its interface to the peer.
    fn give_tap(
        &mut self,
        site: &mut Site<'_>,
        peer: &NamespaceEnd<'_>,
        queues: u16,
    ) -> Result<(), SwitchError> {
        let tap = Tap::create(TAP, queues)?;
        let index = site.socket.link_by_name(TAP)?.index;
        site.socket.set_mac(index, peer.mac)?;
        site.socket.set_mtu(index, site.mtu)?;
        let namespace = peer.namespace();
        site.socket.move_to(index, namespace)?;
        let mut there = Socket::open_in(namespace)?;
        let index = there.link_by_name(TAP)?.index;
        there.rename(index, peer.interface)?;
        self.queues = tap.queues;
        Ok(())
    }
}

fn not_in_force(what: String) -> SwitchError {
    SwitchError::NotInForce { switch: ROW.name, what }
}
