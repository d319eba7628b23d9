//! Derives the numbers of one trial from its raw counters.

use std::collections::BTreeSet;

use vioperf_model::record::{Party, Place, Processor, Purpose, TrialRecord};
use vioperf_model::sample::{InterfaceCounters, Sample, TcpCounters};
use vioperf_model::units::BitRate;
use vioperf_model::workload::{Direction, Workload, WorkloadKind};

use crate::between::{BetweenReading, TcpReading};
use crate::cores::MachineReading;
use crate::datagrams::{DatagramReading, Link, percent_of_wire_rate};
use crate::disk::DiskReading;
use crate::flow::{Flow, View};
use crate::hops::{self, FlowHops};
use crate::impossible_times;
use crate::latency::{Latency, LatencyReading};
use crate::layers::LayerReading;
use crate::ledger::{self, Ledger};
use crate::measure::{Measure, Unit};
use crate::over_time;
use crate::parties::PartyReading;
use crate::ports::port_of;
use crate::rate_search;
use crate::result::TimeCourse;
use crate::shapes::Course;
use crate::speeds::SpeedReading;
use crate::threads::{QemuReading, Watched};
use crate::time_course;
use crate::window::{Absent, Reading, Window, percent};

/// The label of the QEMU of the guest under test, and of the only one that a hypervisor is watched for.
pub const QEMU: &str = "qemu";

/// Everything derived from one trial; the units are in the names.
#[derive(Debug, Clone)]
pub struct TrialReadings {
    /// Position in the run.
    pub sequence: u32,
    /// How many times longer than at its best a core took for known work, at the worse end.
    pub core_slowdown: Option<f64>,
    /// The block.
    pub block: u32,
    /// The guest's CPU, of a trial that a guest was started for.
    pub processor: Option<Processor>,
    /// What the load is measured by.
    pub headline: Reading,
    /// Payload that arrived.
    pub receiver_bits_per_second: Reading,
    /// Of it what went towards the guest, where payload goes both ways at once.
    pub to_guest_bits_per_second: Reading,
    /// The same from the guest.
    pub from_guest_bits_per_second: Reading,
    /// Payload of what keeps the path busy beside what is measured, as it arrived.
    pub background_bits_per_second: Reading,
    /// Payload that was sent.
    pub sender_bits_per_second: Reading,
    /// The host's cores.
    pub host: MachineReading,
    /// How fast the host's cores ran.
    pub speeds: SpeedReading,
    /// The guest's cores.
    pub guest: MachineReading,
    /// QEMU's threads.
    pub qemu: QemuReading,
    /// Guests beside the one under test.
    pub others: Vec<PartyReading>,
    /// Busy time of the host's cores, QEMU's time and busy time of the guest's cores, each in
    /// seconds per unit of the headline metric.
    pub cpu_seconds_per_unit: [Reading; 3],
    /// What became of datagrams.
    pub datagrams: DatagramReading,
    /// What a disk did.
    pub disk: DiskReading,
    /// What a rate search proved of each goal, by ascending loss.
    pub search: Result<Vec<rate_search::Proved>, Absent>,
    /// The highest rate that a search tried, in datagrams a second.
    pub search_max_rate: Reading,
    /// What a search found, in percent of what a wire of the claimed speed can carry.
    pub search_percent_of_wire_rate: Reading,
    /// How long transactions took.
    pub latency: Result<LatencyReading, Absent>,
    /// Both ends of a path between two machines.
    pub between: Option<BetweenReading>,
    /// The sender's connections.
    pub tcp: TcpReading,
    /// Requests that were not answered in time.
    pub timeouts: Reading,
    /// Busy time of the host's cores per payload received.
    pub host_us_per_kib: Reading,
    /// QEMU's time per payload received.
    pub qemu_us_per_kib: Reading,
    /// Busy time of the guest's cores per payload received.
    pub guest_us_per_kib: Reading,
    /// Segments sent again.
    pub segments_retransmitted: Reading,
    /// The same per million segments sent.
    pub retransmitted_per_million: Reading,
    /// At the sender's interface.
    pub sender_bytes_per_packet: Reading,
    /// At the guest's tap.
    pub tap_bytes_per_packet: Reading,
    /// At the receiver's interface.
    pub receiver_bytes_per_packet: Reading,
    /// Packets along the path, hop by hop, each way.
    pub hops: Vec<FlowHops>,
    /// Where every datagram went.
    pub ledger: Result<Ledger, Absent>,
    /// What became of packets, layer by layer.
    pub layers: LayerReading,
    /// Until the guest's NIC had a carrier.
    pub guest_ready_ms: Reading,
    /// By how much clocks may differ.
    pub clock_error_percent_of_window: Reading,
    /// Busy time of the host's cores that no watched thread explains.
    pub unexplained_host_busy_percent_of_core: Reading,
    /// How fast it moved over the window, in the unit that the load is measured by; absent where the
    /// samples are too few, and of a search.
    pub course: Option<Course>,
    /// What all parties counted over time; absent of a search, and where the samples are too few.
    pub time_course: Option<TimeCourse>,
    /// What of its times cannot be, for a person.
    pub impossible_times: Option<String>,
    /// Why a load ended before it was told to.
    pub ended_early: Option<String>,
    /// What was due but not sent, of a load that counts it.
    pub due: Option<Due>,
}

