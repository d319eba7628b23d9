//! Published figures beside the run's own.

use maud::{Markup, html};
use vioperf_analysis::references::{BesideReference, FigureBeside};
use vioperf_analysis::result::RunAnalysis;
use vioperf_analysis::wording::three_digits;

use super::beside;
use crate::report::references::{
    LEGEND, NOTHING, explained, facts, notes, ranking, said_of, short, sign, title,
};
use crate::report::text::clean;
use crate::report::values::interval;

/// A section for every reference.
pub fn sections(analysis: &RunAnalysis) -> Markup {
    html! {
        @for (beside, number) in analysis.references.iter().zip(1..) {
            @let id = anchor(number);
            section aria-labelledby=(id) {
                h2 id=(id) { (clean(&title(beside))) }
                dl {
                    @for (name, said) in facts(beside) { dt { (name) } dd { (clean(&said)) } }
                }
                @if beside.figures.is_empty() && beside.rankings.is_empty() {
                    p { (NOTHING) }
                }
                @if !beside.figures.is_empty() {
                    (beside::pictures(beside, analysis))
                    p.small { (LEGEND) }
                    details {
                        summary { "The same as a table" }
                        (table(beside))
                    }
                }
                @if !beside.rankings.is_empty() {
                    ul {
                        @for ranked in &beside.rankings {
                            li {
                                (clean(&ranking(ranked)))
                                @let explained = explained(ranked);
                                @if !explained.is_empty() {
                                    ul { @for said in &explained { li { (clean(said)) } } }
                                }
                            }
                        }
                    }
                }
                @for note in notes(beside) { p.note { (clean(&note)) } }
            }
        }
    }
}

/// What a link to the section of a reference names, by its number.
pub fn anchor(number: usize) -> String {
    format!("reference-{number}")
}

fn table(beside: &BesideReference) -> Markup {
    html! {
        div.scroll tabindex="0" {
            table {
                thead {
                    tr {
                        th scope="col" { "figure" }
                        th scope="col" { "metric" }
                        th scope="col" { "cell" }
                        th scope="col" { "as printed" }
                        th scope="col" { "divided by" }
                        th.number scope="col" { "% there" }
                        th.number scope="col" { "% here" }
                        th.number scope="col" { "95 % interval" }
                        th scope="col" { "agrees" }
                    }
                }
                tbody { @for figure in &beside.figures { (row(beside, figure)) } }
            }
        }
    }
}

fn row(beside: &BesideReference, figure: &FigureBeside) -> Markup {
    html! {
        tr {
            th scope="row" { (clean(short(beside, &figure.figure))) }
            td { (said_of(&figure.metric)) }
            td { (clean(&figure.cell.0)) }
            td { (clean(&figure.published)) }
            td { (clean(&figure.divided_by)) }
            td.number { (three_digits(figure.published_percent)) }
            td.number { (three_digits(figure.own_percent.mean)) }
            td.number { (interval(Some(&figure.own_percent))) }
            td { (sign(figure.agreement)) }
        }
    }
}
