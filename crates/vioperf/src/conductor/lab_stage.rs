//! The stage in earnest: a lab with a guest in it, kept standing from one trial to the next for as
//! long as it serves.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use vioperf_lab::namespace::ProcessCommand;
use vioperf_lab::preflight::has_memory_for_guest;
use vioperf_lab::qemu::{Guest, GuestError, GuestSource, NicSpec};
use vioperf_lab::sandbox::Sandbox;
use vioperf_lab::switch::NearEnd;
use vioperf_lab::{ENDPOINT_INTERFACE, Lab, LabError, LabSpec};
use vioperf_model::nic::NicModel;
use vioperf_model::plan::Cell;
use vioperf_model::record::{
    CorePlacement, CoreSpeed, GuestOrigin, GuestSetup, Place, SearchRecord,
};
use vioperf_model::sample::InterfaceFacts;
use vioperf_model::scenario::Reuse;
use vioperf_model::units::{Ratio, TimeSpan};
use vioperf_model::wire::{Impairment, InterfaceConfig, InterfaceSelector, WatchedProcess};
use vioperf_model::workload::{Workload, WorkloadKind};

use super::addresses::{self, Owner};
use super::core_speed::Cores;
use super::hypervisor::{GuestSupply, milliseconds};
use super::kvm::WatchedGuest;
use super::node_link::{NodeError, NodeLink, time_span};
use super::placement::Placements;
use super::schedule::{Attempt, AttemptEnd, Stage};
use super::search;
use super::trial::{self, Endpoint, Measured, Nodes};
use crate::interrupt::{Interrupt, Urgency};
use crate::output::Output;

/// How long a namespace's node may take to start.
const NODE_START: Duration = Duration::from_secs(10);

/// How long after a guest's channel closed it may take until QEMU is seen to have ended.
const DEATH_SHOWS: Duration = Duration::from_secs(1);

/// How much longer the first load of an emulated guest warms up: QEMU has yet to translate the code that
/// it takes, and the trial would be some 5 to 10 % slower than those behind it.
const FRESH_GUEST_WARMUP: Duration = Duration::from_millis(400);

/// Queue pairs of a guest's NIC.
const QUEUES: u16 = 1;

/// Where trials happen.
pub struct LabStage<'a> {
    /// The sandbox that the lab lives in.
    pub sandbox: &'a Sandbox,
    /// What guests start from.
    pub supply: GuestSupply,
    /// Which cores the lab's threads are held to.
    pub placements: Placements,
    /// The cores whose speed is watched.
    pub cores: Cores,
    /// Whether a trial waits until nobody else uses them.
    pub undisturbed: bool,
    /// How long a guest serves.
    pub reuse: Reuse,
    /// The user's wish to end.
    pub interrupt: &'a Interrupt,
    /// Where the steps of a trial are shown.
    pub output: &'a Output,
    /// The lab of the last trial, if it still stands.
    pub standing: Option<Standing>,
    /// Part of a core that the near end burns during trials, to check readings by.
    pub burn: Option<Ratio>,
    /// Guests started so far: each gets an address of its own, so that no neighbour entry is stale.
    pub guests_started: u16,
}

/// A lab and its nodes. The guest's fields come first: they are dropped first.
pub struct Standing {
    guest: Option<StandingGuest>,
    /// Guests that are paused until their cells come again, the longest at rest first.
    resting: Vec<StandingGuest>,
    peer: Endpoint,
    second: Endpoint,
    host: NodeLink,
    lab: Lab,
    /// What it was built for.
    built_for: Cell,
}

struct StandingGuest {
    endpoint: Endpoint,
    guest: Guest,
    /// The cell that it was started for.
    built_for: Cell,
}

impl StandingGuest {
    fn reused(&self) -> GuestSetup {
        let port = self.guest.port().map(str::to_owned);
        GuestSetup { origin: GuestOrigin::Reused, ready_ms: None, path: None, port }
    }
}

/// A trial that did not come off.
struct Failed {
    reason: String,
    console_tail: Vec<String>,
    interrupted: bool,
}

