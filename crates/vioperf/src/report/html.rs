//! One page: no network, no fonts but the reader's own. Readable without scripts, in light and dark, on
//! a telephone and on paper.

mod axes;
mod chart;
mod comparison;
mod costs;
mod course;
mod heat;
mod interactive;
mod latency;
mod ledger;
mod limits;
mod opening;
mod other_guests;
mod picture;
mod search;
mod tables;
mod wire;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use vioperf_analysis::measure::Unit;
use vioperf_analysis::result::{CellAnalysis, Finding, RunAnalysis, VoidTrial};
use vioperf_analysis::wording::{capitalised, percent, three_digits};
use vioperf_model::plan::CellId;
use vioperf_model::workload::WorkloadKind;

use self::chart::{Chart, Row};
use self::interactive::Interactive;
use self::opening::{severity_class, severity_name};
use super::between;
use super::columns;
use super::provenance;
use super::text::clean;
use super::values::{self, NO_VALUE, Workload, workloads};

/// Renders `analysis`.
pub fn render(analysis: &RunAnalysis) -> String {
    let workloads = workloads(analysis);
    let interactive = Interactive::of(analysis);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                // Nothing that a guest wrote could load or run, even if it were not escaped.
                meta http-equiv="Content-Security-Policy"
                    content=(interactive.policy());
                title { (title(analysis)) }
                style {
                    (PreEscaped(include_str!("html/style.css")))
                    (PreEscaped(include_str!("html/opening.css")))
                    (PreEscaped(include_str!("html/figures.css")))
                    (PreEscaped(include_str!("html/interactive.css")))
                    @if analysis.run.scenario.workload.kind != WorkloadKind::TcpStream {
                        (PreEscaped(include_str!("html/loads.css")))
                    }
                }
            }
            body {
                @if let Some(notice) = &analysis.notice {
                    aside.notice { (clean(notice)) }
                }
                (opening::header(analysis))
                main {
                    @if between::is_between(analysis) {
                        (two_machines(analysis))
                        (findings(&analysis.findings))
                    } @else {
                        @if let Some(variants) = &analysis.variants {
                            (comparison::section(variants))
                        }
                        (opening::ranking(analysis))
                        (findings(&analysis.findings))
                        (interactive.section())
                        (explanations(analysis))
                        @for (workload, number) in workloads.iter().zip(1..) {
                            (workload_section(workload, number))
                        }
                    }
                    (interfaces(analysis))
                    (void_trials(&analysis.void_trials))
                    (the_run(analysis))
                }
                footer { "vioperf " (clean(&analysis.run.vioperf_version)) }
                (interactive.scripts_markup())
            }
        }
    };
    page.into_string() + "\n"
}

fn title(analysis: &RunAnalysis) -> String {
    let emulated = if analysis.notice.is_some() { " (software emulation)" } else { "" };
    format!("{}{emulated} – vioperf", clean(&analysis.run.scenario.name))
}

/// A path between two machines: a table of facts.
fn two_machines(analysis: &RunAnalysis) -> Markup {
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
                (ledger::section(&[cell]))
            }
        }
    }
}

fn findings(findings: &[Finding]) -> Markup {
    html! {
        @if !findings.is_empty() {
            section aria-labelledby="findings" {
                h2 #findings { "Findings" }
                @for (finding, number) in findings.iter().zip(1..) { (finding_article(number, finding)) }
            }
        }
    }
}

fn finding_article(number: usize, finding: &Finding) -> Markup {
    html! {
        article id={ "finding-" (number) } class={ "finding " (severity_class(finding.severity)) } {
            h3 {
                (opening::sign(finding.severity))
                span.severity { (severity_name(finding.severity)) } " " (clean(&finding.title))
            }
            p { (clean(&finding.evidence)) }
            @for picture in &finding.pictures { (picture::figure(picture)) }
            p.advice { (clean(&finding.advice)) }
        }
    }
}

