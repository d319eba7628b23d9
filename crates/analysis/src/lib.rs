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
mod statistics;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod threads;
mod window;
pub mod wording;

use std::collections::BTreeMap;

use vioperf_model::plan::Plan;
use vioperf_model::record::{Outcome, RunInfo, TrialRecord};

use crate::cell::{CellTrials, analyse_cell, trials_by_cell};
use crate::result::{ANALYSIS_SCHEMA_VERSION, CellAnalysis, RunAnalysis, VoidTrial};

/// Analyses a run: as it was recorded, in any order, whole or not.
pub fn analyse(run: &RunInfo, trials: &[TrialRecord]) -> RunAnalysis {
    let cells = analyse_cells(&run.plan, trials);
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

fn analyse_cells(plan: &Plan, trials: &[TrialRecord]) -> Vec<CellAnalysis> {
    let by_cell = trials_by_cell(plan, trials);
    let none = CellTrials::default();
    let mut planned: BTreeMap<usize, u32> = BTreeMap::new();
    for index in plan.blocks.iter().flatten() {
        let times = planned.entry(*index).or_default();
        *times = times.saturating_add(1);
    }
    let analyse = |(index, cell): (usize, &vioperf_model::plan::Cell)| {
        let baseline = cell.baseline.as_ref().and_then(|id| by_cell.get(id));
        let planned = planned.get(&index).copied().unwrap_or(0);
        analyse_cell(cell, planned, by_cell.get(&cell.id).unwrap_or(&none), baseline)
    };
    plan.cells.iter().enumerate().map(analyse).collect()
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
