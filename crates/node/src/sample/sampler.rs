//! The thread that samples while the load runs, and ends the load when its time is over.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use vioperf_model::sample::{LayerCounters, PacketFilter, Sample};
use vioperf_model::units::TimeSpan;
use vioperf_model::wire::MAX_SAMPLES;

use super::Sources;
use crate::clock::thread_cpu_ns;
use crate::load::LoadControl;

/// What was sampled.
#[derive(Debug, Default)]
pub(crate) struct Sampled {
    /// The samples, oldest first.
    pub(crate) samples: Vec<Sample>,
    /// Counters of every layer, before the first and after the last of them.
    pub(crate) layers: Vec<LayerCounters>,
    /// Rules that packets were held against.
    pub(crate) packet_filter: Option<PacketFilter>,
    /// The groups of counters that are missing in them, with the reason.
    pub(crate) absent: BTreeMap<String, String>,
    /// CPU time that it took.
    pub(crate) cpu_ns: u64,
    /// Of it, what the layers took.
    pub(crate) layers_cpu_ns: u64,
}

/// What is read before anything moves.
struct Began {
    layers: LayerCounters,
    sample: Sample,
    /// CPU time that both took.
    cpu_ns: u64,
    /// That the layers took.
    layers_cpu_ns: u64,
}

impl Began {
    fn read(sources: &mut Sources, loads: &[Arc<LoadControl>]) -> Self {
        let before = thread_cpu_ns();
        let layers = sources.read_layers();
        let layers_cpu_ns = thread_cpu_ns().saturating_sub(before);
        let sample = sources.read(loads);
        Self { layers, sample, cpu_ns: thread_cpu_ns().saturating_sub(before), layers_cpu_ns }
    }
}

/// A running sampler; dropping it ends it.
pub(crate) struct Sampler {
    stop: Arc<StopSignal>,
    thread: Option<JoinHandle<Sampled>>,
}

