//! A path that something else uses at the same time: counters of interfaces and of queueing disciplines are
//! of all packets, and no difference of them is the load's.
//!
//! What is the load's own is counted apart: by its sockets, and by UDP where nothing else uses it. What was
//! lost between the two has a place where the path drops packets at one place only.

use std::collections::BTreeSet;

use super::settle::Step;
use super::{Ledger, LossPlace};
use crate::flow::Flow;

/// What can be told of a way: `steps` are those of its path, as if it had it to itself.
pub(super) fn beside_others(
    flow: &Flow<'_>,
    steps: &[Step],
    way: &Ledger,
    others_use_udp: bool,
) -> Vec<Step> {
    let in_sockets = flow.receiver.outcome().and_then(|load| load.socket_drops);
    let last = steps.last();
    let of_udp = |place: LossPlace| {
        let counted = last.filter(|_| !others_use_udp).into_iter();
        let counted = counted.flat_map(|step| step.dropped.iter().chain(&step.at_most));
        counted
            .filter(|(at, _)| *at == place)
            .fold(0, |sum: u64, (_, count)| sum.saturating_add(*count))
    };
    let full = in_sockets.unwrap_or_else(|| of_udp(LossPlace::ReceiverSocket));
    let nobody = of_udp(LossPlace::ReceiverUdp);
    // What UDP was given is what it gave on and what it dropped, for all that this load sends.
    let given = last.and_then(|step| step.passed).filter(|_| !others_use_udp);
    let reached = given.map(|given| given.saturating_add(full).saturating_add(nobody));
    let on_the_way = match reached {
        Some(reached) => way.sent.saturating_sub(reached),
        None => way.lost.saturating_sub(full),
    };
    let mut told = Vec::new();
    if let Some(place) = the_one_that_drops(steps, on_the_way) {
        let passed = Some(way.sent.saturating_sub(on_the_way));
        told.push(Step { passed, else_at: Some(place), ..Step::default() });
    }
    told.push(Step {
        dropped: vec![(LossPlace::ReceiverSocket, full), (LossPlace::ReceiverUdp, nobody)],
        ..Step::default()
    });
    told
}

/// Where packets are dropped on the path before UDP, if that is one place, and at least so many.
fn the_one_that_drops(steps: &[Step], lost: u64) -> Option<LossPlace> {
    let before_udp = steps.split_last().map_or(&[][..], |(_, before)| before);
    let drops = before_udp.iter().flat_map(|step| step.dropped.iter().chain(&step.at_most));
    let drops: Vec<&(LossPlace, u64)> =
        drops.filter(|(place, count)| *count > 0 && *place != LossPlace::TooLate).collect();
    let places: BTreeSet<LossPlace> = drops.iter().map(|(place, _)| *place).collect();
    let count = drops.iter().fold(0, |sum: u64, (_, count)| sum.saturating_add(*count));
    let place = places.first().copied().filter(|_| places.len() == 1 && count >= lost);
    place.filter(|_| lost > 0)
}