impl Failed {
    fn of_node(error: &NodeError) -> Self {
        Self {
            reason: error.to_string(),
            console_tail: Vec::new(),
            interrupted: error.is_interrupt(),
        }
    }

    fn of_guest(error: GuestError) -> Self {
        let reason = format!("cannot {}: {}", error.operation, error.fault);
        let console_tail = error.qemu_said.into_iter().chain(error.console).collect();
        Self { reason, console_tail, interrupted: false }
    }
}

impl From<LabError> for Failed {
    fn from(error: LabError) -> Self {
        match error {
            LabError::Guest(error) => Self::of_guest(*error),
            other => {
                Self { reason: other.to_string(), console_tail: Vec::new(), interrupted: false }
            }
        }
    }
}

impl Stage for LabStage<'_> {
    fn attempt(&mut self, cell: &Cell) -> Result<Attempt> {
        self.sandbox.reap_orphans();
        let placement = self.placements.of(cell);
        let mut standing = match self.standing.take() {
            Some(standing) if standing.serves(cell, placement) => standing,
            // The old one goes first: two labs at once would share names and cores.
            old => {
                drop(old);
                bring_up(self.sandbox, cell, placement, self.interrupt)?
            }
        };
        let setup = match self.make_guest_ready(&mut standing, cell) {
            Ok(setup) => setup,
            Err(failed) => return Ok(void(failed, None, true)),
        };
        let is_fresh = setup.as_ref().is_some_and(|setup| setup.origin != GuestOrigin::Reused);
        let (undisturbed, interrupt) = (self.undisturbed, self.interrupt);
        let given_up = || !undisturbed || interrupt.urgency() > Urgency::None;
        let before = self.cores.wait(given_up);
        let conducted = self.conduct(&mut standing, cell, is_fresh);
        let slowdown_after = self.cores.slowdown();
        let core_speed = before.map(|speed| CoreSpeed { slowdown_after, ..speed });
        match conducted {
            Ok((Measured { timeline, parties }, search)) => {
                let end = match trial::fault_in(&parties) {
                    None => AttemptEnd::Completed,
                    Some(reason) => {
                        let console_tail = standing.console_tail();
                        AttemptEnd::Void { reason, console_tail, never_ready: false }
                    }
                };
                // After a fault everything is made anew.
                self.standing = (end == AttemptEnd::Completed).then_some(standing);
                let timeline = Some(timeline);
                Ok(Attempt { end, guest: setup, core_speed, timeline, parties, search })
            }
            Err(error) => {
                let mut failed = Failed::of_node(&error);
                if let Some(standing_guest) = &mut standing.guest {
                    let patience = match error {
                        NodeError::Channel { .. } => DEATH_SHOWS,
                        _ => Duration::ZERO,
                    };
                    if let Some(fault) = standing_guest.guest.fault_within(patience) {
                        failed.reason = format!("{fault} ({})", failed.reason);
                    }
                    failed.console_tail = standing_guest.guest.console_tail();
                }
                Ok(void(failed, setup, false))
            }
        }
    }
}

fn void(failed: Failed, guest: Option<GuestSetup>, never_ready: bool) -> Attempt {
    let Failed { reason, console_tail, interrupted } = failed;
    let end = if interrupted {
        AttemptEnd::Interrupted
    } else {
        AttemptEnd::Void { reason, console_tail, never_ready }
    };
    let core_speed = None;
    Attempt { end, guest, core_speed, timeline: None, parties: Vec::new(), search: None }
}

