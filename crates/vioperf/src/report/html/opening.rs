//! The first screen: the question, the answer, the ranking as a picture, and what stands against trusting
//! it.

use maud::{Markup, html};
use vioperf_analysis::measure::{Measure, Truth, Unit};
use vioperf_analysis::result::{Finding, RunAnalysis, Severity, TrialCounts};
use vioperf_analysis::wording::{count, percent};

use super::chart::{self, Chart, Mark, Row};
use super::tables;
use crate::report::text::clean;
use crate::report::values::{self, NO_VALUE, interval};

/// More doubts than these are told further down alone.
const MOST_DOUBTS: usize = 6;
/// One of the counts of a cell's trials.
type Count = fn(&TrialCounts) -> u32;
/// The gravest findings with their numbers, and how many are not among them.
type Doubts<'a> = (Vec<(usize, &'a Finding)>, usize);

/// Question, answer and doubts.
pub fn header(analysis: &RunAnalysis) -> Markup {
    let run = &analysis.run;
    html! {
        header {
            p.kicker {
                "vioperf · " (clean(&run.scenario.name)) " · "
                time { (clean(&run.started_at)) }
            }
            h1 { (clean(&analysis.question)) }
            div.opening {
                div.answer {
                    @for (sentence, number) in analysis.headline.iter().zip(0..) {
                        p.lead[number == 0] { (unbroken(&clean(sentence))) }
                    }
                }
                (trust(analysis))
            }
        }
    }
}

/// No line begins with a percent sign.
fn unbroken(sentence: &str) -> String {
    sentence.replace(" %", "\u{a0}%")
}

/// What stands against trusting the numbers, each with a way to its evidence.
fn trust(analysis: &RunAnalysis) -> Markup {
    let (doubts, more) = doubts(&analysis.findings);
    html! {
        section.trust aria-labelledby="trust" {
            h2 #trust {
                @if doubts.is_empty() { "Nothing stands against trusting it" }
                @else { "What stands against trusting it" }
            }
            @if !doubts.is_empty() {
                ul {
                    @for (number, finding) in &doubts {
                        li class=(severity_class(finding.severity)) {
                            (sign(finding.severity))
                            a href={ "#finding-" (number) } { (clean(&finding.title)) }
                        }
                    }
                    @if more > 0 { li { a href="#findings" { "and " (more) " more" } } }
                }
            }
            p.small { (trials(analysis)) }
        }
    }
}

/// The findings that are no mere notes, with their numbers in the list of all.
fn doubts(findings: &[Finding]) -> Doubts<'_> {
    let stands = |(_, finding): &(usize, &Finding)| finding.severity != Severity::Note;
    let all: Vec<(usize, &Finding)> = (1..).zip(findings).filter(stands).collect();
    let more = all.len().saturating_sub(MOST_DOUBTS);
    (all.into_iter().take(MOST_DOUBTS).collect(), more)
}

/// What the numbers are made of.
fn trials(analysis: &RunAnalysis) -> String {
    let sum = |read: Count| {
        let counts = analysis.cells.iter().map(|cell| read(&cell.trials));
        usize::try_from(counts.fold(0, u32::saturating_add)).unwrap_or(usize::MAX)
    };
    let mut said = format!(
        "{} of {} count",
        count(sum(|trials| trials.completed), "trial"),
        count(analysis.cells.len(), "cell"),
    );
    let beside: [(Count, &str); 2] = [
        (|trials| trials.void, "void"),
        (|trials| trials.disturbed, "disturbed and measured again"),
    ];
    for (read, what) in beside {
        let number = sum(read);
        if number > 0 {
            said.push_str(&format!(", {number} {what}"));
        }
    }
    said + "."
}

/// The class of a severity, and its name.
pub fn severity_class(severity: Severity) -> &'static str {
    match severity {
        Severity::Warning => "warning",
        Severity::Doubt => "doubt",
        Severity::Note => "note",
    }
}

