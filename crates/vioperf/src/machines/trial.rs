//! One trial between two machines: prepare, start, watch, stop, collect. When one end goes, what the
//! other has measured is kept.

use std::time::{Duration, Instant};

use vioperf_model::record::{ClockRelation, Leg, Party, Place, Purpose, Timeline};
use vioperf_model::sample::{InterfaceFacts, NodeReport, Sample};
use vioperf_model::units::TimeSpan;
use vioperf_model::wire::Role;
use vioperf_model::workload::{Direction, Workload};

use super::hypervisor::Hypervisor;

use crate::conductor::node_link::{NodeError, NodeLink, monotonic_ns, time_span};
use crate::conductor::rest::await_rest;
use crate::conductor::trial::{Side, prepare};
use crate::interrupt::{Interrupt, Urgency};
use crate::live::{EndNow, Live, Watch};

/// How often both ends are asked how far they are.
const LOOK: Duration = Duration::from_secs(1);
/// How often nodes sample: a test that is interrupted early shall have seen enough.
const SAMPLE_EVERY: TimeSpan = TimeSpan::from_millis(250);
/// The same of a load that runs for longer than [`LONG`].
const SAMPLE_LONG_EVERY: TimeSpan = TimeSpan::from_millis(1_000);
const LONG: Duration = Duration::from_secs(600);
/// A node that does not answer for so long while the load runs has gone, or the path to it.
const SILENT_AFTER: Duration = Duration::from_secs(10);

/// One end of the path.
#[derive(Debug)]
pub struct End {
    /// Which.
    pub place: Place,
    /// Its node.
    pub link: NodeLink,
    /// Its address, as the other end sees it.
    pub address: std::net::IpAddr,
}

/// What came of a trial.
#[derive(Debug)]
pub struct Conducted {
    /// When it was measured; absent when it never began.
    pub timeline: Option<Timeline>,
    /// What each end saw.
    pub parties: Vec<Party>,
    /// What went wrong, if anything.
    pub fault: Option<NodeError>,
}

/// One end in its part.
struct Player<'a> {
    end: &'a mut End,
    legs: Vec<Leg>,
    clock: ClockRelation,
    /// The interface that has its address, where there is one.
    interface: Option<InterfaceFacts>,
    /// What it said while the load ran: all that is left of it when it goes.
    heard: Vec<Sample>,
    gone: bool,
}

impl Player<'_> {
    /// Has it do something, as long as it is there.
    fn tell(
        &mut self,
        patience: &Interrupt,
        fault: &mut Option<NodeError>,
        ask: impl FnOnce(&mut NodeLink) -> Result<(), NodeError>,
    ) {
        self.end.link.set_interrupt(patience);
        if !self.gone
            && let Err(error) = ask(&mut self.end.link)
        {
            self.gone = true;
            fault.get_or_insert(error);
        }
    }
}

/// Takes both ends through one load; each second `watch` sees it. The receiver goes on for
/// the time of `drain` after the sender has stopped. The hypervisor of an end observes, from before the
/// first start until after the last stop.
pub fn conduct(
    ends: (&mut End, &mut End),
    mut hypervisor: Option<&mut Hypervisor>,
    workload: &Workload,
    drain: Duration,
    interrupt: &Interrupt,
    onlooker: Option<&dyn Watch>,
) -> Conducted {
    let nothing = |fault| Conducted { timeline: None, parties: Vec::new(), fault: Some(fault) };
    let (client, server) = ends;
    let interval = sample_interval(workload);
    if let Some(hypervisor) = &mut hypervisor
        && let Err(fault) = hypervisor.begin(workload, interval)
    {
        return nothing(fault);
    }
    let mut players = match begin(client, server, workload) {
        Ok(players) => players,
        Err(fault) => return nothing(fault),
    };
    let (timeline, mut fault) =
        watch(&mut players, hypervisor.as_deref_mut(), workload, interrupt, onlooker);
    // What was measured is fetched even when the user wants the end; a further signal ends that too.
    let patience = interrupt.forgetting();
    let [sender, receiver] = &mut players;
    sender.tell(&patience, &mut fault, NodeLink::stop);
    if drain.is_zero() {
        receiver.tell(&patience, &mut fault, |link| {
            match await_rest(link, workload, &patience) {
                // What was measured is fetched all the same.
                Err(NodeError::Interrupted) => Ok(()),
                outcome => outcome,
            }
        });
    } else {
        patience.sleep_until(Instant::now() + drain, Urgency::Now);
    }
    receiver.tell(&patience, &mut fault, NodeLink::stop);
    let mut parties: Vec<Party> = players.map(|player| player.into_party(&mut fault)).into();
    match hypervisor.map(|hypervisor| hypervisor.end(&patience)) {
        Some(Ok(party)) => parties.push(party),
        Some(Err(error)) => drop(fault.get_or_insert(error)),
        None => {}
    }
    Conducted { timeline: Some(timeline), parties, fault }
}