/// The nodes of the cell's path.
fn nodes<'a>(standing: &'a mut Standing, cell: &Cell, is_emulated: bool) -> Nodes<'a> {
    let peer_pid = standing.lab.peer.process.pid().as_raw();
    let watched = |label: &str, pid: i32| WatchedProcess { label: label.to_owned(), pid };
    let mut processes = vec![watched("peer", peer_pid)];
    let of_switch = standing.lab.switch_processes();
    processes.extend(of_switch.iter().map(|(label, pid)| watched(label, pid.as_raw())));
    let open_vswitch = standing.lab.switch_database();
    let mut watched_guest = None;
    let near = match &mut standing.guest {
        Some(StandingGuest { endpoint, guest, .. }) if !cell.is_baseline() => {
            processes.push(watched("qemu", guest.qemu_pid().as_raw()));
            let serving = guest.processes();
            processes.extend(serving.iter().map(|(label, pid)| watched(label, pid.as_raw())));
            watched_guest = Some(WatchedGuest { guest, is_emulated });
            endpoint
        }
        _ => {
            processes.push(watched("second", standing.lab.second.process.pid().as_raw()));
            &mut standing.second
        }
    };
    let (peer, host) = (&mut standing.peer, &mut standing.host);
    Nodes { peer, near, host, burn: None, processes, open_vswitch, guest: watched_guest }
}

impl Standing {
    fn serves(&self, cell: &Cell, placement: Option<&CorePlacement>) -> bool {
        self.built_for.shares_lab_with(cell)
            && self.lab.placement() == placement
            && self.lab.serves(near_end(cell))
    }

    /// Lets the guest go, or rest until its cells come again.
    fn dismiss_guest(&mut self, reuse: Reuse) -> Result<(), Failed> {
        let may_rest = reuse == Reuse::Run && self.lab.has_room_for_resting();
        let Some(mut dismissed) = self.guest.take().filter(|_| may_rest) else { return Ok(()) };
        self.lab.rest_guest(&mut dismissed.guest)?;
        self.resting.push(dismissed);
        Ok(())
    }

    fn wake_guest(&mut self, index: usize) -> Result<GuestSetup, Failed> {
        let mut woken = self.resting.remove(index);
        self.lab.wake_guest(&mut woken.guest)?;
        let set = woken.endpoint.link.set_wall_clock(unix_ns());
        set.map_err(|error| Failed::of_node(&error))?;
        Ok(self.guest.insert(woken).reused())
    }

    /// Ends guests that rest, until there is memory for one more.
    fn make_room_for(&mut self, guest_memory_mib: u64) {
        let is_room = || has_memory_for_guest(Path::new("/"), guest_memory_mib);
        while !self.resting.is_empty() && !is_room() {
            self.resting.remove(0);
        }
    }

    fn console_tail(&self) -> Vec<String> {
        self.guest.as_ref().map(|standing| standing.guest.console_tail()).unwrap_or_default()
    }
}

