//! SR-IOV: the switch is in the network card, and each end has a virtual function of it. The peer may have the physical
//! function in place of one, by way of a macvlan, as the host's own traffic would take it. A guest's NIC is a macvtap on
//! its virtual function.
//!
//! Virtual functions are the host's: they are made for the run and journalled ([`crate::sriov`]). While an end has one,
//! it is in that end's namespace; the kernel gives it back to the host when the namespace goes.

use std::rc::Rc;

use vioperf_netlink::{Mac, MacvlanMode, NamespaceRef, Socket, Upper};

use super::macvtap;
use super::{
    Backend, Backing, GuestEnd, NamespaceEnd, NearEnd, NearEnds, Part, Room, Row, Site, Switch,
    SwitchError, Wire, ports,
};
use crate::sriov::{self, Card, Function, move_interface};

/// The peer has a virtual function too.
pub(super) const ROW: Row = Row {
    name: "sriov",
    lacks: |root, interface| sriov::lacks(&root.join("sys"), interface),
    backing: Backing::Macvtap,
    // A guest has the virtual function that the second namespace would have.
    near_ends: NearEnds::Either,
    room: Room::ONE_GUEST,
    open: |near| Box::new(Sriov::new(ROW.name, false, near)),
};

/// The peer is on the physical function.
pub(super) const HOST: Row =
    Row { name: "sriov-host", open: |near| Box::new(Sriov::new(HOST.name, true, near)), ..ROW };

/// Which virtual function whom.
const PEER: usize = 0;
const NEAR: usize = 1;
/// One that guests are given themselves; it stays with vfio-pci as long as the card has it.
const HANDED_OVER: usize = 2;

#[derive(Debug)]
struct Sriov {
    name: &'static str,
    peer_is_on_host: bool,
    near: NearEnd,
    card: Option<Rc<Card>>,
    /// The namespaces' ends, and the virtual function that each has.
    lent: Vec<(nix::unistd::Pid, String, Function)>,
    /// The near virtual function, where a guest has it: its name in the sandbox's namespace and the guest's address.
    below: Option<(Function, Mac)>,
    /// The function that a guest was given itself.
    handed_over: Option<Function>,
}

impl Sriov {
    fn new(name: &'static str, peer_is_on_host: bool, near: NearEnd) -> Self {
        Self {
            name,
            peer_is_on_host,
            near,
            card: None,
            lent: Vec::new(),
            below: None,
            handed_over: None,
        }
    }

    fn failed(&self, what: &str) -> SwitchError {
        SwitchError::Program { switch: self.name, what: what.to_owned() }
    }

    fn card(&self) -> Result<Rc<Card>, SwitchError> {
        self.card.clone().ok_or_else(|| self.failed("it is not set up"))
    }

    fn function(&self, number: usize) -> Result<(Rc<Card>, Function), SwitchError> {
        let card = self.card()?;
        let function = card.function(number).cloned();
        let function = function.ok_or_else(|| self.failed("the card has no function left"))?;
        Ok((card, function))
    }

    /// A macvlan on the physical function: the host's own way to the card, without touching its addresses.
    fn on_host(&self, site: &Site<'_>, end: &NamespaceEnd<'_>) -> Result<(), SwitchError> {
        let card = self.card()?;
        let mut host = card.host();
        let below = host.link_by_name(card.interface())?.index;
        // The host may have an interface of the name that the endpoint's is to have.
        let name = format!("vioperf.{below}");
        let (mac, mtu) = (Some(end.mac), Some(site.mtu));
        let upper = Upper { name: &name, below, mac, mtu, namespace: None };
        host.create_macvlan(&upper, MacvlanMode::Bridge)?;
        Ok(move_interface(&mut host, &name, end.namespace(), end.interface)?)
    }

    /// Gives the near virtual function back to the host.
    fn release_near(&mut self, socket: &mut Socket, host: NamespaceRef<'_>) {
        if let Some((function, _)) = self.below.take() {
            // What fails goes with the namespace.
            let _ = move_interface(socket, &function.interface, host, &function.interface);
        }
    }
}

