//! What the trials of a cell look like beside their mean: one file a look. Means and intervals take
//! trials for independent draws of one distribution; each look asks for one way in which they are not.
//!
//! A run has many cells and each is looked at in several ways. [`ALPHA`] is so small that a run of forty
//! cells with nothing to be found has a finding in one of a hundred runs.

mod course;
mod humps;
mod outliers;
#[cfg(test)]
mod planted;
#[cfg(test)]
mod simulated;
mod trend;

pub use course::{Course, Dip, TENTHS, within};
pub use humps::humps;
pub use outliers::outliers;
pub use trend::trend;

/// How often a single look finds something where there is nothing.
const ALPHA: f64 = 5e-5;

/// The middle value; the mean of the middle two.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = *sorted.get(sorted.len().checked_sub(1)? / 2)?;
    Some(lower.midpoint(upper))
}
