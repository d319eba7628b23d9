//! Sending in time with the clock: when each datagram is due follows from its number and the start
//! alone, so that delays do not add up.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::prctl::set_timerslack;
use nix::sys::time::TimeSpec;

use super::number;
use crate::clock::monotonic_ns;
use crate::load::datagram::batch::SendBatch;
use crate::load::datagram::outgoing::{Attempt, Outgoing, Sending};

/// How much a flow may be behind and still make up for it. What was due before is never sent: a burst
/// would follow every pause, and measure something else than the rate that was asked for.
const CATCH_UP_NS: u64 = 20_000_000;
/// When to try again after the kernel took nothing.
const RETRY_NS: u64 = 200_000;
/// The longest sleep.
const SLEEP_NS: u64 = 100_000_000;

/// When the datagrams of one flow are due.
#[derive(Debug, Clone, Copy)]
struct Schedule {
    start_ns: u64,
    /// Bits of a datagram's payload.
    bits: u64,
    /// Bits of payload per second.
    rate: u64,
    /// How many of those that are due were sent, or given up.
    done: u64,
}

impl Schedule {
    /// When the next one is due.
    fn next_ns(&self) -> u64 {
        let after = u128::from(self.done) * u128::from(self.bits) * 1_000_000_000
            / u128::from(self.rate.max(1));
        self.start_ns.saturating_add(u64::try_from(after).unwrap_or(u64::MAX))
    }

    /// How many are due.
    fn due(&self, now_ns: u64) -> u64 {
        self.until(now_ns).saturating_sub(self.done)
    }

    /// How many are due from the start.
    fn until(&self, now_ns: u64) -> u64 {
        let Some(elapsed) = now_ns.checked_sub(self.start_ns) else { return 0 };
        // Rounded as in `next_ns`: what is due by one is due by the other.
        let numerator = (u128::from(elapsed) + 1) * u128::from(self.rate);
        let count = numerator.div_ceil((u128::from(self.bits) * 1_000_000_000).max(1));
        u64::try_from(count).unwrap_or(u64::MAX)
    }

    /// Gives up what was due too long ago.
    fn forget_missed(&mut self, now_ns: u64) {
        self.done = self.done.max(self.until(now_ns.saturating_sub(CATCH_UP_NS)).saturating_sub(1));
    }
}

/// Sends on all flows at a rate each, until told to stop or until all are over.
pub(super) fn send_at_rate(
    flows: &mut [Outgoing],
    batch: &mut SendBatch,
    sending: Sending<'_>,
    rate: u64,
) {
    // By default a thread may be woken 50 us late. It can only fail by not being needed.
    let _ = set_timerslack(1);
    let bits = sending.payload_bytes as u64 * 8;
    let mut schedules = schedules(flows.len(), monotonic_ns(), bits, rate);
    let mut queue: BinaryHeap<Reverse<(u64, usize)>> = schedules
        .iter()
        .enumerate()
        .map(|(place, schedule)| Reverse((schedule.next_ns(), place)))
        .collect();
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
                schedule.done += taken as u64;
                queue.push(Reverse((schedule.next_ns(), place)));
            }
            Attempt::Full | Attempt::Later => queue.push(Reverse((now_ns + RETRY_NS, place))),
            Attempt::Over => {}
        }
    }
}

/// The flows begin one after the other within the time of one datagram: not all at the same moment.
fn schedules(flows: usize, now_ns: u64, bits: u64, rate: u64) -> Vec<Schedule> {
    let one = Schedule { start_ns: 0, bits, rate, done: 1 }.next_ns();
    let step = one / u64::try_from(flows).unwrap_or(u64::MAX).max(1);
    let starts = (0..flows as u64).map(|place| now_ns.saturating_add(step.saturating_mul(place)));
    starts.map(|start_ns| Schedule { start_ns, bits, rate, done: 0 }).collect()
}

/// Sleeps until a time on `CLOCK_MONOTONIC`; whether it came before `stop` could be read.
fn sleep_until(at_ns: u64, stop: BorrowedFd<'_>) -> bool {
    loop {
        let left = at_ns.saturating_sub(monotonic_ns());
        if left == 0 {
            return true;
        }
        let mut fds = [PollFd::new(stop, PollFlags::POLLIN)];
        let most = TimeSpec::from_duration(Duration::from_nanos(left.min(SLEEP_NS)));
        if let Ok(1..) = ppoll(&mut fds, Some(most), None) {
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_is_due_at_its_time_and_nothing_adds_up() {
        for (bits, rate) in [(11_760, 1_000_000), (11_760, 99_999_999_999), (144, 7), (8, u64::MAX)]
        {
            let mut schedule = Schedule { start_ns: 1_000, bits, rate, done: 0 };
            assert_eq!(schedule.next_ns(), 1_000);
            assert_eq!(schedule.due(999), 0);
            for done in [1, 2, 3, 1_000_003, 1 << 26] {
                schedule.done = done;
                let next_ns = schedule.next_ns();
                assert!(schedule.due(next_ns) >= 1, "{schedule:?}");
                assert_eq!(schedule.due(next_ns - 1), 0, "{schedule:?}");
            }
        }
    }

    #[test]
    fn a_pause_is_made_up_for_only_so_far() {
        // One a millisecond, and 10 s of silence.
        let mut schedule = Schedule { start_ns: 0, bits: 1_000, rate: 1_000_000, done: 5 };
        schedule.forget_missed(10_000_000_000);
        assert_eq!(schedule.due(10_000_000_000), 21);
        schedule.done += 21;
        assert_eq!(schedule.next_ns(), 10_001_000_000);
    }

    #[test]
    fn flows_do_not_start_together() {
        let starts: Vec<u64> =
            schedules(4, 10, 1_000, 1_000_000).iter().map(Schedule::next_ns).collect();
        assert_eq!(starts, [10, 250_010, 500_010, 750_010]);
    }
}