impl Sampler {
    /// Takes the first sample, then one every `interval`. At the deadline the loads are abandoned.
    pub(crate) fn start(
        mut sources: Sources,
        loads: Vec<Arc<LoadControl>>,
        interval: TimeSpan,
        deadline: TimeSpan,
    ) -> io::Result<Self> {
        let stop = Arc::new(StopSignal::default());
        let began = Instant::now();
        let first = Began::read(&mut sources, &loads);
        let ticks = Ticks {
            began,
            interval: interval.as_duration(),
            deadline: deadline.as_duration(),
            stop: stop.clone(),
        };
        let thread = std::thread::Builder::new()
            .name("sampler".to_owned())
            .spawn(move || ticks.sample(sources, &loads, first))?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Takes the last sample and hands over all.
    pub(crate) fn stop(mut self) -> Sampled {
        self.stop.give();
        let sampled = self.thread.take().and_then(|thread| thread.join().ok());
        sampled.unwrap_or_else(|| {
            let lost = ("samples".to_owned(), "the sampling thread died".to_owned());
            Sampled { absent: BTreeMap::from([lost]), ..Sampled::default() }
        })
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop.give();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Given once; a thread can wait for it up to a point in time.
#[derive(Debug, Default)]
struct StopSignal {
    given: Mutex<bool>,
    changed: Condvar,
}

impl StopSignal {
    fn give(&self) {
        *self.given.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Whether it was given before that time came (none: waits for it without end).
    fn given_before(&self, time: Option<Instant>) -> bool {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        while !*given {
            given = match time.map(|time| time.saturating_duration_since(Instant::now())) {
                Some(Duration::ZERO) => return false,
                Some(left) => {
                    let woken = self.changed.wait_timeout(given, left);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(given).unwrap_or_else(PoisonError::into_inner),
            };
        }
        true
    }
}

/// When to sample: at multiples of the interval since the beginning, so that delays do not add up.
struct Ticks {
    began: Instant,
    interval: Duration,
    deadline: Duration,
    stop: Arc<StopSignal>,
}

impl Ticks {
    fn sample(self, mut sources: Sources, loads: &[Arc<LoadControl>], first: Began) -> Sampled {
        let Began { layers, sample, cpu_ns, layers_cpu_ns } = first;
        let mut samples = vec![sample];
        let mut deadline = self.began.checked_add(self.deadline);
        loop {
            let due = self.next_tick().filter(|_| samples.len() + 1 < MAX_SAMPLES);
            let until = due.into_iter().chain(deadline).min();
            let stopped = self.stop.given_before(until);
            if !stopped && deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                deadline = None;
                for load in loads {
                    load.abandon(format!(
                        "no Stop came within the deadline of {:?}",
                        self.deadline
                    ));
                }
                continue;
            }
            if stopped {
                samples.push(sources.read(loads));
                let before = thread_cpu_ns();
                let layers = vec![layers, sources.read_layers()];
                let now = thread_cpu_ns();
                let (packet_filter, absent) = sources.into_rest();
                return Sampled {
                    samples,
                    layers,
                    packet_filter,
                    absent,
                    cpu_ns: cpu_ns.saturating_add(now),
                    layers_cpu_ns: layers_cpu_ns.saturating_add(now.saturating_sub(before)),
                };
            }
            samples.push(sources.read(loads));
        }
    }

    /// The next multiple of the interval that is still to come: those that were missed are left out.
    fn next_tick(&self) -> Option<Instant> {
        let elapsed = self.began.elapsed();
        let interval = self.interval.as_nanos().max(1);
        let tick = (elapsed.as_nanos() / interval + 1).checked_mul(interval)?;
        self.began.checked_add(Duration::from_nanos(u64::try_from(tick).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn sources() -> Sources {
        Sources::open(Path::new("/proc"), &[]).unwrap()
    }

    fn times_of(samples: &[Sample]) -> Vec<u64> {
        samples.iter().map(|sample| sample.monotonic_ns).collect()
    }

    #[test]
    fn samples_at_the_start_at_every_tick_and_at_the_end() {
        let millisecond = TimeSpan::from_millis;
        let began = Instant::now();
        let sampler =
            Sampler::start(sources(), vec![], millisecond(20), millisecond(60_000)).unwrap();
        std::thread::sleep(Duration::from_millis(110));
        let Sampled { samples, layers, absent, cpu_ns, layers_cpu_ns, .. } = sampler.stop();
        assert!(absent.keys().all(|group| group.starts_with("layers.")), "{absent:?}");
        assert!(layers_cpu_ns > 0 && cpu_ns > layers_cpu_ns);
        assert_eq!(layers.len(), 2);
        assert!(layers[0].monotonic_ns <= times_of(&samples)[0]);
        assert!(layers[1].monotonic_ns >= times_of(&samples)[samples.len() - 1]);
        // On a busy machine ticks are missed, but never made up for.
        let most = began.elapsed().as_millis() / 20 + 2;
        assert!(samples.len() >= 2 && samples.len() as u128 <= most, "{}", samples.len());
        let times = times_of(&samples);
        assert!(times.is_sorted(), "{times:?}");
        assert!(samples.iter().all(|sample| sample.cores.is_some() && sample.tcp.is_some()));
    }

    #[test]
    fn the_deadline_abandons_the_load_and_sampling_goes_on() {
        let load = Arc::new(LoadControl::new(1).unwrap());
        let millisecond = TimeSpan::from_millis;
        let sampler =
            Sampler::start(sources(), vec![load.clone()], millisecond(10), millisecond(30))
                .unwrap();
        while !load.abandoned() {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(load.ended_early().unwrap().contains("30ms"));
        assert!(sampler.stop().samples.len() >= 3);
    }

    #[test]
    fn missed_ticks_are_left_out() {
        let ticks = Ticks {
            began: Instant::now().checked_sub(Duration::from_millis(1055)).unwrap(),
            interval: Duration::from_millis(100),
            deadline: Duration::ZERO,
            stop: Arc::default(),
        };
        assert_eq!(ticks.next_tick().unwrap() - ticks.began, Duration::from_millis(1100));
    }
}
