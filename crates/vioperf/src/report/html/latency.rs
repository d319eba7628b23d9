//! Latency: the percentiles as a curve, and as a table.

use maud::{Markup, html};
use vioperf_analysis::result::{CellAnalysis, CurvePoint};
use vioperf_analysis::wording::{count, three_digits};

use super::axes;
use super::tables::{extra_field, path_name, reasons};
use crate::report::columns::{self, Extra};
use crate::report::values::Workload;

/// The drawing, in its own units.
const WIDTH: f64 = 880.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 62.0;
/// Names stand to the right of their lines.
const RIGHT: f64 = 110.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 46.0;
/// Names stand no closer to each other.
const LINE_HEIGHT: f64 = 15.0;
/// Styles of lines; further paths begin again.
const STYLES: usize = 8;

/// A path's curve.
struct Line<'a> {
    name: &'a str,
    points: &'a [CurvePoint],
    style: usize,
    /// Its place among all.
    number: usize,
}

/// Both axes are logarithmic.
struct Axes {
    most_one_in: f64,
    low_us: f64,
    high_us: f64,
}

impl Axes {
    fn of(lines: &[Line<'_>]) -> Option<Self> {
        let points = || lines.iter().flat_map(|line| line.points).filter(|point| point.us > 0.0);
        let low = points().map(|point| point.us).fold(f64::INFINITY, f64::min);
        let high = points().map(|point| point.us).fold(0.0, f64::max);
        let most_one_in = points().map(|point| point.one_in).fold(10.0, f64::max);
        (low <= high && low > 0.0).then(|| Self {
            most_one_in,
            low_us: low / 1.15,
            high_us: high * 1.15,
        })
    }

    fn x(&self, one_in: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * (one_in.ln() / self.most_one_in.ln()).clamp(0.0, 1.0)
    }

    fn y(&self, us: f64) -> f64 {
        let share = (us / self.low_us).ln() / (self.high_us / self.low_us).ln();
        HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share.clamp(0.0, 1.0)
    }

    /// 1, 2 and 5 times powers of ten; the powers alone where that is too many.
    fn ticks_us(&self) -> Vec<f64> {
        let decades = (self.high_us / self.low_us).log10();
        let steps: &[f64] = if decades > 3.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        (-3..=12)
            .flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)))
            .filter(|tick| (self.low_us..=self.high_us).contains(tick))
            .collect()
    }

    fn ticks_one_in(&self) -> Vec<(f64, &'static str)> {
        let known = [
            (2.0, "p50"),
            (10.0, "p90"),
            (100.0, "p99"),
            (1e3, "p99.9"),
            (1e4, "p99.99"),
            (1e5, "p99.999"),
            (1e6, "p99.9999"),
        ];
        let fits = |(one_in, _): &(f64, &str)| *one_in <= self.most_one_in * (1.0 + 1e-6);
        known.into_iter().filter(fits).collect()
    }
}

/// The curve of every path of a workload; nothing of a load without latency.
pub fn curve(workload: &Workload<'_>, number: usize) -> Markup {
    let lines: Vec<Line<'_>> = workload
        .cells
        .iter()
        .enumerate()
        .filter_map(|(number, cell)| {
            let points = cell.latency()?.curve.as_slice();
            (points.len() > 1).then_some(Line {
                name: &cell.path,
                points,
                style: number % STYLES,
                number,
            })
        })
        .collect();
    let Some(axes) = Axes::of(&lines) else { return html! {} };
    let names = label_places(&lines, &axes);
    let title = format!("latency-{number}");
    html! {
        h3.chart-title { "Latency by percentile, all trials together (less is better)" }
        div.scroll.latency tabindex="0" {
            svg data-values role="img" aria-labelledby=(title) viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } {
                title id=(title) { (spoken(workload)) }
                (grid(&axes))
                @for (line, y) in lines.iter().zip(&names) { (drawn(line, &axes, *y)) }
            }
        }
    }
}

/// What the drawing shows, for those who do not see it.
fn spoken(workload: &Workload<'_>) -> String {
    let of = |cell: &&CellAnalysis| {
        let latency = cell.latency()?;
        let mean = |name| latency.percentile(name)?.us.mean().map(three_digits);
        let p50 = mean("p50")?;
        let p99 = mean("p99").map(|p99| format!(", p99 {p99} µs")).unwrap_or_default();
        Some(format!("{}: p50 {p50} µs{p99}", cell.path))
    };
    let paths: Vec<String> = workload.cells.iter().filter_map(of).collect();
    format!("Latency by percentile. {}", paths.join("; "))
}