/// Until both have started, the receiver first: the sender comes first in what is given back.
fn begin<'a>(
    client: &'a mut End,
    server: &'a mut End,
    workload: &Workload,
) -> Result<[Player<'a>; 2], NodeError> {
    let clocks = [client.link.relate_clock()?, server.link.relate_clock()?];
    let interfaces =
        [&mut *client, &mut *server].map(|end| end.link.interface_of(end.address).ok());
    let here = Side::new(&mut client.link, client.address);
    let there = Side::new(&mut server.link, server.address);
    let legs = prepare(here, there, workload, sample_interval(workload))?;
    let player = |end, legs, clock, interface| Player {
        end,
        legs,
        clock,
        interface,
        heard: Vec::new(),
        gone: false,
    };
    let ([at_client, at_server], [client_clock, server_clock]) = (legs, clocks);
    let [of_client, of_server] = interfaces;
    let client = player(client, at_client, client_clock, of_client);
    let server = player(server, at_server, server_clock, of_server);
    let players = if workload.direction == Direction::FromGuest {
        [server, client]
    } else {
        [client, server]
    };
    let [sender, receiver] = players;
    receiver.end.link.start()?;
    sender.end.link.start()?;
    Ok([sender, receiver])
}

fn sample_interval(workload: &Workload) -> TimeSpan {
    match workload.duration.as_duration() {
        long if long > LONG => SAMPLE_LONG_EVERY,
        short => time_span(short / 15).clamp(TimeSpan::from_millis(100), SAMPLE_EVERY),
    }
}

/// Waits for the end of the load, and looks at it each second.
fn watch(
    players: &mut [Player<'_>; 2],
    mut hypervisor: Option<&mut Hypervisor>,
    workload: &Workload,
    interrupt: &Interrupt,
    onlooker: Option<&dyn Watch>,
) -> (Timeline, Option<NodeError>) {
    let started_ns = monotonic_ns();
    let began = Instant::now();
    let warm_at = began + workload.warmup.as_duration();
    let end = warm_at + workload.duration.as_duration();
    let mut live = Live::new(workload.kind);
    let mut measured_from_ns = None;
    let mut fault = None;
    let mut next_look = began;
    let mut heard_at_ns = started_ns;
    loop {
        let warming = measured_from_ns.is_none().then_some(warm_at);
        // The last look is the collecting.
        let look = Some(next_look).filter(|look| *look + LOOK / 2 < end);
        let until = warming.into_iter().chain(look).min().unwrap_or(end).min(end);
        let undisturbed = interrupt.sleep_until(until, Urgency::AfterTrial);
        let now = Instant::now();
        if measured_from_ns.is_none() && now >= warm_at {
            measured_from_ns = Some(monotonic_ns());
        }
        if !undisturbed || now >= end {
            break;
        }
        if now >= next_look && look.is_some() {
            next_look += LOOK;
            match ask_all(players, hypervisor.as_deref_mut()) {
                Ok([sender, receiver]) => {
                    let seconds = began.elapsed().as_secs_f64();
                    heard_at_ns = monotonic_ns();
                    let mut now = [players[0].now(&sender), players[1].now(&receiver)];
                    now.sort_by_key(|end| end.name);
                    if let (Some(onlooker), Some(moment)) = (onlooker, live.look(seconds, &now)) {
                        onlooker.sees(&moment);
                    }
                }
                Err(error) => {
                    fault = Some(error);
                    break;
                }
            }
        }
    }
    // Of an end that went nothing is known after it was last heard of.
    let measured_until_ns = if fault.is_some() { heard_at_ns } else { monotonic_ns() };
    let measured_from_ns = measured_from_ns.unwrap_or(started_ns).min(measured_until_ns);
    (Timeline { started_ns, measured_from_ns, measured_until_ns }, fault)
}

fn ask_all(
    players: &mut [Player<'_>; 2],
    hypervisor: Option<&mut Hypervisor>,
) -> Result<[Sample; 2], NodeError> {
    let [sender, receiver] = players;
    let samples = [sender.ask()?, receiver.ask()?];
    // A node that nobody asks ends itself.
    hypervisor.map_or(Ok(()), |hypervisor| hypervisor.ask(SILENT_AFTER))?;
    Ok(samples)
}

impl Player<'_> {
    fn ask(&mut self) -> Result<Sample, NodeError> {
        let sample = self.end.link.progress(SILENT_AFTER).inspect_err(|_| self.gone = true)?;
        self.heard.push(sample.clone());
        Ok(sample)
    }

    fn now<'s>(&'s self, sample: &'s Sample) -> EndNow<'s> {
        let name = if self.end.place == Place::Client { "here" } else { "there" };
        EndNow { name, legs: &self.legs, sample }
    }

    fn into_party(mut self, fault: &mut Option<NodeError>) -> Party {
        let collected = if self.gone { None } else { self.collect(fault) };
        let report = collected.unwrap_or_else(|| self.what_was_heard());
        let mut legs = self.legs.into_iter();
        let first = legs.next().unwrap_or(Leg { purpose: Purpose::Measured, role: Role::Observer });
        Party {
            place: self.end.place,
            role: first.role,
            purpose: first.purpose,
            further_legs: legs.collect(),
            identity: self.end.link.identity().clone(),
            clock: self.clock,
            interface: self.interface,
            report,
        }
    }

    fn collect(&mut self, fault: &mut Option<NodeError>) -> Option<NodeReport> {
        self.end.link.collect().map_err(|error| fault.get_or_insert(error)).ok()
    }

    /// What is left of an end that went.
    fn what_was_heard(&mut self) -> NodeReport {
        let reason = "the connection to it was lost: these are the samples of each second";
        NodeReport {
            samples: std::mem::take(&mut self.heard),
            absent: [("load outcome".to_owned(), reason.to_owned())].into(),
            ticks_per_second: 100,
            ..NodeReport::default()
        }
    }
}