fn explanations(analysis: &RunAnalysis) -> Markup {
    let said = columns::explanations(&analysis.cells, true);
    html! {
        @if !said.is_empty() {
            section aria-labelledby="meaning" {
                h2 #meaning { "What the numbers mean" }
                @for sentence in said { p.explain { (sentence) } }
            }
        }
    }
}

fn workload_section(workload: &Workload<'_>, number: usize) -> Markup {
    let rows = workload.cells.iter().map(|cell| throughput_row(cell)).collect();
    let unit = workload.measure().unit;
    let chart = Chart { rows, mark: None, unit: "", factor: 1.0 }.with_unit(unit);
    let shows_loss = chart.rows.iter().any(|row| row.sent.is_some());
    html! {
        section.workload aria-labelledby={ "workload-" (number) } {
            h2 id={ "workload-" (number) } { (capitalised(&workload.title)) }
            @if unit != Unit::Bits { p.chart-title { (chart_title(workload)) } }
            (chart::render(&chart))
            @if shows_loss { p.small { "The outline behind a bar is what was sent and did not arrive." } }
            (limits::table(workload))
            (latency::curve(workload, number))
            (tables::throughput(workload))
            (latency::table(workload))
            (search::table(workload))
            (ledger::section(&workload.cells))
            (costs::stacks(workload))
            (costs::against_speed(workload, number))
            (course::section(workload, number))
            (tables::cpu(workload))
            (heat::section(workload))
            (other_guests::table(workload))
            (wire::table(workload))
        }
    }
}

fn chart_title(workload: &Workload<'_>) -> String {
    let title = workload.measure().title.replace('\n', " ");
    format!("{} a second", capitalised(&title))
}

fn throughput_row(cell: &CellAnalysis) -> Row {
    let metric = cell.headline();
    let unit = cell.measure().unit;
    let sent = (cell.measure().sent)(cell).and_then(|sent| sent.mean());
    let lost = cell.datagrams.as_ref().and_then(|datagrams| datagrams.lost_percent.mean());
    let mut note: String = match (cell.kind, cell.percent_of_baseline.mean()) {
        (None, _) => "no guest".into(),
        (Some(_), Some(mean)) => format!("{} % of baseline", three_digits(mean)),
        (Some(kind), None) => values::kind(kind).into(),
    };
    let is_loss_searched = cell.rate_search.is_some();
    if let Some(lost) = lost.filter(|lost| *lost > 0.0 && !is_loss_searched) {
        note.push_str(&format!(", {} lost", percent(lost)));
    }
    Row {
        name: cell.path.clone(),
        note,
        shape: chart::shape(cell.kind),
        summary: metric.summary,
        dots: metric.values.iter().map(|trial| trial.value).collect(),
        sent: sent.filter(|_| cell.measure().may_lose),
        value: metric.mean().map_or_else(|| NO_VALUE.into(), |mean| unit.short(mean)),
        interval: metric
            .summary
            .and_then(|summary| Some(format!("± {}", unit.short(summary.half_width()?))))
            .unwrap_or_else(|| NO_VALUE.into()),
        anchor: Some(anchor(&cell.id)),
    }
}

/// Where a cell is told of: what a link to it names after the `#`. Of the characters that an address may have,
/// and no two cells the same.
fn anchor(cell: &CellId) -> String {
    let mut anchor = String::from("cell-");
    for byte in cell.0.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'/' | b'_' => {
                anchor.push(char::from(byte));
            }
            other => anchor.push_str(&format!("~{other:02x}")),
        }
    }
    anchor
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_a_cell_is_the_same_for_no_other_and_needs_no_escape() {
        let of = |id: &str| anchor(&CellId(id.into()));
        assert_eq!(of("virtio/1-stream/to-guest"), "cell-virtio/1-stream/to-guest");
        assert_eq!(of("a b\"<"), "cell-a~20b~22~3c");
        assert_ne!(of("a~20b"), of("a b"));
    }
}
