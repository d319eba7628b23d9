//! A lab with its nodes and guests, kept standing from one trial to the next for as long as it serves.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::unistd::Pid;
use vioperf_lab::namespace::ProcessCommand;
use vioperf_lab::preflight::has_memory_for_guest;
use vioperf_lab::qemu::Guest;
use vioperf_lab::sandbox::Sandbox;
use vioperf_lab::switch::NearEnd;
use vioperf_lab::{ENDPOINT_INTERFACE, GuestPart, Lab, LabSpec};
use vioperf_model::plan::Cell;
use vioperf_model::record::{CorePlacement, Place};
use vioperf_model::sample::InterfaceFacts;
use vioperf_model::scenario::{Chain, Reuse};
use vioperf_model::units::TimeSpan;
use vioperf_model::wire::{Impairment, InterfaceConfig, InterfaceSelector, Route};

use super::addresses::{self, Owner};
use super::failed::Failed;
use super::node_link::{NodeLink, time_span};
use super::standing_guest::{StandingGuest, beside, prefix_length, route, tap_queues, unix_ns};
use super::trial::Endpoint;
use crate::interrupt::{Interrupt, Urgency};

/// How long a namespace's node may take to start.
const NODE_START: Duration = Duration::from_secs(10);

/// How long the link of a namespace's interface may take: that of a virtual function waits for its card's.
const LINK_COMES: Duration = Duration::from_secs(30);

/// A lab and its nodes. The guest's fields come first: they are dropped first.
pub struct Standing {
    pub(super) guest: Option<StandingGuest>,
    /// The other guests of the cell.
    pub(super) others: Vec<StandingGuest>,
    /// Guests that are paused until their cells come again, the longest at rest first.
    pub(super) resting: Vec<StandingGuest>,
    pub(super) peer: Endpoint,
    pub(super) second: Endpoint,
    /// The far end where that is the host itself.
    pub(super) host_end: Option<Endpoint>,
    pub(super) host: NodeLink,
    pub(super) lab: Lab,
    /// What it was built for.
    built_for: Cell,
}

/// What a cell has at the near end of its path.
fn near_end(cell: &Cell) -> NearEnd {
    match cell.is_baseline() {
        true => NearEnd::Second,
        false => NearEnd::Guest { queues: tap_queues(cell) },
    }
}

/// Makes the lab that a cell needs, but for its guest.
///
/// # Errors
/// When the host does not allow it: no further trial would come off.
pub fn bring_up(
    sandbox: &Sandbox,
    cell: &Cell,
    placement: Option<&CorePlacement>,
    interrupt: &Interrupt,
) -> Result<Standing> {
    let node =
        || ProcessCommand { program: "/proc/self/exe".into(), arguments: vec!["node".into()] };
    let spec = LabSpec {
        switch: cell.testbed.switch,
        interface: cell.testbed.of_host().map(str::to_owned),
        near: near_end(cell),
        mtu: cell.testbed.mtu,
        topology: cell.testbed.topology(),
        ip: cell.testbed.ip,
        rate: cell.testbed.rate,
        placement: placement.cloned(),
        peer: node(),
        second: node(),
        host_end: node(),
        observer: node(),
    };
    let lab = Lab::bring_up(sandbox, &spec).context("cannot bring the lab up")?;
    let host = NodeLink::greet("host", duplicate(&lab.observer.channel)?, NODE_START, interrupt)?;
    let endpoint = |place: Place, channel: &UnixStream, (name, address): (&str, IpAddr), owner| {
        let mut link =
            NodeLink::greet(&place.to_string(), duplicate(channel)?, NODE_START, interrupt)?;
        link.set_patience(Urgency::AfterTrial);
        let further_addresses = addresses::further(cell.testbed.ip, owner, &cell.workload);
        let addresses = [vec![address], further_addresses].concat();
        let interface = link.configure(config_of(cell, name, &addresses, Vec::new()))?;
        let (greets, disk) = (false, None);
        Ok::<_, anyhow::Error>(Endpoint { place, link, addresses, interface, greets, disk })
    };
    let far = |address| match cell.testbed.chain {
        Chain::Router => addresses::beyond_router(address),
        Chain::None | Chain::Bridge => address,
    };
    let peer = (ENDPOINT_INTERFACE, far(addresses::peer(cell.testbed.ip)));
    let peer = endpoint(Place::Peer, &lab.peer.channel, peer, Owner::Peer)?;
    let second = (ENDPOINT_INTERFACE, addresses::second(cell.testbed.ip));
    let second = endpoint(Place::Second, &lab.second.channel, second, Owner::Second)?;
    let host_end = lab.host_end.as_ref().map(|end| {
        let address = (end.interface, far(addresses::host_end(cell.testbed.ip)));
        endpoint(Place::HostEnd, &end.channel, address, Owner::HostEnd)
    });
    let host_end = host_end.transpose()?;
    let (others, resting, built_for) = (Vec::new(), Vec::new(), cell.clone());
    Ok(Standing { guest: None, others, resting, peer, second, host_end, host, lab, built_for })
}

