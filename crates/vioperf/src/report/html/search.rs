//! What a rate search proved: every goal of every path.

use maud::{Markup, html};
use vioperf_analysis::result::{CellAnalysis, Metric, SearchGoal};
use vioperf_analysis::wording::count;

use crate::report::text::clean;
use crate::report::values::{NO_VALUE, Workload, mean, with_interval};

/// The bounds, goal by goal; nothing for a load that is no search.
pub fn table(workload: &Workload<'_>) -> Markup {
    let rows = || {
        workload.cells.iter().flat_map(|cell| {
            let goals = cell.rate_search.iter().flat_map(|search| &search.goals);
            goals.map(move |goal| (*cell, goal))
        })
    };
    html! {
        @if rows().next().is_some() {
            div.scroll tabindex="0" {
                table {
                    caption {
                        "Bounds. At the lower bound no more is lost than the goal allows, at the upper "
                        "bound more is; means over trials"
                    }
                    thead {
                        tr {
                            th scope="col" { "path" }
                            th.text scope="col" { "goal" }
                            th scope="col" { "lower bound" }
                            th scope="col" { "upper bound" }
                            th scope="col" { "arrives of it" }
                            th scope="col" { "lost at the lowest rate, %" }
                            th.text scope="col" { "ended" }
                        }
                    }
                    tbody { @for (cell, goal) in rows() { (row(cell, goal)) } }
                }
            }
        }
    }
}

fn row(cell: &CellAnalysis, goal: &SearchGoal) -> Markup {
    let unit = cell.measure().unit;
    let rate = |metric: &Metric| with_interval(metric, unit);
    let ends: Vec<String> = goal
        .ends
        .iter()
        .map(|(end, trials)| {
            format!("{end} ({})", count(usize::try_from(*trials).unwrap_or(usize::MAX), "trial"))
        })
        .collect();
    html! {
        tr.base[cell.is_baseline] {
            th scope="row" { (clean(&cell.path)) }
            td.text { (goal.name) }
            td title=(reason(&goal.lower_bound_per_second)) { (rate(&goal.lower_bound_per_second)) }
            td title=(reason(&goal.upper_bound_per_second)) { (rate(&goal.upper_bound_per_second)) }
            td { (rate(&goal.throughput_per_second)) }
            td {
                @if goal.loss_at_min_rate_percent.mean().is_some() {
                    (mean(&goal.loss_at_min_rate_percent))
                }
            }
            td.text { @if ends.is_empty() { (NO_VALUE) } @else { (ends.join(", ")) } }
        }
    }
}

fn reason(metric: &Metric) -> String {
    metric.reason().map(clean).unwrap_or_default()
}
