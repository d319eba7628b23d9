//! Sending datagrams in time with the clock.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use nix::sys::prctl::set_timerslack;

use super::batch::SendBatch;
use super::outgoing::{Attempt, Outgoing, Sending};
use crate::clock::monotonic_ns;
use crate::load::schedule::{Rate, Schedule, schedules, sleep_until};

/// When to try again after the kernel took nothing.
const RETRY_NS: u64 = 200_000;

/// Sends on all flows at a rate each, until told to stop or until all are over. What a batch holds is
/// made by `fill` before each call, which is told how many messages go and what time it is.
pub(in crate::load) fn send_at_rate(
    flows: &mut [Outgoing],
    batch: &mut SendBatch,
    sending: Sending<'_>,
    rate: Rate,
    mut fill: impl FnMut(&mut SendBatch, &Outgoing, usize, u64),
) {
    // By default a thread may be woken 50 us late. It can only fail by not being needed.
    let _ = set_timerslack(1);
    let numbers = flows.iter().map(|flow| usize::from(flow.number));
    let mut schedules = schedules(numbers, sending.flows.into(), monotonic_ns(), rate);
    let mut queue: BinaryHeap<Reverse<(u64, usize)>> =
        schedules.iter().map(Schedule::next_ns).zip(0..).map(Reverse).collect();
    let segments = sending.segments.max(1) as u64;
    while let Some(Reverse((at_ns, place))) = queue.pop() {
        if !sleep_until(at_ns, sending.control.wake()) || sending.control.stopping() {
            break;
        }
        let (Some(flow), Some(schedule)) = (flows.get_mut(place), schedules.get_mut(place)) else {
            continue;
        };
        let now_ns = monotonic_ns();
        schedule.forget_missed(now_ns);
        let due = schedule.due_at_twice_the_rate(now_ns).div_ceil(segments);
        let messages = usize::try_from(due).unwrap_or(usize::MAX).min(batch.len());
        fill(batch, flow, messages, now_ns);
        match sending.send(flow, batch, messages) {
            Attempt::Took(taken) => {
                let at_ns = schedule.count_at(taken as u64 * segments, now_ns);
                queue.push(Reverse((at_ns, place)));
            }
            Attempt::Full | Attempt::Later => queue.push(Reverse((now_ns + RETRY_NS, place))),
            Attempt::Over => {}
        }
    }
    let now_ns = monotonic_ns();
    for (flow, schedule) in flows.iter_mut().zip(&mut schedules) {
        flow.not_sent = schedule.end(now_ns);
    }
}
