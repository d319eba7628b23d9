//! The run ended before its plan.

use vioperf_model::record::RunEnding;

use super::{Evidence, about_run};
use crate::analyser::blocks_wanted;
use crate::result::{Finding, Severity};

pub fn check(evidence: &Evidence<'_>) -> Vec<Finding> {
    let planned = blocks_wanted(evidence.run, evidence.gathered);
    let begun = evidence.gathered.begun_blocks;
    let blocks = format!("{begun} of {planned} blocks were begun");
    let early = |severity, title: &str, evidence: String, advice: &str| {
        vec![about_run("ended-early", severity, title, &evidence, advice)]
    };
    match evidence.run.ended.as_ref().map(|end| &end.how) {
        Some(RunEnding::Completed | RunEnding::Settled) => Vec::new(),
        Some(RunEnding::BudgetUsed) => early(
            Severity::Doubt,
            "The time budget ended the run",
            blocks,
            "Give a larger --budget, or a shorter workload.duration, for narrower intervals.",
        ),
        Some(RunEnding::Interrupted { signal }) => early(
            Severity::Warning,
            "The run was interrupted",
            format!("{signal}; {blocks}"),
            "What was finished is reported; run again for the rest.",
        ),
        Some(RunEnding::Failed { message }) => early(
            Severity::Warning,
            "The run could not go on",
            format!("{message}; {blocks}"),
            "Remove the cause (vioperf doctor may name it) and run again.",
        ),
        None => vec![about_run(
            "not-ended",
            Severity::Warning,
            "The run has not ended, or was killed",
            &format!("no end is recorded; {blocks}"),
            "What was finished is reported; if the run is still going, report again later.",
        )],
    }
}
