//! Columns of a stream's rate over time.

use super::{BITS, Column, PERCENT, column};
use crate::result::{CellAnalysis, Metric, RateOverTime};

pub(super) const COLUMNS: &[Column] = &[
    column("peak_bits_per_second", BITS, "payload that arrived, in the best interval", |c| {
        of(c, |rate| &rate.peak_bits_per_second)
    }),
    column(
        "sustained_bits_per_second",
        BITS,
        "payload that arrived, the most that 95 % of the intervals reach",
        |c| of(c, |rate| &rate.sustained_bits_per_second),
    ),
    column(
        "rate_dips",
        "dips",
        "times that the rate fell below three quarters of the trial's median interval",
        |c| of(c, |rate| &rate.dips),
    ),
    column(
        "deepest_dip_percent",
        PERCENT,
        "by what part the lowest interval of those is below the median; 0 without any",
        |c| of(c, |rate| &rate.deepest_dip_percent),
    ),
    column("rate_interval_seconds", "s", "how long those intervals are", |c| {
        of(c, |rate| &rate.interval_seconds)
    }),
];

fn of(cell: &CellAnalysis, read: fn(&RateOverTime) -> &Metric) -> Option<&Metric> {
    cell.rate_over_time.as_ref().map(read)
}
