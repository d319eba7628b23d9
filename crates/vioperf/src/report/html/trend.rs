//! A metric of a cell run after run: each run's mean with its interval, and the levels.

use maud::{Markup, html};
use vioperf_analysis::trend::{Point, Trend};

use super::axes::{Axis, tick};
use crate::report::text::clean;
use crate::report::trend::{Scale, interval, sentence, short_time};

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 250.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 36.0;
const TOP: f64 = 22.0;
const BOTTOM: f64 = 30.0;
/// Times below the picture at most.
const MOST_TIMES: usize = 6;
/// Of a line in a table.
const SMALL_WIDTH: f64 = 130.0;
const SMALL_HEIGHT: f64 = 26.0;

/// Where things lie.
struct Plot {
    across: Axis,
    up: Axis,
}

impl Plot {
    fn of(points: &[Point], [left, right]: [f64; 2], [bottom, top]: [f64; 2]) -> Self {
        let means = points.iter().map(|point| point.mean);
        let (low, high) = ends(means.clone());
        // An interval of few trials can be far wider than all that was seen.
        let room = (high - low).max(0.05 * high.abs()).max(f64::MIN_POSITIVE);
        let near = |value: &f64| *value > low - 2.0 * room && *value < high + 2.0 * room;
        let bounds = points.iter().flat_map(|point| [point.low_95, point.high_95]).flatten();
        let (low, high) = ends(means.chain(bounds.filter(near)));
        let room = 0.06 * (high - low).max(0.02 * high.abs());
        let last = points.len().saturating_sub(1) as f64;
        Self {
            across: Axis::between(-0.5, last + 0.5, left, right),
            up: Axis::between(low - room, high + room, bottom, top),
        }
    }

    fn x(&self, nth: usize) -> String {
        self.across.at(nth as f64)
    }

    /// Between a run and the one before.
    fn before(&self, nth: usize) -> String {
        self.across.at(nth as f64 - 0.5)
    }
}

fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), value| (a.min(value), b.max(value)))
}

/// The picture; `link` gives a run's address by its id.
pub fn figure(trend: &Trend, link: impl Fn(&str) -> String) -> Markup {
    if trend.points.is_empty() {
        return html! {};
    }
    let scale = Scale::of(trend);
    let plot = Plot::of(&trend.points, [LEFT, WIDTH - RIGHT], [HEIGHT - BOTTOM, TOP]);
    html! {
        div.scroll.trend tabindex="0" {
            svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="group" aria-label=(said(trend, &scale)) {
                @for value in in_units(&plot.up, &scale) {
                    @let y = plot.up.at(value * scale.factor);
                    line.grid x1=(LEFT) x2=(WIDTH - RIGHT) y1=(y) y2=(y) {}
                    text x=(LEFT - 8.0) y=(y) dy="4" text-anchor="end" { (tick(value)) }
                }
                text x="0" y="10" { (scale.unit(&trend.unit)) }
                @for (nth, time) in times(&trend.points) {
                    text x=(plot.x(nth)) y=(HEIGHT - 8.0) text-anchor="middle" { (clean(time)) }
                }
                @for (nth, change) in (1..).zip(&trend.changes) {
                    @let x = plot.before(change.at);
                    line.change x1=(x) x2=(x) y1=(TOP) y2=(HEIGHT - BOTTOM) {}
                    text.change-name x=(x) y=(TOP - 6.0) text-anchor="middle" { (nth) }
                }
                @for (from, to, level) in levels(trend) {
                    @let y = plot.up.at(level);
                    line.level x1=(plot.before(from)) x2=(plot.before(to)) y1=(y) y2=(y) {}
                }
                @for (nth, point) in trend.points.iter().enumerate() {
                    @let x = plot.x(nth);
                    @if let (Some(low), Some(high)) = (point.low_95, point.high_95) {
                        line.interval x1=(x) x2=(x) y1=(plot.up.at(low)) y2=(plot.up.at(high)) {}
                        @if high > plot.up.high { path.beyond d={ "M" (x) " " (TOP) "m-4 6l4 -6l4 6" } {} }
                        @if low < plot.up.low { path.beyond d={ "M" (x) " " (HEIGHT - BOTTOM) "m-4 -6l4 6l4 -6" } {} }
                    }
                    a href=(link(&point.run_id)) aria-label=(told(point, &scale)) {
                        circle.seen cx=(x) cy=(plot.up.at(point.mean)) r="4.5" { title { (told(point, &scale)) } }
                    }
                }
            }
        }
    }
}

/// The line of a table.
pub fn small(trend: &Trend) -> Markup {
    if trend.points.is_empty() {
        return html! {};
    }
    let plot = Plot::of(&trend.points, [4.0, SMALL_WIDTH - 4.0], [SMALL_HEIGHT - 4.0, 4.0]);
    let places = trend.points.iter().enumerate();
    let line: Vec<String> =
        places.map(|(nth, point)| format!("{},{}", plot.x(nth), plot.up.at(point.mean))).collect();
    let last = trend.points.len().saturating_sub(1);
    html! {
        svg.spark width=(SMALL_WIDTH) height=(SMALL_HEIGHT) aria-hidden="true" {
            @for change in &trend.changes {
                @let x = plot.before(change.at);
                line.change x1=(x) x2=(x) y1="1" y2=(SMALL_HEIGHT - 1.0) {}
            }
            polyline points=(line.join(" ")) {}
            @if let Some(point) = trend.points.last() {
                circle cx=(plot.x(last)) cy=(plot.up.at(point.mean)) r="3" {}
            }
        }
    }
}

