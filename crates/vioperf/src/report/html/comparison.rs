//! The variants of a run beside each other.

use maud::{Markup, html};
use vioperf_analysis::compare::result::RunComparison;
use vioperf_analysis::wording::capitalised;

use crate::report::comparison::values::{self, Group};
use crate::report::text::clean;

/// A section with a table a metric.
pub fn section(comparison: &RunComparison) -> Markup {
    let changes = values::changes(comparison);
    html! {
        section {
            h2 { (clean(&values::beside(comparison))) }
            @for sentence in &comparison.summary {
                p { (clean(sentence)) }
            }
            @for group in values::groups(comparison) {
                (table(&group))
            }
            @if !changes.is_empty() {
                p { "What the variants were given otherwise (A → B): " (clean(&changes.join("; "))) }
            }
            p.note { (clean(&values::legend(comparison))) }
        }
    }
}

fn table(group: &Group<'_>) -> Markup {
    html! {
        div.scroll tabindex="0" {
            table {
                caption { (clean(&capitalised(&group.heading()))) }
                thead {
                    tr {
                        th scope="col" { "cell" }
                        th scope="col" { "A" }
                        th scope="col" { "B" }
                        th scope="col" { "B vs A (95 % interval)" }
                        th scope="col" { "p" }
                        th scope="col" { "difference" }
                    }
                }
                tbody {
                    @for row in &group.rows {
                        tr {
                            th scope="row" { (clean(&row.cell)) }
                            td { (group.mean(row.a)) }
                            td { (group.mean(row.b)) }
                            td { (values::difference(row)) }
                            td { (values::p_value(row)) }
                            td {
                                @if row.verdict.is_difference() {
                                    strong { (values::verdict(row)) }
                                } @else {
                                    (values::verdict(row))
                                }
                            }
                        }
                    }
                }
            }
        }
        @for note in values::notes(group) {
            p.note { (clean(&note)) }
        }
    }
}
