//! Whether enough was measured: how wide each cell's 95 % intervals are against the scenario's goal.

use std::collections::BTreeMap;

use statrs::distribution::{ContinuousCDF, StudentsT};
use vioperf_model::plan::{Cell, CellId, Plan};
use vioperf_model::record::TrialRecord;
use vioperf_model::units::Ratio;

use crate::rates;
use crate::result::{Settling, Summary};
use crate::statistics::{summarise, summarise_ratios};

/// With fewer trials an interval can be narrow by chance alone.
const LEAST_TRIALS: usize = 3;
/// More further trials than anybody would wait for are not counted.
const MOST_FURTHER: u32 = 10_000;

/// How far a cell is from its goal.
///
/// `values` are its headline metric, one a trial; `percents` the same in percent of the baseline of
/// the same block, absent for a baseline. The wider of the two intervals counts. Nothing is known
/// about the scatter of fewer than two values.
pub fn judge(values: &[f64], percents: Option<&[f64]>, goal: Ratio) -> Settling {
    let goal = goal.as_f64();
    let own = summarise(values).and_then(|summary| relative_half_width(&summary));
    let kept = percents
        .map(|percents| summarise_ratios(percents).and_then(|summary| ratio_half_width(&summary)));
    let widest = match (own, kept) {
        (Some(own), None) => Some((own, values.len())),
        (Some(own), Some(Some(kept))) if own >= kept => Some((own, values.len())),
        (Some(_), Some(Some(kept))) => Some((kept, percents.map_or(0, <[f64]>::len))),
        (None, _) | (_, Some(None)) => None,
    };
    let is_settled = widest.is_some_and(|(width, trials)| trials >= LEAST_TRIALS && width <= goal);
    Settling {
        goal_percent: 100.0 * goal,
        half_width_percent: widest.map(|(width, _)| 100.0 * width),
        is_settled,
        further_trials: match widest {
            Some(_) if is_settled => Some(0),
            Some((width, trials)) => further_trials(width, trials, goal),
            None => None,
        },
    }
}

/// Of the mean, to either side.
fn relative_half_width(summary: &Summary) -> Option<f64> {
    let width = summary.half_width()? / summary.mean.abs();
    width.is_finite().then_some(width)
}

/// Of a geometric mean, whose interval is even in its logarithm: by how much its ends are off.
fn ratio_half_width(summary: &Summary) -> Option<f64> {
    let interval = summary.interval_95?;
    let width = (interval.high / interval.low).sqrt() - 1.0;
    width.is_finite().then_some(width)
}

/// So many more trials than `trials` bring the half width down to the goal, if the scatter stays as
/// it is: the half width is t(0.975; n - 1) s / sqrt(n). Absent when they are very many.
fn further_trials(half_width: f64, trials: usize, goal: f64) -> Option<u32> {
    let of = |n: f64| Some(t_quantile(n - 1.0)? / n.sqrt());
    let scatter = half_width / of(trials as f64)?;
    let enough = |further: u32| {
        let n = trials as f64 + f64::from(further);
        let least = n >= LEAST_TRIALS as f64;
        of(n).is_some_and(|factor| least && factor * scatter <= goal)
    };
    if !enough(MOST_FURTHER) {
        return None;
    }
    // It only gets narrower: the first that is enough is found by halving.
    let (mut too_few, mut sufficient) = (0, MOST_FURTHER);
    while sufficient - too_few > 1 {
        let middle = too_few.midpoint(sufficient);
        if enough(middle) { sufficient = middle } else { too_few = middle }
    }
    Some(sufficient)
}

fn t_quantile(degrees_of_freedom: f64) -> Option<f64> {
    Some(StudentsT::new(0.0, 1.0, degrees_of_freedom).ok()?.inverse_cdf(0.975))
}

/// What a trial gives for the headline metric of its cell, in the metric's unit.
pub fn headline_value(plan: &Plan, trial: &TrialRecord) -> Option<f64> {
    rates::headline(trial, &plan.cell(&trial.cell)?.workload).ok()
}

/// Follows a run and tells which cells have settled.
#[derive(Debug)]
pub struct Follower<'a> {
    plan: &'a Plan,
    goal: Ratio,
    /// The headline metric by block.
    values: BTreeMap<&'a CellId, BTreeMap<u32, f64>>,
}

impl<'a> Follower<'a> {
    /// Before anything was measured.
    pub fn new(plan: &'a Plan, goal: Ratio) -> Self {
        Self { plan, goal, values: BTreeMap::new() }
    }

