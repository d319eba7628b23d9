//! Sending in time with the clock: when each datagram is due follows from its number and the start
//! alone, so that delays do not add up.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::prctl::set_timerslack;
use nix::sys::time::TimeSpec;

use super::batch::SendBatch;
use super::outgoing::{Attempt, Outgoing, Sending};
use crate::clock::monotonic_ns;

/// How much a flow may be behind and still make up for it. What was due before is never sent, and
/// counted: a burst would follow every pause, and measure something else than what was asked for.
const CATCH_UP_NS: u64 = 20_000_000;
/// Who is behind sends at most at twice the rate. A thread that slept for longer than this does not
/// send at once what would have been due meanwhile: the queue of an emulated card has 256 places.
const AT_ONCE_NS: u64 = 1_000_000;
/// What has been due for no longer than this when the load is stopped was not late.
const NOT_LATE_NS: u64 = 1_000_000;
/// When to try again after the kernel took nothing.
const RETRY_NS: u64 = 200_000;
/// The longest sleep.
const SLEEP_NS: u64 = 100_000_000;

/// How fast a flow goes: one datagram in `parts / per_second` seconds, `burst` at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::load) struct Pace {
    parts: u64,
    per_second: u64,
    burst: u64,
}

impl Pace {
    /// Datagrams of so many bits at a rate in bit/s.
    pub(in crate::load) fn of_bits(bits: u64, bits_per_second: u64, burst: u64) -> Self {
        Self { parts: bits.max(1), per_second: bits_per_second.max(1), burst: burst.max(1) }
    }

    /// An equal share of a rate in datagrams a second, for each of so many flows.
    pub(in crate::load) fn share(per_second: u64, flows: u16, burst: u64) -> Self {
        Self::of_bits(flows.into(), per_second, burst)
    }

    /// Nanoseconds that so many datagrams take.
    fn time_of(self, datagrams: u64) -> u64 {
        let time = u128::from(datagrams) * u128::from(self.parts) * 1_000_000_000
            / u128::from(self.per_second);
        u64::try_from(time).unwrap_or(u64::MAX)
    }

    /// Datagrams that are due in so many nanoseconds, the one at the start included, in whole bursts.
    fn due_in(self, nanoseconds: u64) -> u64 {
        // Rounded as in `time_of`: what is due by one is due by the other.
        let numerator = (u128::from(nanoseconds) + 1) * u128::from(self.per_second);
        let one_burst = u128::from(self.parts) * 1_000_000_000 * u128::from(self.burst);
        let bursts = numerator.div_ceil(one_burst);
        u64::try_from(bursts).unwrap_or(u64::MAX).saturating_mul(self.burst)
    }
}

/// When the datagrams of one flow are due.
#[derive(Debug, Clone, Copy)]
struct Schedule {
    start_ns: u64,
    pace: Pace,
    /// How many of those that are due were sent, or given up.
    done: u64,
    /// How many were given up.
    missed: u64,
    last_ns: u64,
}

impl Schedule {
    fn new(start_ns: u64, pace: Pace) -> Self {
        Self { start_ns, pace, done: 0, missed: 0, last_ns: start_ns }
    }

    /// When the next one is due.
    fn next_ns(&self) -> u64 {
        let before = self.done / self.pace.burst * self.pace.burst;
        self.start_ns.saturating_add(self.pace.time_of(before))
    }

    /// How many are due.
    fn due(&self, now_ns: u64) -> u64 {
        self.until(now_ns).saturating_sub(self.done)
    }

    /// How many are due from the start.
    fn until(&self, now_ns: u64) -> u64 {
        now_ns.checked_sub(self.start_ns).map_or(0, |elapsed| self.pace.due_in(elapsed))
    }

    /// Gives up what was due too long ago.
    fn forget_missed(&mut self, now_ns: u64) {
        let given_up = self.until(now_ns.saturating_sub(CATCH_UP_NS));
        self.give_up(given_up.saturating_sub(self.pace.burst));
    }

    /// The load is over: what is due by now will never be sent.
    fn end(&mut self, now_ns: u64) {
        self.give_up(self.until(now_ns.saturating_sub(NOT_LATE_NS)));
    }

    fn give_up(&mut self, until: u64) {
        self.missed += until.saturating_sub(self.done);
        self.done = self.done.max(until);
    }

    /// How many may go at once, so that what is made up for goes at no more than twice the rate.
    fn allowed(&self, now_ns: u64) -> u64 {
        let since = now_ns.saturating_sub(self.last_ns).min(AT_ONCE_NS);
        self.pace.due_in(2 * since)
    }

    /// So many went; when to look again.
    fn went(&mut self, datagrams: u64, now_ns: u64) -> u64 {
        self.done += datagrams;
        self.last_ns = now_ns;
        // Behind: the next go in half their time.
        self.next_ns().max(now_ns.saturating_add(self.pace.time_of(datagrams) / 2))
    }
}

