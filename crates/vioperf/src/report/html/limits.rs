//! What limits each path, below its chart.

use maud::{Markup, html};
use vioperf_analysis::result::{CellAnalysis, Fact, Limit};
use vioperf_analysis::wording::{count, three_digits};

use super::tables::path_name;
use crate::report::text::clean;
use crate::report::values::{NO_VALUE, Workload};

/// The first limit of each cell with its evidence to be opened, and those beside it.
pub fn table(workload: &Workload<'_>) -> Markup {
    if workload.cells.iter().all(|cell| cell.limits.is_empty()) {
        return html! {};
    }
    html! {
        div.scroll {
            table.limits {
                caption { "What limits each path" }
                thead { tr { th scope="col" { "path" } th scope="col" { "limited by" } th scope="col" { "sure" } } }
                tbody {
                    @for cell in &workload.cells {
                        tr { (path_name(cell)) (fields(cell)) }
                    }
                }
            }
        }
    }
}

fn fields(cell: &CellAnalysis) -> Markup {
    let Some((first, others)) = cell.limits.split_first() else {
        return html! { td.none title="nothing that was read tells" { (NO_VALUE) } td.none { (NO_VALUE) } };
    };
    html! {
        td {
            details {
                summary { (first.title) }
                (evidence(&first.evidence))
                p { (clean(&first.advice)) }
                @for other in others {
                    p { "Also " (other.confidence) ": " (other.title) }
                    (evidence(&other.evidence))
                }
            }
        }
        td { (first.confidence) span.note { (seen(first)) } }
    }
}

fn seen(limit: &Limit) -> String {
    let trials = usize::try_from(limit.trials).unwrap_or(usize::MAX);
    format!("{} of {}", limit.trials_seen, count(trials, "trial"))
}

fn evidence(facts: &[Fact]) -> Markup {
    html! {
        ul {
            @for fact in facts {
                li {
                    (clean(&fact.place)) ", " (clean(&fact.what)) ": " (clean(&fact.value))
                    @if let Some(seconds) = fact.seconds { ", over " (three_digits(seconds)) " s" }
                }
            }
        }
    }
}
