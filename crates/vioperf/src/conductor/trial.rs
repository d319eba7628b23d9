//! One trial: the nodes of a standing testbed are taken through prepare, start, stop, collect.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use vioperf_model::record::{ClockRelation, Leg, Party, Place, Purpose, Timeline};
use vioperf_model::sample::{InterfaceFacts, NodeReport};
use vioperf_model::units::{CoreLoad, TimeSpan};
use vioperf_model::wire::{MAX_BURNERS, Prepare, Role, Spread, WatchedProcess};
use vioperf_model::workload::{Direction, Workload, WorkloadKind};

use super::kvm::{self, WatchedGuest};
use super::node_link::{NodeError, NodeLink, monotonic_ns, time_span};
use super::rest::await_rest;
use crate::interrupt::{Interrupt, Urgency};
use crate::live::{EndNow, Live, Watch};

/// How much longer than planned a load runs on when it hears nothing more from its conductor.
const LOST_CONDUCTOR: Duration = Duration::from_secs(30);

/// How often both ends are asked how far they are, where somebody looks on.
const LOOK: Duration = Duration::from_millis(500);

/// One end of the path under test.
#[derive(Debug)]
pub struct Endpoint {
    /// Where it is.
    pub place: Place,
    /// Its node.
    pub link: NodeLink,
    /// Its addresses on the path under test, the main one first.
    pub addresses: Vec<IpAddr>,
    /// Its interface under test, as it really is.
    pub interface: InterfaceFacts,
    /// Its connections are ended by something in between, and begin with a byte for that.
    pub greets: bool,
    /// The disk that loads of its kind read and write, by a path of its own machine.
    pub disk: Option<PathBuf>,
}

impl Endpoint {
    fn side(&mut self) -> Side<'_> {
        // What runs on the host the observer counts.
        let counts_hardware = self.place.is_in_guest();
        let (addresses, greets) = (self.addresses.clone(), self.greets);
        Side { counts_hardware, addresses, greets, ..Side::of(&mut self.link) }
    }
}

/// The nodes of one testbed.
pub struct Nodes<'a> {
    /// The far end, where any load goes there.
    pub far: Option<&'a mut Endpoint>,
    /// The other end: the guest, or the second namespace of a baseline.
    pub near: &'a mut Endpoint,
    /// Guests that are no end of it.
    pub beside: Vec<Beside<'a>>,
    /// The host's observer.
    pub host: &'a mut NodeLink,
    /// Work of the near end meanwhile.
    pub burn: Option<CoreLoad>,
    /// Work of the host.
    pub host_burn: Option<CoreLoad>,
    /// Processes whose threads the observer samples.
    pub processes: Vec<WatchedProcess>,
    /// The socket of the switch's database, where that is an Open vSwitch.
    pub open_vswitch: Option<PathBuf>,
    /// The guest, where there is one.
    pub guest: Option<WatchedGuest<'a>>,
    /// Who looks on; where nobody does, nobody is asked while the load runs.
    pub watch: Option<&'a dyn Watch>,
}

/// A guest that is no end of the path: it observes itself.
#[derive(Debug)]
pub struct Beside<'a> {
    /// Its node and its interface.
    pub endpoint: &'a mut Endpoint,
    /// What it does while the load runs.
    pub meanwhile: Meanwhile,
}

/// What a guest beside the path does while the load runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meanwhile {
    /// Nothing, or what its part in the path is.
    Nothing,
    /// It burns all its virtual CPUs.
    AllCores,
    /// It does to its own disk what is measured of the other.
    SameDiskLoad,
}

impl Beside<'_> {
    /// Makes it ready to observe, and for what it does meanwhile.
    fn prepare(&mut self, workload: &Workload, interval: TimeSpan) -> Result<(), NodeError> {
        let Endpoint { link, disk, .. } = &mut *self.endpoint;
        let cores = u16::try_from(link.identity().cores).unwrap_or(MAX_BURNERS).min(MAX_BURNERS);
        let all = CoreLoad::from_ppm(u64::from(cores) * 1_000_000);
        let (role, burn, disk) = match self.meanwhile {
            Meanwhile::Nothing => (Role::Observer, None, None),
            Meanwhile::AllCores => (Role::Observer, Some(all), None),
            Meanwhile::SameDiskLoad => (Role::Disk, None, disk.clone()),
        };
        let does = Prepare { disk, ..part(role, workload, interval, Vec::new()) };
        link.prepare(Prepare { counts_hardware: true, ..burning(burn, does) }).map(drop)
    }

    /// The load that it has, if it has one.
    fn legs(&self) -> Vec<Leg> {
        let loads = self.meanwhile == Meanwhile::SameDiskLoad;
        let leg = Leg { purpose: Purpose::Neighbour, role: Role::Disk };
        loads.then_some(leg).into_iter().collect()
    }
}

