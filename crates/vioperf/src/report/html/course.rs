//! How trials went over time: rate, cores, drops and segments sent again on one time axis, both ends.

use maud::{Markup, html};
use vioperf_analysis::result::{CellAnalysis, CourseIntervals, CourseOf, TimeCourse};
use vioperf_analysis::wording::{count, three_digits};

use super::axes::{self, Axis, point};
use super::seen::{Part, Seen};
use super::tables::path_name;
use crate::report::columns;
use crate::report::text::clean;
use crate::report::values::Workload;

/// The drawing of a cell, in its own units.
const WIDTH: f64 = 340.0;
const LEFT: f64 = 46.0;
const RIGHT: f64 = 8.0;
/// Heights of a panel and of what is between two.
const PANEL: f64 = 62.0;
const GAP: f64 = 20.0;
const BOTTOM: f64 = 18.0;

/// One line of a panel.
struct Line<'a> {
    name: &'static str,
    class: &'static str,
    values: &'a [Option<f64>],
}

/// One panel: what it is about, and its lines.
struct Panel<'a> {
    title: String,
    /// Of the values that are told.
    unit: String,
    factor: f64,
    lines: Vec<Line<'a>>,
}

/// A figure a cell.
pub fn section(workload: &Workload<'_>, seen: &Seen<'_>) -> Markup {
    let told: Vec<&&CellAnalysis> =
        workload.cells.iter().filter(|cell| !cell.courses.is_empty()).collect();
    let mut courses = told.iter().flat_map(|cell| &cell.courses);
    let has_intervals = courses.any(|course| course.intervals.is_some());
    html! {
        @if !told.is_empty() {
            div.courses {
                h3.chart-title { "How the trials went over time" }
                p.legend.small {
                    @for (class, name) in [
                        ("c-one", "received; busy cores of the host; packets dropped"),
                        ("c-two", "sent; busy cores of the guest; segments sent again"),
                        ("c-faint", "received in the trials with the lowest and the highest result"),
                    ] {
                        span.key {
                            svg width="26" height="10" aria-hidden="true" {
                                line class={ "course " (class) } x1="0" x2="26" y1="5" y2="5" {}
                            }
                            (name)
                        }
                    }
                }
                p.small {
                    "The median trial of each path. Grey ground: warm-up and end, which do not count."
                    @if has_intervals {
                        " Dotted: its peak and its sustained rate; marked below: dips."
                    }
                }
                div.multiples { @for cell in told { (figure(cell, seen)) } }
                (numbers(workload))
            }
        }
    }
}

