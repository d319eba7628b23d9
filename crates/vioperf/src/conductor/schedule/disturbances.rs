//! Whether measuring again is of use where others use the physical cores.

use std::collections::VecDeque;
use std::time::Duration;

use vioperf_model::plan::Cell;
use vioperf_model::record::{Outcome, TrialRecord};

/// How often a cell is measured again in a block as others used the cores. The trial after that counts.
const MOST_IN_BLOCK: u32 = 5;

/// The longest trial, its warm-up included, that is measured again: of a longer one the ends tell too
/// little.
const LONGEST: Duration = Duration::from_secs(5);

/// How many trials tell whether it leads to anything.
const KEPT: usize = 12;

/// Which of the trials that counted lately were disturbed.
#[derive(Debug, Clone, Default)]
pub struct Disturbances {
    lately: VecDeque<bool>,
}

impl Disturbances {
    /// Takes a record.
    pub fn note(&mut self, record: &TrialRecord) {
        let Some(speed) = record.core_speed.filter(|_| record.outcome == Outcome::Completed) else {
            return;
        };
        self.lately.push_back(speed.is_disturbed());
        if self.lately.len() > KEPT {
            self.lately.pop_front();
        }
    }

    /// Whether a disturbed trial of the cell, which was measured again so often in this block, is to be
    /// measured again. On a machine that is never quiet that would be to no purpose.
    pub fn ask_for_another(&self, cell: &Cell, before: u32) -> bool {
        let length = cell.workload.warmup.as_duration() + cell.workload.duration.as_duration();
        let in_vain = self.lately.iter().filter(|disturbed| **disturbed).count();
        let is_of_use = self.lately.len() < KEPT || 2 * in_vain <= KEPT;
        before < MOST_IN_BLOCK && length <= LONGEST && is_of_use
    }
}
