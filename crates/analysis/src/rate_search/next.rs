//! Which rate to probe next, and for how long.
//!
//! Every goal is reached in stages: short probes and wide bounds first, then longer ones that begin at
//! the bounds of the stage before. All goals are served by all probes.

use vioperf_model::record::{Probe, SearchRecord};
use vioperf_model::workload;

use super::bounds::{Standing, bounds, is_full_length, rates, standing};
use super::{Bounds, Goal};

/// Stages before the last; each one's bounds are twice as wide as the next one's.
const COARSE_STAGES: i32 = 2;
/// The lowest rate is this part of the highest, where nothing is asked for.
const LEAST_PART: u64 = 100;

/// A probe that shall be made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ask {
    /// Datagrams a second.
    pub per_second: u64,
    /// For so long.
    pub seconds: f64,
}

/// A search under way.
#[derive(Debug, Clone)]
pub struct Search {
    /// The goals of each stage, the last ones those that were asked for.
    stages: Vec<Vec<Goal>>,
    /// The stage and the goal that is worked at.
    at: (usize, usize),
    /// What the path carried of a load as fast as the sender could.
    hint: u64,
    record: SearchRecord,
}

impl Search {
    /// A search that begins with what is known of a load without a rate: how much a second was sent,
    /// and how much arrived.
    pub fn new(search: &workload::Search, sent_per_second: u64, received_per_second: u64) -> Self {
        let max_rate = search.max_rate.map_or(sent_per_second, u64::from).max(1);
        let min_rate = search.min_rate.map_or(max_rate / LEAST_PART, u64::from);
        let min_rate = min_rate.clamp(1, max_rate);
        let last = Goal::all(search);
        let first_seconds = search.first_probe_duration.as_seconds();
        let coarse_stages = last
            .first()
            .map_or(0, |goal| if first_seconds < goal.probe_seconds { COARSE_STAGES } else { 0 });
        let mut stages: Vec<Vec<Goal>> = Vec::new();
        for stage in 0..coarse_stages {
            let part = f64::from(stage) / f64::from(coarse_stages);
            stages.push(
                last.iter()
                    .map(|goal| {
                        let growth = goal.probe_seconds / first_seconds;
                        let probe_seconds = in_milliseconds(first_seconds * growth.powf(part));
                        let width = (goal.width * 2.0_f64.powi(coarse_stages - stage)).min(0.5);
                        Goal { probe_seconds, sum_seconds: probe_seconds, width, ..*goal }
                    })
                    .collect(),
            );
        }
        stages.push(last);
        Self {
            stages,
            at: (0, 0),
            hint: received_per_second.clamp(min_rate, max_rate),
            record: SearchRecord {
                min_rate,
                max_rate,
                probes: Vec::new(),
                shown_probe: None,
                out_of_time: false,
            },
        }
    }

    /// Takes what a probe gave.
    pub fn note(&mut self, probe: Probe) {
        self.record.probes.push(probe);
    }

    /// What was noted so far.
    pub fn record(&self) -> &SearchRecord {
        &self.record
    }

    /// Where the search is: the goals of its stage and their bounds.
    pub fn so_far(&self) -> Vec<(Goal, Bounds)> {
        let goals = self.stages.get(self.at.0).or(self.stages.last());
        let goals = goals.map(Vec::as_slice).unwrap_or_default();
        goals.iter().map(|goal| (*goal, bounds(goal, &self.record.probes))).collect()
    }

    /// The probe that is to be made next; none when the goals are reached, or cannot be.
    pub fn ask(&mut self) -> Option<Ask> {
        loop {
            let (stage, place) = self.at;
            let Some(goals) = self.stages.get(stage) else { return self.what_is_unsettled() };
            let Some(goal) = goals.get(place) else {
                self.at = (stage + 1, 0);
                continue;
            };
            let coarse =
                stage.checked_sub(1).and_then(|before| self.stages.get(before)?.get(place));
            if let Some(per_second) = self.choose(goal, coarse) {
                return Some(Ask { per_second, seconds: goal.probe_seconds });
            }
            self.at.1 += 1;
        }
    }

    /// Probes for one goal can move the bounds of another that had been reached.
    fn what_is_unsettled(&self) -> Option<Ask> {
        let asked = |goal: &Goal| {
            let per_second = self.choose(goal, None)?;
            Some(Ask { per_second, seconds: goal.probe_seconds })
        };
        self.stages.last()?.iter().find_map(asked)
    }

