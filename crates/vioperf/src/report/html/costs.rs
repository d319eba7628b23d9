//! What the load costs: who used the host's cores, as stacked bars, and cost against speed, a point a cell.

use maud::{Markup, html};
use vioperf_analysis::result::{CellAnalysis, CpuShare, CpuUser, Summary};
use vioperf_analysis::wording::three_digits;

use super::axes::{self, Axis, point};
use super::chart::{self, class_of};
use crate::report::text::clean;
use crate::report::values::{NO_VALUE, Workload};

/// Names of the users, and the classes of their colours and hatches.
fn name(user: CpuUser) -> (&'static str, &'static str) {
    match user {
        CpuUser::Guest => ("guest’s own code", "u-guest"),
        CpuUser::Vcpu => ("vCPU threads", "u-vcpu"),
        CpuUser::MainLoop => ("main loop", "u-main"),
        CpuUser::Io => ("I/O threads", "u-io"),
        CpuUser::Vhost => ("vhost", "u-vhost"),
        CpuUser::OtherQemu => ("QEMU’s others", "u-qemu"),
        CpuUser::OtherGuests => ("other guests", "u-others"),
        CpuUser::Interrupts => ("interrupts", "u-irq"),
        CpuUser::Rest => ("everything else", "u-rest"),
    }
}

/// One number of a share.
type Read = fn(&CpuShare) -> Option<f64>;

/// Busy time and service demand, each cell's split by who used it.
pub fn stacks(workload: &Workload<'_>) -> Markup {
    let cells = &workload.cells;
    if cells.iter().all(|cell| cell.cpu_shares.is_empty()) {
        return html! {};
    }
    let used: Vec<CpuUser> = CpuUser::ALL
        .into_iter()
        .filter(|user| {
            cells.iter().any(|cell| share(cell, *user, |s| s.percent_of_core.mean()) > 0.0)
        })
        .collect();
    let measure = workload.measure();
    // The service demand's own number, so that both say the same.
    let demand = |cell: &CellAnalysis| (measure.demand)(cell).and_then(|[host, _, _]| host.mean());
    let busy = |cell: &CellAnalysis| cell.host.busy_percent_of_core.mean();
    html! {
        p.chart-title { "Who used the host’s cores" }
        p.legend.small {
            @for user in &used {
                span.key {
                    svg width="14" height="12" aria-hidden="true" { rect class=(name(*user).1) width="14" height="12" {} }
                    (name(*user).0)
                }
            }
        }
        div.pair {
            (stack(cells, &used, "percent of one core", |s| s.percent_of_core.mean(), &busy))
            (stack(cells, &used, &format!("{} of the host, per {}", measure.demand_unit, measure.demand_per),
                |s| s.seconds_per_unit.mean(), &demand))
        }
    }
}

fn share(cell: &CellAnalysis, user: CpuUser, read: Read) -> f64 {
    let found = cell.cpu_shares.iter().find(|share| share.user == user);
    found.and_then(read).filter(|value| *value > 0.0).unwrap_or(0.0)
}

/// One bar a cell, all on one scale; `whole` is what stands beside it.
fn stack(
    cells: &[&CellAnalysis],
    used: &[CpuUser],
    unit: &str,
    read: Read,
    whole: &dyn Fn(&CellAnalysis) -> Option<f64>,
) -> Markup {
    let sum = |cell: &CellAnalysis| used.iter().map(|user| share(cell, *user, read)).sum::<f64>();
    let largest = cells.iter().map(|cell| sum(cell)).fold(0.0, f64::max);
    html! {
        figure.stack {
            figcaption { (unit) }
            @for cell in cells {
                div.bar-row {
                    span.name { (clean(&cell.path)) }
                    (bar(cell, used, read, sum(cell), largest))
                    span.value { (whole(cell).map_or_else(|| NO_VALUE.into(), three_digits)) }
                }
            }
        }
    }
}

fn bar(cell: &CellAnalysis, used: &[CpuUser], read: Read, sum: f64, largest: f64) -> Markup {
    let shares: Vec<(CpuUser, f64)> =
        used.iter().map(|user| (*user, share(cell, *user, read))).collect();
    let percent = |value: f64| if largest > 0.0 { 100.0 * value / largest } else { 0.0 };
    let part = |value: f64| if sum > 0.0 { 100.0 * value / sum } else { 0.0 };
    let told = shares.iter().filter(|(_, value)| part(*value) >= 0.5);
    let told: Vec<String> =
        told.map(|(user, value)| format!("{} {:.0} %", name(*user).0, part(*value))).collect();
    let starts = shares.iter().scan(0.0, |at, (_, value)| {
        let start = *at;
        *at += value;
        Some(start)
    });
    html! {
        svg.stacked height="18" role="img" aria-label={ (clean(&cell.path)) ": " (told.join(", ")) } {
            title { (told.join(", ")) }
            @for ((user, value), start) in shares.iter().zip(starts) {
                @if *value > 0.0 {
                    rect class=(name(*user).1) height="18" x={ (format!("{:.2}", percent(start))) "%" }
                        width={ (format!("{:.2}", percent(*value))) "%" } {
                        title { (name(*user).0) ": " (format!("{:.0} %", part(*value))) " of it" }
                    }
                }
            }
        }
    }
}

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
    let spoken = points.iter().map(|point| {
        let (speed, cost) = (measure.unit.short(point.speed.mean), three_digits(point.cost.mean));
        format!("{}: {speed} at {cost} {}", point.cell.path, measure.demand_unit)
    });
    html! {
        p.chart-title { "Cost against speed: right is faster, low is cheaper" }
        div.scroll.scatter tabindex="0" {
            svg role="img" aria-labelledby=(title) viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } {
                title id=(title) { "Cost against speed. " (clean(&spoken.collect::<Vec<_>>().join("; "))) }
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
                @for (at, label_y) in points.iter().zip(labels(&points, &x, &y)) { (drawn(at, &x, &y, label_y)) }
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

fn drawn(at: &Point<'_>, x: &Axis, y: &Axis, label_y: f64) -> Markup {
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
            g transform=(format!("translate({left:.1} {:.1})", down - 15.0)) { (chart::symbol(shape)) }
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
    fn every_cell_has_a_stack_and_a_point() {
        let Synthetic { run, trials } = Synthetic::calm_kvm();
        let analysis = analyse(&run, &trials);
        for workload in &workloads(&analysis) {
            let stacks = stacks(workload).into_string();
            let cells = workload.cells.len();
            assert_eq!(stacks.matches("class=\"stacked\"").count(), 2 * cells);
            assert!(stacks.contains("u-vcpu") && !stacks.contains("NaN"), "{stacks}");
            let points = against_speed(workload, 1).into_string();
            assert_eq!(points.matches("class=\"mean\"").count(), cells);
            assert!(points.contains("baseline: ") && !points.contains("NaN"), "{points}");
        }
    }

    #[test]
    fn without_numbers_nothing_is_drawn() {
        let Synthetic { run, .. } = Synthetic::calm_kvm();
        let analysis = analyse(&run, &[]);
        for workload in &workloads(&analysis) {
            assert!(stacks(workload).into_string().is_empty());
            assert!(against_speed(workload, 1).into_string().is_empty());
        }
    }
}