impl LabStage<'_> {
    fn conduct(
        &self,
        standing: &mut Standing,
        cell: &Cell,
        is_fresh: bool,
    ) -> Result<(Measured, Option<SearchRecord>), NodeError> {
        let (interrupt, output) = (self.interrupt, self.output);
        let is_emulated = self.supply.of(cell).is_some_and(|order| order.factory.is_emulated());
        let mut nodes = Nodes { burn: self.burn, ..nodes(standing, cell, is_emulated) };
        if cell.workload.kind != WorkloadKind::RateSearch {
            let mut workload = cell.workload.clone();
            if is_fresh && self.supply.is_emulated() {
                let warmup = workload.warmup.as_duration() + FRESH_GUEST_WARMUP;
                workload.warmup = time_span(warmup);
            }
            return Ok((trial::conduct(&mut nodes, &workload, interrupt)?, None));
        }
        let mut prober = |load: &Workload, drain: Duration| {
            trial::conduct_and_drain(&mut nodes, load, drain, interrupt)
        };
        let tell = |step: &str| output.status_step(step);
        let (measured, record) = search::conduct(&mut prober, &cell.workload, &tell)?;
        Ok((measured, Some(record)))
    }

    /// Sees to it that the guest which stands is the one that the cell needs, and no other.
    fn make_guest_ready(
        &mut self,
        standing: &mut Standing,
        cell: &Cell,
    ) -> Result<Option<GuestSetup>, Failed> {
        let serves = |standing: &StandingGuest| standing.built_for.shares_testbed_with(cell);
        let standing_guest = standing.guest.as_ref().filter(|guest| serves(guest));
        if let Some(guest) = standing_guest.filter(|_| self.reuse.keeps_groups()) {
            return Ok(Some(guest.reused()));
        }
        // A guest that idles would still take its share of the host.
        standing.dismiss_guest(self.reuse)?;
        let Some(model) = cell.nic else { return Ok(None) };
        if let Some(index) = standing.resting.iter().position(serves) {
            return Ok(Some(standing.wake_guest(index)?));
        }
        if let Some(order) = self.supply.of(cell) {
            standing.make_room_for(order.factory.shape.memory_mib);
        }
        let (guest, setup) = self.start_guest(&mut standing.lab, model, cell)?;
        standing.guest = Some(guest);
        Ok(Some(setup))
    }

    fn start_guest(
        &mut self,
        lab: &mut Lab,
        model: NicModel,
        cell: &Cell,
    ) -> Result<(StandingGuest, GuestSetup), Failed> {
        let mtu = cell.mtu;
        let order = self.supply.of(cell).ok_or_else(|| Failed {
            reason: "the plan said that it needs no guest".into(),
            console_tail: Vec::new(),
            interrupted: false,
        })?;
        let factory = &order.factory;
        let started = Instant::now();
        let (source, origin) = match &factory.snapshot {
            Some(snapshot) => (GuestSource::Snapshot(snapshot), GuestOrigin::Restored),
            None => {
                let (hypervisor, image, shape) =
                    (&factory.hypervisor, &factory.image, factory.shape);
                (GuestSource::FreshBoot { hypervisor, image, shape }, GuestOrigin::Booted)
            }
        };
        let options = order.guest.device_options.clone();
        let number = self.guests_started;
        let address = addresses::of_guest(cell.ip, number);
        let further_addresses = addresses::further(cell.ip, Owner::Guest(number), &cell.workload);
        self.guests_started = self.guests_started.wrapping_add(1);
        let nic = NicSpec {
            model,
            addresses: [vec![address], further_addresses.clone()].concat(),
            prefix_length: addresses::prefix_length(cell.ip),
            queues: QUEUES,
            options,
        };
        let mut guest = lab.start_guest(self.sandbox, source, &nic)?;
        let timeout = factory.ready_timeout;
        let config = InterfaceConfig {
            interface: InterfaceSelector::Mac(guest.mac().to_string()),
            address,
            further_addresses: further_addresses.clone(),
            prefix_length: addresses::prefix_length(cell.ip),
            mtu,
            offloads: order.guest.offloads.clone(),
            ports: guest.ports().map(|ports| (*ports.start(), *ports.end())),
            timeout: time_span(timeout),
        };
        let driver_options = factory.driver_options.clone();
        let modules = match origin {
            // The snapshot has its drivers.
            GuestOrigin::Restored | GuestOrigin::Reused => Vec::new(),
            GuestOrigin::Booted => factory.modules.clone(),
        };
        let interrupt = self.interrupt;
        let (link, interface) = guest
            .answer_within("get the guest's NIC ready", 2 * timeout, |channel| {
                let mut link = NodeLink::greet("guest", channel, timeout, interrupt)?;
                link.set_wall_clock(unix_ns())?;
                if !modules.is_empty() {
                    link.load_modules(modules, driver_options, timeout)?;
                }
                let facts = link.configure(config)?;
                Ok::<_, NodeError>((link, facts))
            })
            .map_err(|error| {
                // The lab tells faults in words only; whether it was the user's wish, we know.
                let interrupted = interrupt.urgency() > Urgency::None;
                Failed { interrupted, ..Failed::of_guest(*error) }
            })?;
        if let Some(reason) = contradiction(model, mtu, &interface) {
            let console_tail = guest.console_tail();
            return Err(Failed { reason, console_tail, interrupted: false });
        }
        let ready_ms = Some(milliseconds(started.elapsed()));
        let (path, port) = (Some(guest.path()), guest.port().map(str::to_owned));
        let setup = GuestSetup { origin, ready_ms, path, port };
        let (place, addresses) = (Place::Guest, nic.addresses);
        let greets = guest.ports().is_some();
        let endpoint = Endpoint { place, link, addresses, interface, greets };
        Ok((StandingGuest { endpoint, guest, built_for: cell.clone() }, setup))
    }
}

