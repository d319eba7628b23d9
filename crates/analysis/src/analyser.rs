//! Takes the records of a run one by one, and keeps of each what was derived from it.

use std::collections::BTreeMap;

use vioperf_model::plan::{Cell, CellId};
use vioperf_model::record::{Outcome, RunEnding, RunInfo, TrialRecord};
use vioperf_model::units::Ratio;

use crate::cell::{CellTrials, analyse_cell};
use crate::result::{
    ANALYSIS_SCHEMA_VERSION, CellAnalysis, Finding, Metric, RunAnalysis, Settling, VoidTrial,
};
use crate::{compare, diagnose, headline, ranking, settling};

/// Analyses a run whose records come one at a time, in any order. What a record holds of raw samples
/// is not kept: a run of many trials needs little more memory than its analysis.
#[derive(Debug, Clone)]
pub struct Analyser<'r> {
    run: &'r RunInfo,
    cells: BTreeMap<&'r CellId, &'r Cell>,
    gathered: Gathered,
}

/// What is kept of the records.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gathered {
    /// The trials of the plan's cells.
    by_cell: BTreeMap<CellId, CellTrials>,
    /// How many trials are of cells that the plan does not have.
    pub(crate) unknown: BTreeMap<CellId, usize>,
    /// Blocks of which there is a trial, counted to the last of them.
    pub(crate) begun_blocks: usize,
    /// Trials that do not count.
    pub(crate) void: Vec<VoidTrial>,
    /// How far those came, where the path is one between two machines.
    cut_short: Vec<String>,
}

impl Gathered {
    /// The trials of a cell, in the order of blocks.
    pub(crate) fn of_cell(&self, id: &CellId) -> Option<&CellTrials> {
        self.by_cell.get(id)
    }
}

impl<'r> Analyser<'r> {
    /// Before any record.
    pub fn new(run: &'r RunInfo) -> Self {
        let cells = run.plan.cells.iter().map(|cell| (&cell.id, cell)).collect();
        Self { run, cells, gathered: Gathered::default() }
    }

    /// Takes a record. Trials of cells that the plan does not have are left aside, and counted.
    pub fn add(&mut self, trial: &TrialRecord) {
        let gathered = &mut self.gathered;
        let block = usize::try_from(trial.block).unwrap_or(usize::MAX);
        gathered.begun_blocks = gathered.begun_blocks.max(block.saturating_add(1));
        if let Outcome::Void { reason, console_tail, .. } = &trial.outcome {
            gathered.void.push(VoidTrial {
                sequence: trial.sequence,
                block: trial.block,
                cell: trial.cell.clone(),
                attempt: trial.attempt,
                reason: reason.clone(),
                console_tail: console_tail.clone(),
            });
            if self.run.scenario.testbed.server.is_some() {
                gathered.cut_short.extend(headline::cut_short(self.run, trial));
            }
        }
        match self.cells.get(&trial.cell) {
            Some(cell) => {
                let trials = gathered.by_cell.entry(trial.cell.clone()).or_default();
                trials.add(trial, cell);
            }
            None => *gathered.unknown.entry(trial.cell.clone()).or_default() += 1,
        }
    }

    /// Analyses what was taken so far of a run that goes on: that it is not at its end is no finding.
    pub fn so_far(&self) -> RunAnalysis {
        self.clone().analysis(diagnose::findings_so_far)
    }

    /// Analyses what was taken, whole or not.
    pub fn finish(self) -> RunAnalysis {
        self.analysis(diagnose::findings)
    }

    fn analysis(self, findings: fn(&diagnose::Evidence<'_>) -> Vec<Finding>) -> RunAnalysis {
        let Self { run, mut gathered, .. } = self;
        gathered.by_cell.values_mut().for_each(CellTrials::sort);
        gathered.void.sort_by_key(|trial| trial.sequence);
        let cells = analyse_cells(run, &gathered);
        let ranking = ranking::rank(&run.plan, &cells);
        let evidence = diagnose::Evidence { run, gathered: &gathered, cells: &cells };
        let findings = findings(&evidence);
        let mut analysis = RunAnalysis {
            variants: None,
            references: Vec::new(),
            notice: headline::notice(run),
            schema_version: ANALYSIS_SCHEMA_VERSION,
            question: run.scenario.question.clone(),
            headline: match run.scenario.testbed.server {
                Some(_) => headline::between_machines(&cells, gathered.cut_short),
                None => headline::sentences(run, &ranking),
            },
            ranking,
            findings,
            void_trials: gathered.void,
            cells,
            run: run.clone(),
        };
        analysis.variants = compare::variants(&analysis, &compare::Options::default());
        if let Some(opening) = headline::without_guest(&analysis) {
            analysis.headline = opening;
        }
        analysis
    }
}

/// Analyses a run whose records are at hand: as it was recorded, in any order, whole or not.
pub fn analyse(run: &RunInfo, trials: &[TrialRecord]) -> RunAnalysis {
    let mut analyser = Analyser::new(run);
    trials.iter().for_each(|trial| analyser.add(trial));
    analyser.finish()
}

fn analyse_cells(run: &RunInfo, gathered: &Gathered) -> Vec<CellAnalysis> {
    let plan = &run.plan;
    let none = CellTrials::default();
    let goal = run.scenario.repeat.goal;
    let mut planned: BTreeMap<usize, u32> = BTreeMap::new();
    for index in plan.blocks.iter().take(blocks_wanted(run, gathered)).flatten() {
        let times = planned.entry(*index).or_default();
        *times = times.saturating_add(1);
    }
    let analyse = |(index, cell): (usize, &Cell)| {
        let baseline = cell.baseline.as_ref().and_then(|id| gathered.of_cell(id));
        let planned = planned.get(&index).copied().unwrap_or(0);
        let trials = gathered.of_cell(&cell.id).unwrap_or(&none);
        let mut analysed = analyse_cell(cell, planned, trials, baseline);
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
pub(crate) fn blocks_wanted(run: &RunInfo, gathered: &Gathered) -> usize {
    let settled = run.ended.as_ref().is_some_and(|end| end.how == RunEnding::Settled);
    if settled { gathered.begun_blocks } else { run.plan.blocks.len() }
}
