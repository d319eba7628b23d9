//! A run that was resumed on a machine that was no more as it had been.

use super::{Evidence, about_run};
use crate::result::{Finding, Severity};

pub fn check(evidence: &Evidence<'_>) -> Vec<Finding> {
    let changed = evidence.run.resumed.iter().filter(|sitting| !sitting.changes.is_empty());
    let finding = |sitting: &vioperf_model::record::Sitting| {
        about_run(
            "changed-between-sittings",
            Severity::Doubt,
            "The machine was no more as it was when the run was resumed",
            &format!(
                "From trial {} on ({}): {}.",
                sitting.first_sequence,
                sitting.at,
                sitting.changes.join("; ")
            ),
            "Trials from before and after are mixed in every mean: measure anew if the change may matter.",
        )
    };
    changed.map(finding).collect()
}