fn grid(axes: &Axes) -> Markup {
    let (left, right, bottom) = (LEFT, WIDTH - RIGHT, HEIGHT - BOTTOM);
    html! {
        @for tick in axes.ticks_us() {
            line.grid x1=(left) x2=(right) y1=(point(axes.y(tick))) y2=(point(axes.y(tick))) {}
            text.tick x=(left - 8.0) y=(point(axes.y(tick) + 4.0)) text-anchor="end" { (tick_text(tick)) }
        }
        @for (one_in, name) in axes.ticks_one_in() {
            line.grid x1=(point(axes.x(one_in))) x2=(point(axes.x(one_in))) y1=(TOP) y2=(bottom) {}
            text.tick x=(point(axes.x(one_in))) y=(bottom + 17.0) text-anchor="middle" { (name) }
        }
        text.tick x=(left - 8.0) y=(bottom + 17.0) text-anchor="end" { "µs" }
        text.tick x=(right) y=(bottom + 36.0) text-anchor="end" {
            "percentile, on a logarithmic scale of the part beyond it"
        }
    }
}

fn tick_text(us: f64) -> String {
    if us >= 1.0 { format!("{us:.0}") } else { format!("{us}") }
}

fn point(at: f64) -> String {
    format!("{at:.1}")
}

fn drawn(line: &Line<'_>, axes: &Axes, name_y: f64) -> Markup {
    let points: Vec<String> = line
        .points
        .iter()
        .map(|p| format!("{},{}", point(axes.x(p.one_in)), point(axes.y(p.us))))
        .collect();
    let class = format!("l{}", line.style);
    let end = line.points.last();
    html! {
        polyline class={ "line " (class) } data-path=(line.number) points=(points.join(" ")) {}
        @for at in line.points { (spot(line, at, axes)) }
        @if let Some(end) = end {
            line class={ "leader " (class) } data-path=(line.number) x1=(point(axes.x(end.one_in))) y1=(point(axes.y(end.us)))
                x2=(WIDTH - RIGHT + 14.0) y2=(point(name_y)) {}
        }
        text class={ "name " (class) } data-path=(line.number) x=(WIDTH - RIGHT + 18.0) y=(point(name_y + 4.0)) { (line.name) }
    }
}

/// The value under the pointer: a circle that is not seen and has a name.
fn spot(line: &Line<'_>, at: &CurvePoint, axes: &Axes) -> Markup {
    let percentile = 100.0 - 100.0 / at.one_in;
    // Nines are told to the last, what lies below to a tenth.
    let percentile =
        if at.one_in < 100.0 { (percentile * 10.0).round() / 10.0 } else { percentile };
    html! {
        circle.spot data-path=(line.number) cx=(point(axes.x(at.one_in))) cy=(point(axes.y(at.us))) r="5" {
            title { (line.name) ", p" (axes::tick(percentile)) ": " (three_digits(at.us)) " µs" }
        }
    }
}

/// Where the names stand: each at the end of its line, moved apart where they would overlap.
fn label_places(lines: &[Line<'_>], axes: &Axes) -> Vec<f64> {
    let end = |line: &Line<'_>| line.points.last().map_or(TOP, |point| axes.y(point.us));
    let mut order: Vec<(usize, f64)> = lines.iter().map(end).enumerate().collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut least = TOP;
    for (_, y) in &mut order {
        *y = y.max(least);
        least = *y + LINE_HEIGHT;
    }
    // What was pushed out below is pushed back up.
    let mut most = HEIGHT - BOTTOM;
    for (_, y) in order.iter_mut().rev() {
        *y = y.min(most);
        most = *y - LINE_HEIGHT;
    }
    order.sort_by_key(|(at, _)| *at);
    order.into_iter().map(|(_, y)| y).collect()
}

/// Percentiles and what is added to the baseline's.
pub fn table(workload: &Workload<'_>) -> Markup {
    if workload.cells.iter().all(|cell| cell.latency().is_none()) {
        return html! {};
    }
    let shown: Vec<&Extra> = columns::of(workload.load()).collect();
    let metrics =
        workload.cells.iter().flat_map(|cell| shown.iter().filter_map(|extra| extra.shown(cell)));
    html! {
        div.scroll tabindex="0" {
            table {
                caption { "Latency in µs; added: less the baseline’s of the same block" }
                thead {
                    tr {
                        th scope="col" { "path" }
                        @for extra in &shown { th scope="col" { (extra.head().replace(" µs", "")) } }
                    }
                }
                tbody {
                    @for cell in &workload.cells {
                        tr.base[cell.is_baseline] {
                            (path_name(cell))
                            @for extra in &shown { (extra_field(extra, cell)) }
                        }
                    }
                }
            }
        }
        (reasons(metrics))
        @if let Some(transactions) = workload.cells.iter().filter_map(transactions).min() {
            p.small {
                "The curves are of " (count(usize::try_from(transactions).unwrap_or(usize::MAX), "transaction"))
                " or more each."
            }
        }
    }
}

fn transactions(cell: &&CellAnalysis) -> Option<u64> {
    Some(cell.latency()?.transactions).filter(|transactions| *transactions > 0)
}
