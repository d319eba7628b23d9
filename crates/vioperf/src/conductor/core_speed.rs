//! How fast the host's cores are at this moment: known work, timed.
//!
//! A core that is one thread of a physical core runs at half its speed while the other thread is busy.
//! Where that one is another machine's on the same hardware no counter of the host shows it, stolen time
//! included.

use std::collections::BTreeMap;
use std::fmt;
use std::hint::black_box;
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use vioperf_model::record::{CoreSpeed, DISTURBED_SLOWDOWN};

/// Rounds of the work for one reading. Their median counts: it does not see the rounds that an
/// interrupt or another thread fell into.
const ROUNDS: usize = 15;

/// Steps of one round: some 10 µs, so that most rounds stand between two timer ticks.
const STEPS: u64 = 10_000;

/// How often a wait looks.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// How many looks in a row have to find every core at its best.
const LOOKS: u32 = 3;

/// How many looks tell first how fast the cores can be.
const FIRST_LOOKS: u32 = 40;

/// The longest wait, and the shortest that a wait in vain makes of it.
const PATIENCE: Duration = Duration::from_secs(2);
const LEAST_PATIENCE: Duration = Duration::from_millis(250);

/// All waits together take no more than this part of the time, once they have taken so long.
const PART_FOR_WAITS: f64 = 0.2;
const FREE_WAITS: Duration = Duration::from_secs(5);

/// The host's cores, and how fast each has been at its best.
pub struct Cores {
    cores: Vec<u16>,
    /// How long the known work takes a core now, in nanoseconds; absent where it may not be used.
    time: Box<dyn Fn(u16) -> Option<u64> + Send + Sync>,
    best_ns: BTreeMap<u16, u64>,
    patience: Duration,
    since: Instant,
    waited: Duration,
}

impl fmt::Debug for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cores").field("best_ns", &self.best_ns).finish_non_exhaustive()
    }
}

impl Cores {
    /// Nothing is known of them yet.
    pub fn new(cores: Vec<u16>) -> Self {
        Self::timed_by(cores, median_ns)
    }

    fn timed_by(
        cores: Vec<u16>,
        time: impl Fn(u16) -> Option<u64> + Send + Sync + 'static,
    ) -> Self {
        Self {
            cores,
            time: Box::new(time),
            best_ns: BTreeMap::new(),
            patience: PATIENCE,
            since: Instant::now(),
            waited: Duration::ZERO,
        }
    }

