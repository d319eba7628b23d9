//! CPU time that is burned on purpose: so much of a core, by the burning thread's own clock, so that
//! readings of CPU time can be checked.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, park_timeout};
use std::time::{Duration, Instant};

use vioperf_model::units::Ratio;

use crate::clock::thread_cpu_ns;

/// A stretch of work and rest takes so long, give or take [`SPREAD`]. It is long against the clock tick
/// by which kernels charge CPU time (1 to 10 ms), which sees a shorter one as all or nothing.
const CYCLE: Duration = Duration::from_millis(100);

/// Stretches differ by up to this part of [`CYCLE`], so that they do not keep step with the tick.
const SPREAD: f64 = 0.4;

/// The golden ratio's fraction: its multiples fill an interval evenly and never repeat.
const GOLDEN: f64 = 0.618_033_988_749_894_9;

/// Counts what all threads have burned so far, in nanoseconds.
pub(crate) type Burned = Arc<AtomicU64>;

/// A burning thread; dropping it ends it.
pub(crate) struct Burner {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Burner {
    /// Burns `share` of a core, for `deadline` at most.
    pub(crate) fn start(share: Ratio, deadline: Duration, burned: Burned) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::Builder::new()
            .name("burner".to_owned())
            .spawn(move || burn(share.as_f64(), deadline, &burned, &stopped))?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Burner {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A thread that panicked has stopped too; its counter stands still and shows it.
            let _ = thread.join();
        }
    }
}

fn burn(share: f64, deadline: Duration, burned: &AtomicU64, stop: &AtomicBool) {
    let began = Instant::now();
    let is_over = || stop.load(Ordering::Relaxed) || began.elapsed() >= deadline;
    let mut counted = thread_cpu_ns();
    let mut phase = 0.0;
    while !is_over() {
        let cycle_began = Instant::now();
        phase = (phase + GOLDEN) % 1.0;
        let cycle = CYCLE.mul_f64(1.0 + SPREAD * (2.0 * phase - 1.0));
        let until = thread_cpu_ns().saturating_add(nanoseconds(cycle.mul_f64(share)));
        loop {
            let now = thread_cpu_ns();
            burned.fetch_add(now.saturating_sub(counted), Ordering::Relaxed);
            counted = now;
            // Where others have the core, what is missing of this stretch is not made up for.
            if now >= until || cycle_began.elapsed() >= cycle || is_over() {
                break;
            }
        }
        while !is_over() {
            let left = cycle.saturating_sub(cycle_began.elapsed());
            if left.is_zero() {
                break;
            }
            park_timeout(left);
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burns_no_more_than_it_is_told_and_ends_by_itself() {
        let burned = Burned::default();
        let cpu = crate::clock::process_cpu_ns();
        let deadline = Duration::from_millis(400);
        let burner = Burner::start(Ratio::from_ppm(200_000), deadline, burned.clone()).unwrap();
        std::thread::sleep(Duration::from_millis(700));
        let after = burned.load(Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(burned.load(Ordering::Relaxed), after, "the deadline is over");
        // 80 ms, and a stretch may be cut off in its middle.
        assert!((1_000_000..140_000_000).contains(&after), "{after} ns");
        assert!(crate::clock::process_cpu_ns() - cpu >= after);
        drop(burner);
    }
}
