//! Medians, and how sure a ratio of two of them is.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// How often rounds are drawn anew for an interval.
const RESAMPLES: usize = 4000;

/// The middle of the values, or the mean of the two in the middle; nothing of none.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(*upper);
    }
    Some(f64::midpoint(*sorted.get(sorted.len() / 2 - 1)?, *upper))
}

/// The smallest and the largest.
pub fn spread(values: &[f64]) -> Option<(f64, f64)> {
    let low = values.iter().copied().min_by(f64::total_cmp)?;
    let high = values.iter().copied().max_by(f64::total_cmp)?;
    Some((low, high))
}

/// A ratio of medians.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    pub value: f64,
    /// The middle 95 % of what the ratio is when whole rounds are drawn with replacement (the
    /// percentile bootstrap of Efron 1979). What disturbed a round disturbed both in it, so rounds
    /// are drawn, not values.
    pub interval: (f64, f64),
}

/// The median of `above` over that of `below`; both have one value for each round.
pub fn ratio(above: &[f64], below: &[f64]) -> Option<Ratio> {
    let rounds = above.len().min(below.len());
    let value = median(above)? / median(below)?;
    // The same rounds give the same interval.
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut drawn = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        let picks: Vec<usize> = (0..rounds).map(|_| random.random_range(0..rounds)).collect();
        let pick = |values: &[f64]| -> Option<f64> {
            let picked: Vec<f64> =
                picks.iter().filter_map(|round| values.get(*round).copied()).collect();
            median(&picked)
        };
        drawn.push(pick(above)? / pick(below)?);
    }
    drawn.sort_by(f64::total_cmp);
    let at = |share: usize| drawn.get(RESAMPLES * share / 1000).copied();
    Some(Ratio { value, interval: (at(25)?, at(975)?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
        assert_eq!(spread(&[3.0, 1.0, 2.0]), Some((1.0, 3.0)));
    }

    #[test]
    fn what_disturbs_both_of_a_round_does_not_widen_the_interval() {
        let below = [10.0, 5.0, 9.0, 2.0, 10.0, 7.0, 8.0];
        let above = below.map(|value| value * 1.5);
        let ratio = ratio(&above, &below).unwrap();
        for value in [ratio.value, ratio.interval.0, ratio.interval.1] {
            assert!((value - 1.5).abs() < 1e-9, "{ratio:?}");
        }
    }

    #[test]
    fn scatter_widens_the_interval_around_the_ratio() {
        let above = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0];
        let below = [7.0, 3.0, 1.0, 2.0, 6.0, 5.0, 4.0];
        let ratio = ratio(&above, &below).unwrap();
        assert_eq!(ratio.value, 1.0);
        assert!(ratio.interval.0 < 0.8 && ratio.interval.1 > 1.25, "{ratio:?}");
    }
}
