//! What limits each path, below its chart.

use maud::{Markup, html};
use vioperf_analysis::result::{CellAnalysis, Fact};

use super::seen::{Part, Seen};
use super::tables::path_name;
use crate::report::layers;
use crate::report::text::clean;
use crate::report::values::{self, NO_VALUE, Workload};

/// The first limit of each cell with its evidence to be opened, and those beside it.
pub fn table(workload: &Workload<'_>, seen: &Seen<'_>) -> Markup {
    if workload.cells.iter().all(|cell| cell.limits.is_empty()) {
        return html! {};
    }
    html! {
        div.scroll tabindex="0" {
            table.limits {
                caption { "What limits each path" }
                thead { tr { th scope="col" { "path" } th scope="col" { "limited by" } th scope="col" { "sure" } } }
                tbody {
                    @for cell in &workload.cells {
                        tr id={ (Part::Limits.anchor(&cell.id)) } { (path_name(cell)) (fields(cell, seen)) }
                    }
                }
            }
        }
    }
}

fn fields(cell: &CellAnalysis, seen: &Seen<'_>) -> Markup {
    let Some((first, others)) = cell.limits.split_first() else {
        return html! {
            td.none title="nothing that was read tells" { (NO_VALUE) (by_layer(cell)) }
            td.none { (NO_VALUE) }
        };
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
                (by_layer(cell))
            }
        }
        td { (first.confidence) (seen.marks(Part::Limits, cell)) span.note { (values::trials_seen(first)) } }
    }
}

/// Where time and packets went, to be opened below what limits.
fn by_layer(cell: &CellAnalysis) -> Markup {
    let told = layers::lines(cell);
    html! {
        @if !told.is_empty() {
            details {
                summary { (layers::TITLE) }
                ul { @for line in &told { li { (line.place) ", " (line.what) ": " (line.value) } } }
            }
        }
    }
}

fn evidence(facts: &[Fact]) -> Markup {
    html! {
        ul {
            @for fact in facts { li { (clean(&fact.place)) ", " (values::fact(fact)) } }
        }
    }
}
