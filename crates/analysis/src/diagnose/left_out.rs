//! Levels of the scenario that could not be had.

use super::{Evidence, about_run};
use crate::result::{Finding, Severity};

pub fn check(evidence: &Evidence<'_>) -> Vec<Finding> {
    let finding = |left: &vioperf_model::record::LeftOut| {
        about_run(
            "left-out",
            Severity::Warning,
            &format!("{} was left out", left.what),
            &left.reason,
            "Nothing here says anything about it.",
        )
    };
    evidence.run.left_out.iter().map(finding).collect()
}
