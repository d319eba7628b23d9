//! What earlier sittings of a run have measured of its plan, as far as later decisions need it.

use std::collections::BTreeMap;
use std::time::Duration;

use vioperf_analysis::settling::headline_value;
use vioperf_model::plan::{CellId, Plan};
use vioperf_model::record::{Outcome, TrialRecord};

use super::disturbances::Disturbances;

/// What earlier sittings of a run have measured of its plan.
#[derive(Debug, Default)]
pub struct Earlier {
    by_block: BTreeMap<usize, BTreeMap<CellId, Tried>>,
    next_sequence: u32,
    disturbances: Disturbances,
    took: Duration,
}

/// What came of a cell in a block.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tried {
    /// The number of the last attempt.
    pub attempts: u32,
    /// Attempts that came to nothing.
    pub void: u32,
    /// Trials that were to be measured again, as others used the cores.
    pub disturbed: u32,
    /// The trial that counts, if there is one.
    pub completed: Option<Counted>,
    /// Whether the testbed did not become ready for the last attempt.
    pub never_ready: bool,
}

/// A trial that counts.
#[derive(Debug, Clone, Copy)]
pub struct Counted {
    /// Its headline metric; absent where it cannot be told.
    pub value: Option<f64>,
}

impl Earlier {
    /// Notes a record of an earlier sitting.
    pub fn add(&mut self, plan: &Plan, record: &TrialRecord) {
        let block = usize::try_from(record.block).unwrap_or(usize::MAX);
        let tried = self.by_block.entry(block).or_default().entry(record.cell.clone()).or_default();
        match &record.outcome {
            Outcome::Completed => {
                tried.completed = Some(Counted { value: headline_value(plan, record) });
            }
            Outcome::Disturbed => tried.disturbed = tried.disturbed.saturating_add(1),
            Outcome::Void { never_ready, .. } => {
                tried.void = tried.void.saturating_add(1);
                if record.attempt >= tried.attempts {
                    tried.never_ready = *never_ready;
                }
            }
        }
        self.disturbances.note(record);
        tried.attempts = tried.attempts.max(record.attempt);
        self.next_sequence = self.next_sequence.max(record.sequence.saturating_add(1));
        let ended_after = record.ended_after_ms.unwrap_or(record.started_after_ms);
        self.took = self.took.max(Duration::from_millis(ended_after));
    }

    /// How often the cores were not vioperf's alone.
    pub fn disturbances(&self) -> Disturbances {
        self.disturbances
    }

    /// `sequence` of the next record.
    pub fn next_sequence(&self) -> u32 {
        self.next_sequence
    }

    /// Time of the earlier sittings, until the last trial that is stored had ended.
    pub fn took(&self) -> Duration {
        self.took
    }

    /// Whether a trial of this block, or of a later one, is stored.
    pub fn has_begun(&self, block: usize) -> bool {
        self.by_block.range(block..).next().is_some()
    }

    /// What came of a cell in a block; nothing was tried where it is absent.
    pub fn tried(&self, block: usize, cell: &CellId) -> Option<&Tried> {
        self.by_block.get(&block)?.get(cell)
    }

    /// Positions of the plan that need not be measured any more, as they have a trial that counts.
    pub fn completed(&self) -> usize {
        let cells = self.by_block.values().flat_map(BTreeMap::values);
        cells.filter(|tried| tried.completed.is_some()).count()
    }
}
