//! The comparison in plain sentences, and what stands against trusting it.

use vioperf_model::plan::CellId;

use super::result::{ComparedRow, Difference, DifferenceUnit, TestFacts, Verdict};
use crate::result::{Finding, RunAnalysis, Severity};
use crate::wording::{count, decimals};

/// At most so many differences are named in a sentence.
const NAMED: usize = 3;

/// A difference with its sign and unit (`-6.2 %`).
pub fn signed(value: f64, unit: &str) -> String {
    format!("{value:+.*} {unit}", decimals(value).min(2))
}

/// A difference with its interval (`-6.2 % (-8.1 to -4.3)`).
pub fn with_interval(difference: &Difference, unit: &str) -> String {
    let value = signed(difference.value, unit_of(difference, unit));
    match difference.interval_95 {
        None => value,
        Some(interval) => {
            let widest = interval.low.abs().max(interval.high.abs());
            let places = decimals(widest).min(2);
            format!("{value} ({:+.places$} to {:+.places$})", interval.low, interval.high)
        }
    }
}

/// What a difference is told in.
pub fn unit_of<'a>(difference: &Difference, unit: &'a str) -> &'a str {
    match difference.unit {
        DifferenceUnit::Percent => "%",
        DifferenceUnit::Unit => unit,
    }
}

/// The verdict in sentences.
pub fn summary(rows: &[ComparedRow], test: &TestFacts) -> Vec<String> {
    let of =
        |verdict: Verdict| rows.iter().filter(|row| row.verdict == verdict).collect::<Vec<_>>();
    let (worse, better) = (of(Verdict::Worse), of(Verdict::Better));
    let all = count(rows.len(), "comparison");
    let mut sentences = Vec::new();
    for (word, found) in [("worse", &worse), ("better", &better)] {
        if !found.is_empty() {
            sentences.push(format!("B is {word} in {} of {all}: {}.", found.len(), named(found)));
        }
    }
    if worse.is_empty() && better.is_empty() {
        sentences.push(format!("No difference that counts in {all}."));
    }
    let negligible = of(Verdict::Negligible);
    if !negligible.is_empty() {
        let n = negligible.len();
        sentences
            .push(format!("In {n} there is one, but less than matters: {}.", named(&negligible)));
    }
    let same = of(Verdict::NoDifference);
    let most =
        same.iter().filter_map(|row| row.difference?.no_larger_than.filter(|_| in_percent(row)));
    let most = most.fold(0.0, f64::max);
    if !same.is_empty() {
        let bound = if most > 0.0 {
            format!(" (at most {:.*} %)", decimals(most).min(2), most)
        } else {
            String::new()
        };
        sentences.push(format!("In {} none is as large as matters{bound}.", same.len()));
    }
    let unclear = of(Verdict::Unclear);
    if !unclear.is_empty() {
        let further = unclear.iter().filter_map(|row| row.further_blocks).max();
        let advice = further.map_or_else(String::new, |blocks| {
            format!(": {} more would tell", count(blocks, "block"))
        });
        sentences.push(format!("In {} it is unclear{advice}.", unclear.len()));
    }
    let few = of(Verdict::TooFewBlocks);
    if let Some(reason) = few.first().and_then(|row| row.reason.as_ref()) {
        sentences.push(format!(
            "In {} nothing can be said at a level of {} %: {reason}.",
            few.len(),
            100.0 * test.alpha
        ));
    }
    let none = of(Verdict::NotComparable);
    if !none.is_empty() {
        sentences.push(format!("{} cannot be compared.", count(none.len(), "row")));
    }
    sentences
}

fn in_percent(row: &ComparedRow) -> bool {
    row.difference.is_some_and(|difference| difference.unit == DifferenceUnit::Percent)
}

/// The rows with the largest differences.
fn named(rows: &[&ComparedRow]) -> String {
    let size = |row: &ComparedRow| row.difference.map_or(0.0, |difference| difference.value.abs());
    let mut largest = rows.to_vec();
    largest.sort_by(|a, b| size(b).total_cmp(&size(a)));
    let name = |row: &&ComparedRow| {
        let difference = row.difference.map(|d| with_interval(&d, row.unit)).unwrap_or_default();
        format!("{} {} {difference}", row.name(), row.title)
    };
    let mut names: Vec<String> = largest.iter().take(NAMED).map(name).collect();
    if rows.len() > NAMED {
        names.push(format!("and {} more", rows.len() - NAMED));
    }
    names.join("; ")
}

/// What stands against trusting a comparison of two runs.
pub fn doubts(a: &RunAnalysis, b: &RunAnalysis, rows: &[ComparedRow]) -> Vec<Finding> {
    let mut doubts = Vec::new();
    let cells = |rows: &[&ComparedRow]| rows.iter().map(|row| CellId(row.cell.clone())).collect();
    let baselines: Vec<&ComparedRow> =
        rows.iter().filter(|row| row.is_baseline && row.verdict.is_difference()).collect();
    if !baselines.is_empty() && rows.iter().any(|row| !row.is_baseline) {
        doubts.push(Finding {
            pictures: Vec::new(),
            rule: "baseline-changed".into(),
            severity: Severity::Doubt,
            cells: cells(&baselines),
            title: "The host's own path differs as well: the machine changed, not only the guest".into(),
            evidence: named(&baselines),
            advice: "Compare `--metric percent_of_baseline`, which takes both out of the same block, or \
                     measure A and B in one run"
                .into(),
        });
    }
    for (name, run) in [("A", a), ("B", b)] {
        let grave = run.findings.iter().filter(|finding| finding.severity != Severity::Note);
        let titles: Vec<&str> = grave.map(|finding| finding.title.as_str()).collect();
        if !titles.is_empty() {
            doubts.push(Finding {
                pictures: Vec::new(),
                rule: "doubts-of-a-run".into(),
                severity: Severity::Doubt,
                cells: Vec::new(),
                title: format!("{name} itself is in doubt"),
                evidence: titles.join("; "),
                advice: "Read that run's own report first".into(),
            });
        }
    }
    doubts
}
