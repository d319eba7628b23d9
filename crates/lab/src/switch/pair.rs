//! One wire from the peer's namespace to the second, with nothing between.

use nix::unistd::Pid;
use vioperf_netlink::{Mac, NamespaceRef, Socket, VethEnd};

use super::{NamespaceEnd, Part, Site, SwitchError, ports};

/// A veth pair from the peer's namespace to the second, made when both are known.
#[derive(Debug)]
pub(super) struct Pair {
    /// Whose it is.
    switch: &'static str,
    peer: Option<PeerEnd>,
}

impl Pair {
    /// Not wired yet.
    pub(super) fn of(switch: &'static str) -> Self {
        Self { switch, peer: None }
    }

    /// The peer's end, once it is known.
    pub(super) fn peer(&self) -> Result<&PeerEnd, SwitchError> {
        let (switch, what) = (self.switch, "the peer comes first".to_owned());
        self.peer.as_ref().ok_or(SwitchError::NotInForce { switch, what })
    }

    /// Remembers the peer, and wires the second to it.
    pub(super) fn connect(
        &mut self,
        site: &mut Site<'_>,
        end: &NamespaceEnd<'_>,
    ) -> Result<(), SwitchError> {
        if end.part == Part::Peer {
            let NamespaceEnd { pid, mac, .. } = *end;
            self.peer = Some(PeerEnd { pid, interface: end.interface.to_owned(), mac });
            return Ok(());
        }
        let peer = self.peer()?;
        let there = VethEnd {
            name: &peer.interface,
            mac: Some(peer.mac),
            mtu: Some(site.mtu),
            namespace: Some(NamespaceRef::Pid(peer.pid)),
        };
        site.socket.create_veth(&there, &ports::far(site, end))?;
        // The peer has a carrier when the other end is up.
        let mut there = Socket::open_in(end.namespace())?;
        let index = there.link_by_name(end.interface)?.index;
        Ok(there.set_up(index)?)
    }
}

/// The interface that the peer has, or gets.
#[derive(Debug, Clone)]
pub(super) struct PeerEnd {
    pub(super) pid: Pid,
    pub(super) interface: String,
    mac: Mac,
}
