//! What limits each path, below its chart.

use maud::{Markup, html};
use vioperf_analysis::result::{CellAnalysis, Fact};

use super::tables::path_name;
use crate::report::text::clean;
use crate::report::values::{self, NO_VALUE, Workload};

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
        td { (first.confidence) span.note { (values::trials_seen(first)) } }
    }
}

fn evidence(facts: &[Fact]) -> Markup {
    html! {
        ul {
            @for fact in facts { li { (clean(&fact.place)) ", " (values::fact(fact)) } }
        }
    }
}
