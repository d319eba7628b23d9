//! What a cell's trials are beside those of the baseline.

use std::collections::BTreeMap;

use super::{CellTrials, metric};
use crate::rates::TrialReadings;
use crate::result::{Metric, Summary};
use crate::window::Reading;

/// `mine` and the same of the baseline of the same block, put together by `with`: machines drift,
/// and a block's trials lie close together.
pub fn beside_baseline(
    cell: &CellTrials,
    baseline: Option<&CellTrials>,
    read: impl Fn(&TrialReadings) -> Reading,
    with: impl Fn(&Reading, &Reading) -> Reading,
    summarise: impl Fn(&[f64]) -> Option<Summary>,
) -> Metric {
    let Some(baseline) = baseline else {
        return Metric { absent: [("it is the baseline".into(), 0)].into(), ..Metric::default() };
    };
    let in_block: BTreeMap<u32, Reading> =
        baseline.completed.iter().rev().map(|readings| (readings.block, read(readings))).collect();
    let together = |readings: &TrialReadings| -> Reading {
        let missing = Err("no baseline in the same block".into());
        with(&read(readings), in_block.get(&readings.block).unwrap_or(&missing))
    };
    let readings = cell.completed.iter().map(|r| (r.sequence, r.block, together(r)));
    metric(readings, summarise)
}

/// The headline metric in percent of the baseline's.
pub fn percent(mine: &Reading, base: &Reading) -> Reading {
    let mine = positive(mine, "nothing arrived")?;
    // Without a baseline there is no saying what arrived there.
    Ok(100.0 * mine / positive(base, "nothing arrived in the baseline")?)
}

/// By how much it is more than the baseline's.
pub fn more(mine: &Reading, base: &Reading) -> Reading {
    Ok(mine.as_ref().map_err(Clone::clone)? - base.as_ref().map_err(Clone::clone)?)
}

fn positive(reading: &Reading, otherwise: &'static str) -> Reading {
    let value = *reading.as_ref().map_err(Clone::clone)?;
    if value > 0.0 { Ok(value) } else { Err(otherwise.into()) }
}
