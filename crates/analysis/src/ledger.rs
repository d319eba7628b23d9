//! The packet ledger: where every datagram of a load went, place by place.
//!
//! It is of the whole load, from before the first datagram until all had ended, warm-up included:
//! the counters of layers and those of the loads cover it.
//! docs/ledger.md says what the places are.

mod counts;
mod path;
mod settle;

use vioperf_model::record::{Purpose, TrialRecord};
use vioperf_model::workload::Workload;

pub use crate::result::{Ledger, LedgerTrials, Loss, LossPlace};

use crate::cell::CellTrials;
use crate::flow::Flow;
use crate::window::Absent;
use path::{Backlog, steps};
use settle::settle;

/// Where the datagrams of a trial went, both ways together. `workload` is the cell's. Of a rate search
/// it is the probe that the record shows.
///
/// # Errors
/// Why there is none: the load is not one of datagrams that go one way, or counters are missing that
/// nothing can be told without.
pub fn of_trial(trial: &TrialRecord, workload: &Workload) -> Result<Ledger, Absent> {
    if !workload.kind.is_of_datagrams() {
        return Err("the load is not one of datagrams".into());
    }
    if workload.segmentation {
        return Err("a packet of this load is up to 64 datagrams (segmentation)".into());
    }
    if !Flow::all(trial, Purpose::Background).is_empty() {
        return Err("a background passed the same counters".into());
    }
    let mut backlog = Backlog::of(trial);
    let mut ledger = Ledger { trials: 1, ..Ledger::default() };
    for flow in Flow::all(trial, Purpose::Measured) {
        ledger.add(&of_flow(trial, &flow, &mut backlog)?);
    }
    Ok(ledger)
}

/// One way, of no trial.
fn of_flow(trial: &TrialRecord, flow: &Flow<'_>, backlog: &mut Backlog) -> Result<Ledger, Absent> {
    let sent = flow.sender.datagrams().ok_or("the sender did not count its datagrams")?;
    let arrived = flow.receiver.datagrams().ok_or("the receiver did not count its datagrams")?;
    let numbered = flow.receiver.outcome().and_then(|load| load.datagrams.as_ref());
    let duplicated = numbered.map_or(0, |outcome| outcome.duplicated);
    let received = arrived.saturating_sub(duplicated);
    let lost = sent.saturating_sub(received);
    let mut ledger = Ledger {
        trials: 0,
        sent,
        received,
        duplicated,
        lost,
        not_sent: flow.sender.outcome().and_then(|load| load.not_sent).unwrap_or(0),
        ..Ledger::default()
    };
    let steps = steps(trial, flow, backlog)?;
    settle(&mut ledger, &steps);
    Ok(ledger)
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
