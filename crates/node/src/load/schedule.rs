//! Sending in time with the clock: when each message is due follows from its number and the start
//! alone, so that delays do not add up.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use vioperf_model::workload::Workload;

use super::LoadError;
use crate::clock::monotonic_ns;

/// How much a stream may be behind and still make up for it. What was due before is never sent, and
/// counted: a burst would follow every pause, and measure something else than what was asked for.
const CATCH_UP_NS: u64 = 20_000_000;
/// A sender of datagrams that is behind sends at most at twice the rate. After a pause longer than this
/// it does not send at once what would have been due meanwhile: the queue of an emulated card has 256
/// places.
const AT_ONCE_NS: u64 = 1_000_000;
/// What has been due for no longer than this when the load is stopped was not late.
const NOT_LATE_NS: u64 = 1_000_000;
/// The longest sleep.
const SLEEP_NS: u64 = 100_000_000;

/// How fast, and in what pieces: one message in `parts / per_second` seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rate {
    parts: u64,
    per_second: u64,
    /// Messages that are due at the same time.
    burst: u64,
}

impl Rate {
    /// What a workload asks for in bits a second, whose messages are of so many bytes.
    pub(super) fn of(workload: &Workload, message_bytes: usize) -> Result<Option<Self>, LoadError> {
        let Some(rate) = workload.rate else { return Ok(None) };
        let bits = message_bytes as u64 * 8;
        Self::new("rate", bits, rate.as_bits_per_second(), workload).map(Some)
    }

    /// What a workload asks for in datagrams a second: an equal share of it for each flow.
    pub(super) fn of_datagrams(workload: &Workload) -> Result<Option<Self>, LoadError> {
        let Some(rate) = workload.datagrams_per_second else { return Ok(None) };
        let flows = workload.streams.into();
        Self::new("datagrams_per_second", flows, rate.into(), workload).map(Some)
    }

    fn new(
        what: &'static str,
        parts: u64,
        per_second: u64,
        workload: &Workload,
    ) -> Result<Self, LoadError> {
        let burst = workload.burst.unwrap_or(1).into();
        let refused = |what, advice: &str| {
            let (value, advice) = ("0".to_owned(), advice.to_owned());
            Err(LoadError::Parameter { what, value, advice })
        };
        if per_second == 0 {
            return refused(what, "ask for more, or leave it out");
        }
        if burst == 0 {
            return refused("burst", "at least 1 message or datagram goes out at a time");
        }
        Ok(Self { parts: parts.max(1), per_second, burst })
    }

    /// The same in bursts of a multiple of so many.
    pub(super) fn in_multiples_of(self, messages: u64) -> Self {
        Self { burst: self.burst.next_multiple_of(messages.max(1)), ..self }
    }

    /// Nanoseconds that so many messages take.
    fn time_of(self, messages: u64) -> u64 {
        let time = u128::from(messages) * u128::from(self.parts) * 1_000_000_000
            / u128::from(self.per_second);
        u64::try_from(time).unwrap_or(u64::MAX)
    }

    /// Messages that are due in so many nanoseconds, those at the start included, in whole bursts.
    fn due_in(self, nanoseconds: u64) -> u64 {
        // Rounded as in `time_of`: what is due by one is due by the other.
        let numerator = (u128::from(nanoseconds) + 1) * u128::from(self.per_second);
        let one_burst = u128::from(self.parts) * 1_000_000_000 * u128::from(self.burst);
        let bursts = u64::try_from(numerator.div_ceil(one_burst)).unwrap_or(u64::MAX);
        bursts.saturating_mul(self.burst)
    }
}

/// When the messages of one stream are due.
#[derive(Debug, Clone, Copy)]
pub(super) struct Schedule {
    start_ns: u64,
    rate: Rate,
    /// How many of those that are due were sent, or given up.
    done: u64,
    /// How many were given up.
    missed: u64,
    /// When the last ones went.
    last_ns: u64,
}

impl Schedule {
    fn new(start_ns: u64, rate: Rate) -> Self {
        Self { start_ns, rate, done: 0, missed: 0, last_ns: start_ns }
    }

    /// When the next one is due.
    pub(super) fn next_ns(&self) -> u64 {
        let before = self.done / self.rate.burst * self.rate.burst;
        self.start_ns.saturating_add(self.rate.time_of(before))
    }

    /// How many are due.
    pub(super) fn due(&self, now_ns: u64) -> u64 {
        self.until(now_ns).saturating_sub(self.done)
    }

    /// How many of those may go at once, so that what is made up for goes at no more than twice the
    /// rate.
    pub(super) fn due_at_twice_the_rate(&self, now_ns: u64) -> u64 {
        let since = now_ns.saturating_sub(self.last_ns).min(AT_ONCE_NS);
        self.due(now_ns).min(self.rate.due_in(2 * since))
    }

    /// So many were sent.
    pub(super) fn count(&mut self, messages: u64) {
        self.done += messages;
    }

    /// So many were sent now; when to look again, so that who is behind sends at no more than twice the
    /// rate.
    pub(super) fn count_at(&mut self, messages: u64, now_ns: u64) -> u64 {
        self.count(messages);
        self.last_ns = now_ns;
        self.next_ns().max(now_ns.saturating_add(self.rate.time_of(messages) / 2))
    }

    /// How many are due from the start.
    fn until(&self, now_ns: u64) -> u64 {
        now_ns.checked_sub(self.start_ns).map_or(0, |elapsed| self.rate.due_in(elapsed))
    }

