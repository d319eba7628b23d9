//! The packet ledger: where every datagram of a load went, place by place.
//!
//! It is of the whole load, from before the first datagram until all had ended, warm-up included:
//! the counters of layers and those of the loads cover it.
//! docs/ledger.md says what the places are.

mod beside_others;
mod counts;
mod framing;
mod path;
mod settle;

use vioperf_model::record::{Place, Purpose, TrialRecord};
use vioperf_model::units::ByteSize;
use vioperf_model::wire::Role;
use vioperf_model::workload::{Background, Transport, Workload, WorkloadKind};

pub use crate::result::{Ledger, LedgerTrials, Loss, LossPlace};

use crate::cell::CellTrials;
use crate::flow::{Flow, View};
use crate::window::Absent;
use beside_others::beside_others;
use framing::Framing;
use path::{Backlog, steps};
use settle::settle;

/// Where the datagrams of a trial went, both ways together. `workload` is the cell's. Of a rate search
/// it is the probe that the record shows; of requests and responses over UDP it is of both.
///
/// # Errors
/// Why there is none: the load is not one of datagrams, or counters are missing that nothing can be told
/// without.
pub fn of_trial(trial: &TrialRecord, workload: &Workload) -> Result<Ledger, Absent> {
    if trial.parties.iter().any(|party| party.place == Place::Forwarder) {
        return Err("a guest hands packets on in between: what it loses has no place yet".into());
    }
    if is_of_requests(workload) {
        return of_requests(trial, workload);
    }
    if !workload.kind.is_of_datagrams() {
        return Err("the load is not one of datagrams".into());
    }
    let mut backlog = Backlog::of(trial);
    let mut ledger = Ledger { trials: 1, ..Ledger::default() };
    for flow in Flow::all(trial, Purpose::Measured) {
        let sent = flow.sender.datagrams().ok_or("the sender did not count its datagrams")?;
        let arrived =
            flow.receiver.datagrams().ok_or("the receiver did not count its datagrams")?;
        let numbered = flow.receiver.outcome().and_then(|load| load.datagrams.as_ref());
        let duplicated = numbered.map_or(0, |outcome| outcome.duplicated);
        let mut way = opened(sent, arrived.saturating_sub(duplicated));
        way.duplicated = duplicated;
        way.not_sent = flow.sender.outcome().and_then(|load| load.not_sent).unwrap_or(0);
        let framing = framing(&flow, workload.segmentation, workload.payload_bytes());
        settle(&mut way, &steps(trial, &flow, framing, [sent, arrived], &mut backlog)?);
        ledger.add(&way);
    }
    Ok(ledger)
}

/// Whether it is of requests and responses over UDP.
fn is_of_requests(workload: &Workload) -> bool {
    workload.kind == WorkloadKind::RequestResponse && workload.transport == Some(Transport::Udp)
}

/// Requests one way, responses the other.
fn of_requests(trial: &TrialRecord, workload: &Workload) -> Result<Ledger, Absent> {
    const NOT_COUNTED: &str =
        "requests and responses were not counted: a record of an older version";
    let background = Flow::all(trial, Purpose::Background);
    let sizes = [workload.request_size, workload.response_size];
    let [request_bytes, response_bytes] = sizes.map(|size| size.map_or(1, ByteSize::as_bytes));
    let mut backlog = Backlog::of(trial);
    let mut ledger = Ledger { trials: 1, ..Ledger::default() };
    for flow in Flow::all(trial, Purpose::Measured) {
        let counted = |view: &View<'_>| {
            let exchanged = view.outcome().and_then(|load| load.exchanged);
            exchanged.ok_or_else(|| Absent::from(NOT_COUNTED))
        };
        let (asked, answered) = (counted(&flow.sender)?, counted(&flow.receiver)?);
        let not_sent = flow.sender.outcome().and_then(|load| load.not_sent).unwrap_or(0);
        let mut settled = |flow: &Flow<'_>, sent, received, bytes| -> Result<Ledger, Absent> {
            let mut way = opened(sent, received);
            let framing = framing(flow, false, bytes);
            let steps = steps(trial, flow, framing, [sent, received], &mut backlog)?;
            let others_use_udp = workload.background == Some(Background::UdpStream);
            let steps = match background.as_slice() {
                [] => steps,
                _ => beside_others(flow, &steps, &way, others_use_udp),
            };
            settle(&mut way, &steps);
            Ok(way)
        };
        let requests = settled(&flow, asked.sent, answered.received, request_bytes)?;
        let flow = flow.reversed();
        let responses = settled(&flow, answered.sent, asked.received, response_bytes)?;
        ledger.add(&requests);
        ledger.not_sent = ledger.not_sent.saturating_add(not_sent);
        ledger.add(&Ledger { responses: Some(Box::new(responses.clone())), ..responses });
    }
    Ok(ledger)
}

/// Nothing of what was lost has a place yet.
fn opened(sent: u64, received: u64) -> Ledger {
    Ledger { sent, received, lost: sent.saturating_sub(received), ..Ledger::default() }
}

fn framing(flow: &Flow<'_>, segmentation: bool, payload_bytes: u64) -> Framing {
    let roles = flow.receiver.party.into_iter().flat_map(|party| party.legs());
    let is_ipv6 = roles.into_iter().any(|leg| match leg.role {
        Role::Receiver { bind } => bind.is_ipv6(),
        Role::Sender { peer } => peer.is_ipv6(),
        Role::Disk | Role::Observer => false,
    });
    let facts = flow.sender.party.and_then(|party| party.interface.as_ref());
    Framing::of(segmentation, payload_bytes, is_ipv6, facts.map_or(0, |facts| facts.mtu))
}

/// The ledgers of a cell's trials: added up, and one by one; nothing where none has one.
pub(crate) fn gather(trials: &CellTrials) -> Option<(Ledger, LedgerTrials)> {
    let mut sum: Option<Ledger> = None;
    for ledger in trials.completed.iter().filter_map(|readings| readings.ledger.as_ref().ok()) {
        sum.get_or_insert_default().add(ledger);
    }
    let sum = sum?;
    let metric = |read: &dyn Fn(&Ledger) -> f64| {
        trials.metric_of(|readings| Ok(read(readings.ledger.as_ref().map_err(Clone::clone)?)))
    };
    let at = |place| metric(&|ledger: &Ledger| ledger.lost_at(place) as f64);
    let one_by_one = LedgerTrials {
        sent: metric(&|ledger| ledger.sent as f64),
        lost: metric(&|ledger| ledger.lost as f64),
        places: sum.losses.iter().map(|loss| (loss.place, at(loss.place))).collect(),
        unaccounted: metric(&|ledger| ledger.unaccounted as f64),
    };
    Some((sum, one_by_one))
}

#[cfg(test)]
mod tests;