/// Each change with its number in the picture.
pub fn changes(trend: &Trend) -> Markup {
    let scale = Scale::of(trend);
    html! {
        @if trend.changes.is_empty() {
            p.small { "No change of level." }
        } @else {
            ol.changes {
                @for change in &trend.changes {
                    li {
                        @if let Some(point) = trend.points.get(change.at) {
                            (clean(&short_time(&point.started_at))) ": "
                        }
                        (clean(&sentence(change, &scale)))
                    }
                }
            }
        }
    }
}

/// Round values in the unit that is shown.
fn in_units(up: &Axis, scale: &Scale) -> Vec<f64> {
    Axis::between(up.low / scale.factor, up.high / scale.factor, 0.0, 1.0).even_ticks(5.0)
}

/// The first and last run of each level, the latter without, and its mean.
fn levels(trend: &Trend) -> Vec<(usize, usize, f64)> {
    let Some(first) = trend.changes.first() else { return Vec::new() };
    let starts = trend.changes.iter().map(|change| (change.at, change.after));
    let starts: Vec<(usize, f64)> = std::iter::once((0, first.before)).chain(starts).collect();
    let ends = starts.iter().skip(1).map(|(at, _)| *at).chain([trend.points.len()]);
    starts.iter().zip(ends).map(|((from, level), to)| (*from, to, *level)).collect()
}

/// Dates of some runs, the first and the last among them; times where all are of one day.
fn times(points: &[Point]) -> Vec<(usize, &str)> {
    let date = |point: &Point| point.started_at.get(..10).map(str::to_owned);
    let last = points.len().saturating_sub(1);
    let is_one_day = points.first().map(date) == points.last().map(date);
    let part = if is_one_day { 11..16 } else { 0..10 };
    let step = points.len().div_ceil(MOST_TIMES).max(1);
    // The last one, without one that it would run into.
    let mut some: Vec<usize> =
        (0..last).step_by(step).filter(|nth| last - nth > step / 2).collect();
    some.extend(points.last().map(|_| last));
    let text = |nth: usize| points.get(nth)?.started_at.get(part.clone());
    some.into_iter().filter_map(|nth| Some((nth, text(nth)?))).collect()
}

fn told(point: &Point, scale: &Scale) -> String {
    clean(&format!(
        "{}: {} ({})",
        short_time(&point.started_at),
        scale.written(point.mean),
        interval(point, scale)
    ))
}

fn said(trend: &Trend, scale: &Scale) -> String {
    let (low, high) = ends(trend.points.iter().map(|point| point.mean));
    clean(&format!(
        "{} of {} run after run, from {} to {} {}; the numbers are in the table below",
        trend.metric,
        trend.cell,
        scale.written(low),
        scale.written(high),
        scale.unit(&trend.unit)
    ))
}

#[cfg(test)]
mod tests {
    use vioperf_analysis::trend::LevelChange;

    use super::*;

    fn trend(values: &[f64], changes_at: &[usize]) -> Trend {
        let point = |(nth, mean): (usize, &f64)| Point {
            run_id: format!("{nth:012x}"),
            started_at: format!("2026-01-{:02}T03:04:05.000Z", nth + 1),
            mean: *mean,
            n: 3,
            low_95: Some(mean - 1.0),
            high_95: Some(mean + 1e12),
            facts: Default::default(),
        };
        let change = |at: &usize| LevelChange {
            at: *at,
            before: 1.0,
            after: 2.0,
            percent: 100.0,
            p: 0.001,
            provenance: vec!["host kernel: <6.1> → 6.12".into()],
        };
        Trend {
            scenario: "s".into(),
            host: "h".into(),
            cell: "<script>".into(),
            metric: "receiver_bits_per_second".into(),
            unit: "bit/s".into(),
            points: values.iter().enumerate().map(point).collect(),
            changes: changes_at.iter().map(change).collect(),
        }
    }

    #[test]
    fn every_run_is_a_link_and_every_change_has_its_number_and_reason() {
        let trend = trend(&[1e9, 1.1e9, 1e9, 2e9, 2.1e9, 2e9], &[3]);
        let drawn = figure(&trend, |id| format!("run?id={id}")).into_string();
        assert_eq!(drawn.matches("href=\"run?id=").count(), 6);
        assert_eq!(drawn.matches("class=\"change\"").count(), 1);
        assert!(!drawn.contains("<script>") && !drawn.contains("NaN"), "{drawn}");
        let said = changes(&trend).into_string();
        assert!(said.contains("&lt;6.1&gt; → 6.12") && said.contains("+100 %"), "{said}");
        assert_eq!(
            levels(&trend).iter().map(|(a, b, _)| (*a, *b)).collect::<Vec<_>>(),
            [(0, 3), (3, 6)]
        );
    }

    #[test]
    fn a_few_times_are_told_and_never_two_on_top_of_each_other() {
        for runs in 0..200 {
            let trend = trend(&vec![1.0; runs], &[]);
            let places: Vec<usize> = times(&trend.points).iter().map(|(nth, _)| *nth).collect();
            assert!(places.len() <= MOST_TIMES + 1, "{runs}: {places:?}");
            assert_eq!(places.last().copied(), runs.checked_sub(1), "{runs}");
            assert!(places.is_sorted_by(|a, b| a < b), "{runs}: {places:?}");
        }
    }

    #[test]
    fn whatever_the_values_they_are_drawn() {
        for values in [&[][..], &[0.0], &[0.0, 0.0], &[-1.0, 5.0], &[1e300, 1e-300]] {
            let trend = trend(values, &[]);
            let drawn = figure(&trend, str::to_owned).into_string() + &small(&trend).into_string();
            assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{values:?}: {drawn}");
        }
    }
}