    /// Gives up what was due too long ago.
    pub(super) fn forget_missed(&mut self, now_ns: u64) {
        let long_ago = self.until(now_ns.saturating_sub(CATCH_UP_NS));
        self.give_up(long_ago.saturating_sub(self.rate.burst));
    }

    /// The load is over, and what is due by now will never be sent; how many were given up in all.
    pub(super) fn end(&mut self, now_ns: u64) -> u64 {
        self.give_up(self.until(now_ns.saturating_sub(NOT_LATE_NS)));
        self.missed
    }

    fn give_up(&mut self, until: u64) {
        self.missed += until.saturating_sub(self.done);
        self.done = self.done.max(until);
    }
}

/// Those of some of a load's streams, by their numbers. They begin one after the other within the time
/// of one burst: not all at the same moment.
pub(super) fn schedules(
    numbers: impl Iterator<Item = usize>,
    streams: usize,
    now_ns: u64,
    rate: Rate,
) -> Vec<Schedule> {
    let step = rate.time_of(rate.burst) / u64::try_from(streams).unwrap_or(u64::MAX).max(1);
    let start = |number: usize| now_ns.saturating_add(step.saturating_mul(number as u64));
    numbers.map(|number| Schedule::new(start(number), rate)).collect()
}

/// Sleeps until a time on `CLOCK_MONOTONIC`; whether it came before `stop` could be read.
pub(super) fn sleep_until(at_ns: u64, stop: BorrowedFd<'_>) -> bool {
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

    fn schedule(parts: u64, per_second: u64, burst: u64) -> Schedule {
        Schedule::new(1_000, Rate { parts, per_second, burst })
    }

    #[test]
    fn what_is_due_is_due_at_its_time_and_nothing_adds_up() {
        for (bits, rate) in [(11_760, 1_000_000), (11_760, 99_999_999_999), (144, 7), (8, u64::MAX)]
        {
            let mut schedule = schedule(bits, rate, 1);
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
    fn a_burst_is_due_at_once_and_the_rate_is_kept() {
        // One a millisecond, ten at a time.
        let mut ten = schedule(1_000, 1_000_000, 10);
        assert_eq!((ten.due(1_000), ten.next_ns()), (10, 1_000));
        ten.count(4);
        assert_eq!((ten.due(5_000_000), ten.next_ns()), (6, 1_000));
        ten.count(6);
        assert_eq!((ten.due(10_000_999), ten.next_ns()), (0, 10_001_000));
        assert_eq!(ten.due(10_001_000), 10);
        // 32 at a time of 3 flows' 48 000 a second together: one burst in 2 ms.
        let rate = Rate { parts: 3, per_second: 48_000, burst: 20 }.in_multiples_of(16);
        let mut many = Schedule::new(0, rate);
        assert_eq!(many.count_at(many.due_at_twice_the_rate(0), 0), 2_000_000);
        assert_eq!([1_999_999, 2_000_000].map(|now| many.due(now)), [0, 32]);
        assert_eq!(many.until(1_999_999_999), 16_000 * 2);
    }

    #[test]
    fn a_pause_is_made_up_for_only_so_far_and_the_rest_is_counted() {
        // One a millisecond, and 10 s of silence.
        let mut schedule = Schedule::new(0, Rate { parts: 1, per_second: 1_000, burst: 1 });
        schedule.count(5);
        schedule.forget_missed(10_000_000_000);
        assert_eq!((schedule.due(10_000_000_000), schedule.missed), (21, 9_980 - 5));
        schedule.count(21);
        assert_eq!(schedule.next_ns(), 10_001_000_000);
        // Two more are late when the load is stopped, and one is due just then.
        assert_eq!(schedule.end(10_003_000_000), 9_980 - 5 + 2);
    }

    #[test]
    fn who_is_behind_goes_at_twice_the_rate_at_most() {
        // 20 000 a second, and a pause of 10 ms: 200 are due.
        let mut schedule = Schedule::new(0, Rate { parts: 1, per_second: 20_000, burst: 1 });
        let mut now_ns = schedule.count_at(schedule.due(0), 0) + 10_000_000;
        let (resumed_ns, mut sent) = (now_ns, 1);
        while schedule.due(now_ns) > 1 {
            let at_once = schedule.due_at_twice_the_rate(now_ns);
            assert!(at_once <= 41, "{at_once} at once");
            sent += at_once;
            now_ns = schedule.count_at(at_once, now_ns);
            let most = 2 * 20 * (now_ns - resumed_ns) / 1_000_000 + 41;
            assert!(sent <= most, "{sent} of {most} after {} ns", now_ns - resumed_ns);
        }
        assert!(now_ns - resumed_ns < 12_000_000, "made up for after {} ns", now_ns - resumed_ns);
        assert_eq!(schedule.missed, 0);
    }

    #[test]
    fn streams_do_not_start_together_whichever_thread_has_them() {
        let rate = Rate { parts: 1_000, per_second: 1_000_000, burst: 1 };
        let starts = |numbers: &[usize]| -> Vec<u64> {
            let schedules = schedules(numbers.iter().copied(), 4, 10, rate);
            schedules.iter().map(Schedule::next_ns).collect()
        };
        assert_eq!(starts(&[0, 1, 2, 3]), [10, 250_010, 500_010, 750_010]);
        assert_eq!(starts(&[1, 3]), [250_010, 750_010]);
    }
}
