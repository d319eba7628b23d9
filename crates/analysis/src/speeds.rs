//! How fast the host's busy cores ran during a trial, and which of them heat held back.

use vioperf_model::sample::{CoreThrottles, Sample};

use crate::cores::MachineReading;
use crate::shapes::median;
use crate::window::{Absent, Window, percent};
use crate::wording::three_digits;

/// A core that is busy for less of the window is not what the load waits for, and an idle core's
/// frequency says nothing.
const BUSY_PERCENT: f64 = 25.0;
/// The window is cut into so many parts, to tell whether the frequency moved inside of it.
const PARTS: usize = 3;
/// A part of fewer samples says too little: each is one look at a number that jumps.
const LEAST_SAMPLES_OF_A_PART: usize = 3;

/// One trial's view of how fast the cores ran.
#[derive(Debug, Clone)]
pub struct SpeedReading {
    /// The busy cores, or why their frequency is not known.
    pub busy: Result<BusyCores, Absent>,
    /// The cores that heat throttled inside the window.
    pub throttled: Vec<Throttled>,
}

/// The cores that were busy.
#[derive(Debug, Clone)]
pub struct BusyCores {
    /// Their numbers.
    pub cores: Vec<u32>,
    /// The median of their frequencies, over all of them and all samples.
    pub khz: f64,
    /// The lowest and the highest median of a part of the window; absent of too few samples.
    pub parts_khz: Option<(f64, f64)>,
}

impl BusyCores {
    /// How far the parts of the window lie apart, in percent of the median.
    pub fn moved_percent(&self) -> Option<f64> {
        self.parts_khz.map(|(least, most)| percent(most - least, self.khz))
    }
}

/// By how much a core's counts of throttling rose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Throttled {
    /// The core.
    pub core: u32,
    /// Its own.
    pub times: u64,
    /// Those of its package.
    pub package_times: u64,
}

impl SpeedReading {
    /// Reads the samples of `window`, in which the cores were as busy as `machine` says.
    pub fn of(window: Result<&Window<'_>, Absent>, machine: &MachineReading) -> Self {
        let throttled = window.as_ref().map_or_else(|_| Vec::new(), |window| throttled(window));
        Self { busy: window.and_then(|window| busy(window, machine)), throttled }
    }
}

fn busy(window: &Window<'_>, machine: &MachineReading) -> Result<BusyCores, Absent> {
    let readings = machine.cores.as_ref().map_err(Clone::clone)?;
    let is_busy = |percent: &f64| *percent >= BUSY_PERCENT;
    let mut cores: Vec<u32> = readings
        .iter()
        .filter(|core| core.busy_percent.as_ref().is_ok_and(is_busy))
        .map(|core| core.core)
        .collect();
    cores.sort_unstable();
    let in_samples = |samples: &[&Sample]| -> Vec<f64> {
        let told = samples.iter().filter_map(|sample| sample.frequencies.as_ref()).flatten();
        told.filter(|now| cores.binary_search(&now.core).is_ok())
            .map(|now| now.khz as f64)
            .collect()
    };
    let samples = window.samples();
    if !samples.iter().any(|sample| sample.frequencies.is_some()) {
        return Err(window.reason("frequencies"));
    }
    let khz = median(&in_samples(samples)).ok_or("no core was busy whose frequency is known")?;
    let length = samples.len() / PARTS;
    let parts = samples.chunks(length.max(1)).take(PARTS);
    let medians: Vec<f64> = parts.filter_map(|part| median(&in_samples(part))).collect();
    let least = medians.iter().copied().fold(f64::INFINITY, f64::min);
    let most = medians.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let is_enough = length >= LEAST_SAMPLES_OF_A_PART && medians.len() == PARTS;
    Ok(BusyCores { cores, khz, parts_khz: is_enough.then_some((least, most)) })
}

fn throttled(window: &Window<'_>) -> Vec<Throttled> {
    let of_core = |(at, core): (usize, u32)| {
        let rose = |read: fn(&CoreThrottles) -> Option<u64>| {
            let count = |sample: &Sample| {
                let cores = sample.throttles.as_ref()?;
                let expected = cores.get(at).filter(|counts| counts.core == core);
                read(expected.or_else(|| cores.iter().find(|counts| counts.core == core))?)
            };
            // What is not told, or runs backwards, accuses nobody.
            window.increase("throttles", count).unwrap_or(0)
        };
        let (times, package_times) =
            (rose(|counts| Some(counts.core_count)), rose(|c| c.package_count));
        Throttled { core, times, package_times }
    };
    let cores = window.first().throttles.iter().flatten().map(|counts| counts.core);
    let cores = cores.enumerate().map(of_core);
    cores.filter(|core| core.times > 0 || core.package_times > 0).collect()
}

