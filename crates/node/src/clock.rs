//! The clocks of this machine, in nanoseconds.

use nix::time::{ClockId, clock_gettime};

/// `CLOCK_MONOTONIC`: the time of every sample.
pub(crate) fn monotonic_ns() -> u64 {
    read(ClockId::CLOCK_MONOTONIC)
}

/// CPU time that all threads of this process have used since it began.
pub(crate) fn process_cpu_ns() -> u64 {
    read(ClockId::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU time that the calling thread has used since it began.
pub(crate) fn thread_cpu_ns() -> u64 {
    read(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// These clocks exist on every Linux and never are negative, so that the fallbacks are never taken.
fn read(clock: ClockId) -> u64 {
    let Ok(now) = clock_gettime(clock) else { return 0 };
    let seconds = u64::try_from(now.tv_sec()).unwrap_or(0);
    let nanoseconds = u64::try_from(now.tv_nsec()).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds)
}