/// A part with work beside it, in as many threads as that takes.
fn burning(load: Option<CoreLoad>, part: Prepare) -> Prepare {
    let burn_threads = load.map(|load| load.threads().min(MAX_BURNERS));
    Prepare { burn: load.map(CoreLoad::of_each), burn_threads, ..part }
}

/// What a trial gave.
#[derive(Debug)]
pub struct Measured {
    /// When it was measured.
    pub timeline: Timeline,
    /// What each party saw.
    pub parties: Vec<Party>,
}

/// Takes the nodes through one trial.
///
/// # Errors
/// The first thing that a node did not do; the nodes are then in no known state.
pub fn conduct(
    nodes: &mut Nodes<'_>,
    workload: &Workload,
    interrupt: &Interrupt,
) -> Result<Measured, NodeError> {
    conduct_and_drain(nodes, workload, Duration::ZERO, interrupt)
}

/// The same, and the receiver goes on for so long after the sender has stopped: what was sent but is
/// still on its way counts too.
///
/// # Errors
/// As [`conduct`].
pub fn conduct_and_drain(
    nodes: &mut Nodes<'_>,
    workload: &Workload,
    drain: Duration,
    interrupt: &Interrupt,
) -> Result<Measured, NodeError> {
    // A first Ctrl-C ends the run after this trial, so it must not disturb it.
    let Nodes { far, near, host, beside, .. } = nodes;
    let far_link = far.as_mut().map(|far| &mut far.link);
    for link in far_link.into_iter().chain([&mut near.link, &mut **host]) {
        link.set_patience(Urgency::Now);
    }
    let mut clocks_beside = Vec::new();
    for beside in beside {
        beside.endpoint.link.set_patience(Urgency::Now);
        clocks_beside.push(beside.endpoint.link.relate_clock()?);
    }
    let far_clock = far.as_mut().map(|far| far.link.relate_clock()).transpose()?;
    let clocks = [near.link.relate_clock()?, host.relate_clock()?];
    let disk = near.disk.clone();
    let near = Side { burn: nodes.burn, disk, ..near.side() };
    let far = far.as_mut().map(|far| far.side());
    let interval = sample_interval(workload);
    let [at_far, at_near] = prepare_ends(far, near, workload, interval)?;
    let observes = part(Role::Observer, workload, interval, nodes.processes.clone());
    let (open_vswitch, burn) = (nodes.open_vswitch.clone(), nodes.host_burn);
    let observes = burning(burn, observes);
    nodes.host.prepare(Prepare { open_vswitch, counts_hardware: true, ..observes })?;
    nodes.beside.iter_mut().try_for_each(|beside| beside.prepare(workload, interval))?;

    // Whoever receives what is measured begins first and ends last.
    let towards_guest = workload.direction != Direction::FromGuest;
    let of_far = nodes.far.as_mut().map(|far| End::of(far, &at_far));
    let of_near = End::of(nodes.near, &at_near);
    let mut ends: Vec<End<'_>> = of_far.into_iter().chain([of_near]).collect();
    if !towards_guest {
        ends.reverse();
    }
    let kvm_before = nodes.guest.as_mut().map(WatchedGuest::kvm_counters);
    nodes.host.start()?;
    nodes.beside.iter_mut().try_for_each(|beside| beside.endpoint.link.start())?;
    ends.iter_mut().rev().try_for_each(|end| end.link.start())?;
    let looks = nodes.watch.map(|watch| Looks { watch, live: Live::new(workload.kind) });
    let timeline = measure(&mut ends, workload, looks, interrupt)?;
    let Some((receiver, senders)) = ends.split_last_mut() else {
        return Err(NodeError::Interrupted);
    };
    senders.iter_mut().try_for_each(|end| end.link.stop())?;
    if drain.is_zero() {
        await_rest(receiver.link, workload, interrupt)?;
    } else if !interrupt.sleep_until(Instant::now() + drain, Urgency::Now) {
        return Err(NodeError::Interrupted);
    }
    receiver.link.stop()?;
    nodes.beside.iter_mut().try_for_each(|beside| beside.endpoint.link.stop())?;
    nodes.host.stop()?;
    let kvm_after = nodes.guest.as_mut().map(WatchedGuest::kvm_counters);

    let [near_clock, host_clock] = clocks;
    let mut parties = Vec::new();
    if let Some((far, clock)) = nodes.far.as_mut().zip(far_clock) {
        parties.push(party(far, at_far, clock)?);
    }
    parties.push(party(nodes.near, at_near, near_clock)?);
    if !towards_guest {
        parties.reverse();
    }
    for (beside, clock) in nodes.beside.iter_mut().zip(clocks_beside) {
        let legs = beside.legs();
        parties.push(party(beside.endpoint, legs, clock)?);
    }
    let mut report = nodes.host.collect()?;
    if let Some((before, after)) = kvm_before.zip(kvm_after) {
        kvm::add(&mut report, before, after);
    }
    parties.push(Party {
        place: Place::Host,
        role: Role::Observer,
        purpose: Purpose::Measured,
        further_legs: Vec::new(),
        identity: nodes.host.identity().clone(),
        clock: host_clock,
        interface: None,
        report,
    });
    Ok(Measured { timeline, parties })
}