/// What a load with a rate was to send, in one trial or in several.
#[derive(Debug, Clone, Copy, Default)]
pub struct Due {
    /// Datagrams that were sent.
    pub sent: u64,
    /// Datagrams, or requests, that were not.
    pub not_sent: u64,
}

impl Due {
    fn of(trial: &TrialRecord) -> Option<Self> {
        let mut due = None;
        for party in &trial.parties {
            let not_sent = party.report.load.as_ref().and_then(|load| load.not_sent);
            let Some(not_sent) = not_sent else { continue };
            let last = party.report.samples.last().and_then(|last| last.load);
            let sent = last.and_then(|load| load.datagrams).unwrap_or(0);
            due.get_or_insert(Self::default()).add(&Self { sent, not_sent });
        }
        due
    }

    /// Adds what was due in another trial.
    pub fn add(&mut self, other: &Self) {
        self.sent = self.sent.saturating_add(other.sent);
        self.not_sent = self.not_sent.saturating_add(other.not_sent);
    }
}

impl TrialReadings {
    /// What was read of a guest beside the one under test.
    pub(crate) fn other(&self, place: Place) -> Option<&PartyReading> {
        self.others.iter().find(|other| other.place() == place)
    }

    /// Tells datagrams in percent of what a link that is held to `rate` can carry, whatever a card claims.
    pub fn tell_wire_of(&mut self, rate: BitRate, trial: &TrialRecord, workload: &Workload) {
        let link = Link::HeldTo(rate);
        let received = &self.datagrams.received_per_second;
        self.datagrams.percent_of_wire_rate = percent_of_wire_rate(trial, workload, received, link);
        if trial.search.is_some() {
            self.search_percent_of_wire_rate =
                percent_of_wire_rate(trial, workload, &self.headline, link);
        }
    }

