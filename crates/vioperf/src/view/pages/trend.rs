//! Cells over time: what `vioperf trend` says, as pictures and tables.

use maud::{Markup, html};
use vioperf_analysis::columns;
use vioperf_analysis::trend::Trend;
use vioperf_analysis::wording::{count, signed_percent};

use super::choose::{self, Choices};
use super::{Here, seconds, time, way};
use crate::history::{Facet, Filter, HEADLINE, Series};
use crate::report::html::frame::Page;
use crate::report::html::trend as drawn;
use crate::report::text::clean;
use crate::report::trend::{Scale, interval, legend};
use crate::report::values::NO_VALUE;
use crate::view::address::{Address, Chosen, TrendOf};
use crate::view::shelf::{Shelf, ShelfError};

/// Runs of a cell at most, the newest: as many as `vioperf trend` takes.
const MOST_RUNS: u32 = 200;

/// The page.
///
/// # Errors
/// When the history cannot be read, or has no such metric.
pub fn page(shelf: &Shelf, chosen: &Chosen, of: &TrendOf) -> Result<Page, ShelfError> {
    if of.metric != HEADLINE && columns::named(&of.metric).is_none() {
        return Err(ShelfError::Wrong(format!("There is no metric “{}”.", of.metric)));
    }
    let (filter, wrong) = choose::filter(chosen);
    let filter = Filter { limit: Some(MOST_RUNS), ..filter };
    let (series, choices, metrics) = shelf.ask(|history| {
        Ok((history.series(&of.metric, &filter)?, Choices::of(history)?, history.metrics()?))
    })?;
    let is_wanted = |series: &Series| of.cell.as_ref().is_none_or(|cell| *cell == series.cell);
    let trends: Vec<Trend> = series.into_iter().filter(is_wanted).map(Series::trend).collect();
    let title = match &of.cell {
        Some(cell) => format!("{} over time", clean(cell)),
        None => "Cells over time".to_owned(),
    };
    let content = html! {
        header {
            p.kicker { "vioperf view" }
            h1 { (title) }
            form.choose method="get" action="trend" {
                (metric_field(&of.metric, &metrics))
                @if let Some(cell) = &of.cell { input type="hidden" name="cell" value=(cell); }
                (choices.fields(chosen))
                button type="submit" { "Show" }
                @if of.cell.is_some() {
                    @let all = TrendOf { cell: None, ..of.clone() };
                    a href=(Address::Trend(chosen.clone(), all)) { "all cells" }
                }
            }
            @if let Some(wrong) = wrong { p.wrong role="alert" { (clean(&wrong)) } }
            @if let Some(column) = columns::named(&of.metric) {
                p.small { (capitalised_sentence(column.about)) }
            } @else {
                p.small { "The headline of a cell is what it is ranked by: what its receiver got, or how long it took." }
            }
        }
        main {
            @if trends.is_empty() { p { "No run has this metric of such a cell." } }
            @else if of.cell.is_none() { (overview(&trends, chosen, of)) }
            @else { @for trend in &trends { (one(trend)) } }
            @if !trends.is_empty() { p.small { (legend()) } }
        }
    };
    Ok(super::page(&title, Some(way(Some(Here::Trend))), None, &content))
}

fn capitalised_sentence(text: &str) -> String {
    format!("{}.", vioperf_analysis::wording::capitalised(text.trim_end_matches('.')))
}

fn metric_field(chosen: &str, measured: &[String]) -> Markup {
    let is_known = measured.iter().any(|metric| metric == chosen) || chosen == HEADLINE;
    html! {
        label {
            "metric "
            select name="metric" {
                option value="" selected[chosen == HEADLINE] { "headline" }
                @if !is_known { option value=(chosen) selected { (clean(chosen)) } }
                @for metric in measured {
                    option value=(metric) selected[metric == chosen] { (clean(metric)) }
                }
            }
        }
    }
}

/// A line a cell.
fn overview(trends: &[Trend], chosen: &Chosen, of: &TrendOf) -> Markup {
    html! {
        div.scroll tabindex="0" {
            table.over-time {
                thead {
                    tr {
                        @for head in ["cell", "scenario", "host"] { th.text scope="col" { (head) } }
                        th scope="col" { "runs" }
                        th.text scope="col" { "course" }
                        th scope="col" { "last" }
                        th scope="col" { "changes of level" }
                        th scope="col" { "last change" }
                    }
                }
                tbody {
                    @for trend in trends { (overview_line(trend, chosen, of)) }
                }
            }
        }
    }
}

fn overview_line(trend: &Trend, chosen: &Chosen, of: &TrendOf) -> Markup {
    let scale = Scale::of(trend);
    let alone =
        chosen.clone().with(Facet::Scenario, &trend.scenario).with(Facet::Host, &trend.host);
    let of = TrendOf { cell: Some(trend.cell.clone()), ..of.clone() };
    html! {
        tr {
            th.text scope="row" { a href=(Address::Trend(alone, of)) { (clean(&trend.cell)) } }
            td.text { (clean(&trend.scenario)) }
            td.text { (clean(&trend.host)) }
            td { (trend.points.len()) }
            td.text { (drawn::small(trend)) }
            @match trend.points.last() {
                Some(last) => td data-value=(last.mean) { (scale.written(last.mean)) " " (scale.unit(&trend.unit)) },
                None => td.none { (NO_VALUE) },
            }
            td { (trend.changes.len()) }
            @match trend.changes.last() {
                Some(change) => td data-value=(change.percent) { (signed_percent(change.percent)) },
                None => td.none { (NO_VALUE) },
            }
        }
    }
}

/// A cell of one scenario on one host.
fn one(trend: &Trend) -> Markup {
    let scale = Scale::of(trend);
    let host = if trend.host.is_empty() { "an unknown host" } else { &trend.host };
    html! {
        section {
            h2 { (clean(&trend.scenario)) " on " (clean(host)) }
            p.small {
                (clean(&trend.metric)) ", " (count(trend.points.len(), "run"))
                ". Each ring is a run’s mean with its 95 % interval; a press on it goes to the run."
            }
            (drawn::figure(trend, |id| Address::of_run(id).to_string()))
            (drawn::changes(trend))
            div.scroll tabindex="0" {
                table {
                    caption { "The same as a table" }
                    thead {
                        tr {
                            @for head in ["began", "run"] { th.text scope="col" { (head) } }
                            th scope="col" { "mean, " (scale.unit(&trend.unit)) }
                            th scope="col" { "95 % interval" }
                            th scope="col" { "trials" }
                            th.text scope="col" { "change before it" }
                        }
                    }
                    tbody {
                        @for (nth, point) in trend.points.iter().enumerate() {
                            tr {
                                td.text data-value=[seconds(&point.started_at)] { (time(&point.started_at)) }
                                th.text scope="row" {
                                    a href=(Address::of_run(&point.run_id)) { code { (clean(&point.run_id)) } }
                                }
                                td data-value=(point.mean) { (scale.written(point.mean)) }
                                td data-value=[point.low_95] { (interval(point, &scale)) }
                                td { (point.n) }
                                td.text {
                                    @for change in trend.changes.iter().filter(|change| change.at == nth) {
                                        (signed_percent(change.percent))
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