    /// Takes a trial that counts. One that does not give the headline metric tells nothing.
    pub fn add(&mut self, trial: &TrialRecord) {
        if let Some(value) = headline_value(self.plan, trial) {
            self.add_value(&trial.cell, trial.block, value);
        }
    }

    /// Takes the [`headline_value`] of a trial that counts.
    pub fn add_value(&mut self, cell: &CellId, block: u32, value: f64) {
        if let Some(cell) = self.plan.cell(cell) {
            self.values.entry(&cell.id).or_default().entry(block).or_insert(value);
        }
    }

    /// How far a cell is.
    pub fn settling(&self, cell: &Cell) -> Settling {
        let of = |id: &CellId| self.values.get(id);
        let own = of(&cell.id);
        let values: Vec<f64> = own.into_iter().flat_map(BTreeMap::values).copied().collect();
        let percents = cell.baseline.as_ref().map(|baseline| {
            let base = of(baseline);
            let pair = |(block, value): (&u32, &f64)| Some(100.0 * value / base?.get(block)?);
            own.into_iter().flatten().filter_map(pair).collect::<Vec<f64>>()
        });
        judge(&values, percents.as_deref(), self.goal)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use vioperf_model::scenario::Repeat;

    use super::*;
    use crate::testing::{Synthetic, with_flat_rate};

    fn goal(percent: u64) -> Ratio {
        Ratio::from_ppm(percent * 10_000)
    }

    fn all_settled(follower: &Follower<'_>, plan: &Plan) -> bool {
        plan.cells.iter().all(|cell| follower.settling(cell).is_settled)
    }

    #[test]
    fn the_wider_of_both_intervals_counts() {
        // t(0.975; 2) = 4.3027: of 99, 100 and 101 the half width is 2.484.
        let values = [99.0, 100.0, 101.0];
        let own = judge(&values, None, goal(3));
        assert!((own.half_width_percent.unwrap() - 2.484).abs() < 1e-3, "{own:?}");
        assert!(own.is_settled && own.further_trials == Some(0));
        let beside = judge(&values, Some(&[40.0, 50.0, 60.0]), goal(3));
        assert!(!beside.is_settled && beside.half_width_percent.unwrap() > 40.0, "{beside:?}");
        assert!(beside.further_trials.unwrap() > 100, "{beside:?}");
    }

    #[test]
    fn what_is_not_known_is_not_settled() {
        for values in [&[][..], &[5.0], &[5.0, 5.0], &[0.0, 0.0, 0.0]] {
            let settling = judge(values, None, goal(100));
            assert!(!settling.is_settled, "{values:?}: {settling:?}");
        }
        assert!(!judge(&[5.0; 3], Some(&[]), goal(100)).is_settled);
        assert_eq!(judge(&[1.0, 1e9], None, Ratio::from_ppm(100)).further_trials, None);
    }

    #[test]
    fn a_run_settles_when_its_last_cell_does() {
        let mut run = Synthetic::calm_kvm().run;
        run.scenario.repeat = Repeat { goal: Some(goal(2)), ..Repeat::default() };
        let plan = Plan::new(&run.scenario, 1);
        let mut follower = Follower::new(&plan, goal(2));
        let last = plan.cells.last().unwrap();
        for block in 0..3 {
            assert!(!all_settled(&follower, &plan));
            for cell in &plan.cells {
                let is_wild = cell.id == last.id && block == 0;
                let rate = if is_wild { 2e9 } else { 1e9 };
                follower.add(&with_flat_rate(cell, block, block, rate));
            }
        }
        assert!(!all_settled(&follower, &plan));
        assert!(follower.settling(&plan.cells[0]).is_settled);
        assert!(!follower.settling(last).is_settled);
        let further = follower.settling(last).further_trials.unwrap();
        assert!(further > 100, "{further}");
    }

    proptest! {
        /// What is promised holds: with so many more trials of the same scatter it is settled.
        #[test]
        fn so_many_further_trials_are_enough(
            spread in 0.1f64..30.0,
            trials in 3usize..12,
        ) {
            let alternate = |n: usize| -> Vec<f64> {
                (0..n).map(|i| 100.0 + if i % 2 == 0 { spread } else { -spread }).collect()
            };
            let before = judge(&alternate(2 * trials), None, goal(2));
            if let Some(further) = before.further_trials.filter(|further| *further > 0) {
                // One more, as the scatter itself is estimated anew.
                let after = judge(&alternate(2 * trials + further as usize + 1), None, goal(2));
                prop_assert!(after.half_width_percent.unwrap() < 2.05, "{:?}", after);
            }
        }
    }
}
