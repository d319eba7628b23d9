//! From what passed each step of a path to what was lost at each place.
//!
//! Between two steps that count what passes them, so many packets were lost as the one counted more.
//! A counter of drops there says how, as far as it goes; the rest belongs to what is left between the
//! two. So packets that are not the load's (the words before and after it, ARP, neighbour discovery)
//! cost nothing: both steps count them.

use super::{Ledger, LossPlace};

/// A step on the way of a datagram.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Step {
    /// Drops since the step before, by counters that count every one of them, and nothing else.
    pub(super) dropped: Vec<(LossPlace, u64)>,
    /// Drops by counters that may count other packets too, or some that went on: taken as far as the
    /// difference to the step before goes.
    pub(super) at_most: Vec<(LossPlace, u64)>,
    /// Packets that passed; nothing where that is not counted.
    pub(super) passed: Option<u64>,
    /// Where those were lost of which no counter tells.
    pub(super) else_at: Option<LossPlace>,
}

/// Settles what a ledger says was lost with the steps of its path.
pub(super) fn settle(ledger: &mut Ledger, steps: &[Step]) {
    let mut differences = Vec::new();
    let mut before = i128::from(ledger.sent);
    for step in steps {
        step.dropped.iter().for_each(|(place, count)| ledger.add_loss(*place, *count, *count));
        before -= i128::from(dropped(step));
        let Some(passed) = step.passed else { continue };
        let mut missing = u64::try_from(before - i128::from(passed)).unwrap_or(0);
        before = i128::from(passed);
        for (place, count) in &step.at_most {
            let count = missing.min(*count);
            missing -= count;
            differences.push((*place, count, true));
        }
        differences.extend(step.else_at.map(|place| (place, missing, false)));
    }
    // Never more than was lost: what a step counted more for other packets' sake is the least.
    let placed = |ledger: &Ledger| {
        ledger.losses.iter().fold(0_u64, |sum, loss| sum.saturating_add(loss.datagrams))
    };
    differences.sort_by_key(|(_, count, is_counted)| (!is_counted, std::cmp::Reverse(*count)));
    for (place, count, is_counted) in differences {
        let count = count.min(ledger.lost.saturating_sub(placed(ledger)));
        ledger.add_loss(place, count, if is_counted { count } else { 0 });
    }
    let of_others = others(ledger.sent, steps).min(placed(ledger).saturating_sub(ledger.lost));
    ledger.take_from_largest(of_others);
    let unaccounted = i128::from(ledger.lost) - i128::from(placed(ledger));
    ledger.unaccounted = i64::try_from(unaccounted).unwrap_or(i64::MIN);
}

/// Packets that are not the load's, on the sender's side: by so many more came to the first step that
/// counts than the load sent. Where the path is full they are dropped as the load's are.
fn others(sent: u64, steps: &[Step]) -> u64 {
    let mut so_far = 0_u64;
    for step in steps {
        so_far = so_far.saturating_add(dropped(step));
        if let Some(passed) = step.passed {
            return passed.saturating_add(so_far).saturating_sub(sent);
        }
    }
    0
}

/// By all counters that count every drop of a step.
fn dropped(step: &Step) -> u64 {
    step.dropped.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
}
