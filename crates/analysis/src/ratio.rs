//! Ratios of cells, block by block.

use std::collections::BTreeMap;

use crate::result::{Metric, Summary, TrialValue};
use crate::statistics::summarise_ratios;

/// `mine` in percent of `other`, one value for every block that has both.
pub fn in_blocks(mine: &Metric, other: &Metric) -> Vec<TrialValue> {
    // Of several trials of a block the first counts.
    let first = |metric: &Metric| -> BTreeMap<u32, TrialValue> {
        metric.values.iter().rev().map(|trial| (trial.block, *trial)).collect()
    };
    let other = first(other);
    let of_other = |trial: TrialValue| {
        let value = 100.0 * trial.value / other.get(&trial.block)?.value;
        Some(TrialValue { value, ..trial })
    };
    first(mine).into_values().filter_map(of_other).collect()
}

/// The same as numbers alone.
pub fn percents_of(mine: &Metric, other: &Metric) -> Vec<f64> {
    in_blocks(mine, other).into_iter().map(|trial| trial.value).collect()
}

/// The same with its interval.
pub fn percent_of(mine: &Metric, other: &Metric) -> Option<Summary> {
    summarise_ratios(&percents_of(mine, other))
}

/// Whether such a ratio is told from 100 %, and on which side it is.
pub fn side(percent: &Summary) -> Option<std::cmp::Ordering> {
    let interval = percent.interval_95?;
    if interval.low > 100.0 {
        Some(std::cmp::Ordering::Greater)
    } else if interval.high < 100.0 {
        Some(std::cmp::Ordering::Less)
    } else {
        None
    }
}
