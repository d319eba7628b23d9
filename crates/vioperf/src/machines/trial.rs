//! One trial between two machines: prepare, start, watch, stop, collect. When one end goes, what the
//! other has measured is kept.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use vioperf_model::record::{ClockRelation, Party, Place, Timeline};
use vioperf_model::sample::{NodeReport, Sample};
use vioperf_model::wire::Role;
use vioperf_model::workload::{Direction, Workload};

use super::live::Live;
use crate::conductor::node_link::{NodeError, NodeLink, monotonic_ns};
use crate::conductor::trial::part;
use crate::interrupt::{Interrupt, Urgency};

/// How often both ends are asked how far they are.
const LOOK: Duration = Duration::from_secs(1);
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
    role: Role,
    clock: ClockRelation,
    /// What it said while the load ran: all that is left of it when it goes.
    heard: Vec<Sample>,
    gone: bool,
}

/// Takes both ends through one trial; each second `tell` gets a line about it.
pub fn conduct(
    ends: (&mut End, &mut End),
    workload: &Workload,
    interrupt: &Interrupt,
    tell: &mut dyn FnMut(String),
) -> Conducted {
    let nothing = |fault| Conducted { timeline: None, parties: Vec::new(), fault: Some(fault) };
    let (client, server) = ends;
    let (sender, receiver) = match workload.direction {
        Direction::ToGuest => (client, server),
        Direction::FromGuest => (server, client),
    };
    let mut players = match begin(sender, receiver, workload) {
        Ok(players) => players,
        Err(fault) => return nothing(fault),
    };
    let (timeline, mut fault) = watch(&mut players, workload, interrupt, tell);
    // What was measured is fetched even when the user wants the end; a further signal ends that too.
    let patience = interrupt.from_now_on();
    for player in &mut players {
        player.end.link.set_interrupt(&patience);
        if !player.gone
            && let Err(error) = player.end.link.stop()
        {
            player.gone = true;
            fault.get_or_insert(error);
        }
    }
    let parties = players.map(|player| player.into_party(&mut fault));
    Conducted { timeline: Some(timeline), parties: parties.into(), fault }
}

/// Until both have started, the receiver first.
fn begin<'a>(
    sender: &'a mut End,
    receiver: &'a mut End,
    workload: &Workload,
) -> Result<[Player<'a>; 2], NodeError> {
    let clocks = [sender.link.relate_clock()?, receiver.link.relate_clock()?];
    let receiving = Role::Receiver { bind: receiver.address };
    let port = receiver.link.prepare(part(receiving, workload, vec![]))?;
    let sending = Role::Sender { peer: SocketAddr::new(receiver.address, port.unwrap_or(0)) };
    sender.link.prepare(part(sending, workload, vec![]))?;
    receiver.link.start()?;
    sender.link.start()?;
    let player = |end, role, clock| Player { end, role, clock, heard: Vec::new(), gone: false };
    let [sender_clock, receiver_clock] = clocks;
    Ok([player(sender, sending, sender_clock), player(receiver, receiving, receiver_clock)])
}

/// Waits for the end of the load, and looks at it each second.
fn watch(
    players: &mut [Player<'_>; 2],
    workload: &Workload,
    interrupt: &Interrupt,
    tell: &mut dyn FnMut(String),
) -> (Timeline, Option<NodeError>) {
    let started_ns = monotonic_ns();
    let began = Instant::now();
    let warm_at = began + workload.warmup.as_duration();
    let end = warm_at + workload.duration.as_duration();
    let mut live = Live::new(workload.kind);
    let mut measured_from_ns = None;
    let mut fault = None;
    let mut next_look = began;
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
            match ask_both(players) {
                Ok([sender, receiver]) => {
                    let seconds = began.elapsed().as_secs_f64();
                    let line = live.line(seconds, Some(&sender), Some(&receiver));
                    if seconds >= LOOK.as_secs_f64() / 2.0 {
                        tell(line);
                    }
                }
                Err(error) => {
                    fault = Some(error);
                    break;
                }
            }
        }
    }
    let measured_until_ns = monotonic_ns();
    let measured_from_ns = measured_from_ns.unwrap_or(started_ns);
    (Timeline { started_ns, measured_from_ns, measured_until_ns }, fault)
}

fn ask_both(players: &mut [Player<'_>; 2]) -> Result<[Sample; 2], NodeError> {
    let [sender, receiver] = players;
    Ok([sender.ask()?, receiver.ask()?])
}

impl Player<'_> {
    fn ask(&mut self) -> Result<Sample, NodeError> {
        let sample = self.end.link.progress(SILENT_AFTER).inspect_err(|_| self.gone = true)?;
        self.heard.push(sample.clone());
        Ok(sample)
    }

    fn into_party(mut self, fault: &mut Option<NodeError>) -> Party {
        let collected = if self.gone { None } else { self.collect(fault) };
        let report = collected.unwrap_or_else(|| self.what_was_heard());
        Party {
            place: self.end.place,
            role: self.role,
            identity: self.end.link.identity().clone(),
            clock: self.clock,
            interface: None,
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
