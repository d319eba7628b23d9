//! How fast a load moved while a trial was measured: whether it rose or fell, and whether it stood still.

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::{ALPHA, Intervals, parts};

/// Parts of the window that a course is told of.
pub const TENTHS: usize = 10;
/// With fewer samples in the window there is no course to be told.
const LEAST_SAMPLES: usize = 5;
/// With fewer trials a rise inside of them is not told from chance.
const LEAST_TRIALS: usize = 5;
/// From one half of the window to the other, a change of a smaller part is not worth a word.
const RELEVANT: f64 = 0.03;
/// A stretch in which less than this part of the usual amount moves is a dip.
const NEXT_TO_NOTHING: f64 = 0.01;
/// How long a dip is at least, where the window allows for it: a second.
const LONGEST_LEAST_SECONDS: f64 = 1.0;
/// In a short window it is this part,
const PART_OF_WINDOW: f64 = 0.1;
/// but no less than a sampler that was late now and then could make up.
const SHORTEST_LEAST_SECONDS: f64 = 0.1;
/// So many grains at least have to be missing: a load of few of them has gaps by its nature.
const LEAST_MISSING: f64 = 50.0;

/// The course of one trial.
#[derive(Debug, Clone, PartialEq)]
pub struct Course {
    /// What moved in each tenth of the window, a second.
    pub tenths: [f64; TENTHS],
    /// The same in the intervals that peak and sustained rate are told of; absent where samples are too few.
    pub intervals: Option<Intervals>,
    /// The longest stretch in which nothing did.
    pub dip: Option<Dip>,
}

/// A stretch in the window in which (almost) nothing moved, while before and after something did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dip {
    /// From when, in seconds since the first sample.
    pub from_seconds: f64,
    /// For how long.
    pub seconds: f64,
}

impl Course {
    /// Of (seconds, moved so far), both never falling. `grain` is how much comes at once.
    pub fn of(moved: &[(f64, f64)], grain: f64) -> Option<Self> {
        let ((begin, first), (end, last)) = (*moved.first()?, *moved.last()?);
        let rises = |pair: &[(f64, f64)]| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1;
        if moved.len() < LEAST_SAMPLES || !moved.windows(2).all(rises) || last <= first {
            return None;
        }
        let tenths = parts(moved, TENTHS).try_into().ok()?;
        let dip = dip(moved, (last - first) / (end - begin), grain);
        Some(Self { tenths, intervals: Intervals::of(moved), dip })
    }

    /// Adds what moved at the same time another way.
    pub fn add(&mut self, other: &Self) {
        self.tenths.iter_mut().zip(&other.tenths).for_each(|(mine, other)| *mine += other);
        let both = self.intervals.take().zip(other.intervals.as_ref());
        self.intervals = both.and_then(|(mine, other)| mine.with(other));
        let seconds = |dip: &Option<Dip>| dip.map_or(0.0, |dip| dip.seconds);
        if seconds(&other.dip) > seconds(&self.dip) {
            self.dip = other.dip;
        }
    }
}

/// The longest stretch between samples in which next to nothing moved.
fn dip(moved: &[(f64, f64)], usual: f64, grain: f64) -> Option<Dip> {
    let window = moved.last()?.0 - moved.first()?.0;
    let least = (window * PART_OF_WINDOW).clamp(SHORTEST_LEAST_SECONDS, LONGEST_LEAST_SECONDS);
    let is_still = |pair: &[(f64, f64)]| {
        pair[1].1 - pair[0].1 <= NEXT_TO_NOTHING * usual * (pair[1].0 - pair[0].0)
    };
    let mut longest: Option<Dip> = None;
    let mut since: Option<f64> = None;
    let mut has_moved = false;
    for pair in moved.windows(2) {
        if is_still(pair) {
            // What stands still from the beginning is no dip: nothing was there before.
            since = since.or(has_moved.then_some(pair[0].0));
            continue;
        }
        has_moved = true;
        if let Some(from) = since.take() {
            let seconds = pair[0].0 - from;
            let counts = seconds >= least && usual * seconds >= LEAST_MISSING * grain;
            if counts && longest.is_none_or(|dip| dip.seconds < seconds) {
                longest = Some(Dip { from_seconds: from - moved[0].0, seconds });
            }
        }
    }
    longest
}