/// One end of the path, for as long as loads are made ready.
#[derive(Debug)]
pub struct Side<'a> {
    /// Its node.
    pub link: &'a mut NodeLink,
    /// Its addresses on the path, the main one first.
    pub addresses: Vec<IpAddr>,
    /// Work that it does meanwhile.
    pub burn: Option<CoreLoad>,
    /// Whether it counts what the processors of its machine do.
    pub counts_hardware: bool,
    /// As [`Endpoint::greets`].
    pub greets: bool,
    /// As [`Endpoint::disk`].
    pub disk: Option<PathBuf>,
}

impl<'a> Side<'a> {
    /// One with a single address, on a machine of its own.
    pub fn new(link: &'a mut NodeLink, address: IpAddr) -> Self {
        Self { addresses: vec![address], counts_hardware: true, ..Self::of(link) }
    }

    fn of(link: &'a mut NodeLink) -> Self {
        Self {
            link,
            addresses: Vec::new(),
            burn: None,
            counts_hardware: false,
            greets: false,
            disk: None,
        }
    }

    fn address(&self) -> IpAddr {
        self.addresses.first().copied().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
    }

    /// As many of its addresses as a load wants; none where it wants one.
    fn wanted(&self, count: Option<u16>) -> Vec<IpAddr> {
        let count = usize::from(count.unwrap_or(1));
        if count <= 1 {
            return Vec::new();
        }
        self.addresses.iter().copied().take(count).collect()
    }
}

/// Makes every load ready at both ends; what each end's part is, in the order of its counters.
///
/// # Errors
/// When an end cannot.
pub fn prepare<'a>(
    peer: Side<'a>,
    near: Side<'a>,
    workload: &Workload,
    sample_interval: TimeSpan,
) -> Result<[Vec<Leg>; 2], NodeError> {
    prepare_ends(Some(peer), near, workload, sample_interval)
}

/// The same, where the far end may have no part.
fn prepare_ends<'a>(
    mut peer: Option<Side<'a>>,
    mut near: Side<'a>,
    workload: &Workload,
    sample_interval: TimeSpan,
) -> Result<[Vec<Leg>; 2], NodeError> {
    let background = workload.background_load();
    let loads = [(Purpose::Measured, Some(workload)), (Purpose::Background, background.as_ref())];
    let [mut at_peer, mut at_near] = [Vec::new(), Vec::new()];
    for (purpose, load) in loads {
        let Some(load) = load else { continue };
        if load.kind == WorkloadKind::Disk {
            let (role, disk) = (Role::Disk, near.disk.clone());
            let of_disk = part(role, load, sample_interval, vec![]);
            let counts_hardware = near.counts_hardware;
            near.link.prepare(Prepare { disk, counts_hardware, ..burning(near.burn, of_disk) })?;
            at_near.push(Leg { purpose, role });
            continue;
        }
        let Some(peer) = &mut peer else { continue };
        for way in load.direction.ways() {
            let (peer, near) = ((&mut *peer, &mut at_peer), (&mut near, &mut at_near));
            let ((sender, sent), (receiver, received)) =
                if *way == Direction::FromGuest { (near, peer) } else { (peer, near) };
            let spread = Spread {
                greets: sender.greets || receiver.greets,
                sources: sender.wanted(load.source_addresses),
                destinations: receiver.wanted(load.destination_addresses),
            };
            let in_part = |role, burn, counts_hardware| Prepare {
                spread: spread.clone(),
                counts_hardware,
                ..burning(burn, part(role, load, sample_interval, vec![]))
            };
            let receiving = Role::Receiver { bind: receiver.address() };
            let port = receiver.link.prepare(in_part(
                receiving,
                receiver.burn,
                receiver.counts_hardware,
            ))?;
            let address = SocketAddr::new(receiver.address(), port.unwrap_or(0));
            let sending = Role::Sender { peer: address };
            sender.link.prepare(in_part(sending, sender.burn, sender.counts_hardware))?;
            received.push(Leg { purpose, role: receiving });
            sent.push(Leg { purpose, role: sending });
        }
    }
    Ok([at_peer, at_near])
}

