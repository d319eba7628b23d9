//! What speed costs: a point a cell.

use maud::{Markup, html};
use vioperf_analysis::result::{CellAnalysis, Summary};
use vioperf_analysis::wording::three_digits;

use super::axes::{self, Axis, point};
use super::chart::{self, class_of};
use crate::report::text::clean;
use crate::report::values::Workload;

/// The drawing of cost against speed, in its own units.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 84.0;
const TOP: f64 = 22.0;
const BOTTOM: f64 = 44.0;

/// A cell's place.
struct Point<'a> {
    cell: &'a CellAnalysis,
    speed: Summary,
    cost: Summary,
}

/// Cost against speed; nothing with fewer than two points.
pub fn against_speed(workload: &Workload<'_>, number: usize) -> Markup {
    let measure = workload.measure();
    let points: Vec<Point<'_>> = workload
        .cells
        .iter()
        .filter_map(|cell| {
            let speed = cell.headline().summary.filter(|summary| summary.mean > 0.0)?;
            let [host, _, _] = (measure.demand)(cell)?;
            let cost = host.summary.filter(|summary| summary.mean > 0.0)?;
            Some(Point { cell, speed, cost })
        })
        .collect();
    if points.len() < 2 {
        return html! {};
    }
    let means = |read: fn(&Point<'_>) -> f64| points.iter().map(read).collect::<Vec<_>>();
    let x = Axis::logarithmic(&means(|point| point.speed.mean), LEFT, WIDTH - RIGHT);
    let y = Axis::logarithmic(&means(|point| point.cost.mean), HEIGHT - BOTTOM, TOP);
    let (unit, factor) = measure.unit.scale(x.high);
    let title = format!("cost-{number}");
    let said = |point: &Point<'_>| {
        let (speed, cost) = (measure.unit.short(point.speed.mean), three_digits(point.cost.mean));
        format!("{}: {speed} at {cost} {}", clean(&point.cell.path), measure.demand_unit)
    };
    html! {
        h3.chart-title { "Cost against speed: right is faster, low is cheaper" }
        div.scroll.scatter tabindex="0" {
            svg data-values role="img" aria-labelledby=(title) viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } {
                title id=(title) { "Cost against speed. " (points.iter().map(said).collect::<Vec<_>>().join("; ")) }
                @for tick in x.ticks() {
                    line.grid x1=(x.at(tick)) x2=(x.at(tick)) y1=(TOP) y2=(HEIGHT - BOTTOM) {}
                    text.tick x=(x.at(tick)) y=(HEIGHT - BOTTOM + 17.0) text-anchor="middle" { (axes::tick(tick / factor)) }
                }
                @for tick in y.ticks() {
                    line.grid x1=(LEFT) x2=(WIDTH - RIGHT) y1=(y.at(tick)) y2=(y.at(tick)) {}
                    text.tick x=(LEFT - 8.0) y=(point(y.place(tick) + 4.0)) text-anchor="end" { (axes::tick(tick)) }
                }
                text.tick x=(WIDTH - RIGHT) y=(HEIGHT - 6.0) text-anchor="end" { (unit) ", logarithmic" }
                text.tick x=(LEFT - 54.0) y="12" { (measure.demand_unit) " of the host, logarithmic" }
                @for (at, label_y) in points.iter().zip(labels(&points, &x, &y)) { (drawn(at, &x, &y, label_y, &said(at))) }
            }
        }
    }
}

/// Names stand right of their points, and move down where two would lie on each other.
fn labels(points: &[Point<'_>], x: &Axis, y: &Axis) -> Vec<f64> {
    let mut placed: Vec<(f64, f64)> = Vec::new();
    let mut order: Vec<usize> = (0..points.len()).collect();
    let at =
        |number: &usize| (x.place(points[*number].speed.mean), y.place(points[*number].cost.mean));
    order.sort_by(|a, b| at(a).1.total_cmp(&at(b).1));
    let mut found = vec![0.0; points.len()];
    for number in order {
        let (left, mut down) = at(&number);
        while placed.iter().any(|(l, d)| (l - left).abs() < 80.0 && (d - down).abs() < 14.0) {
            down += 2.0;
        }
        placed.push((left, down));
        found[number] = down;
    }
    found
}

fn drawn(at: &Point<'_>, x: &Axis, y: &Axis, label_y: f64, said: &str) -> Markup {
    let (left, down) = (x.place(at.speed.mean), y.place(at.cost.mean));
    let shape = chart::shape(at.cell.kind);
    html! {
        g class=(class_of(shape)) {
            @if let Some(interval) = at.speed.interval_95 {
                line.interval x1=(x.at(interval.low)) x2=(x.at(interval.high)) y1=(point(down)) y2=(point(down)) {}
            }
            @if let Some(interval) = at.cost.interval_95 {
                line.interval x1=(point(left)) x2=(point(left)) y1=(y.at(interval.low)) y2=(y.at(interval.high)) {}
            }
            g.spot transform=(format!("translate({left:.1} {:.1})", down - 15.0)) { title { (said) } (chart::symbol(shape)) }
            text.name x=(point(left + 10.0)) y=(point(label_y - 5.0)) { (clean(&at.cell.path)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use vioperf_analysis::analyse;
    use vioperf_analysis::testing::Synthetic;

    use super::*;
    use crate::report::values::workloads;

    #[test]
    fn every_cell_has_a_point() {
        let Synthetic { run, trials } = Synthetic::calm_kvm();
        let analysis = analyse(&run, &trials);
        for workload in &workloads(&analysis) {
            let points = against_speed(workload, 1).into_string();
            assert_eq!(points.matches("class=\"mean\"").count(), workload.cells.len());
            assert!(points.contains("baseline: ") && !points.contains("NaN"), "{points}");
        }
    }

    #[test]
    fn without_numbers_nothing_is_drawn() {
        let Synthetic { run, .. } = Synthetic::calm_kvm();
        let analysis = analyse(&run, &[]);
        for workload in &workloads(&analysis) {
            assert!(against_speed(workload, 1).into_string().is_empty());
        }
    }
}
