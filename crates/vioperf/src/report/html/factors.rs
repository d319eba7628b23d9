//! What each factor does, as small multiples: a panel a path, the factor's levels from left to right, a line for
//! each combination of the others. All panels of a factor have one scale.

use std::borrow::Cow;
use std::collections::BTreeMap;

use maud::{Markup, html};
use vioperf_analysis::measure::Unit;
use vioperf_analysis::result::{CellAnalysis, RunAnalysis, Summary};
use vioperf_analysis::wording::capitalised;

use super::axes::{self, Axis, point};
use super::chart;
use super::chart::class_of;
use crate::report::text::clean;
use crate::report::values;
use crate::report::varied::{Varied, varied};

/// A panel, in its own units.
const WIDTH: f64 = 200.0;
const HEIGHT: f64 = 140.0;
const LEFT: f64 = 36.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 24.0;
/// What is so many times larger than something else asks for a logarithmic scale.
const FAR_APART: f64 = 8.0;
/// Styles of lines; further ones begin again.
const STYLES: usize = 8;
/// A longer name of a level is cut.
const LONGEST_LEVEL: usize = 14;

/// A cell's place in a panel.
struct Point<'a> {
    level: usize,
    cell: &'a CellAnalysis,
    summary: Summary,
}

/// The lines of a path, each by its place among all combinations of the other factors.
struct Panel<'a> {
    path: String,
    shape: chart::Shape,
    lines: BTreeMap<usize, Vec<Point<'a>>>,
}

/// A factor and what it does to each path.
struct Figure<'a> {
    factor: &'a Varied,
    panels: Vec<Panel<'a>>,
    /// The combinations of the other factors, in words.
    others: Vec<String>,
    unit: Unit,
}

/// A figure a factor; nothing where none is varied.
pub fn section(analysis: &RunAnalysis) -> Markup {
    let factors = varied(&analysis.run);
    let figures: Vec<Figure<'_>> =
        factors.iter().filter_map(|factor| Figure::of(factor, &factors, analysis)).collect();
    html! {
        @if !figures.is_empty() {
            section aria-labelledby="factors" {
                h2 #factors { "What each factor does" }
                @for figure in &figures { (figure.drawn()) }
                p.small {
                    "Dots are means, whiskers their 95 % intervals; a line joins cells that differ in this factor alone."
                }
            }
        }
    }
}

/// Whether there is such a section.
pub fn is_there(analysis: &RunAnalysis) -> bool {
    let factors = varied(&analysis.run);
    factors.iter().any(|factor| Figure::of(factor, &factors, analysis).is_some())
}

impl<'a> Figure<'a> {
    fn of(factor: &'a Varied, all: &[Varied], analysis: &'a RunAnalysis) -> Option<Self> {
        let mut panels: Vec<Panel<'a>> = Vec::new();
        let mut others: Vec<String> = Vec::new();
        for cell in &analysis.cells {
            let Some(level) = factor.level(&cell.id) else { continue };
            let Some(summary) = cell.headline().summary else { continue };
            let Some(level) = factor.levels.iter().position(|known| known == level) else {
                continue;
            };
            let rest = all.iter().filter(|other| other.name != factor.name);
            let rest: Vec<String> =
                rest.filter_map(|other| Some(other.told(other.level(&cell.id)?))).collect();
            let line = place_of(&mut others, rest.join(", "));
            let path = path_of(cell, analysis);
            let shape = chart::shape(cell.kind);
            let panel = match panels.iter().position(|panel| panel.path == path) {
                Some(panel) => panel,
                None => {
                    panels.push(Panel { path, shape, lines: BTreeMap::new() });
                    panels.len() - 1
                }
            };
            panels[panel].lines.entry(line).or_default().push(Point { level, cell, summary });
        }
        for panel in &mut panels {
            panel.lines.retain(|_, points| points.len() > 1);
            panel.lines.values_mut().for_each(|points| points.sort_by_key(|point| point.level));
        }
        panels.retain(|panel| !panel.lines.is_empty());
        // The baseline first, as everywhere.
        panels.sort_by_key(|panel| panel.shape != chart::Shape::Baseline);
        let unit = analysis.cells.first()?.measure().unit;
        (!panels.is_empty()).then_some(Self { factor, panels, others, unit })
    }

