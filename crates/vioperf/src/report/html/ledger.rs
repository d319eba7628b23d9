//! Where datagrams were lost: a flow from what was sent to what was received, and a table.
//!
//! The width of a ribbon is what it carries. Ribbons are stretched with the page, text is not: it
//! stands beside them, on lanes of the same height.

use maud::{Markup, html};
use vioperf_analysis::ledger::{Ledger, LossPlace};
use vioperf_analysis::result::CellAnalysis;
use vioperf_analysis::wording::percent;

use super::seen::{Part, Seen};
use crate::report::ledger::{TITLE, grouped, lost_of_sent, of_cell, of_ways};
use crate::report::text::clean;

/// Height of the ribbon of all that was sent, in pixels.
const SENT_HEIGHT: f64 = 96.0;
/// A lane has room for its two lines of text.
const LANE_HEIGHT: f64 = 40.0;
/// No ribbon is thinner: what is there is seen.
const LEAST_HEIGHT: f64 = 2.0;

/// One ribbon: what becomes of a part of what was sent.
struct Ribbon {
    class: &'static str,
    title: String,
    datagrams: u64,
    /// Its height.
    height: f64,
}

impl Ribbon {
    fn of(class: &'static str, title: &str, datagrams: u64, sent: u64) -> Self {
        let height = SENT_HEIGHT * datagrams as f64 / sent.max(1) as f64;
        Self { class, title: title.to_owned(), datagrams, height: height.max(LEAST_HEIGHT) }
    }

    /// Of all that was sent.
    fn part(&self, ledger: &Ledger) -> String {
        percent(100.0 * self.datagrams as f64 / ledger.sent.max(1) as f64)
    }

    fn lane(&self) -> f64 {
        self.height.max(LANE_HEIGHT)
    }
}

/// Pictures and table of the cells that lost something; nothing where none did.
pub fn section(cells: &[&CellAnalysis], seen: &Seen<'_>) -> Markup {
    let told: Vec<(&CellAnalysis, &Ledger)> =
        cells.iter().filter_map(|cell| Some((*cell, of_cell(cell)?))).collect();
    html! {
        @if !told.is_empty() {
            div.ledger {
                h3.chart-title { (TITLE) }
                div.flows {
                    @for (cell, ledger) in &told {
                        div id=(Part::Losses.anchor(&cell.id)) {
                            (flow(&cell.path, ledger, &seen.marks(Part::Losses, cell)))
                        }
                    }
                }
                (table(&told))
                p.small {
                    "All trials together, from the first datagram to the last, warm-up included. A ribbon is "
                    "as high as what it carries, in percent of what was sent. Unaccounted: no counter tells "
                    "where; below zero, counters tell of more than was lost."
                }
            }
        }
    }
}

/// What becomes of the datagrams, in the order of the path; those that arrive are the last.
fn ribbons(ledger: &Ledger) -> Vec<Ribbon> {
    let sent = ledger.sent;
    let class = |place| if place == LossPlace::TooLate { "late" } else { "lost" };
    let losses = ledger.losses.iter();
    let mut ribbons: Vec<Ribbon> = losses
        .map(|loss| Ribbon::of(class(loss.place), loss.place.title(), loss.datagrams, sent))
        .collect();
    let unaccounted = u64::try_from(ledger.unaccounted).unwrap_or(0);
    if unaccounted > 0 {
        ribbons.push(Ribbon::of("unaccounted", "unaccounted", unaccounted, sent));
    }
    ribbons.push(Ribbon::of("received", "received", ledger.received, sent));
    ribbons
}

/// A picture of it.
fn flow(of: &str, ledger: &Ledger, marks: &Markup) -> Markup {
    let ribbons = ribbons(ledger);
    let height: f64 = ribbons.iter().map(Ribbon::lane).sum();
    let name = format!("{}: lost {}", clean(of), lost_of_sent(ledger));
    html! {
        figure.flow {
            figcaption { b { (clean(of)) } " " (grouped(ledger.sent)) " sent" (marks) }
            div.lanes {
                svg data-values viewBox=(format!("0 0 100 {height:.0}")) height=(format!("{height:.0}"))
                    preserveAspectRatio="none" role="img" aria-label=(name) {
                    @for (ribbon, path) in ribbons.iter().zip(paths(&ribbons, height)) {
                        path.spot.(ribbon.class) d=(path) {
                            title { (clean(of)) ", " (ribbon.title) ": " (grouped(ribbon.datagrams)) ", " (ribbon.part(ledger)) " of what was sent" }
                        }
                    }
                }
                div.places {
                    @for ribbon in &ribbons {
                        div style=(format!("height:{:.0}px", ribbon.lane())) {
                            div {
                                (ribbon.title)
                                span.note {
                                    (grouped(ribbon.datagrams)) ", "
                                    (ribbon.part(ledger))
                                }
                            }
                        }
                    }
                }
            }
            @if let Some(ways) = of_ways(ledger) { p.small { "Lost: " (ways) "." } }
            @if ledger.unaccounted < 0 {
                p.small {
                    "Counters tell of " (grouped(ledger.unaccounted.unsigned_abs()))
                    " more than were lost: counted twice, or somebody else’s."
                }
            }
        }
    }
}