    /// Derives what can be derived. `workload` is the cell's.
    pub fn of(trial: &TrialRecord, workload: &Workload) -> Self {
        let measure = Measure::of(workload.kind);
        let flows = Flow::all(trial, Purpose::Measured);
        let background = Flow::all(trial, Purpose::Background);
        let guest = View::of_place(trial, "guest", Place::Guest);
        let host = View::of_place(trial, "host", Place::Host);
        // The peer's namespace is on the host too and sees the same cores.
        let peer = View::of_place(trial, "host", Place::Peer);
        let cores_from = if host.party.is_some() { &host } else { &peer };

        let receiver_rate = total(&flows, |flow| flow.receiver.rate(Unit::Bits));
        let search = proved(trial, workload);
        let headline = headline(trial, workload);
        // A search is measured by what it proved, its probes by what arrived.
        let moved = match workload.kind {
            WorkloadKind::RateSearch => total(&flows, |flow| flow.headline(measure)),
            _ => headline.clone(),
        };
        let host_cores = MachineReading::of(cores_from.window());
        let guest_cores = MachineReading::of(guest.window());
        let qemu = QemuReading::of(host.window(), QEMU);
        // What a request weighs says nothing about the cost of a transaction.
        let demand = |busy: &Reading| match measure.unit {
            Unit::Transactions | Unit::Operations => Err("the load is one of transactions".into()),
            _ => us_per_kib(busy, &receiver_rate),
        };
        let per_unit = |busy: &Reading| seconds_per_unit(busy, &moved);
        let (segments_retransmitted, retransmitted_per_million) = retransmissions(&flows);
        let first = &flows[0];
        let course = match workload.kind {
            WorkloadKind::RateSearch => None,
            _ => course(&flows, measure),
        };
        let ledger = ledger::of_trial(trial, workload);
        let intervals = over_time::of_trial(course.as_ref(), workload.kind);
        Self {
            sequence: trial.sequence,
            core_slowdown: trial.core_speed.map(|speed| speed.slowdown()),
            processor: trial.guest.as_ref().and_then(|guest| guest.processor.clone()),
            block: trial.block,
            sender_bits_per_second: total(&flows, |flow| flow.sender.rate(Unit::Bits)),
            cpu_seconds_per_unit: [
                per_unit(&host_cores.busy_percent_of_core),
                per_unit(&qemu.total()),
                per_unit(&guest_cores.busy_percent_of_core),
            ],
            datagrams: DatagramReading::of(trial, workload, first)
                .held_against(ledger.as_ref().ok()),
            disk: DiskReading::of(trial, &flows),
            search,
            search_max_rate: trial
                .search
                .as_ref()
                .map(|record| record.max_rate as f64)
                .ok_or(NO_SEARCH.into()),
            search_percent_of_wire_rate: match trial.search {
                Some(_) => percent_of_wire_rate(trial, workload, &headline, Link::AsClaimed),
                None => Err(NO_SEARCH.into()),
            },
            latency: Latency::of_trial(trial).map(|latency| LatencyReading::of(&latency)),
            between: BetweenReading::of(trial, &headline),
            tcp: TcpReading::of(&flows),
            timeouts: timeouts(&first.sender),
            host_us_per_kib: demand(&host_cores.busy_percent_of_core),
            qemu_us_per_kib: demand(&qemu.total()),
            guest_us_per_kib: demand(&guest_cores.busy_percent_of_core),
            receiver_bits_per_second: receiver_rate,
            to_guest_bits_per_second: one_of_two(&flows, Direction::ToGuest),
            from_guest_bits_per_second: one_of_two(&flows, Direction::FromGuest),
            background_bits_per_second: match background.as_slice() {
                [] => Err("the path was idle otherwise".into()),
                flows => total(flows, |flow| flow.receiver.rate(Unit::Bits)),
            },
            headline,
            segments_retransmitted,
            retransmitted_per_million,
            sender_bytes_per_packet: one_way(&flows, |flow| own_interface(&flow.sender, Way::Sent)),
            tap_bytes_per_packet: one_way(&flows, |flow| {
                at_guest_port(trial, &host, flow.direction)
            }),
            receiver_bytes_per_packet: one_way(&flows, |flow| {
                own_interface(&flow.receiver, Way::Received)
            }),
            hops: hops::of_flows(trial, workload, &flows),
            ledger,
            layers: LayerReading::of(trial, &flows),
            guest_ready_ms: ready_ms(trial),
            clock_error_percent_of_window: clock_error(trial),
            unexplained_host_busy_percent_of_core: unexplained(
                trial,
                &host,
                &host_cores.charged_percent_of_core,
            ),
            impossible_times: impossible_times::of_trial(trial),
            ended_early: trial.parties.iter().find_map(|party| {
                party.report.load.as_ref().and_then(|load| load.ended_early.clone())
            }),
            time_course: match workload.kind {
                WorkloadKind::RateSearch => None,
                _ => time_course::of_trial(trial, &flows, measure, cores_from, &guest)
                    .map(|told| TimeCourse { intervals, ..told }),
            },
            course,
            due: Due::of(trial),
            others: PartyReading::others(trial, &host),
            speeds: SpeedReading::of(host.window(), &host_cores),
            host: host_cores,
            guest: guest_cores,
            qemu,
        }
    }
}

