//! Walks the plan: which cell is tried when, how often, and when the run ends.
//!
//! A run that is resumed walks the same plan from its beginning: what an earlier sitting decided is
//! taken from its records ([`Earlier`]) in place of being measured, so that every later decision
//! falls as it would have without the interruption.

mod disturbances;
mod earlier;

use std::time::Duration;

use vioperf_analysis::settling::Follower;
use vioperf_model::plan::{Cell, Plan};
use vioperf_model::record::{
    CoreSpeed, GuestSetup, Outcome, Party, RunEnding, SCHEMA_VERSION, SearchRecord, StorageFacts,
    Timeline, TrialRecord,
};
use vioperf_model::scenario::Repeat;

use self::disturbances::Disturbances;
pub use self::earlier::Earlier;
use self::earlier::Tried;
use crate::interrupt::{Interrupt, Urgency, signal_name};
use crate::store::StoreError;

/// In how many blocks a testbed may fail to become ready before it is not tried any more.
const HOPELESS_AFTER_BLOCKS: usize = 2;

/// Where trials happen. The lab in earnest; a script in the scheduler's tests.
pub trait Stage {
    /// Makes the cell's testbed ready, or keeps it where it is, and conducts one trial.
    ///
    /// # Errors
    /// Only what makes every further trial hopeless; a trial that fails is an [`Attempt`].
    fn attempt(&mut self, cell: &Cell) -> anyhow::Result<Attempt>;
}

/// What came of one attempt.
#[derive(Debug)]
pub struct Attempt {
    /// How far it came.
    pub end: AttemptEnd,
    /// How the guest came about.
    pub guest: Option<GuestSetup>,
    /// How fast the host's cores were at either end.
    pub core_speed: Option<CoreSpeed>,
    /// What the bytes of its disks are on.
    pub storage: Option<StorageFacts>,
    /// When it was measured.
    pub timeline: Option<Timeline>,
    /// What each party saw.
    pub parties: Vec<Party>,
    /// The probes of a rate search.
    pub search: Option<SearchRecord>,
}

/// How far an attempt came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttemptEnd {
    /// A trial that counts.
    Completed,
    /// A trial that does not count.
    Void {
        /// Why.
        reason: String,
        /// The last lines of the guest's console.
        console_tail: Vec<String>,
        /// Whether the testbed never became ready, so that its other cells would not either.
        never_ready: bool,
    },
    /// The user interrupted: there was no trial.
    Interrupted,
}

/// Wall clock and stop watch, handed in so that tests need no time.
pub trait Clock {
    /// Time since the run began, without the time between its sittings.
    fn elapsed(&self) -> Duration;
    /// Now, in RFC 3339.
    fn now(&self) -> String;
}

/// What happens to a run, as it happens: it is stored and shown.
pub trait Audience {
    /// A trial is about to begin.
    fn trial_begins(&mut self, position: &Position<'_>);
    /// A trial ended.
    ///
    /// # Errors
    /// When its record cannot be stored, which ends the run.
    fn trial_ended(
        &mut self,
        position: &Position<'_>,
        record: &TrialRecord,
    ) -> Result<(), StoreError>;
}

/// Where in the plan the run is.
#[derive(Debug, Clone, Copy)]
pub struct Position<'a> {
    /// The block, from 0.
    pub block: usize,
    /// Trials of the plan that are behind.
    pub done: usize,
    /// Trials of the plan in all.
    pub total: usize,
    /// The cell.
    pub cell: &'a Cell,
    /// The attempt, from 1.
    pub attempt: u32,
}

/// A run under way.
pub struct Schedule<'a, S, A, C> {
    /// The plan.
    pub plan: &'a Plan,
    /// How often.
    pub repeat: &'a Repeat,
    /// How long one block is thought to take before the first has told.
    pub block_estimate: Duration,
    /// Where.
    pub stage: &'a mut S,
    /// For whom.
    pub audience: &'a mut A,
    /// When.
    pub clock: &'a C,
    /// The user's wish to end.
    pub interrupt: &'a Interrupt,
    /// What was measured of the plan before.
    pub earlier: &'a Earlier,
    /// What the walk so far has told.
    pub so_far: SoFar<'a>,
}

