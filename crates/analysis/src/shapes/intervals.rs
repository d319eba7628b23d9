//! The rate of a trial in equal intervals: the best of them, what all but a few reach, and those that fall far below.
//!
//! Sustained is the rate that 95 % of the intervals reach: the 5th percentile by nearest rank, as availability is told of
//! a line's speed (the speed that is there for so large a part of the time). Dips are counted as power quality counts those of
//! a voltage (IEC 61000-4-30): below a threshold, what follows on each other being one, as deep as its deepest.

/// How long an interval is where the window has room for enough of them: what tools of the field tell rates of.
const SECONDS: f64 = 1.0;
/// A window that is shorter than so many of those is cut into so many, if samples are as dense.
const USUAL: usize = 20;
/// With fewer there is nothing to tell.
const LEAST: usize = 10;
/// One interval of so many may fall short of the sustained rate.
const ONE_IN: usize = 20;
/// An interval with less than this part of the median is in a dip.
const DIP_BELOW: f64 = 0.75;

/// A trial's rate in equal intervals.
#[derive(Debug, Clone, PartialEq)]
pub struct Intervals {
    /// How long each is.
    pub seconds: f64,
    /// What moved in each, a second.
    pub rates: Vec<f64>,
}

/// Intervals that follow on each other and fall far below the others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LowSpan {
    /// From when, in seconds since the first sample.
    pub from_seconds: f64,
    /// For how long.
    pub seconds: f64,
    /// By what part the lowest is below the trial's median interval, in percent.
    pub depth_percent: f64,
}

impl Intervals {
    /// Of (seconds, moved so far), both never falling; absent where samples are too few.
    pub(super) fn of(moved: &[(f64, f64)]) -> Option<Self> {
        let window = moved.last()?.0 - moved.first()?.0;
        let is_long = |number: &usize| window / *number as f64 >= SECONDS;
        let long = (USUAL..moved.len()).rev().find(is_long);
        let number = long.unwrap_or(USUAL).min(moved.len() - 1);
        (number >= LEAST)
            .then(|| Self { seconds: window / number as f64, rates: super::parts(moved, number) })
    }

    /// Together with what moved at the same time another way; nothing where that was cut otherwise.
    pub(super) fn with(mut self, other: &Self) -> Option<Self> {
        if self.rates.len() != other.rates.len() {
            return None;
        }
        self.rates.iter_mut().zip(&other.rates).for_each(|(mine, other)| *mine += other);
        Some(self)
    }

    /// The highest rate of an interval.
    pub fn peak(&self) -> f64 {
        self.rates.iter().copied().fold(0.0, f64::max)
    }

    /// The highest rate that 95 % of the intervals reach; of fewer than 20 all of them.
    pub fn sustained(&self) -> f64 {
        let mut sorted = self.rates.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / ONE_IN).copied().unwrap_or_default()
    }

    /// Where it fell far below the median, in order.
    pub fn dips(&self) -> Vec<LowSpan> {
        let median = super::median(&self.rates).unwrap_or_default();
        let mut found: Vec<LowSpan> = Vec::new();
        let mut was_low = false;
        for (rate, number) in self.rates.iter().zip(0u32..) {
            let is_low = *rate < DIP_BELOW * median;
            let depth_percent = 100.0 * (1.0 - rate / median);
            match found.last_mut().filter(|_| was_low && is_low) {
                Some(last) => {
                    last.seconds += self.seconds;
                    last.depth_percent = last.depth_percent.max(depth_percent);
                }
                None if is_low => found.push(LowSpan {
                    from_seconds: f64::from(number) * self.seconds,
                    seconds: self.seconds,
                    depth_percent,
                }),
                None => {}
            }
            was_low = is_low;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples twice a second of a load that moves as `rate` says.
    fn moved(seconds: u32, rate: impl Fn(u32) -> f64) -> Vec<(f64, f64)> {
        let mut so_far = 0.0;
        let mut samples = vec![(3.0, 0.0)];
        for half in 0..2 * seconds {
            so_far += rate(half / 2) / 2.0;
            samples.push((3.0 + f64::from(half + 1) / 2.0, so_far));
        }
        samples
    }

    #[test]
    fn peak_sustained_and_dips_are_those_that_were_planted() {
        // A minute at 100, one second at 130, and two dips: of two seconds, and of one.
        let rate = |second| match second {
            10 => 130.0,
            20 => 60.0,
            21 => 20.0,
            40 => 70.0,
            _ => 100.0,
        };
        let intervals = Intervals::of(&moved(60, rate)).unwrap();
        assert_eq!(intervals.rates.len(), 60);
        assert!((intervals.peak() - 130.0).abs() < 1e-6);
        // Three of sixty fall short of it.
        assert!((intervals.sustained() - 100.0).abs() < 1e-6, "{}", intervals.sustained());
        let dips = intervals.dips();
        let told: Vec<(f64, f64, f64)> = dips
            .iter()
            .map(|dip| (dip.from_seconds, dip.seconds, dip.depth_percent.round()))
            .collect();
        assert_eq!(told, [(20.0, 2.0, 80.0), (40.0, 1.0, 30.0)]);
        let four = |second| if second % 15 == 7 { 80.0 } else { 100.0 };
        let intervals = Intervals::of(&moved(60, four)).unwrap();
        assert!((intervals.sustained() - 80.0).abs() < 1e-6);
        assert_eq!(intervals.dips(), [], "a fifth less is no dip");
    }

    #[test]
    fn a_short_window_is_cut_finer_as_far_as_samples_go() {
        let short = Intervals::of(&moved(8, |_| 5.0)).unwrap();
        assert_eq!((short.rates.len(), short.seconds), (16, 0.5));
        assert_eq!(Intervals::of(&moved(4, |_| 5.0)), None);
        assert!((short.sustained() - 5.0).abs() < 1e-6);
        let both = short.clone().with(&short).unwrap();
        assert!((both.peak() - 10.0).abs() < 1e-6);
        assert_eq!(short.with(&Intervals { seconds: 1.0, rates: vec![1.0; 12] }), None);
        assert_eq!(Intervals::of(&[]), None);
    }

    #[test]
    fn nothing_but_zeros_has_no_dips() {
        let still = Intervals { seconds: 1.0, rates: vec![0.0; 20] };
        assert_eq!((still.peak(), still.sustained(), still.dips()), (0.0, 0.0, Vec::new()));
    }
}