/// Of all flows together; the longest stretch in which one of them stood still.
fn course(flows: &[Flow<'_>], measure: &Measure) -> Option<Course> {
    let mut together: Option<Course> = None;
    for flow in flows {
        let course = flow.course(measure)?;
        match &mut together {
            Some(together) => together.add(&course),
            None => together = Some(course),
        }
    }
    together
}

const NO_SEARCH: &str = "there is no search in the record";

fn proved(trial: &TrialRecord, workload: &Workload) -> Result<Vec<rate_search::Proved>, Absent> {
    let record = trial.search.as_ref().ok_or(NO_SEARCH)?;
    Ok(rate_search::proved(&workload.search, record))
}

/// What the load is measured by, and nothing else of the trial.
pub fn headline(trial: &TrialRecord, workload: &Workload) -> Reading {
    if workload.kind == WorkloadKind::RateSearch {
        let goals = proved(trial, workload)?;
        return goals.last().ok_or("the search has no goal")?.lower_bound();
    }
    let measure = Measure::of(workload.kind);
    total(&Flow::all(trial, Purpose::Measured), |flow| flow.headline(measure))
}

/// All flows together; absent when it is for one of them.
pub(crate) fn total(flows: &[Flow<'_>], read: impl Fn(&Flow<'_>) -> Reading) -> Reading {
    flows.iter().map(read).sum()
}

/// One of the two ways that payload goes at once.
fn one_of_two(flows: &[Flow<'_>], direction: Direction) -> Reading {
    match flows.iter().find(|flow| flow.direction == direction) {
        Some(flow) if flows.len() > 1 => flow.receiver.rate(Unit::Bits),
        _ => Err("payload goes one way at a time".into()),
    }
}

/// What is seen at an interface belongs to no flow when several go different ways.
fn one_way(flows: &[Flow<'_>], read: impl Fn(&Flow<'_>) -> Reading) -> Reading {
    match flows {
        [flow] => read(flow),
        _ => Err("payload goes both ways at once".into()),
    }
}

fn timeouts(sender: &View<'_>) -> Reading {
    let timeouts =
        sender.outcome().and_then(|load| load.timeouts).ok_or("requests do not time out")?;
    Ok(timeouts as f64)
}

/// `busy` as in [`us_per_kib`].
pub(crate) fn seconds_per_unit(busy: &Reading, per_second: &Reading) -> Reading {
    let busy = busy.as_ref().map_err(Clone::clone)?;
    let per_second = per_second.as_ref().map_err(Clone::clone)?;
    if *per_second == 0.0 {
        return Err("nothing arrived".into());
    }
    Ok(busy / 100.0 / per_second)
}

/// `busy` is in percent of a core: of every second so many hundredths. Both are rates, so the
/// parties' windows need not be of the same length.
fn us_per_kib(busy: &Reading, received: &Reading) -> Reading {
    let busy = busy.as_ref().map_err(Clone::clone)?;
    let bits_per_second = received.as_ref().map_err(Clone::clone)?;
    let kib_per_second = bits_per_second / 8.0 / 1024.0;
    if kib_per_second == 0.0 {
        return Err("nothing arrived".into());
    }
    Ok(busy / 100.0 * 1e6 / kib_per_second)
}

fn retransmissions(flows: &[Flow<'_>]) -> (Reading, Reading) {
    let increase = |read: fn(&TcpCounters) -> u64| {
        total(flows, |Flow { sender, .. }| {
            let increase = sender.window()?.increase("tcp", |sample| sample.tcp.as_ref().map(read));
            increase.map(|segments| segments as f64)
        })
    };
    let again = increase(|tcp| tcp.segments_retransmitted);
    let per_million = match (&again, increase(|tcp| tcp.segments_sent)) {
        (Ok(_), Ok(0.0)) => Err("no segment was sent".into()),
        (Ok(again), Ok(sent)) => Ok(again / sent * 1e6),
        (Err(reason), _) => Err(reason.clone()),
        (_, Err(reason)) => Err(reason),
    };
    (again, per_million)
}

#[derive(Clone, Copy)]
pub(crate) enum Way {
    Sent,
    Received,
}

pub(crate) fn own_interface(view: &View<'_>, way: Way) -> Reading {
    let window = view.window()?;
    let facts = view.party.and_then(|party| party.interface.as_ref());
    let facts = facts.ok_or("the interface under test is not in the record")?;
    bytes_per_packet(window, &facts.name, way)
}

/// What goes to the guest, the host sends into the tap.
fn at_guest_port(trial: &TrialRecord, host: &View<'_>, direction: Direction) -> Reading {
    let way = match direction {
        Direction::ToGuest => Way::Sent,
        Direction::FromGuest | Direction::Both => Way::Received,
    };
    let window = host.window()?;
    window.first().interfaces.as_ref().ok_or_else(|| window.reason("interfaces"))?;
    let port = host.party.and_then(|host| port_of(trial, host, Place::Guest));
    bytes_per_packet(window, port.ok_or("no tap of its own among the host's interfaces")?, way)
}

fn bytes_per_packet(window: &Window<'_>, interface: &str, way: Way) -> Reading {
    let counters = |sample: &Sample| -> Option<InterfaceCounters> {
        sample.interfaces.as_ref()?.get(interface).copied()
    };
    let bytes = window.increase("interfaces", |sample| {
        counters(sample).map(|c| match way {
            Way::Sent => c.tx_bytes,
            Way::Received => c.rx_bytes,
        })
    })?;
    let packets = window.increase("interfaces", |sample| {
        counters(sample).map(|c| match way {
            Way::Sent => c.tx_packets,
            Way::Received => c.rx_packets,
        })
    })?;
    if packets == 0 {
        return Err(format!("{interface} counted no packet").into());
    }
    Ok(bytes as f64 / packets as f64)
}

fn ready_ms(trial: &TrialRecord) -> Reading {
    let guest = trial.guest.as_ref().ok_or("no guest in this path")?;
    let ready = guest.ready_ms.ok_or("the guest had served the trial before")?;
    Ok(ready as f64)
}

fn clock_error(trial: &TrialRecord) -> Reading {
    let timeline = trial.timeline.as_ref().ok_or("the load was never measured")?;
    let length = timeline.measured_until_ns.saturating_sub(timeline.measured_from_ns);
    let worst = trial.parties.iter().map(|party| party.clock.error_ns).max();
    match (worst, length) {
        (None, _) => Err("no party is in the record".into()),
        (_, 0) => Err("the window is empty".into()),
        (Some(worst), _) => Ok(percent(worst as f64, length as f64)),
    }
}

/// Busy time, interrupts aside, less that of the watched threads and of the nodes on the host. A
/// thread's own time may contain soft interrupts that it was interrupted by, and then too little is
/// left over: a finding that comes of this is on the safe side.
fn unexplained(trial: &TrialRecord, host: &View<'_>, busy: &Reading) -> Reading {
    let busy = busy.as_ref().map_err(Clone::clone)?;
    let (watched, processes) = match host.window() {
        Ok(window) if window.samples().iter().any(|sample| sample.threads.is_some()) => {
            let watched = Watched::of(window)?;
            (watched.percent_of_core, watched.processes)
        }
        // A baseline need not have a process to watch.
        _ if trial.guest.is_none() => (0.0, BTreeSet::new()),
        Ok(window) => return Err(window.reason("threads")),
        Err(reason) => return Err(reason),
    };
    let boot = |party: &Party| party.identity.boot_id.clone();
    let on_host = host.party.and_then(boot);
    let is_counted = |party: &&Party| match label(party.place) {
        Some(label) => !processes.contains(label),
        // An end between two machines may be on the hypervisor of the other.
        None => on_host.is_some() && boot(party) == on_host,
    };
    let nodes: f64 = trial.parties.iter().filter(is_counted).filter_map(node_percent_of_core).sum();
    Ok((busy - watched - nodes).max(0.0))
}

/// What a party's process on the host is called where it is watched; a guest's is QEMU.
fn label(place: Place) -> Option<&'static str> {
    match place {
        Place::Peer => Some("peer"),
        Place::Second => Some("second"),
        Place::HostEnd => Some("host-end"),
        Place::Host => Some("host"),
        Place::Guest
        | Place::FarGuest
        | Place::Forwarder
        | Place::Neighbour
        | Place::Client
        | Place::Server => None,
    }
}

/// The node's own CPU time, over all that it sampled: it is counted from start to stop.
pub(crate) fn node_percent_of_core(party: &Party) -> Option<f64> {
    let times = || party.report.samples.iter().map(|sample| sample.monotonic_ns);
    let span = times().max()?.checked_sub(times().min()?).filter(|span| *span > 0)?;
    Some(percent(party.report.node_cpu_ns as f64, span as f64))
}
