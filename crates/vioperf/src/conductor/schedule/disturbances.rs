//! Whether measuring again is of use where others use the physical cores.

use std::time::Duration;

use vioperf_model::plan::Cell;
use vioperf_model::record::{Outcome, TrialRecord};

/// How often a cell is measured again in a block as others used the cores. The trial after that counts.
const MOST_IN_BLOCK: u32 = 3;

/// The longest trial, its warm-up included, that is measured again: of a longer one the ends tell too
/// little.
const LONGEST: Duration = Duration::from_secs(5);

/// So many trials may be measured again before others count, and beyond that one for every two that
/// count: on a machine that is never quiet the time goes into trials that count.
const AHEAD: u32 = 6;

/// How many trials were measured again, and how many count.
#[derive(Debug, Clone, Copy, Default)]
pub struct Disturbances {
    disturbed: u32,
    counted: u32,
}

impl Disturbances {
    /// Takes a record.
    pub fn note(&mut self, record: &TrialRecord) {
        match record.outcome {
            Outcome::Completed => self.counted = self.counted.saturating_add(1),
            Outcome::Disturbed => self.disturbed = self.disturbed.saturating_add(1),
            Outcome::Void { .. } => {}
        }
    }

    /// Trials that count.
    pub fn counted(&self) -> u32 {
        self.counted
    }

    /// Whether a disturbed trial of the cell, which was measured again so often in this block, is to be
    /// measured again.
    pub fn ask_for_another(&self, cell: &Cell, before: u32) -> bool {
        let length = cell.workload.warmup.as_duration() + cell.workload.duration.as_duration();
        let is_allowed = self.disturbed < AHEAD.saturating_add(self.counted / 2);
        before < MOST_IN_BLOCK && length <= LONGEST && is_allowed
    }
}
