//! Requests of an open loop that were due but never sent.

use std::collections::BTreeMap;

use vioperf_model::plan::CellId;
use vioperf_model::record::Outcome;

use super::{Evidence, about_cells};
use crate::result::{Finding, Severity};
use crate::wording::count;

pub fn check(evidence: &Evidence<'_>) -> Vec<Finding> {
    let mut cells: BTreeMap<&CellId, u64> = BTreeMap::new();
    for trial in evidence.trials.iter().filter(|trial| trial.outcome == Outcome::Completed) {
        for load in trial.parties.iter().filter_map(|party| party.report.load.as_ref()) {
            if let Some(not_sent) = load.not_sent.filter(|requests| *requests > 0) {
                let requests = cells.entry(&trial.cell).or_default();
                *requests = requests.saturating_add(not_sent);
            }
        }
    }
    let requests = |n: u64| count(usize::try_from(n).unwrap_or(usize::MAX), "request");
    let cells: Vec<(CellId, String)> =
        cells.into_iter().map(|(cell, n)| (cell.clone(), requests(n))).collect();
    about_cells(
        "requests-not-sent",
        Severity::Doubt,
        "Requests were due but never sent: the path did not keep up",
        &cells,
        "Latency would have been worse with them. Ask for fewer (workload.requests_per_second), or \
         measure what the path takes in a closed loop.",
    )
}
