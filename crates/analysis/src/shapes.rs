//! What the trials of a cell look like beside their mean: one file a look. Means and intervals take
//! trials for independent draws of one distribution; each look asks for one way in which they are not.
//!
//! A run has many cells and each is looked at in several ways. [`ALPHA`] is so small that a run of forty
//! cells with nothing to be found has a finding in one of a hundred runs.

mod course;
mod humps;
mod intervals;
mod outliers;
#[cfg(test)]
mod planted;
#[cfg(test)]
mod simulated;
mod trend;

pub use course::{Course, Dip, TENTHS, within};
pub use humps::humps;
pub use intervals::Intervals;
pub use outliers::outliers;
pub use trend::trend;

/// How often a single look finds something where there is nothing.
const ALPHA: f64 = 5e-5;

/// How fast something moved in each of so many equal parts of the time, a second; of (seconds, moved so far).
fn parts(moved: &[(f64, f64)], number: usize) -> Vec<f64> {
    let (Some((begin, first)), Some((end, last))) = (moved.first(), moved.last()) else {
        return Vec::new();
    };
    let part = (end - begin) / number as f64;
    let (mut before, mut at) = (*first, 0);
    let mut rate = |n: usize| {
        let until = if n == number { *end } else { begin + part * n as f64 };
        while at + 2 < moved.len() && moved[at + 1].0 < until {
            at += 1;
        }
        let ((t0, m0), (t1, m1)) = (moved[at], moved[at + 1]);
        let there = (m0 + (m1 - m0) * (until - t0) / (t1 - t0)).clamp(before, *last);
        let rate = (there - before) / part;
        before = there;
        rate
    };
    (1..=number).map(&mut rate).collect()
}

/// The middle value; the mean of the middle two.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = *sorted.get(sorted.len().checked_sub(1)? / 2)?;
    Some(lower.midpoint(upper))
}
