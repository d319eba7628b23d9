//! Published ratios beside the run's own: a row a figure and cell, what is published above, what was measured here
//! below, on one scale a metric.

use maud::{Markup, html};
use vioperf_analysis::references::{BesideReference, FigureBeside};
use vioperf_analysis::result::RunAnalysis;
use vioperf_analysis::wording::{capitalised, percent, three_digits};

use super::axes::{Axis, tick};
use super::chart::{self, class_of};
use crate::report::references::{metrics, said_of, short, sign};
use crate::report::text::clean;
use crate::report::values::interval;

/// What is so many times larger than something else asks for a logarithmic scale.
const FAR_APART: f64 = 8.0;
/// An interval that reaches further than so many times the largest ratio leaves the picture.
const INTERVAL_OFF_SCALE: f64 = 1.5;
/// Where what is published lies in a track, and what was measured here.
const THERE: f64 = 11.0;
const HERE: f64 = 27.0;
const HEIGHT: f64 = 38.0;

/// A picture a metric; nothing where no figure has a ratio.
pub fn pictures(beside: &BesideReference, analysis: &RunAnalysis) -> Markup {
    let metrics = metrics(beside);
    html! {
        @if !metrics.is_empty() {
            p.legend {
                span.key {
                    svg width="16" height="16" aria-hidden="true" { svg.overflow x="50%" y="8" { (there_mark()) } }
                    "published, each repetition"
                }
                span.key {
                    svg width="54" height="16" aria-hidden="true" {
                        g.baseline {
                            line.interval x1="2" x2="52" y1="8" y2="8" {}
                            circle.dot cx="12" cy="8" r="3" {} circle.dot cx="42" cy="8" r="3" {}
                            svg.overflow x="50%" y="-7" { (chart::symbol(chart::Shape::Baseline)) }
                        }
                    }
                    "here: mean, 95 % interval, every block"
                }
            }
        }
        @for metric in metrics {
            @let figures: Vec<&FigureBeside> =
                beside.figures.iter().filter(|figure| figure.metric == metric).collect();
            (picture(beside, analysis, metric, &figures))
        }
    }
}

fn picture(
    beside: &BesideReference,
    analysis: &RunAnalysis,
    metric: &str,
    figures: &[&FigureBeside],
) -> Markup {
    let scale = scale(figures);
    let ticks = scale.few_ticks();
    let is_logarithmic = scale.low > 0.0;
    html! {
        h3.chart-title {
            (capitalised(&said_of(metric)))
            span.note { "% of what each is divided by" @if is_logarithmic { ", logarithmic" } }
        }
        div.chart.published data-values role="group" aria-label={ (said_of(metric)) ", there and here" } {
            @for figure in figures { (row(beside, analysis, figure, &scale, &ticks)) }
            div.row.axis aria-hidden="true" {
                div.name {}
                svg.track height="22" {
                    @for at in &ticks {
                        text x=(place(&scale, *at)) y="14" text-anchor=(if *at == 0.0 { "start" } else { "middle" }) {
                            (tick(*at))
                        }
                    }
                }
                div.value { "%" @if has_hundred(&scale) { span.note { "dashed: 100 %" } } }
            }
        }
    }
}

/// From zero, but logarithmic where ratios are far apart. What cannot be (a response time below zero) has no place.
fn scale(figures: &[&FigureBeside]) -> Axis {
    let told = |figure: &&FigureBeside| {
        let own = figure.own_percents.iter().chain([&figure.own_percent.mean]);
        own.chain(&figure.published_percents).copied().collect::<Vec<f64>>()
    };
    let seen: Vec<f64> = figures.iter().flat_map(told).filter(|percent| *percent > 0.0).collect();
    let low = seen.iter().copied().fold(f64::INFINITY, f64::min);
    let high = seen.iter().copied().fold(0.0, f64::max);
    if high > FAR_APART * low {
        return Axis::logarithmic(&seen, 0.0, 100.0);
    }
    let reach = figures.iter().filter_map(|figure| figure.own_percent.interval_95);
    let reach = reach.map(|interval| interval.high);
    let reach = reach.filter(|end| *end <= INTERVAL_OFF_SCALE * high).fold(high, f64::max);
    Axis::from_zero(reach, 0.0, 100.0)
}

fn has_hundred(scale: &Axis) -> bool {
    (scale.low..=scale.high).contains(&100.0)
}

fn place(scale: &Axis, percent: f64) -> String {
    format!("{:.2}%", scale.place(percent))
}

fn row(
    beside: &BesideReference,
    analysis: &RunAnalysis,
    figure: &FigureBeside,
    scale: &Axis,
    ticks: &[f64],
) -> Markup {
    let cell = analysis.cells.iter().find(|cell| cell.id == figure.cell);
    let shape = chart::shape(cell.and_then(|cell| cell.kind));
    let name = clean(&figure.cell.0);
    let there = format!("there {}", percent(figure.published_percent));
    let here = format!("here {}", percent(figure.own_percent.mean));
    html! {
        div class={ "row " (class_of(shape)) } {
            div.name {
                (in_parts(&name))
                span.note { "of " (in_parts(&clean(&figure.divided_by))) "; figure " (clean(short(beside, &figure.figure))) ": " (clean(&figure.published)) }
            }
            svg.track height=(HEIGHT) role="img" aria-label={
                (name) ": " (there) ", " (here) ", interval " (interval(Some(&figure.own_percent)))
            } {
                @for at in ticks {
                    line.grid x1=(place(scale, *at)) x2=(place(scale, *at)) y1="0" y2=(HEIGHT) {}
                }
                @if has_hundred(scale) {
                    line.mark x1=(place(scale, 100.0)) x2=(place(scale, 100.0)) y1="0" y2=(HEIGHT) {}
                }
                (published(figure, scale))
                (own(figure, scale, shape))
            }
            div.value {
                b { (three_digits(figure.own_percent.mean)) "\u{a0}%" }
                span.note { (sign(figure.agreement)) " " (three_digits(figure.published_percent)) "\u{a0}% there" }
            }
        }
    }
}

