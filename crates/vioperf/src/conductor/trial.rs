//! One trial: the nodes of a standing testbed are taken through prepare, start, stop, collect.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use vioperf_model::record::{Party, Place, Timeline};
use vioperf_model::sample::{InterfaceFacts, NodeReport};
use vioperf_model::units::TimeSpan;
use vioperf_model::wire::{Prepare, Role, WatchedProcess};
use vioperf_model::workload::{Direction, Workload};

use super::node_link::{NodeError, NodeLink, monotonic_ns, time_span};
use crate::interrupt::{Interrupt, Urgency};

/// How much longer than planned a load runs on when it hears nothing more from its conductor.
const LOST_CONDUCTOR: Duration = Duration::from_secs(30);

/// One end of the path under test.
#[derive(Debug)]
pub struct Endpoint {
    /// Where it is.
    pub place: Place,
    /// Its node.
    pub link: NodeLink,
    /// Its address on the path under test.
    pub address: IpAddr,
    /// Its interface under test, as it really is.
    pub interface: InterfaceFacts,
}

/// The nodes of one testbed.
#[derive(Debug)]
pub struct Nodes<'a> {
    /// The end that every cell shares.
    pub peer: &'a mut Endpoint,
    /// The other end: the guest, or the second namespace of a baseline.
    pub near: &'a mut Endpoint,
    /// The host's observer.
    pub host: &'a mut NodeLink,
    /// Processes whose threads the observer samples.
    pub processes: Vec<WatchedProcess>,
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
    // A first Ctrl-C ends the run after this trial, so it must not disturb it.
    nodes.peer.link.set_patience(Urgency::Now);
    nodes.near.link.set_patience(Urgency::Now);
    nodes.host.set_patience(Urgency::Now);
    let (sender, receiver) = match workload.direction {
        Direction::ToGuest => (&mut *nodes.peer, &mut *nodes.near),
        Direction::FromGuest => (&mut *nodes.near, &mut *nodes.peer),
    };
    let clocks =
        [sender.link.relate_clock()?, receiver.link.relate_clock()?, nodes.host.relate_clock()?];

    let receiving = Role::Receiver { bind: receiver.address };
    let port = receiver.link.prepare(part(receiving, workload, vec![]))?;
    let sending = Role::Sender { peer: SocketAddr::new(receiver.address, port.unwrap_or(0)) };
    sender.link.prepare(part(sending, workload, vec![]))?;
    nodes.host.prepare(part(Role::Observer, workload, nodes.processes.clone()))?;

    nodes.host.start()?;
    receiver.link.start()?;
    sender.link.start()?;
    let timeline = measure(workload, interrupt)?;
    sender.link.stop()?;
    receiver.link.stop()?;
    nodes.host.stop()?;

    let [sender_clock, receiver_clock, host_clock] = clocks;
    let party = |end: &mut Endpoint, role, clock| -> Result<Party, NodeError> {
        Ok(Party {
            place: end.place,
            role,
            identity: end.link.identity().clone(),
            clock,
            interface: Some(end.interface.clone()),
            report: end.link.collect()?,
        })
    };
    let parties = vec![
        party(sender, sending, sender_clock)?,
        party(receiver, receiving, receiver_clock)?,
        Party {
            place: Place::Host,
            role: Role::Observer,
            identity: nodes.host.identity().clone(),
            clock: host_clock,
            interface: None,
            report: nodes.host.collect()?,
        },
    ];
    Ok(Measured { timeline, parties })
}

/// What a node is told of its part.
pub fn part(role: Role, workload: &Workload, processes: Vec<WatchedProcess>) -> Prepare {
    let planned = workload.warmup.as_duration() + workload.duration.as_duration();
    Prepare {
        role,
        workload: workload.clone(),
        sample_interval: sample_interval(workload),
        processes,
        deadline: time_span(planned + LOST_CONDUCTOR),
    }
}

/// Some fifteen samples a trial, but not more than ten and not less than one a second: enough for
/// a time course, too few to disturb a guest that is slow.
fn sample_interval(workload: &Workload) -> TimeSpan {
    let interval = workload.duration.as_duration() / 15;
    time_span(interval.clamp(Duration::from_millis(100), Duration::from_secs(1)))
}

fn measure(workload: &Workload, interrupt: &Interrupt) -> Result<Timeline, NodeError> {
    let started_ns = monotonic_ns();
    let measured_from = Instant::now() + workload.warmup.as_duration();
    if !interrupt.sleep_until(measured_from, Urgency::Now) {
        return Err(NodeError::Interrupted);
    }
    let measured_from_ns = monotonic_ns();
    if !interrupt.sleep_until(measured_from + workload.duration.as_duration(), Urgency::Now) {
        return Err(NodeError::Interrupted);
    }
    Ok(Timeline { started_ns, measured_from_ns, measured_until_ns: monotonic_ns() })
}

/// Why what was measured must not count, if so: a load that ended early, or a party that has no
/// samples.
pub fn fault_in(parties: &[Party]) -> Option<String> {
    parties.iter().find_map(|party| {
        let report: &NodeReport = &party.report;
        let place = party.place;
        if let Some(reason) = report.load.as_ref().and_then(|load| load.ended_early.as_ref()) {
            return Some(format!("the load on the {place} ended early: {reason}"));
        }
        (report.samples.len() < 2).then(|| format!("the {place} took no samples"))
    })
}