fn party(end: &mut Endpoint, legs: Vec<Leg>, clock: ClockRelation) -> Result<Party, NodeError> {
    let mut legs = legs.into_iter();
    let first = legs.next().unwrap_or(Leg { purpose: Purpose::Measured, role: Role::Observer });
    Ok(Party {
        place: end.place,
        role: first.role,
        purpose: first.purpose,
        further_legs: legs.collect(),
        identity: end.link.identity().clone(),
        clock,
        // What no load goes over has none.
        interface: (!end.addresses.is_empty()).then(|| end.interface.clone()),
        report: end.link.collect()?,
    })
}

/// What a node is told that only observes.
pub fn observing(
    workload: &Workload,
    sample_interval: TimeSpan,
    processes: Vec<WatchedProcess>,
) -> Prepare {
    part(Role::Observer, workload, sample_interval, processes)
}

/// What a node is told of its part.
fn part(
    role: Role,
    workload: &Workload,
    sample_interval: TimeSpan,
    processes: Vec<WatchedProcess>,
) -> Prepare {
    let planned = workload.warmup.as_duration() + workload.duration.as_duration();
    Prepare {
        role,
        workload: Box::new(workload.clone()),
        spread: Spread::default(),
        sample_interval,
        processes,
        burn: None,
        burn_threads: None,
        open_vswitch: None,
        counts_hardware: false,
        disk: None,
        deadline: time_span(planned + LOST_CONDUCTOR),
    }
}

/// Some fifteen samples a trial, but not more than twenty and not less than one a second: enough for
/// a time course, too few to disturb a guest that is slow.
fn sample_interval(workload: &Workload) -> TimeSpan {
    let interval = workload.duration.as_duration() / 15;
    time_span(interval.clamp(Duration::from_millis(50), Duration::from_secs(1)))
}

/// Whose cores an end tells of.
fn machine_of(place: Place) -> &'static str {
    match place {
        Place::FarGuest => "far guest",
        place if place.is_in_guest() => "guest",
        _ => "host",
    }
}

/// An end of the path while the load runs.
struct End<'a> {
    link: &'a mut NodeLink,
    legs: &'a [Leg],
    /// Whose cores it tells of.
    name: &'static str,
}

impl<'a> End<'a> {
    fn of(endpoint: &'a mut Endpoint, legs: &'a [Leg]) -> Self {
        Self { name: machine_of(endpoint.place), link: &mut endpoint.link, legs }
    }
}

/// Looking on while the load runs.
struct Looks<'a> {
    watch: &'a dyn Watch,
    live: Live,
}

impl Looks<'_> {
    fn look(&mut self, ends: &mut [End<'_>], seconds: f64) -> Result<(), NodeError> {
        let mut samples = Vec::new();
        for end in &mut *ends {
            samples.push(end.link.progress(LOST_CONDUCTOR)?);
        }
        let now: Vec<EndNow<'_>> = ends
            .iter()
            .zip(&samples)
            .map(|(end, sample)| EndNow { name: end.name, legs: end.legs, sample })
            .collect();
        if let Some(moment) = self.live.look(seconds, &now) {
            self.watch.sees(&moment);
        }
        Ok(())
    }
}

/// Lets the load run; ends are in the order of sender and receiver.
fn measure(
    ends: &mut [End<'_>],
    workload: &Workload,
    mut looks: Option<Looks<'_>>,
    interrupt: &Interrupt,
) -> Result<Timeline, NodeError> {
    let started_ns = monotonic_ns();
    let began = Instant::now();
    let mut wait_until = |end: Instant| -> Result<u64, NodeError> {
        while let Some(looks) = &mut looks {
            let next = Instant::now() + LOOK;
            // The last look is the collecting.
            if next + LOOK / 2 > end {
                break;
            }
            looks.look(ends, began.elapsed().as_secs_f64())?;
            if !interrupt.sleep_until(next, Urgency::Now) {
                return Err(NodeError::Interrupted);
            }
        }
        match interrupt.sleep_until(end, Urgency::Now) {
            true => Ok(monotonic_ns()),
            false => Err(NodeError::Interrupted),
        }
    };
    let measured_from = began + workload.warmup.as_duration();
    let measured_from_ns = wait_until(measured_from)?;
    let measured_until_ns = wait_until(measured_from + workload.duration.as_duration())?;
    Ok(Timeline { started_ns, measured_from_ns, measured_until_ns })
}

/// Why what was measured must not count, if so: a load that ended early, or a party that has no
/// samples.
pub fn fault_in(parties: &[Party]) -> Option<String> {
    parties.iter().find_map(|party| {
        let report: &NodeReport = &party.report;
        let place = party.place;
        if let Some(reason) = report.loads().find_map(|load| load.ended_early.as_ref()) {
            return Some(format!("the load on the {place} ended early: {reason}"));
        }
        (report.samples.len() < 2).then(|| format!("the {place} took no samples"))
    })
}
