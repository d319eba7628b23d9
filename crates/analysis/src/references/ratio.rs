//! Ratios of one's own cells, block by block.

use std::collections::BTreeMap;

use crate::result::{Metric, Summary};
use crate::statistics::summarise_ratios;

/// `mine` in percent of `other`, one number for every block that has both.
pub fn percents_of(mine: &Metric, other: &Metric) -> Vec<f64> {
    // Of several trials of a block the first counts.
    let in_block: BTreeMap<u32, f64> =
        other.values.iter().rev().map(|trial| (trial.block, trial.value)).collect();
    let mine: BTreeMap<u32, f64> =
        mine.values.iter().rev().map(|trial| (trial.block, trial.value)).collect();
    let of_other = |(block, value): (&u32, &f64)| Some(100.0 * value / in_block.get(block)?);
    mine.iter().filter_map(of_other).collect()
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