/// Its name.
pub fn severity_name(severity: Severity) -> &'static str {
    match severity {
        Severity::Warning => "Warning",
        Severity::Doubt => "Doubt",
        Severity::Note => "Note",
    }
}

/// A shape for each, so that colour is not all that tells.
pub fn sign(severity: Severity) -> Markup {
    let path = match severity {
        Severity::Warning => "M8 1 L15 14 H1 Z",
        Severity::Doubt => "M8 1 L15 8 L8 15 L1 8 Z",
        Severity::Note => "M2 2 H14 V14 H2 Z",
    };
    html! {
        svg.sign width="14" height="14" viewBox="0 0 16 16" role="img"
            aria-label=(severity_name(severity)) { path d=(path) {} }
    }
}

/// The paths, best first.
pub fn ranking(analysis: &RunAnalysis) -> Markup {
    let rows: Vec<Row> = analysis
        .ranking
        .iter()
        .map(|ranked| {
            let metric = &ranked.percent_of_baseline;
            let note = if ranked.complete { values::kind(ranked.kind) } else { "not all measured" };
            Row {
                name: clean(&ranked.path),
                note: note.into(),
                marks: html! {},
                shape: chart::shape(Some(ranked.kind)),
                sent: None,
                summary: metric.summary,
                dots: metric.values.iter().map(|trial| trial.value).collect(),
                value: metric.mean().map_or_else(|| NO_VALUE.into(), percent),
                interval: interval(metric.summary.as_ref()),
                anchor: None,
            }
        })
        .collect();
    let chart =
        Chart { rows, mark: Some(Mark { at: 100.0, name: "baseline" }), unit: "%", factor: 1.0 };
    html! {
        section.ranking aria-labelledby="ranking" {
            h2 #ranking { "What each path keeps of the host’s own" }
            (chart::render(&chart))
            (chart::legend(&chart))
            p.small {
                "Percent of " (of_the_baseline(analysis)) ": geometric mean over the workloads. The bar ends at "
                "the mean, the line is its 95 % interval, each small ring one block."
                @if let Some(note) = values::note_on_ranking(analysis) { " " (note) }
            }
            (tables::ranking(analysis))
        }
    }
}

fn of_the_baseline(analysis: &RunAnalysis) -> String {
    match Measure::of(analysis.run.scenario.workload.kind) {
        measure if measure.truth == Truth::Receiver && measure.unit == Unit::Bits => {
            "what the baseline of the same block received".into()
        }
        measure => format!("the {} of the baseline of the same block", measure.kept),
    }
}

#[cfg(test)]
mod tests {
    use vioperf_analysis::analyse;
    use vioperf_analysis::testing::Synthetic;

    use super::*;

    #[test]
    fn doubts_lead_to_their_findings_and_notes_are_none() {
        let Synthetic { run, trials } = Synthetic::tcg();
        let analysis = analyse(&run, &trials);
        let (told, more) = doubts(&analysis.findings);
        assert!(!told.is_empty() && told.len() <= MOST_DOUBTS);
        let of_all = analysis.findings.iter().filter(|f| f.severity != Severity::Note).count();
        assert_eq!(told.len() + more, of_all);
        let page = crate::report::html::render(&analysis);
        for (number, finding) in told {
            assert!(page.contains(&format!("href=\"#finding-{number}\"")), "{}", finding.title);
            assert!(page.contains(&format!("id=\"finding-{number}\"")), "{}", finding.title);
        }
        // The answer and the doubts come before any table.
        let at = |text: &str| page.find(text).unwrap();
        assert!(at("id=\"trust\"") < at("id=\"ranking\"") && at("id=\"ranking\"") < at("<table"));
    }

    #[test]
    fn without_a_doubt_it_says_so() {
        let Synthetic { run, trials } = Synthetic::calm_kvm();
        let mut analysis = analyse(&run, &trials);
        analysis.findings.clear();
        let shown = trust(&analysis).into_string();
        assert!(shown.contains("Nothing stands against trusting it") && !shown.contains("<ul"));
        assert!(shown.contains("count"), "{shown}");
    }
}