/// Cores by their numbers (`core 3`, `cores 0, 1 and 5`); of many only the first, and how many more.
pub fn named(cores: &[u32]) -> String {
    const NAMED: usize = 4;
    let numbers = |cores: &[u32]| cores.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    match cores {
        [] => "no core".into(),
        [one] => format!("core {one}"),
        [first @ .., last] if cores.len() <= NAMED => {
            format!("cores {} and {last}", numbers(first))
        }
        _ => format!("cores {} and {} more", numbers(&cores[..NAMED]), cores.len() - NAMED),
    }
}

/// A frequency (`3.40 GHz`).
pub fn gigahertz(khz: f64) -> String {
    format!("{} GHz", three_digits(khz / 1e6))
}

#[cfg(test)]
mod tests {
    use vioperf_model::sample::{CoreFrequencyNow, CoreTicks};

    use super::*;
    use crate::testing::{party_with_samples, timeline};

    const SECOND_NS: u64 = 1_000_000_000;

    /// Ten samples in nine seconds: core 0 is busy, core 1 is not.
    fn read(change: impl Fn(u64, &mut Sample)) -> SpeedReading {
        let sample = |at: u64| {
            let ticks = |core, busy| CoreTicks { core, user: at * busy, ..CoreTicks::default() };
            let mut sample = Sample {
                monotonic_ns: at * SECOND_NS,
                cores: Some(vec![ticks(0, 80), ticks(1, 5)]),
                ..Sample::default()
            };
            change(at, &mut sample);
            sample
        };
        let party = party_with_samples((0..10).map(sample).collect());
        let line = timeline(0, 9 * SECOND_NS);
        let window = Window::cut(&party, Some(&line)).unwrap();
        SpeedReading::of(Ok(&window), &MachineReading::of(Ok(&window)))
    }

    fn frequencies(khz: [u64; 2]) -> Option<Vec<CoreFrequencyNow>> {
        Some((0..).zip(khz).map(|(core, khz)| CoreFrequencyNow { core, khz }).collect())
    }

    #[test]
    fn only_busy_cores_count() {
        let reading = read(|at, sample| {
            sample.frequencies = frequencies([3_000_000, 800_000 + at * 100_000]);
        });
        let busy = reading.busy.unwrap();
        assert_eq!((busy.cores.as_slice(), busy.khz), (&[0][..], 3e6));
        assert_eq!(busy.moved_percent(), Some(0.0));
        assert_eq!(reading.throttled, []);
    }

    #[test]
    fn a_third_of_the_window_that_is_slower_is_seen_and_a_single_look_is_not() {
        let third = read(|at, sample| {
            sample.frequencies = frequencies([if at < 3 { 2_700_000 } else { 3_000_000 }, 0]);
        });
        assert_eq!(third.busy.unwrap().moved_percent(), Some(10.0));
        let look = read(|at, sample| {
            sample.frequencies = frequencies([if at == 4 { 800_000 } else { 3_000_000 }, 0]);
        });
        assert_eq!(look.busy.unwrap().moved_percent(), Some(0.0));
    }

    #[test]
    fn what_is_not_told_has_a_reason() {
        let reading = read(|_, _| {});
        assert_eq!(reading.busy.unwrap_err(), "frequencies: not in the samples");
        // A core of which the machine tells nothing.
        let reading = read(|_, sample| {
            sample.frequencies = Some(vec![CoreFrequencyNow { core: 1, khz: 1 }]);
        });
        assert!(reading.busy.unwrap_err().contains("no core was busy"));
    }

    #[test]
    fn counts_that_rise_inside_the_window_are_told() {
        let reading = read(|at, sample| {
            let counts =
                |core, core_count| CoreThrottles { core, core_count, package_count: Some(3) };
            sample.throttles = Some(vec![counts(0, 7), counts(1, 4 + at / 3)]);
        });
        assert_eq!(reading.throttled, [Throttled { core: 1, times: 3, package_times: 0 }]);
        let backwards = read(|at, sample| {
            let counts = CoreThrottles { core_count: 20 - at, ..CoreThrottles::default() };
            sample.throttles = Some(vec![counts]);
        });
        assert_eq!(backwards.throttled, []);
    }

    #[test]
    fn cores_are_named() {
        assert_eq!(named(&[3]), "core 3");
        assert_eq!(named(&[0, 1, 5]), "cores 0, 1 and 5");
        assert_eq!(named(&[0, 1, 2, 3, 4, 5]), "cores 0, 1, 2, 3 and 2 more");
    }
}