/// What the walk so far has told.
#[derive(Debug, Default)]
pub struct SoFar<'a> {
    /// Number of the next record.
    sequence: u32,
    /// How often the cores were not vioperf's alone.
    disturbances: Disturbances,
    /// Cells whose testbed never became ready, with the block in which.
    never_ready: Vec<(usize, usize)>,
    /// Tells what has settled, where the scenario has a goal.
    follower: Option<Follower<'a>>,
}

impl<'a> SoFar<'a> {
    /// Before the first position of the plan.
    pub fn new(plan: &'a Plan, repeat: &Repeat, earlier: &Earlier) -> Self {
        let follower = repeat.goal.map(|goal| Follower::new(plan, goal));
        let sequence = earlier.next_sequence();
        let disturbances = earlier.disturbances();
        Self { sequence, never_ready: Vec::new(), disturbances, follower }
    }
}

impl<S: Stage, A: Audience, C: Clock> Schedule<'_, S, A, C> {
    /// Runs the plan to its end, whatever end that is.
    pub fn run(&mut self) -> RunEnding {
        let plan = self.plan;
        let mut done = 0;
        for (block, order) in plan.blocks.iter().enumerate() {
            // Whether to begin it was decided when it was begun.
            if !self.earlier.has_begun(block) {
                if self.has_settled(block) {
                    return RunEnding::Settled;
                }
                if self.exceeds_budget(block) {
                    return RunEnding::BudgetUsed;
                }
            }
            let enough = self.cells_with_enough(block);
            for &index in order {
                if let Some(ending) = self.interrupted() {
                    return ending;
                }
                if !enough.contains(&index)
                    && !self.is_hopeless(index, block)
                    && let Err(ending) = self.measure(index, block, done)
                {
                    return ending;
                }
                done += 1;
            }
        }
        RunEnding::Completed
    }

    /// Tries a cell until a trial counts or the attempts are used up, those of earlier sittings
    /// included.
    fn measure(&mut self, index: usize, block: usize, done: usize) -> Result<(), RunEnding> {
        let plan = self.plan;
        let cell = &plan.cells[index];
        let mut tried = Tried::default();
        if let Some(earlier) = self.earlier.tried(block, &cell.id) {
            if let Some(completed) = &earlier.completed {
                if let (Some(follower), Some(value)) = (&mut self.so_far.follower, completed.value)
                {
                    follower.add_value(&cell.id, u32::try_from(block).unwrap_or(u32::MAX), value);
                }
                return Ok(());
            }
            tried = *earlier;
        }
        while tried.void < self.repeat.attempts {
            tried.attempts = tried.attempts.saturating_add(1);
            let attempt = tried.attempts;
            let position = Position { block, done, total: plan.trial_count(), cell, attempt };
            self.audience.trial_begins(&position);
            let started_after = self.clock.elapsed();
            let started_at = self.clock.now();
            let result = self
                .stage
                .attempt(cell)
                .map_err(|error| RunEnding::Failed { message: format!("{error:#}") })?;
            let outcome = match result.end {
                AttemptEnd::Interrupted => {
                    return Err(self
                        .interrupted()
                        .unwrap_or(RunEnding::Interrupted { signal: "a signal".into() }));
                }
                AttemptEnd::Completed => {
                    let disturbed = result.core_speed.is_some_and(|speed| speed.is_disturbed());
                    let disturbances = &self.so_far.disturbances;
                    let again = self.repeat.undisturbed
                        && disturbed
                        && disturbances.ask_for_another(cell, tried.disturbed);
                    tried.disturbed = tried.disturbed.saturating_add(u32::from(again));
                    if again { Outcome::Disturbed } else { Outcome::Completed }
                }
                AttemptEnd::Void { reason, console_tail, never_ready } => {
                    tried.never_ready = never_ready;
                    tried.void = tried.void.saturating_add(1);
                    Outcome::Void { reason, console_tail, never_ready }
                }
            };
            let completed = outcome == Outcome::Completed;
            let record = TrialRecord {
                schema_version: SCHEMA_VERSION,
                sequence: self.so_far.sequence,
                block: u32::try_from(block).unwrap_or(u32::MAX),
                cell: cell.id.clone(),
                attempt,
                started_at,
                started_after_ms: milliseconds(started_after),
                ended_after_ms: Some(milliseconds(self.clock.elapsed())),
                outcome,
                guest: result.guest,
                core_speed: result.core_speed,
                storage: result.storage,
                timeline: result.timeline,
                parties: result.parties,
                search: result.search,
            };
            self.so_far.sequence += 1;
            self.so_far.disturbances.note(&record);
            if completed && let Some(follower) = &mut self.so_far.follower {
                follower.add(&record);
            }
            self.audience
                .trial_ended(&position, &record)
                .map_err(|error| RunEnding::Failed { message: error.to_string() })?;
            if completed {
                return Ok(());
            }
            if let Some(ending) = self.interrupted() {
                return Err(ending);
            }
        }
        if tried.never_ready {
            self.so_far.never_ready.push((index, block));
        }
        Ok(())
    }

    /// Whether the blocks so far are enough for every cell that can be measured at all.
    fn has_settled(&self, block: usize) -> bool {
        let Some(follower) = &self.so_far.follower else { return false };
        let is_done = |(index, cell): (usize, &Cell)| {
            self.is_hopeless(index, block) || follower.settling(cell).is_settled
        };
        self.has_enough_blocks(block) && self.plan.cells.iter().enumerate().all(is_done)
    }

    /// Cells that are left out of this block, as they have reached the goal.
    fn cells_with_enough(&self, block: usize) -> Vec<usize> {
        let stops = self.repeat.stop_settled && self.has_enough_blocks(block);
        let Some(follower) = self.so_far.follower.as_ref().filter(|_| stops) else {
            return Vec::new();
        };
        let has_enough =
            |(_, cell): &(usize, &Cell)| !cell.is_baseline() && follower.settling(cell).is_settled;
        let cells = self.plan.cells.iter().enumerate().filter(has_enough);
        cells.map(|(index, _)| index).collect()
    }

    /// Whether the least number of blocks is behind.
    fn has_enough_blocks(&self, block: usize) -> bool {
        block >= usize::try_from(self.repeat.blocks).unwrap_or(usize::MAX)
    }

    /// Whether the cell's testbed has failed to become ready in this block, or too often before:
    /// waiting for it again would only use up the time of the others.
    fn is_hopeless(&self, index: usize, block: usize) -> bool {
        let cell = &self.plan.cells[index];
        let mut failed_blocks: Vec<usize> = self
            .so_far
            .never_ready
            .iter()
            .filter(|(other, _)| self.plan.cells[*other].shares_testbed_with(cell))
            .map(|(_, block)| *block)
            .collect();
        failed_blocks.dedup();
        failed_blocks.contains(&block) || failed_blocks.len() >= HOPELESS_AFTER_BLOCKS
    }

    /// Whether a further block would end after the budget, going by the trials so far and by the cells
    /// that are left to measure.
    fn exceeds_budget(&self, block: usize) -> bool {
        let Some(budget) = self.repeat.budget else { return false };
        let elapsed = self.clock.elapsed();
        let left = self.plan.cells.len().saturating_sub(self.cells_with_enough(block).len());
        let next = match (u32::try_from(left), self.so_far.disturbances.counted()) {
            (Ok(left), trials) if trials > 0 => elapsed.saturating_mul(left) / trials,
            _ => self.block_estimate,
        };
        // The first block is always measured: a run without a result answers nothing.
        block > 0 && elapsed + next > budget.as_duration()
    }

    fn interrupted(&self) -> Option<RunEnding> {
        if self.interrupt.urgency() == Urgency::None {
            return None;
        }
        let signal = self.interrupt.signal().map_or("a signal", signal_name);
        Some(RunEnding::Interrupted { signal: signal.to_owned() })
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
