//! Searches whose bounds are not those of the path: paths that lose whatever the rate, senders that
//! were the limit, and searches that had no time.

use vioperf_model::plan::CellId;

use super::{Evidence, about_cells};
use crate::rate_search::End;
use crate::result::{CellAnalysis, Finding, SearchGoal, Severity};
use crate::wording::{count, percent};

pub fn check(evidence: &Evidence<'_>) -> Vec<Finding> {
    let refused = End::LosesAtMinRate { loss_ratio: 0.0 };
    let loss = |goal: &SearchGoal| goal.loss_at_min_rate_percent.mean().map(percent);
    let mut found = about_cells(
        "path-loses-at-low-rate",
        Severity::Warning,
        "No rate could be found: the path loses datagrams even at the lowest rate",
        &cells(evidence, &[refused], |goal| format!("{} lost", loss(goal).unwrap_or_default())),
        "Such a loss does not come from the rate: look for what drops packets on an idle path (filters, \
         a flapping link, a full table), or allow for it (workload.search.loss_goals).",
    );
    found.extend(about_cells(
        "sender-was-the-limit",
        Severity::Note,
        "The sender was the limit of a search, not the path",
        &cells(evidence, &[End::SenderIsTheLimit, End::MaxRate], |_| String::new()),
        "The path carries at least as much as was found. Give the sender more threads or streams, or \
         set workload.search.max_rate to what is worth knowing.",
    ));
    found.extend(about_cells(
        "search-out-of-time",
        Severity::Doubt,
        "The time for a search was over before its bounds were near to each other",
        &cells(evidence, &[End::OutOfTime], |_| String::new()),
        "Allow more (workload.duration), or ask for less (workload.search.width, probe_time).",
    ));
    found
}

/// The cells of which a goal ended so, with the goals, in how many trials, and what else is to be said.
fn cells(
    evidence: &Evidence<'_>,
    ends: &[End],
    more: impl Fn(&SearchGoal) -> String,
) -> Vec<(CellId, String)> {
    let said = |cell: &CellAnalysis| {
        let goals = cell.rate_search.iter().flat_map(|search| &search.goals);
        let goals: Vec<String> = goals
            .filter_map(|goal| {
                let trials = ends.iter().filter_map(|end| goal.ends.get(end.name())).sum::<u32>();
                let trials = usize::try_from(trials).ok().filter(|trials| *trials > 0)?;
                let parts = [goal.name.clone(), more(goal), count(trials, "trial")];
                Some(
                    parts
                        .into_iter()
                        .filter(|part| !part.is_empty())
                        .collect::<Vec<_>>()
                        .join(", "),
                )
            })
            .collect();
        (!goals.is_empty()).then(|| (cell.id.clone(), goals.join("; ")))
    };
    evidence.cells.iter().filter_map(said).collect()
}