    /// Looks for a while how fast they can be: the first trial, too, is held against their best.
    pub fn get_to_know(&mut self) {
        for _ in 0..FIRST_LOOKS {
            self.slowdown();
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// How many times longer than at its best the slowest core takes now; absent where none may be
    /// used. One core is timed after the other: they may be each other's siblings.
    pub fn slowdown(&mut self) -> Option<f64> {
        let read = |core: &u16| Some((*core, (self.time)(*core)?));
        let readings: Vec<(u16, u64)> = std::thread::scope(|scope| {
            let all = || self.cores.iter().filter_map(read).collect();
            // A thread of its own: it is moved from core to core.
            scope.spawn(all).join().unwrap_or_default()
        });
        let slowdowns = readings.into_iter().map(|(core, ns)| {
            let best = self.best_ns.entry(core).or_insert(ns);
            *best = ns.min(*best);
            ns as f64 / (*best).max(1) as f64
        });
        slowdowns.max_by(f64::total_cmp)
    }

    /// Waits until every core is at its best, until `given_up`, or until it has taken too long: each wait
    /// in vain makes the next shorter. How fast the cores are then, if any tells; the end of the trial is not known yet.
    pub fn wait(&mut self, given_up: impl Fn() -> bool) -> Option<CoreSpeed> {
        let began = Instant::now();
        let allowed = self.since.elapsed().mul_f64(PART_FOR_WAITS) + FREE_WAITS;
        let patience = self.patience.min(allowed.saturating_sub(self.waited));
        let mut good = 0;
        loop {
            let slowdown_before = self.slowdown()?;
            good = if slowdown_before < DISTURBED_SLOWDOWN { good + 1 } else { 0 };
            let waited = began.elapsed();
            let in_vain = waited >= patience || given_up();
            if good < LOOKS && !in_vain {
                std::thread::sleep(LOOK_EVERY);
                continue;
            }
            self.patience = match good {
                LOOKS => PATIENCE,
                _ => (self.patience / 2).max(LEAST_PATIENCE),
            };
            self.waited += waited;
            let waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
            return Some(CoreSpeed { slowdown_before, slowdown_after: None, waited_ms });
        }
    }
}

fn median_ns(core: u16) -> Option<u64> {
    let mut set = CpuSet::new();
    set.set(usize::from(core)).ok()?;
    sched_setaffinity(Pid::from_raw(0), &set).ok()?;
    let mut rounds = [0; ROUNDS];
    for round in &mut rounds {
        let began = Instant::now();
        black_box(work(black_box(1)));
        *round = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    }
    rounds.sort_unstable();
    rounds.get(ROUNDS / 2).copied()
}

/// Many independent chains of cheap operations: they fill a core's execution units, and those are what
/// another thread on it takes away. A single chain waits for itself and would notice nothing.
fn work(seed: u64) -> u64 {
    let mut x = [seed, seed + 1, seed + 2, seed + 3, seed + 4, seed + 5, seed + 6, seed + 7];
    for step in 0..STEPS {
        x[0] = x[0].wrapping_add(x[0] >> 3);
        x[1] ^= x[1] << 5;
        x[2] = x[2].wrapping_add(x[2] >> 7);
        x[3] ^= x[3] << 3;
        x[4] = x[4].wrapping_add(step);
        x[5] ^= x[4];
        x[6] = x[6].wrapping_add(x[6] >> 1);
        x[7] ^= x[7] << 1;
    }
    x.iter().fold(0, |all, one| all ^ one)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Two cores, the second of which takes one of these times at each look, and the last for ever.
    fn planted(times: &[u64]) -> Cores {
        let left = Mutex::new(times.to_vec());
        Cores::timed_by(vec![4, 7], move |core| {
            let mut left = left.lock().unwrap();
            match (core, left.len()) {
                (4, _) => Some(500),
                (_, 1) => Some(left[0]),
                _ => Some(left.remove(0)),
            }
        })
    }

    #[test]
    fn the_slowest_core_is_told_against_its_own_best() {
        let mut cores = planted(&[100, 200, 100, 80, 100]);
        let read: Vec<f64> = (0..5).map(|_| cores.slowdown().unwrap()).collect();
        assert_eq!(read, [1.0, 2.0, 1.0, 1.0, 1.25]);
    }

    #[test]
    fn a_wait_ends_when_all_cores_are_at_their_best_for_some_looks() {
        let mut cores = planted(&[100, 210, 100, 190, 101, 102, 103, 900]);
        assert!(cores.slowdown().unwrap() <= 1.0);
        let speed = cores.wait(|| false).unwrap();
        assert!((speed.slowdown_before - 1.03).abs() < 1e-9, "{speed:?}");
        assert!(!speed.is_disturbed() && speed.waited_ms >= 50, "{speed:?}");
    }

    #[test]
    fn waits_in_vain_become_shorter_and_one_that_is_not_restores_the_patience() {
        let mut cores = planted(&[100, 200]);
        cores.slowdown();
        cores.patience = Duration::from_millis(400);
        assert!(cores.wait(|| false).unwrap().is_disturbed());
        assert_eq!(cores.patience, LEAST_PATIENCE);
        let began = Instant::now();
        assert!(cores.wait(|| true).unwrap().is_disturbed());
        assert!(began.elapsed() < LEAST_PATIENCE);
        cores.best_ns.insert(7, 190);
        assert!(!cores.wait(|| false).unwrap().is_disturbed());
        assert_eq!(cores.patience, PATIENCE);
    }

    #[test]
    fn a_core_that_may_not_be_used_tells_nothing() {
        assert_eq!(median_ns(u16::MAX), None);
        assert_eq!(Cores::new(vec![u16::MAX]).slowdown(), None);
        assert_eq!(Cores::new(vec![u16::MAX]).wait(|| false), None);
        assert!(median_ns(vioperf_lab::placement::usable_cores("/".as_ref())[0]).unwrap() > 0);
    }
}