    /// The rate to be probed for a goal; none when it is reached, or cannot be.
    fn choose(&self, goal: &Goal, coarse: Option<&Goal>) -> Option<u64> {
        let SearchRecord { min_rate, max_rate, probes, .. } = &self.record;
        let (min_rate, max_rate) = (*min_rate, *max_rate);
        let found = bounds(goal, probes);
        let [lower, upper] =
            [found.lower, found.upper].map(|bound| bound.map(|bound| bound.per_second));
        let is_over = match (lower, upper) {
            (Some(lower), Some(upper)) => goal.is_reached(lower, upper),
            (None, Some(upper)) => upper <= min_rate,
            (Some(lower), None) => lower >= max_rate,
            (None, None) => false,
        };
        if is_over {
            return None;
        }
        let is_between = |rate: &u64| {
            lower.is_none_or(|lower| *rate > lower) && upper.is_none_or(|upper| *rate < upper)
        };
        let begun = |rate: &u64| {
            let at_rate = |probe: &&Probe| probe.asked_per_second == Some(*rate);
            probes.iter().filter(at_rate).any(|probe| is_full_length(goal, probe))
        };
        // What was begun is brought to an end, the lower rates first.
        if let Some(rate) = rates(probes).into_iter().filter(is_between).find(begun) {
            return Some(rate);
        }
        let coarse = coarse.map(|coarse| bounds(coarse, probes)).unwrap_or_default();
        let [coarse_lower, coarse_upper] =
            [coarse.lower, coarse.upper].map(|bound| bound.map(|bound| bound.per_second));
        let is_first = coarse_lower.is_none();
        let known = [
            coarse_lower,
            coarse_upper,
            // A path that loses at the lowest rate needs no search.
            is_first.then_some(min_rate),
            is_first.then_some(self.hint),
        ];
        let known = known.into_iter().flatten().find(is_between);
        known.or_else(|| match (lower, upper) {
            (Some(lower), Some(upper)) => Some(middle(lower, upper)),
            (Some(lower), None) => Some(self.above(goal, lower)),
            (None, Some(upper)) => Some(self.below(goal, upper)),
            (None, None) => Some(min_rate),
        })
    }

    /// Further and further up from what is good.
    fn above(&self, goal: &Goal, lower: u64) -> u64 {
        let same = |rate: &u64| standing(goal, &self.record.probes, *rate) == Standing::Lower;
        let before =
            rates(&self.record.probes).into_iter().filter(|rate| *rate < lower).rfind(same);
        let rate = whole(lower as f64 / (1.0 - step(goal, before, Some(lower))));
        rate.max(lower.saturating_add(1)).min(self.record.max_rate)
    }

    /// Further and further down from what is bad.
    fn below(&self, goal: &Goal, upper: u64) -> u64 {
        let same = |rate: &u64| standing(goal, &self.record.probes, *rate) == Standing::Upper;
        let before = rates(&self.record.probes).into_iter().filter(|rate| *rate > upper).find(same);
        let rate = whole(upper as f64 * (1.0 - step(goal, Some(upper), before)));
        rate.min(upper.saturating_sub(1)).max(self.record.min_rate)
    }
}

/// By how much the next rate is another: twice the goal's width, or twice as much as the last one was,
/// if that was near.
fn step(goal: &Goal, low: Option<u64>, high: Option<u64>) -> f64 {
    let last = match (low, high) {
        (Some(low), Some(high)) => 1.0 - low as f64 / high as f64,
        _ => 0.0,
    };
    let last = if last > 0.5 { 0.0 } else { last };
    (2.0 * goal.width.max(last)).min(0.5)
}

/// Half-way by ratio, as widths are relative; strictly between where there is a rate between.
fn middle(lower: u64, upper: u64) -> u64 {
    let middle = whole((lower as f64 * upper as f64).sqrt());
    middle.clamp(lower.saturating_add(1), upper.saturating_sub(1).max(lower.saturating_add(1)))
}

/// Loads are asked for in whole milliseconds: a probe must not be shorter than the one that was meant.
fn in_milliseconds(seconds: f64) -> f64 {
    (seconds * 1e3).round() / 1e3
}

/// The nearest whole rate.
pub(super) fn whole(rate: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // in range by the clamp
    let whole = rate.round().clamp(0.0, 1e15) as u64;
    whole
}