/// By what part more moved in the second half of the window than in the first, if it is so in the trials
/// of a cell beyond chance: Student's t of the logarithms of their ratios, the trial being the unit.
pub fn within(courses: &[&Course]) -> Option<f64> {
    let half = |tenths: &[f64]| tenths.iter().sum::<f64>();
    let log_ratio = |course: &&Course| {
        let (first, second) = course.tenths.split_at(TENTHS / 2);
        let log = (half(second) / half(first)).ln();
        log.is_finite().then_some(log)
    };
    let logs: Vec<f64> = courses.iter().filter_map(log_ratio).collect();
    let n = logs.len();
    if n < LEAST_TRIALS {
        return None;
    }
    let mean = logs.iter().sum::<f64>() / n as f64;
    let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
    let error = (squares / (n - 1) as f64 / n as f64).sqrt();
    let t = StudentsT::new(0.0, 1.0, (n - 1) as f64).ok()?.inverse_cdf(1.0 - ALPHA / 2.0);
    let change = mean.exp() - 1.0;
    (mean.abs() > t * error && change.abs() > RELEVANT).then_some(change)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steady(seconds: f64, interval: f64, rate: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        let mut moved = 0.0;
        let mut at = 0.0;
        let mut samples = vec![(5.0, 0.0)];
        while at + interval <= seconds + 1e-9 {
            moved += rate(at) * interval;
            at += interval;
            samples.push((5.0 + at, moved));
        }
        samples
    }

    #[test]
    fn a_steady_load_has_even_tenths_and_no_dip() {
        let course = Course::of(&steady(1.4, 0.1, |_| 1e5), 1.0).unwrap();
        assert!(course.tenths.iter().all(|rate| (rate / 1e5 - 1.0).abs() < 1e-6), "{course:?}");
        assert_eq!(course.dip, None);
        assert_eq!(Course::of(&steady(0.3, 0.1, |_| 1e5), 1.0), None);
        assert_eq!(Course::of(&steady(2.0, 0.1, |_| 0.0), 1.0), None);
        assert_eq!(
            Course::of(&[(1.0, 5.0), (1.0, 6.0), (2.0, 7.0), (3.0, 8.0), (4.0, 9.0)], 1.0),
            None
        );
    }

    #[test]
    fn a_second_with_nothing_is_a_dip_and_an_end_with_nothing_is_none() {
        let still = |from: f64, until: f64| {
            move |at: f64| if at > from - 1e-9 && at < until - 1e-9 { 0.0 } else { 1e5 }
        };
        let dip = Course::of(&steady(20.0, 0.5, still(7.0, 8.5)), 1.0).unwrap().dip.unwrap();
        assert!(
            (dip.from_seconds - 7.0).abs() < 1e-6 && (dip.seconds - 1.5).abs() < 1e-6,
            "{dip:?}"
        );
        assert_eq!(Course::of(&steady(20.0, 0.5, still(7.0, 7.5)), 1.0).unwrap().dip, None);
        assert_eq!(Course::of(&steady(20.0, 0.5, still(15.0, 21.0)), 1.0).unwrap().dip, None);
        assert_eq!(Course::of(&steady(20.0, 0.5, still(0.0, 5.0)), 1.0).unwrap().dip, None);
        // 200 ms in a trial of 1.4 s: a retransmission's time-out.
        assert!(Course::of(&steady(1.4, 0.1, still(0.5, 0.7)), 1.0).unwrap().dip.is_some());
        // A request now and then has nothing to miss.
        let rare = |at: f64| if still(7.0, 8.5)(at) > 0.0 { 3.0 } else { 0.0 };
        assert_eq!(Course::of(&steady(20.0, 0.5, rare), 1.0).unwrap().dip, None);
    }

    #[test]
    fn a_rise_in_every_trial_is_found_and_one_in_a_single_is_not() {
        let rises =
            |by: f64| Course::of(&steady(2.0, 0.1, |at| 1e5 * (1.0 + by * at)), 1.0).unwrap();
        let all: Vec<Course> = (0..8).map(|i| rises(0.2 + 0.01 * f64::from(i % 3))).collect();
        let change = within(&all.iter().collect::<Vec<_>>()).unwrap();
        assert!(change > 0.1 && change < 0.3, "{change}");
        let mut one: Vec<Course> = (0..8).map(|i| rises(0.004 * f64::from(i % 3 - 1))).collect();
        assert_eq!(within(&one.iter().collect::<Vec<_>>()), None);
        one[0] = rises(1.0);
        assert_eq!(within(&one.iter().collect::<Vec<_>>()), None);
        assert_eq!(within(&all.iter().take(4).collect::<Vec<_>>()), None);
    }
}
