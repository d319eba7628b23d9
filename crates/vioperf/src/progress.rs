//! What is seen of a run while it runs, and the storing of its records.

use std::time::{Duration, Instant};

use vioperf_analysis::measure::headline_of;
use vioperf_model::record::{Outcome, TrialRecord};

use crate::conductor::schedule::{Audience, Clock, Position};
use crate::output::Output;
use crate::prepare::spoken;
use crate::store::{RunDirectory, StoreError};

/// Stores every record, then shows it.
pub struct Recorder<'a> {
    /// Where records go.
    pub directory: &'a RunDirectory,
    /// Where progress is shown.
    pub output: &'a Output,
    /// When the first trial of this sitting began, and how many positions of the plan were behind
    /// it: what came before does not tell how long the rest takes.
    pub first_trial: Option<(Instant, usize)>,
    /// Blocks of the plan.
    pub blocks: usize,
    /// Whether they may turn out to be fewer.
    pub may_settle: bool,
}

impl Audience for Recorder<'_> {
    fn trial_begins(&mut self, position: &Position<'_>) {
        let Position { block, done, total, cell, attempt } = *position;
        let (first_trial, done_before) = *self.first_trial.get_or_insert((Instant::now(), done));
        if !self.output.shows_status() {
            return;
        }
        let again = if attempt > 1 { format!(", attempt {attempt}") } else { String::new() };
        let at_most = if self.may_settle { "at most " } else { "" };
        let left = match (u32::try_from(done - done_before), u32::try_from(total - done)) {
            (Ok(done), Ok(left)) if done > 0 => {
                format!(", {at_most}{} left", spoken(first_trial.elapsed() / done * left))
            }
            _ => String::new(),
        };
        let blocks = self.blocks;
        self.output.status(&format!(
            "[{:>3}/{total}] block {}/{blocks}  {}{again}{left}",
            done + 1,
            block + 1,
            cell.id
        ));
    }

    fn trial_ended(
        &mut self,
        position: &Position<'_>,
        record: &TrialRecord,
    ) -> Result<(), StoreError> {
        self.directory.append(record)?;
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
