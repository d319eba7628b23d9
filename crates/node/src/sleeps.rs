//! How late this machine's timers wake a thread up.

use std::thread::sleep;
use std::time::{Duration, Instant};

use vioperf_model::units::TimeSpan;

/// The message loop answers nobody meanwhile.
const LONGEST: Duration = Duration::from_secs(5);

/// Why sleeps could not be timed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SleepsError {
    #[error(
        "{count} sleeps of {sleep} take longer than {LONGEST:?}: ask for fewer or shorter ones"
    )]
    TooLong { sleep: TimeSpan, count: u16 },
}

/// Sleeps `count` times; how much later than asked it woke up each time, in nanoseconds.
///
/// # Errors
/// When that would take too long.
pub(crate) fn time_sleeps(time: TimeSpan, count: u16) -> Result<Vec<u64>, SleepsError> {
    let wanted = time.as_duration();
    if wanted.saturating_mul(count.into()) > LONGEST {
        return Err(SleepsError::TooLong { sleep: time, count });
    }
    // The kernel lets threads sleep on to wake up several at once (prctl(2)); its own timers, which
    // delay packets, it does not. Where that cannot be switched off, 50 microseconds are in the result.
    let _ = nix::sys::prctl::set_timerslack(1);
    let late = (0..count).map(|_| {
        let began = Instant::now();
        sleep(wanted);
        u64::try_from(began.elapsed().saturating_sub(wanted).as_nanos()).unwrap_or(u64::MAX)
    });
    let late = late.collect();
    // Zero stands for the thread's usual slack.
    let _ = nix::sys::prctl::set_timerslack(0);
    Ok(late)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeps_are_timed_and_bounded() {
        let began = Instant::now();
        let late = time_sleeps(TimeSpan::from_millis(2), 10).unwrap();
        assert_eq!(late.len(), 10);
        let slept: u64 = late.iter().sum();
        assert!(began.elapsed() >= Duration::from_millis(20) + Duration::from_nanos(slept));
        let message = time_sleeps(TimeSpan::from_millis(1000), 6).unwrap_err().to_string();
        assert!(message.contains("6 sleeps of 1 s"), "{message}");
    }
}
