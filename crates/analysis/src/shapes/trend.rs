//! Trials that rise or fall over the run.

use statrs::distribution::{ContinuousCDF, Normal};

use super::{ALPHA, median};

/// With fewer trials not even a steady rise is beyond chance.
const LEAST_TRIALS: usize = 8;
/// Up to so many trials the exact distribution is used, for more its normal approximation.
const MOST_EXACT: usize = 30;
/// More trials are averaged in so many groups of neighbours, as the time grows with the square.
const MOST_POINTS: usize = 200;
/// A change over the run of a smaller part of the median is not worth a word.
const RELEVANT: f64 = 0.03;

/// A rise or fall.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trend {
    /// From the first trial to the last, as a part of the median; below zero it falls.
    pub change: f64,
}

/// The trend of values in the order of time, if there is one: the Mann-Kendall test (H. B. Mann,
/// Econometrica 13, 1945; M. G. Kendall, Rank Correlation Methods), with the slope of P. K. Sen (JASA 63,
/// 1968): the median of the slopes of all pairs.
pub fn trend(values: &[f64]) -> Option<Trend> {
    let points = thinned(values);
    let n = points.len();
    if n < LEAST_TRIALS || points.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let pairs = || (0..n).flat_map(|later| (0..later).map(move |earlier| (earlier, later)));
    let sign = |(earlier, later): (usize, usize)| match points[later].total_cmp(&points[earlier]) {
        std::cmp::Ordering::Less => -1i64,
        std::cmp::Ordering::Equal => 0,
        std::cmp::Ordering::Greater => 1,
    };
    let score: i64 = pairs().map(sign).sum();
    if probability(n, score.unsigned_abs())? > ALPHA {
        return None;
    }
    let slope = |(earlier, later): (usize, usize)| {
        (points[later] - points[earlier]) / (later - earlier) as f64
    };
    let slopes: Vec<f64> = pairs().map(slope).collect();
    let change = median(&slopes)? * (n - 1) as f64 / median(&points)?.abs();
    (change.is_finite() && change.abs() > RELEVANT).then_some(Trend { change })
}

fn thinned(values: &[f64]) -> Vec<f64> {
    let in_group = values.len().div_ceil(MOST_POINTS).max(1);
    let mean = |group: &[f64]| group.iter().sum::<f64>() / group.len() as f64;
    values.chunks(in_group).map(mean).collect()
}

/// How likely a score of at least that size, either way, is where there is no trend. Ties make it less
/// likely than this: they are on the safe side.
fn probability(n: usize, score: u64) -> Option<f64> {
    if n > MOST_EXACT { approximate(n, score) } else { exact(n, score) }
}

fn approximate(n: usize, score: u64) -> Option<f64> {
    let n = n as f64;
    let variance = n * (n - 1.0) * (2.0 * n + 5.0) / 18.0;
    let normal = Normal::new(0.0, variance.sqrt()).ok()?;
    // Continuity: scores are two apart.
    Some(2.0 * normal.cdf(-(score as f64 - 1.0).max(0.0)))
}

fn exact(n: usize, score: u64) -> Option<f64> {
    // A score of S is (pairs - S) / 2 pairs out of order: the number of orders with so many inversions
    // follows from that of one value fewer, which can be put before 0, 1, … of the others.
    let most = n * (n - 1) / 2;
    let mut parts = vec![0.0; most + 1];
    parts[0] = 1.0;
    for values in 2..=n {
        let mut next = vec![0.0; most + 1];
        for (inversions, part) in parts.iter().enumerate().filter(|(_, part)| **part > 0.0) {
            for further in next.iter_mut().skip(inversions).take(values) {
                *further += part / values as f64;
            }
        }
        parts = next;
    }
    let out_of_order = most.saturating_sub(usize::try_from(score).ok()?) / 2;
    Some((2.0 * parts.iter().take(out_of_order + 1).sum::<f64>()).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_kendalls_table() {
        // Hollander and Wolfe, table A.30: of 8 values S >= 16 in 3.1 %, of 10 S >= 21 in 3.6 %, one-sided.
        assert!((probability(8, 16).unwrap() / 2.0 - 0.031).abs() < 5e-4);
        assert!((probability(10, 21).unwrap() / 2.0 - 0.036).abs() < 5e-4);
        // All in order: two of 8! orders.
        assert!((probability(8, 28).unwrap() - 2.0 / 40_320.0).abs() < 1e-12);
        assert_eq!(probability(8, 0), Some(1.0));
        // The approximation takes over where it is good.
        for score in [101, 151, 201] {
            let (exact, near) = (exact(30, score).unwrap(), approximate(30, score).unwrap());
            // Its tail is the heavier one: on the safe side.
            assert!((0.95..2.0).contains(&(near / exact)), "{score}: {exact} {near}");
        }
    }

    #[test]
    fn a_fall_is_found_with_its_size() {
        let falls: Vec<f64> =
            (0..12).map(|i| 120.0 - 2.0 * f64::from(i) + f64::from(i % 2) * 0.5).collect();
        let found = trend(&falls).unwrap();
        assert!((found.change + 22.0 / 109.25).abs() < 0.01, "{found:?}");
        let wavers: Vec<f64> = (0..12).map(|i| 100.0 + f64::from(i * 7 % 12)).collect();
        assert_eq!(trend(&wavers), None);
        assert_eq!(trend(&[3.0; 50]), None);
        assert_eq!(trend(&falls[..7]), None);
        // Sure, but of no weight.
        let creeps: Vec<f64> = (0..20).map(|i| 1000.0 + f64::from(i)).collect();
        assert_eq!(trend(&creeps), None);
        let long: Vec<f64> = (0..5_000).map(|i| 1000.0 + f64::from(i)).collect();
        assert!(trend(&long).is_some());
    }
}
