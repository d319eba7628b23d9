//! Sending in time with the clock: when each message is due follows from its number and the start
//! alone, so that delays do not add up.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use vioperf_model::workload::Workload;

use super::LoadError;
use crate::clock::monotonic_ns;

/// How much a stream may be behind and still make up for it. What was due before is never sent: a burst
/// would follow every pause, and measure something else than the rate that was asked for.
const CATCH_UP_NS: u64 = 20_000_000;
/// The longest sleep.
const SLEEP_NS: u64 = 100_000_000;

/// How fast, and in what pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rate {
    /// Bits of one message's payload.
    pub(super) bits: u64,
    /// Bits of payload per second.
    pub(super) per_second: u64,
    /// Messages that are due at the same time.
    pub(super) burst: u16,
}

impl Rate {
    /// What a workload asks for, whose messages are of so many bytes.
    pub(super) fn of(workload: &Workload, message_bytes: usize) -> Result<Option<Self>, LoadError> {
        let Some(rate) = workload.rate else { return Ok(None) };
        let per_second = rate.as_bits_per_second();
        let burst = workload.burst.unwrap_or(1);
        let refused = |what, advice: &str| {
            let (value, advice) = ("0".to_owned(), advice.to_owned());
            Err(LoadError::Parameter { what, value, advice })
        };
        if per_second == 0 {
            return refused("rate", "ask for more, or leave it out");
        }
        if burst == 0 {
            return refused("burst", "at least 1 message or datagram goes out at a time");
        }
        Ok(Some(Self { bits: message_bytes as u64 * 8, per_second, burst }))
    }

    /// Bits of a burst in billionths: divided by the rate they are the nanoseconds to the next one.
    fn burst_bits(self) -> u128 {
        u128::from(self.bits) * u128::from(self.burst.max(1)) * 1_000_000_000
    }

    fn after_ns(self, bursts: u64) -> u64 {
        let after = u128::from(bursts) * self.burst_bits() / u128::from(self.per_second.max(1));
        u64::try_from(after).unwrap_or(u64::MAX)
    }
}

/// When the messages of one stream are due.
#[derive(Debug, Clone, Copy)]
pub(super) struct Schedule {
    start_ns: u64,
    rate: Rate,
    /// How many of those that are due were sent, or given up.
    done: u64,
}

impl Schedule {
    /// When the next one is due.
    pub(super) fn next_ns(&self) -> u64 {
        let bursts = self.done / u64::from(self.rate.burst.max(1));
        self.start_ns.saturating_add(self.rate.after_ns(bursts))
    }

    /// How many are due.
    pub(super) fn due(&self, now_ns: u64) -> u64 {
        self.until(now_ns).saturating_sub(self.done)
    }

    /// So many were sent.
    pub(super) fn count(&mut self, messages: u64) {
        self.done += messages;
    }

    /// How many are due from the start.
    fn until(&self, now_ns: u64) -> u64 {
        let Some(elapsed) = now_ns.checked_sub(self.start_ns) else { return 0 };
        // Rounded as in `next_ns`: what is due by one is due by the other.
        let numerator = (u128::from(elapsed) + 1) * u128::from(self.rate.per_second);
        let bursts = numerator.div_ceil(self.rate.burst_bits().max(1));
        let messages = bursts.saturating_mul(u128::from(self.rate.burst.max(1)));
        u64::try_from(messages).unwrap_or(u64::MAX)
    }

    /// Gives up what was due too long ago.
    pub(super) fn forget_missed(&mut self, now_ns: u64) {
        let burst = u64::from(self.rate.burst.max(1));
        let missed = self.until(now_ns.saturating_sub(CATCH_UP_NS)).saturating_sub(burst);
        self.done = self.done.max(missed);
    }
}

/// The streams begin one after the other within the time of one burst: not all at the same moment.
pub(super) fn schedules(streams: usize, now_ns: u64, rate: Rate) -> Vec<Schedule> {
    let step = rate.after_ns(1) / u64::try_from(streams).unwrap_or(u64::MAX).max(1);
    let starts = (0..streams as u64).map(|place| now_ns.saturating_add(step.saturating_mul(place)));
    starts.map(|start_ns| Schedule { start_ns, rate, done: 0 }).collect()
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

    fn schedule(bits: u64, per_second: u64, burst: u16) -> Schedule {
        Schedule { start_ns: 1_000, rate: Rate { bits, per_second, burst }, done: 0 }
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
        let mut schedule = schedule(1_000, 1_000_000, 10);
        assert_eq!((schedule.due(1_000), schedule.next_ns()), (10, 1_000));
        schedule.count(4);
        assert_eq!((schedule.due(5_000_000), schedule.next_ns()), (6, 1_000));
        schedule.count(6);
        assert_eq!((schedule.due(10_000_999), schedule.next_ns()), (0, 10_001_000));
        assert_eq!(schedule.due(10_001_000), 10);
    }

    #[test]
    fn a_pause_is_made_up_for_only_so_far() {
        // One a millisecond, and 10 s of silence.
        let rate = Rate { bits: 1_000, per_second: 1_000_000, burst: 1 };
        let mut schedule = Schedule { start_ns: 0, rate, done: 5 };
        schedule.forget_missed(10_000_000_000);
        assert_eq!(schedule.due(10_000_000_000), 21);
        schedule.count(21);
        assert_eq!(schedule.next_ns(), 10_001_000_000);
    }

    #[test]
    fn streams_do_not_start_together() {
        let rate = Rate { bits: 1_000, per_second: 1_000_000, burst: 1 };
        let starts: Vec<u64> = schedules(4, 10, rate).iter().map(Schedule::next_ns).collect();
        assert_eq!(starts, [10, 250_010, 500_010, 750_010]);
    }
}
