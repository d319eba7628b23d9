//! Two sides beside each other: the variants of a run, or two runs. Of every cell both intervals on one scale, and
//! the difference with its own.

use maud::{Markup, html};
use vioperf_analysis::compare::result::{ComparedRow, RunComparison, Verdict};
use vioperf_analysis::compare::words::unit_of;
use vioperf_analysis::result::Summary;
use vioperf_analysis::wording::capitalised;

use super::axes::tick;
use super::chart::Scale;
use crate::report::comparison::values::{self, Group};
use crate::report::text::clean;
use crate::report::values::NO_VALUE;

/// What is further out than so many times the others leaves the picture: an interval, or a baseline.
const OFF_SCALE: f64 = 2.0;

/// A section with a picture and a table a metric.
pub fn section(comparison: &RunComparison) -> Markup {
    let changes = values::changes(comparison);
    html! {
        section {
            h2 { (clean(&values::beside(comparison))) }
            @for sentence in &comparison.summary {
                p { (clean(sentence)) }
            }
            (groups(comparison, false))
            @if !changes.is_empty() {
                p { "What the variants were given otherwise (A → B): " (clean(&changes.join("; "))) }
            }
            p.note { (clean(&values::legend(comparison))) }
        }
    }
}

/// Every metric, the tables folded away where `is_folded`.
pub fn groups(comparison: &RunComparison, is_folded: bool) -> Markup {
    html! {
        @for group in values::groups(comparison) {
            h3.metric { (clean(&capitalised(&group.heading()))) }
            (picture(&group))
            details open[!is_folded] {
                summary { "The same as a table" }
                (table(&group))
            }
            @for note in values::notes(&group) {
                p.note { (clean(&note)) }
            }
        }
    }
}

/// The scales of a group's rows.
struct Scales {
    values: Scale,
    /// What is at either end; zero is in the middle.
    difference: f64,
}

impl Scales {
    fn of(group: &Group<'_>) -> Self {
        let reach = |side: Summary| {
            let high = side.interval_95.map_or(side.mean, |interval| interval.high);
            high.min(OFF_SCALE * side.mean).max(side.mean)
        };
        let largest = |is_baseline: bool| {
            let rows = group.rows.iter().filter(|row| row.is_baseline == is_baseline);
            rows.flat_map(|row| [row.a, row.b]).flatten().map(reach).fold(0.0, f64::max)
        };
        let (guests, baseline) = (largest(false), largest(true));
        let is_far = guests > 0.0 && baseline > OFF_SCALE * guests;
        let found = group.rows.iter().filter_map(|row| Some(row.difference?.value.abs()));
        let matters = group.rows.iter().map(|row| row.smallest_difference);
        // What matters can be told from nothing.
        let near = found.chain(matters.map(|least| 2.0 * least)).fold(0.0, f64::max);
        let bounds = group.rows.iter().filter_map(|row| row.difference?.interval_95);
        let far = bounds.map(|bound| bound.low.abs().max(bound.high.abs()));
        let end = 1.08 * far.fold(near, f64::max).min(OFF_SCALE * near);
        Self {
            values: Scale::up_to(if is_far { guests } else { guests.max(baseline) }),
            difference: if end > 0.0 && end.is_finite() { end } else { 1.0 },
        }
    }

    /// Where a difference lies.
    fn of_difference(&self, value: f64) -> String {
        format!("{:.2}%", (50.0 + 50.0 * value / self.difference).clamp(0.0, 100.0))
    }
}

/// A row a cell, with the scales below.
fn picture(group: &Group<'_>) -> Markup {
    let scales = Scales::of(group);
    let ends = [-0.75, 0.0, 0.75].map(|part| part * scales.difference);
    let places = if ends[2] < 2.0 { 1 } else { 0 };
    let unit = group.rows.iter().find_map(|row| Some(unit_of(&row.difference?, row.unit)));
    html! {
        div.beside {
            div.sides.head {
                div.name {}
                p.small { span.key-a { "A" } " above, " span.key-b { "B" } " below" }
                p.small { "B less A: the band is less than matters" }
                div.value {}
            }
            @for row in &group.rows { (row_markup(row, group, &scales)) }
            div.sides.axis aria-hidden="true" {
                div.name {}
                svg.track height="20" {
                    @for value in scales.values.ticks() {
                        text x=(scales.values.at(value)) y="14" text-anchor=(if value == 0.0 { "start" } else { "middle" }) {
                            (tick(value / group.unit.1))
                        }
                    }
                }
                svg.track height="20" {
                    @for value in ends {
                        text x=(scales.of_difference(value)) y="14" text-anchor="middle" {
                            @if value == 0.0 { "0" } @else { (format!("{value:+.places$}")) }
                        }
                    }
                }
                div.value { (group.unit.0) @if let Some(unit) = unit { span.note { "difference: " (unit) } } }
            }
        }
    }
}

