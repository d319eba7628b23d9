//! A metric of a cell, run after run, and what else changed where it changed.

use serde::Serialize;

use crate::change_points;
use crate::provenance::{Facts, changes};

/// What a run gave.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// The run.
    pub run_id: String,
    /// When it began (RFC 3339, UTC).
    pub started_at: String,
    /// Mean of its trials.
    pub mean: f64,
    /// Trials.
    pub n: u32,
    /// Lower end of the 95 % interval of the mean; absent for one trial.
    pub low_95: Option<f64>,
    /// Its upper end.
    pub high_95: Option<f64>,
    /// What it was measured with.
    #[serde(skip)]
    pub facts: Facts,
}

/// Where the level changed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LevelChange {
    /// The first point of the new level, from 0.
    pub at: usize,
    /// Mean of the level before.
    pub before: f64,
    /// Mean of the new level.
    pub after: f64,
    /// By how much of the level before, in percent.
    pub percent: f64,
    /// The part of random orders of both levels' runs that tell them apart as well.
    pub p: f64,
    /// What in the provenance is not the same in the last run before and in the first after.
    pub provenance: Vec<String>,
}

/// A cell over time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trend {
    /// The scenario.
    pub scenario: String,
    /// The host.
    pub host: String,
    /// The cell.
    pub cell: String,
    /// The metric.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// The runs, the oldest first.
    pub points: Vec<Point>,
    /// Where the level changed, in the order of time.
    pub changes: Vec<LevelChange>,
}

/// Random orders are drawn from this seed: the same history gives the same changes.
const SEED: u64 = 1;

/// The changes of level in `points`, the oldest first.
pub fn level_changes(points: &[Point]) -> Vec<LevelChange> {
    let means: Vec<f64> = points.iter().map(|point| point.mean).collect();
    let change = |found: change_points::ChangePoint| LevelChange {
        at: found.at,
        before: found.before,
        after: found.after,
        percent: 100.0 * found.ratio(),
        p: found.p,
        provenance: changes(&points[found.at - 1].facts, &points[found.at].facts)
            .iter()
            .map(ToString::to_string)
            .collect(),
    };
    change_points::find(&means, SEED).into_iter().map(change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_names_what_changed_with_it_and_nothing_else() {
        let point = |nth: usize| {
            let new = nth >= 8;
            let fact = |name: &str, old: &str, later: &str| {
                (name.to_owned(), if new { later } else { old }.to_owned())
            };
            Point {
                run_id: nth.to_string(),
                started_at: format!("2026-01-{:02}T00:00:00Z", nth + 1),
                mean: if new { 120.0 } else { 100.0 } + nth as f64 / 10.0,
                n: 3,
                low_95: None,
                high_95: None,
                facts: [fact("host kernel", "6.1", "6.12"), fact("CPU", "a", "a")].into(),
            }
        };
        let points: Vec<Point> = (0..16).map(point).collect();
        let changes = level_changes(&points);
        assert_eq!(changes.len(), 1);
        assert_eq!(
            (changes[0].at, &changes[0].provenance[..]),
            (8, &["host kernel: 6.1 → 6.12".to_owned()][..])
        );
    }
}
