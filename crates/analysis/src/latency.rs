//! Percentiles of latency, from the histogram of one trial or of several.

use std::collections::BTreeMap;

use vioperf_model::record::{Purpose, TrialRecord};
use vioperf_model::sample::LatencyHistogram;

use crate::flow::Flow;
use crate::result::CurvePoint;
use crate::window::{Absent, Reading};

/// A percentile that reports show.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// What it is called.
    pub name: &'static str,
    /// The part of transactions that took no longer.
    pub quantile: f64,
    /// With fewer transactions it is not told: at least ten have to lie beyond it, 10 / (1 - q).
    pub least_transactions: u64,
}

/// The percentiles that reports show.
pub const PERCENTILES: [Wanted; 5] = [
    Wanted { name: "p50", quantile: 0.5, least_transactions: 20 },
    Wanted { name: "p90", quantile: 0.9, least_transactions: 100 },
    Wanted { name: "p99", quantile: 0.99, least_transactions: 1_000 },
    Wanted { name: "p99.9", quantile: 0.999, least_transactions: 10_000 },
    Wanted { name: "p99.99", quantile: 0.9999, least_transactions: 100_000 },
];

/// How many transactions have to lie beyond a point of the curve.
const LEAST_BEYOND: f64 = 10.0;
/// Points of the curve for each tenfold of 1 / (1 - q).
const POINTS_PER_DECADE: u32 = 12;
/// The curve ends at the latest here: 1 / (1 - q) = 10^6.
const DECADES: u32 = 6;

/// What is told of the latency of one trial.
#[derive(Debug, Clone)]
pub struct LatencyReading {
    /// As [`PERCENTILES`], in microseconds.
    pub percentiles_us: [Reading; PERCENTILES.len()],
    /// Mean in microseconds.
    pub mean_us: f64,
    /// The longest in microseconds.
    pub max_us: f64,
}

impl LatencyReading {
    /// Of a trial's transactions.
    pub fn of(latency: &Latency) -> Self {
        Self {
            percentiles_us: PERCENTILES.map(|wanted| latency.percentile_us(&wanted)),
            mean_us: latency.mean_us(),
            max_us: latency.max_us(),
        }
    }
}

/// Latencies, counted.
#[derive(Debug, Clone, Default)]
pub struct Latency {
    /// How many lie in the bucket that ends there, in nanoseconds.
    counts: BTreeMap<u64, u64>,
    transactions: u64,
    maximum_ns: u64,
    sum_ns: u128,
}

impl Latency {
    /// What a histogram holds.
    pub fn of_histogram(histogram: &LatencyHistogram) -> Self {
        let mut latency = Self::default();
        latency.add(histogram);
        latency
    }

    /// As the one who asked saw it.
    ///
    /// # Errors
    /// When the record has no latency.
    pub fn of_trial(trial: &TrialRecord) -> Result<Self, Absent> {
        let histogram = Flow::all(trial, Purpose::Measured)
            .iter()
            .find_map(|flow| flow.sender.outcome()?.latency.as_ref())
            .ok_or("the sender measured no latency")?;
        let latency = Self::of_histogram(histogram);
        if latency.transactions == 0 {
            return Err("no transaction was ended".into());
        }
        Ok(latency)
    }

    /// What a peer says is added without overflow, in whatever order.
    fn add(&mut self, histogram: &LatencyHistogram) {
        for [upper_ns, count] in &histogram.buckets {
            // The widest bucket may end beyond the exact largest.
            let upper_ns = (*upper_ns).min(histogram.maximum_ns);
            let bucket = self.counts.entry(upper_ns).or_default();
            *bucket = bucket.saturating_add(*count);
            self.transactions = self.transactions.saturating_add(*count);
        }
        self.maximum_ns = self.maximum_ns.max(histogram.maximum_ns);
        self.sum_ns = self.sum_ns.saturating_add(u128::from(histogram.sum_ns));
    }

    /// Adds the transactions of another trial.
    pub fn merge(&mut self, other: &Self) {
        for (upper_ns, count) in &other.counts {
            let bucket = self.counts.entry(*upper_ns).or_default();
            *bucket = bucket.saturating_add(*count);
        }
        self.transactions = self.transactions.saturating_add(other.transactions);
        self.maximum_ns = self.maximum_ns.max(other.maximum_ns);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }

    /// How many.
    pub fn transactions(&self) -> u64 {
        self.transactions
    }

    /// Mean in microseconds.
    pub fn mean_us(&self) -> f64 {
        self.sum_ns as f64 / self.transactions as f64 / 1e3
    }

    /// The longest in microseconds.
    pub fn max_us(&self) -> f64 {
        self.maximum_ns as f64 / 1e3
    }