/// From the stack of all that was sent, at the left and as low as it goes, each ribbon turns off to
/// the middle of its lane, the first place the first.
fn paths(ribbons: &[Ribbon], height: f64) -> Vec<String> {
    let stack: f64 = ribbons.iter().map(|ribbon| ribbon.height).sum();
    let count = ribbons.len().max(2);
    let last_lane = ribbons.last().map_or(0.0, |last| (last.lane() - last.height) / 2.0);
    let (mut from, mut lane) = (height - stack - last_lane, 0.0);
    let mut paths = Vec::new();
    for (at, ribbon) in ribbons.iter().enumerate() {
        let to = lane + (ribbon.lane() - ribbon.height) / 2.0;
        let turn = 8.0 + 52.0 * at as f64 / (count - 1) as f64;
        paths.push(band(turn, from, to, ribbon.height));
        from += ribbon.height;
        lane += ribbon.lane();
    }
    paths
}

/// A band that goes straight until `turn`, and then down or up to where it ends.
fn band(turn: f64, from: f64, to: f64, height: f64) -> String {
    let (middle, end) = (turn + 15.0, turn + 30.0);
    let (low_from, low_to) = (from + height, to + height);
    format!(
        "M0 {from:.2} H{turn:.1} C{middle:.1} {from:.2} {middle:.1} {to:.2} {end:.1} {to:.2} H100 \
         V{low_to:.2} H{end:.1} C{middle:.1} {low_to:.2} {middle:.1} {low_from:.2} {turn:.1} \
         {low_from:.2} H0 Z"
    )
}

/// A line a cell, a column a place that occurs.
fn table(told: &[(&CellAnalysis, &Ledger)]) -> Markup {
    let occurs = |place: &LossPlace| told.iter().any(|(_, ledger)| ledger.lost_at(*place) > 0);
    let places: Vec<LossPlace> = LossPlace::ALL.into_iter().filter(occurs).collect();
    let has_unaccounted = told.iter().any(|(_, ledger)| ledger.unaccounted != 0);
    html! {
        div.scroll tabindex="0" {
            table {
                caption { "Datagrams lost, by place. In brackets those of which no counter of drops tells, "
                    "but the difference of two others" }
                thead {
                    tr {
                        th scope="col" { "path" }
                        th scope="col" { "sent" }
                        th scope="col" { "received" }
                        th scope="col" { "lost" }
                        @for place in &places { th scope="col" { (place.title()) } }
                        @if has_unaccounted { th scope="col" { "unaccounted" } }
                    }
                }
                tbody {
                    @for (cell, ledger) in told {
                        tr.base[cell.is_baseline] {
                            th scope="row" { (clean(&cell.path)) }
                            td { (grouped(ledger.sent)) }
                            td { (grouped(ledger.received)) }
                            td { (grouped(ledger.lost)) }
                            @for place in &places { (lost_at(ledger, *place)) }
                            @if has_unaccounted { td { (signed(ledger.unaccounted)) } }
                        }
                    }
                }
            }
        }
    }
}

fn lost_at(ledger: &Ledger, place: LossPlace) -> Markup {
    let found = ledger.losses.iter().find(|loss| loss.place == place);
    html! {
        @match found {
            None => td.none { "0" },
            Some(loss) if loss.counted == loss.datagrams => td { (grouped(loss.datagrams)) },
            Some(loss) => td {
                (grouped(loss.datagrams)) " "
                span.range { "(" (grouped(loss.datagrams - loss.counted)) ")" }
            },
        }
    }
}

fn signed(count: i64) -> String {
    let sign = if count < 0 { "−" } else { "" };
    format!("{sign}{}", grouped(count.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use vioperf_analysis::ledger::Loss;

    use super::*;

    fn ledger() -> Ledger {
        let place = |place, datagrams| Loss { place, datagrams, counted: datagrams };
        Ledger {
            sent: 1000,
            received: 500,
            lost: 500,
            losses: vec![place(LossPlace::Switch, 250), place(LossPlace::TooLate, 249)],
            unaccounted: 1,
            ..Ledger::default()
        }
    }

    #[test]
    fn ribbons_are_as_wide_as_what_they_carry_and_never_cross() {
        let ribbons = ribbons(&ledger());
        let heights: Vec<f64> = ribbons.iter().map(|ribbon| ribbon.height).collect();
        assert_eq!(heights, [24.0, 249.0 * 0.096, LEAST_HEIGHT, 48.0]);
        let height = ribbons.iter().map(Ribbon::lane).sum();
        let paths = paths(&ribbons, height);
        let start = |path: &String| -> f64 {
            path.strip_prefix("M0 ").unwrap().split(' ').next().unwrap().parse().unwrap()
        };
        let starts: Vec<f64> = paths.iter().map(start).collect();
        assert!(starts.is_sorted() && starts[0] >= 0.0, "{starts:?}");
        assert!((starts[1] - starts[0] - 24.0).abs() < 0.01, "{starts:?}");
    }

    #[test]
    fn what_was_counted_twice_is_said_and_not_drawn() {
        let page = flow("virtio", &Ledger { unaccounted: -7, ..ledger() }, &html! {}).into_string();
        assert!(
            page.contains("Counters tell of 7 more") && !page.contains("class=\"unaccounted\"")
        );
        assert!(flow("<b>", &ledger(), &html! {}).into_string().contains("&lt;b&gt;"));
    }
}
