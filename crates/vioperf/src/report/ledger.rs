//! Where datagrams were lost, in words: the same for every format.

use vioperf_analysis::ledger::{Ledger, Loss};
use vioperf_analysis::result::{CellAnalysis, RunAnalysis};
use vioperf_analysis::wording::percent;

use super::text::wrap;
use super::values::workloads;

/// What a section of it is called.
pub const TITLE: &str = "Where datagrams were lost";
/// What its numbers are of.
pub const LEGEND: &str = "All trials together, from the first datagram to the last, warm-up included; in percent of what was \
     lost. Unaccounted: no counter tells where; below zero, counters tell of more than was lost.";
/// So many cells are told where not all are asked for.
const CELLS: usize = 8;
/// So many places of a cell are named in a line.
const PLACES_OF_A_LINE: usize = 3;

/// A cell that lost something, or whose counters contradict each other.
pub struct Told<'a> {
    /// The load, where the run has several.
    pub load: Option<String>,
    /// The cell.
    pub cell: &'a CellAnalysis,
    /// Its ledger.
    pub ledger: &'a Ledger,
}

/// Those of a run, in the order of its cells.
pub fn told(analysis: &RunAnalysis) -> Vec<Told<'_>> {
    let workloads = workloads(analysis);
    let has_several = workloads.len() > 1;
    let mut all = Vec::new();
    for workload in &workloads {
        for cell in &workload.cells {
            let Some(ledger) = of_cell(cell) else { continue };
            all.push(Told { load: has_several.then(|| workload.title.clone()), cell, ledger });
        }
    }
    all
}

/// A line a cell, at most so wide; where not all are asked for, of those that lost most of what they sent.
pub fn lines(analysis: &RunAnalysis, all: bool, columns: usize) -> String {
    let mut told = told(analysis);
    let left_out = if all { 0 } else { told.len().saturating_sub(CELLS) };
    if left_out > 0 {
        told.sort_by(|a, b| b.ledger.lost_share().total_cmp(&a.ledger.lost_share()));
        told.truncate(CELLS);
    }
    let mut lines = String::new();
    for Told { load, cell, ledger } in &told {
        let load = load.as_ref().map(|load| format!(", {load}")).unwrap_or_default();
        let what = format!("{}{load}: {}: {}", cell.path, lost_of_sent(ledger), places(ledger));
        lines.push_str(&wrap(&what, columns, "  ", "    "));
    }
    if left_out > 0 {
        lines.push_str(&format!("  … and {left_out} more cells (--wide)\n"));
    }
    lines
}

/// The ledger of a cell that has something to tell.
pub fn of_cell(cell: &CellAnalysis) -> Option<&Ledger> {
    cell.ledger.as_ref().filter(|ledger| ledger.lost > 0 || ledger.unaccounted != 0)
}

/// The places of a ledger, the worst first: `tap's queue 99.6 %, too late 0.4 %`.
pub fn places(ledger: &Ledger) -> String {
    let mut losses: Vec<&Loss> = ledger.losses.iter().collect();
    losses.sort_by_key(|loss| std::cmp::Reverse(loss.datagrams));
    let of_lost = |datagrams: f64| percent(100.0 * datagrams / ledger.lost.max(1) as f64);
    let named = losses.iter().take(PLACES_OF_A_LINE);
    let mut parts: Vec<String> = named
        .map(|loss| format!("{} {}", loss.place.title(), of_lost(loss.datagrams as f64)))
        .collect();
    let others: u64 = losses.iter().skip(PLACES_OF_A_LINE).map(|loss| loss.datagrams).sum();
    if others > 0 {
        parts.push(format!("elsewhere {}", of_lost(others as f64)));
    }
    if ledger.unaccounted != 0 {
        parts.push(format!("unaccounted {}", of_lost(ledger.unaccounted as f64)));
    }
    let ways = of_ways(ledger).map(|ways| format!(" ({ways})")).unwrap_or_default();
    parts.join(", ") + &ways
}

/// How much of what was lost was requests and how much responses, of a load of such.
pub fn of_ways(ledger: &Ledger) -> Option<String> {
    let responses = ledger.responses.as_ref()?;
    let requests = ledger.lost.saturating_sub(responses.lost);
    Some(format!("{} requests, {} responses", grouped(requests), grouped(responses.lost)))
}

/// How much of what was sent was lost: `303 397 of 339 968 (89.2 %)`.
pub fn lost_of_sent(ledger: &Ledger) -> String {
    format!(
        "{} of {} ({})",
        grouped(ledger.lost),
        grouped(ledger.sent),
        percent(100.0 * ledger.lost_share())
    )
}

/// A whole number, its digits in groups of three.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let first = digits.len() % 3;
    let mut groups: Vec<&str> = Vec::new();
    let (head, mut rest) = digits.split_at(first);
    groups.extend((!head.is_empty()).then_some(head));
    while !rest.is_empty() {
        let (group, further) = rest.split_at(3);
        groups.push(group);
        rest = further;
    }
    groups.join("\u{202f}")
}

#[cfg(test)]
mod tests {
    use vioperf_analysis::ledger::LossPlace;

    use super::*;

    #[test]
    fn the_worst_places_are_named_first_and_what_has_no_place_too() {
        let place = |place, datagrams| Loss { place, datagrams, counted: datagrams };
        let ledger = Ledger {
            sent: 20_000,
            lost: 1_000,
            received: 19_000,
            losses: vec![
                place(LossPlace::SenderQdisc, 5),
                place(LossPlace::Switch, 100),
                place(LossPlace::TapQueue, 850),
                place(LossPlace::TooLate, 40),
            ],
            unaccounted: 5,
            ..Ledger::default()
        };
        assert_eq!(
            places(&ledger),
            "tap's queue 85.0 %, switch 10.0 %, too late 4.00 %, elsewhere 0.500 %, unaccounted 0.500 %"
        );
        assert_eq!(lost_of_sent(&ledger), "1\u{202f}000 of 20\u{202f}000 (5.00 %)");
        let responses = Some(Box::new(Ledger { lost: 400, ..Ledger::default() }));
        let told = places(&Ledger { responses, ..ledger });
        assert!(told.ends_with("unaccounted 0.500 % (600 requests, 400 responses)"), "{told}");
    }

    #[test]
    fn digits_are_grouped_from_the_right() {
        for (number, written) in [(0, "0"), (999, "999"), (1000, "1 000"), (1234567, "1 234 567")] {
            assert_eq!(grouped(number), written.replace(' ', "\u{202f}"));
        }
    }
}