/// What an end in a process of the host is told of its interface.
fn config_of(cell: &Cell, name: &str, addresses: &[IpAddr], routes: Vec<Route>) -> InterfaceConfig {
    let (address, further_addresses) = match addresses {
        [address, further @ ..] => (*address, further.to_vec()),
        [] => (addresses::peer(cell.testbed.ip), Vec::new()),
    };
    InterfaceConfig {
        interface: InterfaceSelector::Name(name.to_owned()),
        address,
        further_addresses,
        routes,
        prefix_length: prefix_length(cell),
        mtu: cell.testbed.mtu,
        settings: cell.testbed.peer.clone(),
        ports: None,
        timeout: time_span(LINK_COMES),
    }
}

impl Standing {
    pub(super) fn serves(&self, cell: &Cell, placement: Option<&CorePlacement>) -> bool {
        self.built_for.shares_lab_with(cell)
            && self.lab.placement() == placement
            && self.lab.serves(near_end(cell))
    }

    /// The guest beside the one under test that has that part.
    pub(super) fn other(&self, part: GuestPart) -> Option<&StandingGuest> {
        self.others.iter().find(|guest| guest.part == part)
    }

    /// Lets the guest under test go, or rest until its cells come again.
    pub(super) fn dismiss_guest(&mut self, reuse: Reuse) -> Result<(), Failed> {
        self.guest.take().map_or(Ok(()), |guest| self.dismiss(guest, reuse))
    }

    /// The same of the others, but for those that a cell wants.
    pub(super) fn dismiss_others(&mut self, cell: &Cell, reuse: Reuse) -> Result<(), Failed> {
        let wanted = beside(cell);
        let serves = |guest: &StandingGuest| {
            reuse.keeps_groups() && wanted.iter().any(|part| guest.serves(*part, cell))
        };
        let (kept, dismissed): (Vec<_>, Vec<_>) = self.others.drain(..).partition(serves);
        self.others = kept;
        dismissed.into_iter().try_for_each(|guest| self.dismiss(guest, reuse))
    }

    fn dismiss(&mut self, mut guest: StandingGuest, reuse: Reuse) -> Result<(), Failed> {
        if reuse == Reuse::Run && self.lab.has_room_for_resting() {
            self.lab.rest_guest(&mut guest.guest)?;
            self.resting.push(guest);
        }
        Ok(())
    }

    /// Wakes the guest that rests and can have that part in a cell, if there is one.
    pub(super) fn wake(
        &mut self,
        part: GuestPart,
        cell: &Cell,
    ) -> Result<Option<StandingGuest>, Failed> {
        let Some(index) = self.resting.iter().position(|guest| guest.serves(part, cell)) else {
            return Ok(None);
        };
        let mut woken = self.resting.remove(index);
        self.lab.wake_guest(&mut woken.guest)?;
        let set = woken.endpoint.link.set_wall_clock(unix_ns());
        set.map_err(|error| Failed::of_node(&error))?;
        Ok(Some(woken))
    }

    /// Sets the host's end of the NIC under test up, where the cell says how; what it then is. Asked again before every
    /// trial: QEMU may have changed what a tap offloads as the guest's driver told it.
    pub(super) fn set_port(&mut self, cell: &Cell) -> Result<Option<InterfaceFacts>, Failed> {
        let settings = cell.guest.as_ref().map(|guest| &guest.port);
        let Some(settings) = settings.filter(|settings| !settings.is_empty()) else {
            return Ok(None);
        };
        let port = self.guest.as_ref().and_then(|standing| standing.guest.port());
        let Some(port) = port else {
            let reason = format!("guest.port: the switch {} has no port", cell.testbed.switch);
            return Err(Failed { reason, console_tail: Vec::new(), interrupted: false });
        };
        let set = self.host.set_port(port, settings);
        set.map(Some).map_err(|error| Failed::of_node(&error))
    }

