//! One page: no network, no fonts but the reader's own. Readable without scripts, in light and dark, on
//! a telephone and on paper.

pub mod axes;
mod beside;
pub mod chart;
pub mod comparison;
mod contents;
mod costs;
mod course;
mod factors;
pub mod findings;
pub mod frame;
mod heat;
pub mod interactive;
mod latency;
mod ledger;
mod limits;
mod load;
mod opening;
mod other_guests;
mod picture;
mod references;
mod search;
mod seen;
mod stacks;
mod tables;
pub mod trend;
mod wire;

use maud::{Markup, html};
use vioperf_analysis::result::{RunAnalysis, VoidTrial};
use vioperf_model::workload::WorkloadKind;

use self::frame::{Frame, Page};
use self::interactive::Interactive;
use self::seen::Seen;
use super::between;
use super::columns;
use super::provenance;
use super::text::clean;
use super::values::{self, workloads};

/// Renders `analysis`.
pub fn render(analysis: &RunAnalysis) -> String {
    page(analysis, None).text
}

/// The same as one page of several, `way` being where else one can go from it.
pub fn page(analysis: &RunAnalysis, way: Option<Markup>) -> Page {
    let workloads = workloads(analysis);
    let interactive = Interactive::of(analysis);
    let seen = Seen::of(analysis);
    let mut styles = vec![
        include_str!("html/opening.css"),
        include_str!("html/contents.css"),
        include_str!("html/figures.css"),
        include_str!("html/interactive.css"),
    ];
    if analysis.run.scenario.workload.kind != WorkloadKind::TcpStream {
        styles.push(include_str!("html/loads.css"));
    }
    let frame = Frame {
        title: title(analysis),
        styles,
        notice: analysis.notice.as_deref(),
        way,
        interactive: &interactive,
        version: &analysis.run.vioperf_version,
    };
    frame.around(&html! {
        (stacks::hatches(analysis))
        (opening::header(analysis))
        @if !between::is_between(analysis) {
            (contents::contents(analysis, &workloads, &interactive))
        }
        main {
            @if between::is_between(analysis) {
                (two_machines(analysis, &seen))
                (references::sections(analysis))
                (findings::section(analysis, &seen))
            } @else {
                @if let Some(variants) = &analysis.variants {
                    (comparison::section(variants))
                }
                (opening::ranking(analysis))
                (factors::section(analysis))
                (references::sections(analysis))
                (findings::section(analysis, &seen))
                (interactive.section())
                (explanations(analysis))
                @for (workload, number) in workloads.iter().zip(1..) {
                    (load::section(workload, number, &seen))
                }
            }
            (interfaces(analysis))
            (void_trials(&analysis.void_trials))
            (the_run(analysis))
        }
    })
}

fn title(analysis: &RunAnalysis) -> String {
    let emulated = if analysis.notice.is_some() { " (software emulation)" } else { "" };
    format!("{}{emulated} – vioperf", clean(&analysis.run.scenario.name))
}

/// A path between two machines: a table of facts.
fn two_machines(analysis: &RunAnalysis, seen: &Seen<'_>) -> Markup {
    html! {
        @for cell in &analysis.cells {
            section {
                h2 { (clean(&between::title(cell))) }
                table.told {
                    tbody {
                        @for (name, value) in between::facts(cell) {
                            tr { th scope="row" { (clean(&name)) } td { (clean(&value)) } }
                        }
                    }
                }
                p { (clean(&between::legend(analysis))) }
                (ledger::section(&[cell], seen))
            }
        }
    }
}

fn explanations(analysis: &RunAnalysis) -> Markup {
    let said = columns::explanations(&analysis.cells);
    html! {
        @if !said.is_empty() {
            details.meaning {
                summary { "What the numbers mean" }
                @for sentence in said { p.explain { (sentence) } }
            }
        }
    }
}

fn interfaces(analysis: &RunAnalysis) -> Markup {
    let seen = values::distinct_ends(analysis);
    html! {
        @if !seen.is_empty() {
            section aria-labelledby="interfaces" {
                h2 #interfaces { "The interfaces as they really were" }
                @if !between::is_between(analysis) {
                    p.explain {
                        "Read from each end after it was set up. A trial whose guest bound another "
                        "driver than its model asks for is void."
                    }
                }
                (tables::interfaces(&seen))
            }
        }
    }
}

fn void_trials(trials: &[VoidTrial]) -> Markup {
    html! {
        @if !trials.is_empty() {
            section aria-labelledby="void" {
                h2 #void { "Trials that do not count" }
                @for trial in trials {
                    details {
                        summary {
                            (clean(&trial.cell.0)) ", block " (trial.block + 1) ", attempt "
                            (trial.attempt) ": " (clean(&trial.reason))
                        }
                        @if trial.console_tail.is_empty() {
                            p { "No console output was kept." }
                        } @else {
                            pre {
                                @for line in &trial.console_tail { (clean(line)) "\n" }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn the_run(analysis: &RunAnalysis) -> Markup {
    let run = &analysis.run;
    html! {
        section aria-labelledby="run" {
            h2 #run { "The run" }
            @if let Some(command) = provenance::repeat_command(run) {
                p { "Measure the same again, in the same order:" }
                pre.command { code { (clean(&command)) } }
            }
            dl {
                @for (name, fact) in provenance::facts(analysis) {
                    dt { (name) } dd { (clean(&fact)) }
                }
                @for (name, setting) in &run.host.settings {
                    dt { (clean(name)) } dd { (clean(setting)) }
                }
            }
            @if !run.command_line.is_empty() {
                details {
                    summary { "Command line as it was" }
                    pre { code { (clean(&run.command_line.join(" "))) } }
                }
            }
            (tables::plan(&run.plan))
        }
    }
}
