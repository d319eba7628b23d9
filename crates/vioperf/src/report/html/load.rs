//! Everything about one load: what each path reached is always seen, the rest can be folded away.

use maud::{Markup, html};
use vioperf_analysis::measure::Unit;
use vioperf_analysis::result::CellAnalysis;
use vioperf_analysis::wording::{capitalised, percent, three_digits};

use super::chart::{self, Chart, Row};
use super::seen::{Part, Seen};
use super::{
    costs, course, heat, latency, ledger, limits, other_guests, search, stacks, tables, wire,
};
use crate::report::values::{self, NO_VALUE, Workload};

/// The section of a load; `number` is its place among all, and the first is not folded.
pub fn section(workload: &Workload<'_>, number: usize, seen: &Seen<'_>) -> Markup {
    let unit = workload.measure().unit;
    let rows = workload.cells.iter().map(|cell| row(cell, seen)).collect();
    let chart = Chart { rows, mark: None, unit: "", factor: 1.0 }.with_unit(unit);
    let shows_loss = chart.rows.iter().any(|row| row.sent.is_some());
    html! {
        section.workload aria-labelledby=(anchor(number)) {
            h2 id=(anchor(number)) { (capitalised(&workload.title)) }
            @if unit != Unit::Bits { h3.chart-title { (chart_title(workload)) } }
            (chart::render(&chart))
            @if shows_loss { p.small { "The outline behind a bar is what was sent and did not arrive." } }
            (latency::curve(workload, number))
            details.more open[number == 1] {
                summary { "Limits, numbers, costs, course over time, cores and packets" }
                (limits::table(workload, seen))
                (tables::throughput(workload))
                (latency::table(workload))
                (search::table(workload))
                (ledger::section(&workload.cells, seen))
                (stacks::section(workload, seen))
                (costs::against_speed(workload, number))
                (course::section(workload, seen))
                (tables::cpu(workload))
                (heat::section(workload))
                (other_guests::table(workload))
                (wire::table(workload))
            }
        }
    }
}

/// Where a load is on the page.
pub fn anchor(number: usize) -> String {
    format!("workload-{number}")
}

fn chart_title(workload: &Workload<'_>) -> String {
    let title = workload.measure().title.replace('\n', " ");
    format!("{} a second", capitalised(&title))
}

fn row(cell: &CellAnalysis, seen: &Seen<'_>) -> Row {
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
        marks: seen.marks(Part::Result, cell),
        shape: chart::shape(cell.kind),
        summary: metric.summary,
        dots: metric.values.iter().map(|trial| trial.value).collect(),
        sent: sent.filter(|_| cell.measure().may_lose),
        value: metric.mean().map_or_else(|| NO_VALUE.into(), |mean| unit.short(mean)),
        interval: metric
            .summary
            .and_then(|summary| Some(format!("± {}", unit.short(summary.half_width()?))))
            .unwrap_or_else(|| NO_VALUE.into()),
        anchor: Some(Part::Result.anchor(&cell.id)),
    }
}