/// A name that lines may end in after its factors.
fn in_parts(name: &str) -> Markup {
    html! { @for part in name.split_inclusive('/') { (part) wbr; } }
}

fn published(figure: &FigureBeside, scale: &Axis) -> Markup {
    html! {
        @for told in figure.published_percents.iter().filter(|told| **told > 0.0) {
            svg.overflow x=(place(scale, *told)) y=(THERE) {
                g.spot {
                    title { "published: " (percent(*told)) ", of " (clean(&figure.published)) }
                    (there_mark())
                }
            }
        }
    }
}

/// A mark of what is published, around its own origin: hollow, and of no colour of a path.
fn there_mark() -> Markup {
    html! { path.there d="M0 -6 L6 0 L0 6 L-6 0 Z" {} }
}

fn own(figure: &FigureBeside, scale: &Axis, shape: chart::Shape) -> Markup {
    let summary = &figure.own_percent;
    html! {
        @if let Some(interval) = summary.interval_95 {
            line.interval x1=(place(scale, interval.low)) x2=(place(scale, interval.high)) y1=(HERE) y2=(HERE) {}
            @if interval.high > scale.high {
                svg.overflow x="100%" { path.beyond d={ "M-6 " (HERE - 5.0) " l6 5 l-6 5" } {} }
            }
        }
        @for block in &figure.own_percents { circle.dot cx=(place(scale, *block)) cy=(HERE) r="3" {} }
        // Symbols are drawn around 15.
        svg.overflow x=(place(scale, summary.mean)) y=(HERE - 15.0) {
            g.spot {
                title { "here: " (percent(summary.mean)) ", 95 % interval " (interval(Some(summary))) ", n=" (summary.n) }
                (chart::symbol(shape))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use vioperf_analysis::analyse;
    use vioperf_analysis::references;
    use vioperf_analysis::testing::Synthetic;
    use vioperf_model::reference::Reference;

    use super::*;

    const BRIDGE: &str = include_str!("../../../../../references/kvm-bridge-2011.json");

    fn with_article() -> RunAnalysis {
        let Synthetic { run, trials } = Synthetic::calm_kvm();
        let mut analysis = analyse(&run, &trials);
        let article = references::beside(&analysis, &Reference::parse(BRIDGE).unwrap());
        analysis.references = vec![article];
        analysis
    }

    #[test]
    fn every_repetition_and_every_block_has_its_mark() {
        let analysis = with_article();
        let beside = &analysis.references[0];
        let drawn = pictures(beside, &analysis).into_string();
        let of = |read: fn(&FigureBeside) -> usize| beside.figures.iter().map(read).sum::<usize>();
        let legend = 1;
        assert!(beside.figures.len() > 4);
        let there = of(|figure| figure.published_percents.len());
        assert!(there > 2 * beside.figures.len(), "three repetitions of most");
        assert_eq!(drawn.matches("class=\"there\"").count(), there + legend);
        let blocks = of(|figure| figure.own_percents.len());
        assert_eq!(drawn.matches("class=\"dot\"").count(), blocks + 2 * legend);
        assert_eq!(drawn.matches("<h3").count(), 1, "all are of throughput");
        assert_eq!(drawn.matches("<title>").count(), there + beside.figures.len());
        let virtio = beside.figures.iter().find(|figure| figure.figure.ends_with("-003")).unwrap();
        let said = format!("there 75.0 %, here {}", percent(virtio.own_percent.mean));
        assert!(drawn.contains(&said), "{said}: {drawn}");
    }

    #[test]
    fn what_cannot_be_has_no_place_and_whatever_is_told_stays_in_the_picture() {
        let mut analysis = with_article();
        let mut beside = analysis.references.remove(0);
        for (figure, told) in beside.figures.iter_mut().zip([-392.0, f64::NAN, 0.0, 1e30, 1e-30]) {
            figure.published_percents = vec![told];
        }
        let drawn = pictures(&beside, &analysis).into_string();
        assert!(drawn.contains(", logarithmic"));
        let told = beside.figures.iter().flat_map(|figure| &figure.published_percents);
        let there = told.filter(|told| **told > 0.0).count();
        assert_eq!(drawn.matches("class=\"there\"").count(), there + 1);
        for (at, _) in drawn.match_indices("x=\"") {
            let place = drawn[at + 3..].split('"').next().unwrap();
            let Some(place) = place.strip_suffix('%') else { continue };
            assert!((0.0..=100.0).contains(&place.parse::<f64>().unwrap()), "{place}");
        }
        beside.figures.clear();
        assert!(pictures(&beside, &analysis).into_string().is_empty());
    }
}