    /// Tells the far ends in processes of the host the way by a router that has just come.
    pub(super) fn route_far_ends(&mut self, cell: &Cell) -> Result<(), Failed> {
        let gateway = self.other(GuestPart::Forwarder).and_then(|router| router.gateway(true));
        let routes = route(cell, false, gateway);
        if routes.is_empty() {
            return Ok(());
        }
        for end in [Some(&mut self.peer), self.host_end.as_mut()].into_iter().flatten() {
            let config = config_of(cell, &end.interface.name, &end.addresses, routes.clone());
            let told = end.link.configure(config);
            end.interface = told.map_err(|error| Failed::of_node(&error))?;
        }
        Ok(())
    }

    /// Ends guests that rest, until there is memory for one more.
    pub(super) fn make_room_for(&mut self, guest_memory_mib: u64) {
        let is_room = || has_memory_for_guest(Path::new("/"), guest_memory_mib);
        while !self.resting.is_empty() && !is_room() {
            self.resting.remove(0);
        }
    }

    pub(super) fn console_tail(&self) -> Vec<String> {
        self.guest.as_ref().map(|standing| standing.guest.console_tail()).unwrap_or_default()
    }
}

impl Standing {
    /// Delays and drops what leaves the guest's interface; how many packets were dropped by what stood
    /// there before.
    ///
    /// # Errors
    /// When no guest stands, or its kernel cannot.
    pub fn impair_guest(&mut self, impairment: Option<Impairment>) -> Result<Option<u64>> {
        let guest = self.guest.as_mut().context("no guest stands that could be impaired")?;
        let Endpoint { link, interface, .. } = &mut guest.endpoint;
        link.set_patience(Urgency::AfterTrial);
        link.load_modules(vec!["sch_netem".to_owned()], BTreeMap::new(), NODE_START)?;
        Ok(link.impair(InterfaceSelector::Name(interface.name.clone()), impairment)?)
    }

    /// How late the machine of the near end (the guest, or the host where none stands) wakes a thread up
    /// from each of `count` sleeps, in nanoseconds.
    ///
    /// # Errors
    /// When its node does not answer.
    pub fn time_sleeps(&mut self, sleep: TimeSpan, count: u16) -> Result<Vec<u64>> {
        let near = match &mut self.guest {
            Some(guest) => &mut guest.endpoint,
            None => &mut self.second,
        };
        near.link.set_patience(Urgency::AfterTrial);
        Ok(near.link.time_sleeps(sleep, count)?)
    }

    /// The ends of paths that are processes of the host, each with that process: it is where the end's interface is.
    pub fn ends_on_host(&self) -> Vec<(&Endpoint, Pid)> {
        let of_host = self.host_end.as_ref().zip(self.lab.host_end.as_ref());
        let of_host = of_host.map(|(end, there)| (end, there.process.pid()));
        let named = [
            (&self.peer, self.lab.peer.process.pid()),
            (&self.second, self.lab.second.process.pid()),
        ];
        named.into_iter().chain(of_host).collect()
    }

    /// The guests that stand, the one under test first.
    pub fn guests(&self) -> impl Iterator<Item = (&Endpoint, &Guest)> {
        let all = self.guest.iter().chain(&self.others);
        all.map(|standing| (&standing.endpoint, &standing.guest))
    }

    /// The same, to be asked.
    pub fn guests_mut(&mut self) -> impl Iterator<Item = (Place, &mut Guest)> {
        let all = self.guest.iter_mut().chain(&mut self.others);
        all.map(|standing| (standing.endpoint.place, &mut standing.guest))
    }

    /// The lab itself.
    pub fn lab(&self) -> &Lab {
        &self.lab
    }
}

fn duplicate(channel: &UnixStream) -> Result<UnixStream> {
    channel.try_clone().context("cannot duplicate a control channel")
}