fn row_markup(row: &ComparedRow, group: &Group<'_>, scales: &Scales) -> Markup {
    let both = format!("A {}, B {}", group.mean(row.a), group.mean(row.b));
    html! {
        div class={ "sides " (class_of(row.verdict)) } {
            div.name { (in_parts(&row.cell)) span.note { (both) } }
            svg.track height="38" role="img" aria-label={ (clean(&row.cell)) ": " (both) " " (group.unit.0) } {
                @for value in scales.values.ticks() {
                    line.grid x1=(scales.values.at(value)) x2=(scales.values.at(value)) y1="0" y2="38" {}
                }
                (side("a", row.a, 12, &scales.values))
                (side("b", row.b, 26, &scales.values))
            }
            svg.track height="38" role="img" aria-label={ "difference: " (values::difference(row)) } {
                rect.matters x=(scales.of_difference(-row.smallest_difference)) y="0" height="38"
                    width=(format!("{:.2}%", (100.0 * row.smallest_difference / scales.difference).min(100.0))) {}
                line.zero x1="50%" x2="50%" y1="0" y2="38" {}
                @if let Some(difference) = row.difference {
                    @if let Some(interval) = difference.interval_95 {
                        line.interval x1=(scales.of_difference(interval.low)) x2=(scales.of_difference(interval.high))
                            y1="19" y2="19" {}
                        @if interval.high > scales.difference {
                            svg.overflow x="100%" { path.beyond d="M-6 14 L0 19 L-6 24" {} }
                        }
                        @if interval.low < -scales.difference {
                            svg.overflow x="0%" { path.beyond d="M6 14 L0 19 L6 24" {} }
                        }
                    }
                    svg.overflow x=(scales.of_difference(difference.value)) { path.mean d="M0 12 L7 19 L0 26 L-7 19 Z" {} }
                }
            }
            div.value { b { (values::verdict(row)) } span.note { (values::difference(row)) } }
        }
    }
}

/// A cell's name, that lines may end in after its factors.
fn in_parts(cell: &str) -> Markup {
    html! { @for part in clean(cell).split_inclusive('/') { (part) wbr; } }
}

/// A side's interval and mean.
fn side(name: &str, summary: Option<Summary>, y: u32, scale: &Scale) -> Markup {
    let Some(summary) = summary else { return html! {} };
    html! {
        g class={ "side-" (name) } {
            @if let Some(interval) = summary.interval_95 {
                line.interval x1=(scale.at(interval.low)) x2=(scale.at(interval.high)) y1=(y) y2=(y) {}
            }
            @if scale.has(summary.mean) {
                circle.mean cx=(scale.at(summary.mean)) cy=(y) r="5" {}
            } @else {
                svg.overflow x="100%" { path.arrow d={ "M-7 " (y - 5) " l7 5 l-7 5 Z" } {} }
            }
        }
    }
}

fn class_of(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Worse => "worse",
        Verdict::Better => "better",
        _ => "alike",
    }
}

fn table(group: &Group<'_>) -> Markup {
    html! {
        div.scroll tabindex="0" {
            table.compared data-metric=(group.metric) {
                caption { (clean(&capitalised(&group.heading()))) }
                thead {
                    tr {
                        @for head in ["cell", "A", "B", "B vs A (95 % interval)", "p", "difference"] {
                            th scope="col" { (head) }
                        }
                    }
                }
                tbody {
                    @for row in &group.rows {
                        tr {
                            th scope="row" { (clean(&row.cell)) }
                            (mean(group, row.a))
                            (mean(group, row.b))
                            td data-value=[row.difference.map(|difference| difference.value)] {
                                (values::difference(row))
                            }
                            td { (values::p_value(row)) }
                            td {
                                @if row.verdict.is_difference() {
                                    strong { (values::verdict(row)) }
                                } @else {
                                    (values::verdict(row))
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn mean(group: &Group<'_>, summary: Option<Summary>) -> Markup {
    match summary {
        Some(summary) => html! { td data-value=(summary.mean) { (group.mean(Some(summary))) } },
        None => html! { td.none { (NO_VALUE) } },
    }
}

#[cfg(test)]
mod tests {
    use vioperf_analysis::analyse;
    use vioperf_analysis::compare::{self, Options};
    use vioperf_analysis::testing::Synthetic;

    use super::*;

    fn comparison() -> RunComparison {
        let [a, b] = [Synthetic::calm_kvm(), Synthetic::calm_kvm()]
            .map(|Synthetic { run, trials }| analyse(&run, &trials));
        compare::runs(["a", "b"], &a, &b, &Options::default())
    }

    #[test]
    fn every_row_has_both_sides_its_difference_and_its_verdict() {
        let comparison = comparison();
        let drawn = groups(&comparison, true).into_string();
        let with =
            |read: fn(&ComparedRow) -> bool| comparison.rows.iter().filter(|row| read(row)).count();
        assert_eq!(drawn.matches("class=\"side-a\"").count(), with(|row| row.a.is_some()));
        assert_eq!(drawn.matches("class=\"side-b\"").count(), with(|row| row.b.is_some()));
        let differences = with(|row| row.difference.is_some());
        assert!(differences > 0);
        assert_eq!(drawn.matches("M0 12 L7 19 L0 26 L-7 19 Z").count(), differences);
        for row in &comparison.rows {
            assert!(drawn.contains(&values::verdict(row)), "{}", row.cell);
        }
    }

    #[test]
    fn whatever_differs_stays_in_the_picture() {
        let mut comparison = comparison();
        for (row, nth) in comparison.rows.iter_mut().zip(0..) {
            if let Some(difference) = &mut row.difference {
                difference.value = [0.0, -1e30, f64::NAN, 1e-30][nth % 4];
            }
        }
        let drawn = groups(&comparison, true).into_string();
        for (at, _) in drawn.match_indices("x1=\"") {
            let place = drawn[at + 4..].split('%').next().unwrap();
            let place: f64 = place.split('"').next().unwrap().parse().unwrap();
            assert!((0.0..=100.0).contains(&place), "{place}");
        }
    }
}