/// Means of all trials that count: how streams went, and their packets on both sides of the switch.
fn numbers(workload: &Workload<'_>) -> Markup {
    let extras = columns::of_course(workload.load(), &workload.cells);
    html! {
        @if !extras.is_empty() {
            div.scroll tabindex="0" {
                table {
                    caption { "Over time, and on both sides of the switch; means of trials" }
                    thead {
                        tr {
                            th scope="col" { "path" }
                            @for extra in &extras { th scope="col" { (extra.head()) } }
                        }
                    }
                    tbody {
                        @for cell in &workload.cells {
                            tr.base[cell.is_baseline] {
                                (path_name(cell))
                                @for extra in &extras { td { (extra.field(cell)) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn figure(cell: &CellAnalysis, seen: &Seen<'_>) -> Markup {
    let of = |of| cell.courses.iter().find(|course| course.of == of);
    let Some(typical) = of(CourseOf::Typical) else { return html! {} };
    let beside = [of(CourseOf::Lowest), of(CourseOf::Highest)];
    let panels = panels(cell, typical);
    let height = panels.len() as f64 * (PANEL + GAP) + BOTTOM;
    let until =
        typical.from_seconds + typical.step_seconds * typical.received_per_second.len() as f64;
    let x = Axis::between(typical.from_seconds, until, LEFT, WIDTH - RIGHT);
    html! {
        figure.course-of id=(Part::Course.anchor(&cell.id)) {
            figcaption { b { (clean(&cell.path)) } ", block " (typical.block + 1) (seen.marks(Part::Course, cell)) }
            svg data-values viewBox={ "0 0 " (WIDTH) " " (point(height)) } role="img"
                aria-label={ (clean(&cell.path)) " over time: " (spoken(&panels)) (spoken_intervals(&panels, typical)) } {
                @for (panel, number) in panels.iter().zip(0u8..) {
                    @let top = f64::from(number) * (PANEL + GAP) + GAP - 4.0;
                    @let faint = if number == 0 { beside } else { [None, None] };
                    (drawn(panel, typical, &faint, &x, top, number == 0))
                }
                (columns(&panels, typical, &x, height))
                @for tick in x.even_ticks(5.0) {
                    text.tick x=(x.at(tick)) y=(point(height - 4.0)) text-anchor="middle" { (axes::tick(tick)) }
                }
                text.tick x=(LEFT - 6.0) y=(point(height - 4.0)) text-anchor="end" { "s" }
            }
        }
    }
}

fn panels<'a>(cell: &CellAnalysis, course: &'a TimeCourse) -> Vec<Panel<'a>> {
    let largest = |values: &[Option<f64>]| values.iter().flatten().copied().fold(0.0, f64::max);
    let rate = largest(&course.received_per_second).max(largest(&course.sent_per_second));
    let (unit, factor) = cell.measure().unit.scale(rate);
    let mut panels = vec![Panel {
        title: unit.to_owned(),
        unit: unit.to_owned(),
        factor,
        lines: vec![
            Line { name: "sent", class: "c-two", values: &course.sent_per_second },
            Line { name: "received", class: "c-one", values: &course.received_per_second },
        ],
    }];
    let cores = vec![
        Line { name: "host", class: "c-one", values: &course.host_percent_of_core },
        Line { name: "guest", class: "c-two", values: &course.guest_percent_of_core },
    ];
    panels.push(Panel {
        title: "% of one core".into(),
        unit: "% of one core".into(),
        factor: 1.0,
        lines: cores,
    });
    let lost = vec![
        Line { name: "dropped", class: "c-one", values: &course.dropped_per_second },
        Line { name: "sent again", class: "c-two", values: &course.retransmitted_per_second },
    ];
    if lost.iter().any(|line| largest(line.values) > 0.0) {
        panels.push(Panel {
            title: "dropped, sent again, a second".into(),
            unit: "a second".into(),
            factor: 1.0,
            lines: lost,
        });
    }
    panels
}

/// The range of each panel in words.
fn spoken(panels: &[Panel<'_>]) -> String {
    let of = |panel: &Panel<'_>| {
        let values = || panel.lines.iter().flat_map(|line| line.values.iter().flatten().copied());
        let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
        let [low, high] = [low, high].map(|value| three_digits(value / panel.factor));
        format!("{low} to {high} {}", panel.title)
    };
    panels
        .iter()
        .filter(|panel| panel.lines.iter().any(|line| line.values.iter().any(Option::is_some)))
        .map(of)
        .collect::<Vec<_>>()
        .join("; ")
}

/// Peak, sustained rate and dips in words.
fn spoken_intervals(panels: &[Panel<'_>], course: &TimeCourse) -> String {
    let Some((told, panel)) = course.intervals.as_ref().zip(panels.first()) else {
        return String::new();
    };
    let value = |rate: f64| three_digits(rate / panel.factor);
    format!(
        "; peak {}, sustained {} {}, {}",
        value(told.peak_per_second),
        value(told.sustained_per_second),
        panel.unit,
        count(told.dips.len(), "dip"),
    )
}

/// Peak and sustained rate as lines over what counts, dips as marks on the ground.
fn intervals(
    told: &CourseIntervals,
    course: &TimeCourse,
    panel: &Panel<'_>,
    x: &Axis,
    y: &Axis,
) -> Markup {
    let (begin, end) = (x.at(0.0), x.at(course.measured_seconds));
    let ground = y.place(0.0);
    html! {
        @for (name, rate) in [("peak", told.peak_per_second), ("sustained", told.sustained_per_second)] {
            line.held x1=(begin) x2=(end) y1=(y.at(rate)) y2=(y.at(rate)) {
                title { (name) " " (three_digits(rate / panel.factor)) " " (panel.unit) }
            }
        }
        @for dip in &told.dips {
            @let left = x.place(dip.from_seconds);
            rect.low x=(point(left)) y=(point(ground - 4.0)) height="4"
                width=(point((x.place(dip.from_seconds + dip.seconds) - left).max(2.0))) {
                title { (three_digits(dip.depth_percent)) " % below the median for " (three_digits(dip.seconds)) " s" }
            }
        }
    }
}

fn drawn(
    panel: &Panel<'_>,
    course: &TimeCourse,
    beside: &[Option<&TimeCourse>; 2],
    x: &Axis,
    top: f64,
    is_of_rate: bool,
) -> Markup {
    let told = course.intervals.as_ref().filter(|_| is_of_rate);
    let faint = || beside.iter().flatten().map(|other| (&other.received_per_second, *other));
    let values = panel
        .lines
        .iter()
        .flat_map(|line| line.values)
        .chain(faint().flat_map(|(values, _)| values));
    let peak = told.map_or(0.0, |told| told.peak_per_second);
    let y = Axis::from_zero(values.flatten().copied().fold(peak, f64::max), top + PANEL, top);
    let (begin, end) = (x.place(0.0), x.place(course.measured_seconds));
    html! {
        rect.ground x=(LEFT) y=(top) width=(point(begin - LEFT)) height=(PANEL) {}
        rect.ground x=(point(end)) y=(top) width=(point(WIDTH - RIGHT - end)) height=(PANEL) {}
        @for tick in y.even_ticks(3.0) {
            line.grid x1=(LEFT) x2=(WIDTH - RIGHT) y1=(y.at(tick)) y2=(y.at(tick)) {}
            text.tick x=(LEFT - 6.0) y=(point(y.place(tick) + 4.0)) text-anchor="end" { (axes::tick(tick / panel.factor)) }
        }
        text.tick x=(LEFT) y=(point(top - 4.0)) { (panel.title) }
        @for (values, other) in faint() { (line("c-faint", values, other, x, &y)) }
        @for shown in &panel.lines { (line(shown.class, shown.values, course, x, &y)) }
        @if let Some(told) = told { (intervals(told, course, panel, x, &y)) }
    }
}

/// What every line says of a step, under the pointer: a column a step that is not seen.
fn columns(panels: &[Panel<'_>], course: &TimeCourse, x: &Axis, height: f64) -> Markup {
    let steps = panels.iter().flat_map(|panel| &panel.lines).map(|line| line.values.len()).max();
    let begin = |step: usize| course.from_seconds + course.step_seconds * step as f64;
    html! {
        @for step in 0..steps.unwrap_or(0) {
            @let (left, right) = (x.place(begin(step)), x.place(begin(step + 1)));
            rect.step.spot x=(point(left)) y=(GAP - 4.0) width=(point(right - left)) height=(point(height - BOTTOM - GAP)) {
                title { (axes::tick((begin(step) * 1e3).round() / 1e3)) " s: " (of_step(panels, step)) }
            }
        }
    }
}

/// Every line's value, with the unit of its panel (`sent 1.20, received 1.18 Gbit/s; host 150 % of one core`).
fn of_step(panels: &[Panel<'_>], step: usize) -> String {
    let told = panels.iter().filter_map(|panel| {
        let value = |line: &Line<'_>| {
            let value = (*line.values.get(step)?)?;
            Some(format!("{} {}", line.name, three_digits(value / panel.factor)))
        };
        let values: Vec<String> = panel.lines.iter().filter_map(value).collect();
        (!values.is_empty()).then(|| format!("{} {}", values.join(", "), panel.unit))
    });
    let told: Vec<String> = told.collect();
    if told.is_empty() { "nothing is known".into() } else { told.join("; ") }
}

/// A line through the middles of the steps, with gaps where nothing is known.
fn line(class: &str, values: &[Option<f64>], course: &TimeCourse, x: &Axis, y: &Axis) -> Markup {
    let mut path = String::new();
    let mut is_down = false;
    for (value, number) in values.iter().zip(0u32..) {
        let Some(value) = value else {
            is_down = false;
            continue;
        };
        let at = course.from_seconds + course.step_seconds * (f64::from(number) + 0.5);
        path.push_str(&format!(
            "{}{} {}",
            if is_down { " L" } else { " M" },
            x.at(at),
            y.at(*value)
        ));
        is_down = true;
    }
    html! { @if !path.is_empty() { path class={ "course " (class) } d=(path.trim_start()) {} } }
}

#[cfg(test)]
mod tests {
    use vioperf_analysis::analyse;
    use vioperf_analysis::testing::Synthetic;

    use super::*;
    use crate::report::values::workloads;

    #[test]
    fn every_path_has_its_course_with_warm_up_and_both_ends() {
        let Synthetic { run, trials } = Synthetic::calm_kvm();
        let analysis = analyse(&run, &trials);
        let workload = &workloads(&analysis)[0];
        let page = section(workload, &Seen::of(&analysis)).into_string();
        assert_eq!(page.matches("<figure").count(), workload.cells.len());
        // Received and sent, host and guest, segments sent again.
        for needed in
            ["course c-one", "course c-two", "rect class=\"ground\"", "% of one core", "sent again"]
        {
            assert!(page.contains(needed), "{needed}");
        }
        assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
        // Peak and sustained rate, as lines and as numbers.
        assert_eq!(page.matches("class=\"held\"").count(), 2 * workload.cells.len());
        assert!(
            page.contains("; peak ") && page.contains(">sus-tained<")
                || page.contains(">sustained<")
        );
        // Under the pointer, both ends at one time.
        let told = page.split("<title>").skip(1).find(|told| told.contains("guest ")).unwrap();
        for needed in
            ["received ", "sent ", "bit/s; host ", "guest ", "% of one core", "sent again "]
        {
            assert!(told.contains(needed), "{needed}: {told}");
        }
    }

    #[test]
    fn a_gap_stays_a_gap() {
        let course = TimeCourse {
            of: CourseOf::Typical,
            sequence: 0,
            block: 0,
            from_seconds: 0.0,
            step_seconds: 1.0,
            measured_seconds: 4.0,
            received_per_second: Vec::new(),
            sent_per_second: Vec::new(),
            host_percent_of_core: Vec::new(),
            guest_percent_of_core: Vec::new(),
            dropped_per_second: Vec::new(),
            retransmitted_per_second: Vec::new(),
            intervals: None,
        };
        let (x, y) = (Axis::between(0.0, 4.0, 0.0, 40.0), Axis::from_zero(1.0, 10.0, 0.0));
        let drawn =
            line("a", &[Some(1.0), None, Some(0.0), Some(0.0)], &course, &x, &y).into_string();
        assert_eq!(drawn.matches('M').count(), 2, "{drawn}");
        assert!(line("a", &[None, None], &course, &x, &y).into_string().is_empty());
    }
}
