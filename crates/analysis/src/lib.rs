//! Pure analysis of a run: from raw counters to numbers, a ranking and findings. No file, no
//! clock, no randomness: the same records give the same analysis, and every format of the report
//! is rendered from it.

mod between;
mod cell;
mod cores;
mod datagrams;
mod diagnose;
mod flow;
mod headline;
#[cfg(test)]
mod kinds;
mod latency;
pub mod measure;
#[cfg(test)]
mod properties;
mod ranking;
pub mod rate_search;
mod rates;
pub mod result;
pub mod settling;
mod statistics;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod threads;
mod window;
pub mod wording;

use std::collections::BTreeMap;

use vioperf_model::record::{Outcome, RunEnding, RunInfo, TrialRecord};
use vioperf_model::units::Ratio;

use crate::cell::{CellTrials, analyse_cell, trials_by_cell};
use crate::result::{
    ANALYSIS_SCHEMA_VERSION, CellAnalysis, Metric, RunAnalysis, Settling, VoidTrial,
};

/// Analyses a run: as it was recorded, in any order, whole or not.
pub fn analyse(run: &RunInfo, trials: &[TrialRecord]) -> RunAnalysis {
    let cells = analyse_cells(run, trials);
    let ranking = ranking::rank(&run.plan, &cells);
    let void_trials = void_trials(trials);
    let evidence = diagnose::Evidence { run, trials, cells: &cells, void_trials: &void_trials };
    let findings = diagnose::findings(&evidence);
    RunAnalysis {
        notice: headline::notice(run),
        schema_version: ANALYSIS_SCHEMA_VERSION,
        question: run.scenario.question.clone(),
        headline: match run.scenario.testbed.server {
            Some(_) => headline::between_machines(run, &cells, trials),
            None => headline::sentences(run, &ranking),
        },
        ranking,
        findings,
        void_trials,
        cells,
        run: run.clone(),
    }
}

fn analyse_cells(run: &RunInfo, trials: &[TrialRecord]) -> Vec<CellAnalysis> {
    let plan = &run.plan;
    let by_cell = trials_by_cell(plan, trials);
    let none = CellTrials::default();
    let goal = run.scenario.repeat.goal;
    let mut planned: BTreeMap<usize, u32> = BTreeMap::new();
    for index in plan.blocks.iter().take(blocks_wanted(run, trials)).flatten() {
        let times = planned.entry(*index).or_default();
        *times = times.saturating_add(1);
    }
    let analyse = |(index, cell): (usize, &vioperf_model::plan::Cell)| {
        let baseline = cell.baseline.as_ref().and_then(|id| by_cell.get(id));
        let planned = planned.get(&index).copied().unwrap_or(0);
        let mut analysed =
            analyse_cell(cell, planned, by_cell.get(&cell.id).unwrap_or(&none), baseline);
        analysed.settling = goal.map(|goal| settling(&analysed, goal));
        let is_settled = analysed.settling.is_some_and(|settling| settling.is_settled);
        if is_settled && run.scenario.repeat.stop_settled {
            analysed.trials.planned = analysed.trials.completed;
        }
        analysed
    };
    plan.cells.iter().enumerate().map(analyse).collect()
}

fn settling(cell: &CellAnalysis, goal: Ratio) -> Settling {
    let values =
        |metric: &Metric| metric.values.iter().map(|trial| trial.value).collect::<Vec<_>>();
    let percents = (!cell.is_baseline).then(|| values(&cell.percent_of_baseline));
    settling::judge(&values(cell.headline()), percents.as_deref(), goal)
}

/// Blocks that the run was to measure: all of the plan, unless it had settled before.
pub(crate) fn blocks_wanted(run: &RunInfo, trials: &[TrialRecord]) -> usize {
    let settled = run.ended.as_ref().is_some_and(|end| end.how == RunEnding::Settled);
    let begun = trials.iter().map(|trial| trial.block as usize + 1).max().unwrap_or(0);
    if settled { begun } else { run.plan.blocks.len() }
}

fn void_trials(trials: &[TrialRecord]) -> Vec<VoidTrial> {
    let mut found: Vec<VoidTrial> = trials
        .iter()
        .filter_map(|trial| match &trial.outcome {
            Outcome::Completed => None,
            Outcome::Void { reason, console_tail } => Some(VoidTrial {
                sequence: trial.sequence,
                block: trial.block,
                cell: trial.cell.clone(),
                attempt: trial.attempt,
                reason: reason.clone(),
                console_tail: console_tail.clone(),
            }),
        })
        .collect();
    found.sort_by_key(|trial| trial.sequence);
    found
}