    /// So much at most did that part of the transactions take, in microseconds (nearest rank).
    pub fn quantile_us(&self, quantile: f64) -> Option<f64> {
        // A hair less than the product, for rounding.
        let rank = (quantile * self.transactions as f64 * (1.0 - 1e-12)).ceil().max(1.0);
        let mut below = 0u64;
        for (upper_ns, count) in &self.counts {
            below = below.saturating_add(*count);
            if below as f64 >= rank {
                return Some(*upper_ns as f64 / 1e3);
            }
        }
        None
    }

    /// A percentile, where there are transactions enough for it.
    ///
    /// # Errors
    /// When there are not.
    pub fn percentile_us(&self, wanted: &Wanted) -> Result<f64, Absent> {
        let least = wanted.least_transactions;
        let too_few = || format!("{} needs {least} transactions a trial", wanted.name).into();
        if self.transactions < least {
            return Err(too_few());
        }
        self.quantile_us(wanted.quantile).ok_or_else(too_few)
    }

    /// The percentiles as a curve, evenly spaced over the logarithm of 1 / (1 - q), as far as ten
    /// transactions lie beyond.
    pub fn curve(&self) -> Vec<CurvePoint> {
        let furthest = self.transactions as f64 / LEAST_BEYOND;
        let beyond = |n: u32| 10f64.powf(f64::from(n) / f64::from(POINTS_PER_DECADE));
        (0..=DECADES * POINTS_PER_DECADE)
            .map(beyond)
            // A hair more than the power of ten, for rounding.
            .take_while(|one_in| *one_in <= furthest * (1.0 + 1e-9))
            .filter_map(|one_in| {
                Some(CurvePoint { one_in, us: self.quantile_us(1.0 - 1.0 / one_in)? })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(buckets: &[[u64; 2]]) -> Latency {
        let histogram = LatencyHistogram {
            buckets: buckets.to_vec(),
            minimum_ns: 1,
            maximum_ns: buckets.iter().map(|bucket| bucket[0]).max().unwrap_or(0),
            sum_ns: buckets.iter().map(|[ns, count]| ns.saturating_mul(*count)).sum(),
        };
        let mut latency = Latency::default();
        latency.add(&histogram);
        latency
    }

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let latency = of(&[[1_000, 500], [2_000, 400], [9_000, 100]]);
        let got = [0.5, 0.501, 0.9, 0.901, 0.99].map(|q| latency.quantile_us(q).unwrap());
        assert_eq!(got, [1.0, 2.0, 2.0, 9.0, 9.0]);
        assert!((latency.mean_us() - 2.2).abs() < 1e-12);
        assert!((latency.max_us() - 9.0).abs() < 1e-12);
    }

    #[test]
    fn a_percentile_needs_ten_transactions_beyond_it() {
        for wanted in PERCENTILES {
            let least = (10.0 / (1.0 - wanted.quantile)).round();
            assert!((least - wanted.least_transactions as f64).abs() < 1e-6, "{wanted:?}");
            assert!(of(&[[7, wanted.least_transactions]]).percentile_us(&wanted).is_ok());
            let reason = of(&[[7, wanted.least_transactions - 1]]).percentile_us(&wanted);
            assert!(reason.unwrap_err().starts_with(wanted.name));
        }
        let curve = of(&[[7, 1_000]]).curve();
        assert!((curve.last().unwrap().one_in - 100.0).abs() < 1e-6, "{curve:?}");
    }

    #[test]
    fn merged_is_as_if_counted_together() {
        let mut first = of(&[[1_000, 10], [2_000, 10]]);
        first.merge(&of(&[[2_000, 10], [3_000, 10]]));
        assert_eq!(first.transactions(), 40);
        assert_eq!([0.25, 0.75, 1.0].map(|q| first.quantile_us(q).unwrap()), [1.0, 2.0, 3.0]);
        assert!((first.mean_us() - 2.0).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn whatever_a_peer_says_gives_an_ascending_curve(
            buckets in prop::collection::vec(any::<[u64; 2]>(), 0..50),
            maximum_ns in any::<u64>(),
        ) {
            let histogram = LatencyHistogram { buckets, minimum_ns: 0, maximum_ns, sum_ns: u64::MAX };
            let mut latency = Latency::default();
            latency.add(&histogram);
            latency.merge(&latency.clone());
            let curve = latency.curve();
            prop_assert!(curve.len() <= 100);
            prop_assert!(curve.windows(2).all(|pair| pair[0].us <= pair[1].us));
            prop_assert!(curve.iter().all(|point| point.us <= latency.max_us()));
        }
    }
}
