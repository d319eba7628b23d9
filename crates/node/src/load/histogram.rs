//! Latencies of transactions, counted in buckets.

use std::collections::BTreeMap;
use std::io;

use hdrhistogram::Histogram;
use vioperf_model::sample::LatencyHistogram;

use super::LoadError;

/// The longest latency that has a bucket of its own, an hour; longer ones are counted with it.
const LONGEST_NS: u64 = 3_600_000_000_000;
/// Two digits are kept: of buckets, 128 make each doubling, so that none is wider than 0.8 % of its
/// value. All of them together take 18 KiB, however much is recorded.
const SIGNIFICANT_DIGITS: u8 = 2;

/// Latencies in nanoseconds, recorded by one thread. A bucket is full at 2^32: that is more than a
/// thread measures in an hour.
#[derive(Debug)]
pub(crate) struct Latencies {
    counts: Histogram<u32>,
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
}

/// What all threads recorded, as it is stored. Without any latency everything is zero.
pub(crate) fn export<'l>(threads: impl IntoIterator<Item = &'l Latencies>) -> LatencyHistogram {
    let mut buckets = BTreeMap::<u64, u64>::new();
    let (mut minimum_ns, mut maximum_ns, mut sum_ns) = (u64::MAX, 0, 0_u64);
    for thread in threads {
        for bucket in thread.counts.iter_recorded() {
            *buckets.entry(bucket.value_iterated_to()).or_default() +=
                u64::from(bucket.count_at_value());
        }
        minimum_ns = minimum_ns.min(thread.minimum_ns);
        maximum_ns = maximum_ns.max(thread.maximum_ns);
        sum_ns = sum_ns.saturating_add(thread.sum_ns);
    }
    if buckets.is_empty() {
        minimum_ns = 0;
    }
    let buckets = buckets.into_iter().map(<[u64; 2]>::from).collect();
    LatencyHistogram { buckets, minimum_ns, maximum_ns, sum_ns }
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
            let histogram = export([&latencies]);
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
        let histogram = export([&one, &other]);
        assert_eq!(histogram.buckets.iter().map(|[_, count]| *count).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(
            [histogram.minimum_ns, histogram.maximum_ns, histogram.sum_ns],
            [1_000, 5_000, 11_000]
        );
    }

    #[test]
    fn nothing_and_absurdly_much_are_exported_too() {
        let mut latencies = Latencies::new().unwrap();
        assert_eq!(export([&latencies]), LatencyHistogram::default());
        latencies.record(0);
        latencies.record(u64::MAX);
        latencies.record(u64::MAX);
        let histogram = export([&latencies]);
        assert_eq!(histogram.buckets.len(), 2);
        assert_eq!([histogram.minimum_ns, histogram.maximum_ns], [0, u64::MAX]);
    }
}