impl Switch for Sriov {
    fn set_up(&mut self, site: &mut Site<'_>) -> Result<(), SwitchError> {
        let interface = site.interface.ok_or_else(|| self.failed("no interface is named"))?;
        self.card = Some(site.sandbox.card(interface)?);
        Ok(())
    }

    fn connect_namespace(
        &mut self,
        site: &mut Site<'_>,
        end: NamespaceEnd<'_>,
    ) -> Result<Option<String>, SwitchError> {
        match (end.part, self.near) {
            (Part::Peer, _) if self.peer_is_on_host => {
                self.on_host(site, &end)?;
                return Ok(None);
            }
            // The second beside a guest has no part in it: its wire leads nowhere, but has a carrier.
            (Part::Second, NearEnd::Guest { .. }) => {
                ports::veth_up(site, &end)?;
                return Ok(None);
            }
            _ => {}
        }
        let number = if end.part == Part::Peer { PEER } else { NEAR };
        let (card, function) = self.function(number)?;
        let mut host = card.host();
        let link = host.link_by_name(&function.interface)?;
        host.set_down(link.index)?;
        host.set_mac(link.index, end.mac)?;
        host.set_mtu(link.index, site.mtu)?;
        move_interface(&mut host, &function.interface, end.namespace(), end.interface)?;
        self.lent.push((end.pid, end.interface.to_owned(), function));
        Ok(None)
    }

    fn connect_guest(
        &mut self,
        site: &mut Site<'_>,
        guest: &GuestEnd<'_>,
    ) -> Result<Wire, SwitchError> {
        if guest.is_passed_through {
            let (card, function) = self.function(HANDED_OVER)?;
            card.hand_over(&function, guest.mac)?;
            let backend = Backend::Function { address: function.address.clone() };
            let name = format!("function{}", function.number);
            self.handed_over = Some(function);
            return Ok(Wire::without_port(name, backend));
        }
        self.handed_over = None;
        let (card, function) = self.function(NEAR)?;
        if self.below.is_none() {
            let own = NamespaceRef::Pid(nix::unistd::getpid());
            move_interface(&mut card.host(), &function.interface, own, &function.interface)?;
        }
        self.below = Some((function.clone(), guest.mac));
        let below = site.socket.link_by_name(&function.interface)?.index;
        site.socket.set_mac(below, guest.mac)?;
        site.socket.set_mtu(below, site.mtu)?;
        ports::silence(&function.interface);
        site.socket.set_up(below)?;
        macvtap::wire(site, guest, below, MacvlanMode::Passthru)
    }

    fn verify(&mut self, site: &mut Site<'_>, wire: &str) -> Result<String, SwitchError> {
        if let Some(function) = &self.handed_over {
            let card = self.card()?;
            card.verify_handed_over(function)?;
            let Function { number, address, .. } = function;
            return Ok(format!(
                "virtual function {number} of {} ({address}) itself",
                card.interface()
            ));
        }
        let link = site.socket.link_by_name(wire)?;
        let (function, mac) =
            self.below.as_ref().ok_or_else(|| self.failed("no guest is connected"))?;
        let below = site.socket.link_by_name(&function.interface)?;
        let card = self.card()?;
        let is_function = card.is_function(function);
        if !is_function || link.below != Some(below.index) || link.mac != Some(*mac) || !link.up {
            let what =
                format!("{wire} is not on the virtual function {}: {link:?}", function.address);
            return Err(SwitchError::NotInForce { switch: self.name, what });
        }
        let (number, card) = (function.number, card.interface());
        Ok(format!("a macvtap on virtual function {number} of {card} ({})", function.address))
    }

    fn tear_down(&mut self, socket: &mut Socket) -> Vec<SwitchError> {
        let Some(card) = self.card.take() else { return Vec::new() };
        let network = card.network();
        self.release_near(socket, network);
        let mut errors = Vec::new();
        for (pid, interface, function) in self.lent.drain(..) {
            let there = Socket::open_in(NamespaceRef::Pid(pid));
            let moved = there.and_then(|mut there| {
                move_interface(&mut there, &interface, network, &function.interface)
            });
            errors.extend(moved.err().map(SwitchError::from));
        }
        errors
    }
}