    fn points(&self) -> impl Iterator<Item = &Point<'a>> {
        self.panels.iter().flat_map(|panel| panel.lines.values().flatten())
    }

    /// The scale of all panels: from zero, but logarithmic where values are far apart.
    fn axis(&self) -> Axis {
        let means: Vec<f64> = self.points().map(|point| point.summary.mean).collect();
        let low = means.iter().copied().fold(f64::INFINITY, f64::min);
        let high = means.iter().copied().fold(0.0, f64::max);
        if low > 0.0 && high > FAR_APART * low {
            return Axis::logarithmic(&means, HEIGHT - BOTTOM, TOP);
        }
        Axis::from_zero(high, HEIGHT - BOTTOM, TOP)
    }

    fn drawn(&self) -> Markup {
        let y = self.axis();
        let (unit, factor) = self.unit.scale(y.high);
        let is_logarithmic = y.low > 0.0;
        html! {
            div.factor {
                h3.chart-title { (capitalised(&self.factor.name)) span.note { (unit) @if is_logarithmic { ", logarithmic" } } }
                @if self.others.len() > 1 {
                    p.legend.small {
                        @for (number, name) in self.others.iter().enumerate() {
                            span.key {
                                svg width="30" height="10" aria-hidden="true" {
                                    line class={ "line " (style(number)) } x1="0" x2="30" y1="5" y2="5" {}
                                }
                                (name)
                            }
                        }
                    }
                }
                div.multiples.of-factor {
                    @for panel in &self.panels { (self.panel(panel, &y, factor)) }
                }
            }
        }
    }

    fn panel(&self, panel: &Panel<'_>, y: &Axis, factor: f64) -> Markup {
        let told: Vec<String> =
            panel.lines.values().flatten().map(|point| self.said(point)).collect();
        html! {
            figure {
                figcaption {
                    span class={ "key " (class_of(panel.shape)) } {
                        svg width="16" height="22" viewBox="0 4 16 22" aria-hidden="true" { svg.overflow x="50%" { (chart::symbol(panel.shape)) } }
                        b { (panel.path) }
                    }
                }
                svg data-values role="img" viewBox={ "0 0 " (WIDTH) " " (HEIGHT) }
                    aria-label={ (panel.path) ", by " (self.factor.name) ". " (told.join("; ")) } {
                    @for tick in y.few_ticks() {
                        line.grid x1=(LEFT) x2=(WIDTH - RIGHT) y1=(y.at(tick)) y2=(y.at(tick)) {}
                        text.tick x=(LEFT - 6.0) y=(point(y.place(tick) + 4.0)) text-anchor="end" { (axes::tick(tick / factor)) }
                    }
                    @for (number, level) in self.factor.levels.iter().enumerate() {
                        text.tick x=(point(self.x(number))) y=(HEIGHT - 8.0) text-anchor="middle" { (cut(level)) }
                    }
                    @for (number, points) in &panel.lines { (self.line(*number, points, y)) }
                }
            }
        }
    }

    /// Levels stand in the middle of equal parts.
    fn x(&self, level: usize) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * (level as f64 + 0.5) / self.factor.levels.len() as f64
    }

    fn line(&self, number: usize, points: &[Point<'_>], y: &Axis) -> Markup {
        let class = style(number);
        // Side by side, so that whiskers of lines do not hide each other.
        let beside = (number as f64 - (self.others.len() as f64 - 1.0) / 2.0) * 4.0;
        let beside = beside.clamp(-14.0, 14.0);
        let x = |point: &Point<'_>| self.x(point.level) + beside;
        let corners: Vec<String> =
            points.iter().map(|at| format!("{:.1} {}", x(at), y.at(at.summary.mean))).collect();
        html! {
            path class={ "line " (class) } d={ "M" (corners.join(" L")) } {}
            @for at in points {
                @if let Some(interval) = at.summary.interval_95 {
                    line class={ "whisker " (class) } x1=(point(x(at))) x2=(point(x(at)))
                        y1=(y.at(interval.low)) y2=(y.at(interval.high)) {}
                }
                circle class={ "dot-of " (class) } cx=(point(x(at))) cy=(y.at(at.summary.mean)) r="3.2" {}
                circle.spot cx=(point(x(at))) cy=(y.at(at.summary.mean)) r="9" { title { (self.said(at)) } }
            }
        }
    }

    fn said(&self, point: &Point<'_>) -> String {
        let cell = point.cell;
        format!("{}: {}", clean(&cell.id.0), values::with_interval(cell.headline(), self.unit))
    }
}

