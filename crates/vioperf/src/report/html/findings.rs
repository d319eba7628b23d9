//! What the rules found, each with its evidence and a picture of the values that it was made from.

use maud::{Markup, html};
use vioperf_analysis::result::{Finding, RunAnalysis};

use super::opening::{self, severity_class, severity_name};
use super::picture;
use super::seen::Seen;
use crate::report::text::clean;

/// All of them, gravest first.
pub fn section(analysis: &RunAnalysis, seen: &Seen<'_>) -> Markup {
    html! {
        @if !analysis.findings.is_empty() {
            section aria-labelledby="findings" {
                h2 #findings { "Findings" }
                div.findings {
                    @for (finding, number) in analysis.findings.iter().zip(1..) {
                        (article(number, finding, &seen.evidence(finding)))
                    }
                }
            }
        }
    }
}

/// What stands against trusting a comparison, which has no pictures of single cells to lead to.
pub fn doubts(doubts: &[Finding]) -> Markup {
    html! {
        @if !doubts.is_empty() {
            section aria-labelledby="doubts" {
                h2 #doubts { "What stands against trusting it" }
                div.findings {
                    @for (finding, number) in doubts.iter().zip(1..) {
                        (article(number, finding, &html! { p { (clean(&finding.evidence)) } }))
                    }
                }
            }
        }
    }
}

fn article(number: usize, finding: &Finding, evidence: &Markup) -> Markup {
    html! {
        article id={ "finding-" (number) } class={ "finding " (severity_class(finding.severity)) } {
            h3 {
                (opening::sign(finding.severity))
                span.severity { (severity_name(finding.severity)) " " (number) } " " (clean(&finding.title))
            }
            (evidence)
            @for picture in &finding.pictures { (picture::figure(picture)) }
            p.advice { (clean(&finding.advice)) }
        }
    }
}
