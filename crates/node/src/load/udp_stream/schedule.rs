//! Sending datagrams in time with the clock.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use nix::sys::prctl::set_timerslack;

use super::number;
use crate::clock::monotonic_ns;
use crate::load::datagram::batch::SendBatch;
use crate::load::datagram::outgoing::{Attempt, Outgoing, Sending};
use crate::load::schedule::{Rate, Schedule, schedules, sleep_until};

/// When to try again after the kernel took nothing.
const RETRY_NS: u64 = 200_000;

/// Sends on all flows at a rate each, until told to stop or until all are over.
pub(super) fn send_at_rate(
    flows: &mut [Outgoing],
    batch: &mut SendBatch,
    sending: Sending<'_>,
    rate: Rate,
) {
    // By default a thread may be woken 50 us late. It can only fail by not being needed.
    let _ = set_timerslack(1);
    let mut schedules = schedules(flows.len(), monotonic_ns(), rate);
    let mut queue: BinaryHeap<Reverse<(u64, usize)>> =
        schedules.iter().map(Schedule::next_ns).zip(0..).map(Reverse).collect();
    while let Some(Reverse((at_ns, place))) = queue.pop() {
        if !sleep_until(at_ns, sending.control.wake()) || sending.control.stopping() {
            return;
        }
        let (Some(flow), Some(schedule)) = (flows.get_mut(place), schedules.get_mut(place)) else {
            continue;
        };
        let now_ns = monotonic_ns();
        schedule.forget_missed(now_ns);
        let due = usize::try_from(schedule.due(now_ns)).unwrap_or(usize::MAX).min(batch.len());
        number(batch, due, flow, now_ns);
        match sending.send(flow, batch, due) {
            Attempt::Took(taken) => {
                schedule.count(taken as u64);
                queue.push(Reverse((schedule.next_ns(), place)));
            }
            Attempt::Full | Attempt::Later => queue.push(Reverse((now_ns + RETRY_NS, place))),
            Attempt::Over => {}
        }
    }
}