/// Sends on all flows at a pace each, until told to stop or until all are over. What a batch holds is
/// made by `fill` before each call, which is told how many messages go and what time it is.
pub(in crate::load) fn send_at_rate(
    flows: &mut [Outgoing],
    batch: &mut SendBatch,
    sending: Sending<'_>,
    pace: Pace,
    mut fill: impl FnMut(&mut SendBatch, &Outgoing, usize, u64),
) {
    // By default a thread may be woken 50 us late. It can only fail by not being needed.
    let _ = set_timerslack(1);
    let numbers: Vec<u16> = flows.iter().map(|flow| flow.number).collect();
    let mut schedules = schedules(&numbers, sending.flows, monotonic_ns(), pace);
    let mut queue: BinaryHeap<Reverse<(u64, usize)>> = schedules
        .iter()
        .enumerate()
        .map(|(place, schedule)| Reverse((schedule.next_ns(), place)))
        .collect();
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
        let due = schedule.due(now_ns).min(schedule.allowed(now_ns));
        let messages = usize::try_from(due.div_ceil(segments)).unwrap_or(usize::MAX);
        let messages = messages.min(batch.len());
        fill(batch, flow, messages, now_ns);
        match sending.send(flow, batch, messages) {
            Attempt::Took(taken) => {
                let at_ns = schedule.went(taken as u64 * segments, now_ns);
                queue.push(Reverse((at_ns, place)));
            }
            Attempt::Full | Attempt::Later => queue.push(Reverse((now_ns + RETRY_NS, place))),
            Attempt::Over => {}
        }
    }
    let now_ns = monotonic_ns();
    for (flow, schedule) in flows.iter_mut().zip(&mut schedules) {
        schedule.end(now_ns);
        flow.not_sent = schedule.missed;
    }
}

/// The flows begin one after the other within the time of one burst: not all at the same moment.
fn schedules(numbers: &[u16], of: u16, now_ns: u64, pace: Pace) -> Vec<Schedule> {
    let step = pace.time_of(pace.burst) / u64::from(of).max(1);
    let start = |number: &u16| now_ns.saturating_add(step.saturating_mul((*number).into()));
    numbers.iter().map(|number| Schedule::new(start(number), pace)).collect()
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
            let mut schedule = Schedule::new(1_000, Pace::of_bits(bits, rate, 1));
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
    fn a_burst_is_due_as_a_whole_and_no_oftener_than_its_datagrams() {
        // 32 at a time of 3 flows' 48 000 a second together: one burst in 2 ms.
        let mut schedule = Schedule::new(0, Pace::share(48_000, 3, 32));
        assert_eq!([0, 1_999_999].map(|now| schedule.due(now)), [32, 32]);
        assert_eq!(schedule.went(32, 0), 2_000_000);
        assert_eq!([1_999_999, 2_000_000].map(|now| schedule.due(now)), [0, 32]);
        // A part of a burst is followed by the rest without delay.
        schedule.done += 10;
        assert_eq!((schedule.next_ns(), schedule.due(2_000_000)), (2_000_000, 22));
        assert_eq!(schedule.until(1_999_999_999), 16_000 * 2);
    }

    #[test]
    fn a_pause_is_made_up_for_only_so_far_and_the_rest_is_counted() {
        // One a millisecond, and 10 s of silence.
        let mut schedule = Schedule::new(0, Pace::of_bits(1_000, 1_000_000, 1));
        schedule.done = 5;
        schedule.forget_missed(10_000_000_000);
        assert_eq!((schedule.due(10_000_000_000), schedule.missed), (21, 9_980 - 5));
        schedule.done += 21;
        assert_eq!(schedule.next_ns(), 10_001_000_000);
        // Two more are late when the load is stopped, and one is due just then.
        schedule.end(10_003_000_000);
        assert_eq!((schedule.missed, schedule.done), (9_980 - 5 + 2, 10_003));
    }

    #[test]
    fn who_is_behind_goes_at_twice_the_rate_at_most() {
        // 20 000 a second, and a pause of 10 ms: 200 are due.
        let mut schedule = Schedule::new(0, Pace::share(20_000, 1, 1));
        let mut now_ns = schedule.went(schedule.due(0), 0) + 10_000_000;
        let (resumed_ns, mut sent) = (now_ns, 1);
        while schedule.due(now_ns) > 1 {
            let at_once = schedule.due(now_ns).min(schedule.allowed(now_ns));
            assert!(at_once <= 41, "{at_once} at once");
            sent += at_once;
            now_ns = schedule.went(at_once, now_ns);
            let most = 2 * 20 * (now_ns - resumed_ns) / 1_000_000 + 41;
            assert!(sent <= most, "{sent} of {most} after {} ns", now_ns - resumed_ns);
        }
        assert!(now_ns - resumed_ns < 12_000_000, "made up for after {} ns", now_ns - resumed_ns);
        assert_eq!(schedule.missed, 0);
    }

    #[test]
    fn flows_do_not_start_together_whichever_thread_has_them() {
        let pace = Pace::of_bits(1_000, 1_000_000, 1);
        let starts = |numbers: &[u16]| -> Vec<u64> {
            schedules(numbers, 4, 10, pace).iter().map(Schedule::next_ns).collect()
        };
        assert_eq!(starts(&[0, 1, 2, 3]), [10, 250_010, 500_010, 750_010]);
        assert_eq!(starts(&[1, 3]), [250_010, 750_010]);
    }
}
