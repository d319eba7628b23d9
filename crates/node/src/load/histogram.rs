//! Latencies of transactions, counted in buckets.

use std::io;

use hdrhistogram::Histogram;
use vioperf_model::sample::LatencyHistogram;

use super::LoadError;

/// The longest latency that has a bucket of its own, an hour; longer ones are counted with it.
const LONGEST_NS: u64 = 3_600_000_000_000;
/// Two digits are kept: of buckets, 128 make each doubling, so that none is wider than 0.8 % of its
/// value. All of them together take 35 KiB, however much is recorded.
const SIGNIFICANT_DIGITS: u8 = 2;

/// Latencies in nanoseconds, recorded by one thread.
#[derive(Debug)]
pub(crate) struct Latencies {
    counts: Histogram<u64>,
    minimum_ns: u64,
    maximum_ns: u64,
    sum_ns: u64,
}

impl Latencies {
    pub(crate) fn new() -> Result<Self, LoadError> {
        let counts = Histogram::new_with_bounds(1, LONGEST_NS, SIGNIFICANT_DIGITS)
            .map_err(io::Error::other)
            .map_err(LoadError::system("make a histogram"))?;
        Ok(Self { counts, minimum_ns: u64::MAX, maximum_ns: 0, sum_ns: 0 })
    }

    pub(crate) fn record(&mut self, ns: u64) {
        self.counts.saturating_record(ns);
        self.minimum_ns = self.minimum_ns.min(ns);
        self.maximum_ns = self.maximum_ns.max(ns);
        self.sum_ns = self.sum_ns.saturating_add(ns);
    }

    /// Takes in what another thread recorded.
    pub(crate) fn add(&mut self, other: &Self) {
        // Both have the same buckets: it cannot fail.
        let _ = self.counts.add(&other.counts);
        self.minimum_ns = self.minimum_ns.min(other.minimum_ns);
        self.maximum_ns = self.maximum_ns.max(other.maximum_ns);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }

    /// As it is stored. Without any latency everything is zero.
    pub(crate) fn export(&self) -> LatencyHistogram {
        let buckets: Vec<[u64; 2]> = self
            .counts
            .iter_recorded()
            .map(|bucket| [bucket.value_iterated_to(), bucket.count_at_value()])
            .collect();
        let minimum_ns = if buckets.is_empty() { 0 } else { self.minimum_ns };
        LatencyHistogram { buckets, minimum_ns, maximum_ns: self.maximum_ns, sum_ns: self.sum_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn percentile(histogram: &LatencyHistogram, percent: u64) -> u64 {
        let count: u64 = histogram.buckets.iter().map(|[_, count]| count).sum();
        let rank = (count * percent).div_ceil(100).max(1);
        let mut seen = 0;
        for [end, count] in &histogram.buckets {
            seen += count;
            if seen >= rank {
                return *end;
            }
        }
        histogram.maximum_ns
    }

    #[test]
    fn percentiles_of_a_known_distribution_are_within_one_percent() {
        // From 1 µs to 1 s, evenly in each of six decades.
        for scale in [10_u64, 1000, 100_000, 10_000_000] {
            let mut latencies = Latencies::new().unwrap();
            (1..=10_000).for_each(|i| latencies.record(i * scale));
            let histogram = latencies.export();
            for percent in [1, 10, 50, 90, 99, 100] {
                let (read, true_value) = (percentile(&histogram, percent), percent * 100 * scale);
                assert!(read.abs_diff(true_value) * 100 <= true_value, "{read} {true_value}");
            }
            assert_eq!(histogram.minimum_ns, scale);
            assert_eq!(histogram.maximum_ns, 10_000 * scale);
            assert_eq!(histogram.sum_ns, 10_000 * 10_001 / 2 * scale);
            assert!(histogram.buckets.is_sorted());
        }
    }

    #[test]
    fn what_threads_recorded_adds_up() {
        let [mut one, mut other] = [0; 2].map(|_| Latencies::new().unwrap());
        one.record(5_000);
        other.record(1_000);
        other.record(5_000);
        one.add(&other);
        let histogram = one.export();
        assert_eq!(histogram.buckets.iter().map(|[_, count]| *count).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(
            [histogram.minimum_ns, histogram.maximum_ns, histogram.sum_ns],
            [1_000, 5_000, 11_000]
        );
    }

    #[test]
    fn nothing_and_absurdly_much_are_exported_too() {
        let mut latencies = Latencies::new().unwrap();
        assert_eq!(latencies.export(), LatencyHistogram::default());
        latencies.record(0);
        latencies.record(u64::MAX);
        latencies.record(u64::MAX);
        let histogram = latencies.export();
        assert_eq!(histogram.buckets.len(), 2);
        assert_eq!([histogram.minimum_ns, histogram.maximum_ns], [0, u64::MAX]);
    }
}