/// The path without the levels of its guest: these are factors.
fn path_of(cell: &CellAnalysis, analysis: &RunAnalysis) -> String {
    let planned = analysis.run.plan.cells.iter().find(|planned| planned.id == cell.id);
    let Some(planned) = planned else { return clean(&cell.path) };
    let words = [Some(planned.path_name()), planned.variant_name().map(Cow::Borrowed)];
    clean(&words.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

fn place_of(known: &mut Vec<String>, name: String) -> usize {
    known.iter().position(|known| *known == name).unwrap_or_else(|| {
        known.push(name);
        known.len() - 1
    })
}

fn style(number: usize) -> String {
    format!("l{}", (number + 1) % STYLES)
}

fn cut(level: &str) -> String {
    if level.chars().count() <= LONGEST_LEVEL {
        return level.to_owned();
    }
    level.chars().take(LONGEST_LEVEL - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use vioperf_analysis::analyse;
    use vioperf_analysis::testing::Synthetic;
    use vioperf_model::workload::WorkloadKind;

    use super::*;

    #[test]
    fn every_factor_has_a_panel_a_path_and_every_cell_its_dot() {
        let kinds = [WorkloadKind::PacketRate, WorkloadKind::RequestResponse];
        for Synthetic { run, trials } in
            kinds.map(Synthetic::of_kind).into_iter().chain([Synthetic::calm_kvm()])
        {
            let analysis = analyse(&run, &trials);
            let factors = varied(&analysis.run);
            let of_plan = analysis.run.plan.cells.iter().map(|cell| cell.path_name());
            let paths = of_plan.collect::<std::collections::BTreeSet<_>>().len();
            assert!(!factors.is_empty());
            for factor in &factors {
                let figure = Figure::of(factor, &factors, &analysis).unwrap();
                assert_eq!(figure.panels.len(), paths, "{}", factor.name);
                assert_eq!(figure.points().count(), analysis.cells.len(), "{}", factor.name);
                let drawn = figure.drawn().into_string();
                assert_eq!(drawn.matches("<title>").count(), analysis.cells.len());
                for level in &factor.levels {
                    assert!(drawn.contains(&format!(">{level}</text>")), "{level}");
                }
                assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
            }
            let other = section(&analyse(&run, &[])).into_string();
            assert!(other.is_empty(), "nothing was measured");
        }
    }

    #[test]
    fn long_levels_are_cut_and_values_far_apart_are_logarithmic() {
        assert_eq!(cut("a-level-of-many-words"), "a-level-of-ma…");
        let Synthetic { run, trials } =
            Synthetic::of_blocks(3, |cell, _| if cell.is_baseline() { 1e10 } else { 1e8 });
        let analysis = analyse(&run, &trials);
        let page = section(&analysis).into_string();
        assert!(page.contains("Gbit/s, logarithmic"), "{page}");
    }
}
