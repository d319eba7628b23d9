//! What is seen of a run while it runs, and the storing of its records.

use std::time::{Duration, Instant};

use vioperf_analysis::Analyser;
use vioperf_analysis::measure::headline_of;
use vioperf_model::record::{Outcome, RunInfo, TrialRecord};
use vioperf_model::scenario::Scenario;

use self::dashboard::{Dashboard, Place};
use crate::conductor::schedule::{Audience, Clock, Position};
use crate::output::Output;
use crate::store::{RunDirectory, StoreError};

pub mod dashboard;

/// Part of the time of a run, at most, that goes into telling what was found so far.
const TELLING_SHARE: u32 = 100;

/// Stores every record, then shows it.
pub struct Recorder<'a> {
    /// Where records go.
    pub directory: &'a RunDirectory,
    /// Where progress is shown.
    pub output: &'a Output,
    /// What it runs, and how often.
    pub scenario: &'a Scenario,
    /// Blocks of the plan.
    pub blocks: usize,
    /// What earlier sittings of the run took.
    pub took_before: Duration,
    /// The same on a terminal.
    pub onlooker: Option<Onlooker<'a>>,
    /// When the first trial of this sitting began, and how many positions of the plan were behind
    /// it: what came before does not tell how long the rest takes.
    pub first_trial: Option<(Instant, usize)>,
}

/// Shows a run on a terminal while it runs.
pub struct Onlooker<'a> {
    dashboard: &'a Dashboard<'a>,
    /// Absent where only the trials are shown, not what they come to.
    analyser: Option<Analyser<'a>>,
    /// When was last told what was found, and how long that took.
    told: Option<(Instant, Duration)>,
}

impl<'a> Onlooker<'a> {
    /// Of a run without trials.
    pub fn new(dashboard: &'a Dashboard<'a>, run: &'a RunInfo) -> Self {
        Self { analyser: Some(Analyser::new(run)), ..Self::of_trials(dashboard) }
    }

    /// Of each trial by itself.
    pub fn of_trials(dashboard: &'a Dashboard<'a>) -> Self {
        Self { dashboard, analyser: None, told: None }
    }

    /// Tells what was found so far, unless that took so long the last time that it would cost the run more
    /// than a small part of its time.
    fn trial_ended(&mut self, record: &TrialRecord) {
        let Some(analyser) = &mut self.analyser else { return };
        analyser.add(record);
        if self.told.is_some_and(|(at, took)| at.elapsed() < took * TELLING_SHARE) {
            return;
        }
        let began = Instant::now();
        self.dashboard.found(&analyser.so_far());
        self.told = Some((Instant::now(), began.elapsed()));
    }
}

impl Recorder<'_> {
    /// How long the rest takes, by what the trials of this sitting took; never longer than the budget lasts.
    fn left(&self, done: usize, total: usize) -> Option<Duration> {
        let (first_trial, done_before) = self.first_trial?;
        let took = first_trial.elapsed();
        let behind = u32::try_from(done - done_before).ok().filter(|done| *done > 0)?;
        let by_trials = took / behind * u32::try_from(total - done).ok()?;
        let budget = self.scenario.repeat.budget.map(|budget| budget.as_duration());
        let of_budget = budget.map(|budget| budget.saturating_sub(self.took_before + took));
        Some(of_budget.map_or(by_trials, |left| left.min(by_trials)))
    }
}

impl Audience for Recorder<'_> {
    fn trial_begins(&mut self, position: &Position<'_>) {
        let Position { block, done, total, cell, attempt } = *position;
        self.first_trial.get_or_insert((Instant::now(), done));
        let left = self.left(done, total);
        let Some(onlooker) = &mut self.onlooker else { return };
        let again = if attempt > 1 { format!(", attempt {attempt}") } else { String::new() };
        onlooker.dashboard.trial_begins(Place {
            scenario: self.scenario.name.clone(),
            done,
            total,
            block: block + 1,
            blocks: self.blocks,
            may_settle: self.scenario.repeat.may_settle(),
            left,
            what: format!("{}{again}", cell.id),
        });
    }

    fn trial_ended(
        &mut self,
        position: &Position<'_>,
        record: &TrialRecord,
    ) -> Result<(), StoreError> {
        self.directory.append(record)?;
        if let Some(onlooker) = &mut self.onlooker {
            onlooker.trial_ended(record);
        }
        let place = format!("[{:>3}/{}]", position.done + 1, position.total);
        match &record.outcome {
            Outcome::Completed if self.output.shows_status() => {}
            Outcome::Completed => {
                let workload = &position.cell.workload;
                let rate = headline_of(workload, record).unwrap_or_default();
                self.output.note(format_args!("{place} {:<32} {rate}", record.cell.0));
            }
            Outcome::Disturbed if self.output.shows_status() => {}
            Outcome::Disturbed => {
                self.output.note(format_args!(
                    "{place} {} again: others used the physical cores",
                    record.cell
                ));
            }
            Outcome::Void { reason, .. } => {
                self.output.note(format_args!("{place} {} void: {reason}", record.cell));
            }
        }
        Ok(())
    }
}

/// The machine's clocks.
pub struct RunClock {
    /// When this sitting of the run began.
    pub started: Instant,
    /// What earlier sittings took.
    pub before: Duration,
}

impl Clock for RunClock {
    fn elapsed(&self) -> Duration {
        self.before + self.started.elapsed()
    }

    fn now(&self) -> String {
        now()
    }
}

/// Now, in RFC 3339 with milliseconds, UTC.
pub fn now() -> String {
    format!("{:.3}", jiff::Timestamp::now())
}