/// What a cell has at the near end of its path.
fn near_end(cell: &Cell) -> NearEnd {
    match cell.is_baseline() {
        true => NearEnd::Second,
        false => NearEnd::Guest { queues: QUEUES },
    }
}

/// What the guest really has, against what was asked for: a number for another driver would be
/// worse than none.
fn contradiction(model: NicModel, mtu: u32, facts: &InterfaceFacts) -> Option<String> {
    let wanted = model.row().driver;
    match &facts.driver {
        None => Some(format!("the guest does not tell which driver its {model} NIC has bound")),
        Some(driver) if driver != wanted => Some(format!(
            "the guest bound the driver {driver}, but the model {model} needs {wanted}"
        )),
        Some(_) if facts.mtu != mtu => {
            Some(format!("the guest's NIC has an MTU of {} bytes instead of {mtu}", facts.mtu))
        }
        Some(_) => None,
    }
}

fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
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
        switch: cell.switch,
        near: near_end(cell),
        mtu: cell.mtu,
        rate: cell.rate,
        placement: placement.cloned(),
        peer: node(),
        second: node(),
        observer: node(),
    };
    let lab = Lab::bring_up(sandbox, &spec).context("cannot bring the lab up")?;
    let host = NodeLink::greet("host", duplicate(&lab.observer.channel)?, NODE_START, interrupt)?;
    let endpoint = |place: Place, channel: &UnixStream, address: IpAddr, owner: Owner| {
        let mut link =
            NodeLink::greet(&place.to_string(), duplicate(channel)?, NODE_START, interrupt)?;
        link.set_patience(Urgency::AfterTrial);
        let further_addresses = addresses::further(cell.ip, owner, &cell.workload);
        let interface = link.configure(InterfaceConfig {
            interface: InterfaceSelector::Name(ENDPOINT_INTERFACE.to_owned()),
            address,
            further_addresses: further_addresses.clone(),
            prefix_length: addresses::prefix_length(cell.ip),
            mtu: cell.mtu,
            offloads: BTreeMap::new(),
            ports: None,
            timeout: time_span(NODE_START),
        })?;
        let addresses = [vec![address], further_addresses].concat();
        Ok::<_, anyhow::Error>(Endpoint { place, link, addresses, interface, greets: false })
    };
    let (peer, second) = (addresses::peer(cell.ip), addresses::second(cell.ip));
    let peer = endpoint(Place::Peer, &lab.peer.channel, peer, Owner::Peer)?;
    let second = endpoint(Place::Second, &lab.second.channel, second, Owner::Second)?;
    let resting = Vec::new();
    Ok(Standing { guest: None, resting, peer, second, host, lab, built_for: cell.clone() })
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

    /// The lab itself.
    pub fn lab(&self) -> &Lab {
        &self.lab
    }
}

fn duplicate(channel: &UnixStream) -> Result<UnixStream> {
    channel.try_clone().context("cannot duplicate a control channel")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(driver: Option<&str>, mtu: u32) -> InterfaceFacts {
        InterfaceFacts { driver: driver.map(str::to_owned), mtu, ..InterfaceFacts::default() }
    }

    #[test]
    fn another_driver_or_mtu_than_asked_for_is_a_contradiction() {
        let virtio: NicModel = "virtio".parse().unwrap();
        assert_eq!(contradiction(virtio, 1500, &facts(Some("virtio_net"), 1500)), None);
        let reason = contradiction(virtio, 1500, &facts(Some("e1000"), 1500)).unwrap();
        assert!(reason.contains("bound the driver e1000") && reason.contains("needs virtio_net"));
        assert!(contradiction(virtio, 9000, &facts(Some("virtio_net"), 1500)).is_some());
        assert!(contradiction(virtio, 1500, &facts(None, 1500)).is_some());
    }
}
