//! What every format for people writes of a comparison.

use vioperf_analysis::compare::metric::{MetricUnit, by_name};
use vioperf_analysis::compare::result::{
    ComparedRow, DesignKind, DifferenceUnit, RunComparison, Verdict,
};
use vioperf_analysis::compare::words::{unit_of, with_interval};
use vioperf_analysis::result::Summary;
use vioperf_analysis::wording::{self, decimals, three_digits};
use vioperf_model::plan::CellId;

use crate::report::values::NO_VALUE;

/// The rows of one metric, in the order of cells.
#[derive(Debug)]
pub struct Group<'a> {
    /// The metric.
    pub metric: &'static str,
    /// The variant that B is, where there are several.
    pub variant: Option<&'a str>,
    /// Its name for people.
    pub title: &'static str,
    /// The unit that suits all rows, and by how much to divide.
    pub unit: (&'static str, f64),
    /// The rows.
    pub rows: Vec<&'a ComparedRow>,
}

/// The rows by metric, in the order in which each first comes.
pub fn groups(comparison: &RunComparison) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for row in &comparison.rows {
        match groups
            .iter_mut()
            .find(|g| g.metric == row.metric && g.variant == row.variant.as_deref())
        {
            Some(group) => group.rows.push(row),
            None => groups.push(Group {
                metric: row.metric,
                variant: row.variant.as_deref(),
                title: row.title,
                unit: (row.unit, 1.0),
                rows: vec![row],
            }),
        }
    }
    for group in &mut groups {
        let means = group.rows.iter().flat_map(|row| [row.a, row.b]).flatten();
        // Of what differs by powers of ten the smallest has to stay readable.
        let least = means.map(|summary| summary.mean).filter(|mean| *mean > 0.0);
        let least = least.fold(f64::INFINITY, f64::min);
        let unit = by_name(group.metric).map_or(MetricUnit::Plain(""), |metric| metric.unit);
        group.unit = unit.scale(if least.is_finite() { least } else { 0.0 });
    }
    groups
}

impl Group<'_> {
    /// A mean in the group's unit.
    pub fn mean(&self, summary: Option<Summary>) -> String {
        summary.map_or_else(|| NO_VALUE.into(), |s| three_digits(s.mean / self.unit.1))
    }

    /// What is compared, which way is good, and from where on it matters.
    pub fn heading(&self) -> String {
        let Some(row) = self.rows.first() else { return self.title.to_owned() };
        let good = if row.higher_is_better { "more" } else { "less" };
        let from = match row.difference.map(|difference| difference.unit) {
            Some(DifferenceUnit::Unit) => format!("{} {}", row.smallest_difference, row.unit),
            _ => percent(row.smallest_difference),
        };
        let variant = self.variant.map_or_else(String::new, |variant| format!(", B is {variant}"));
        format!(
            "{} ({}){variant}: {good} is better, {from} or more matters",
            self.title, self.unit.0
        )
    }
}

/// With as many decimals as it needs (`3 %`, `2.5 %`).
fn percent(value: f64) -> String {
    let text = format!("{value:.2}");
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

/// A difference with its interval, for the column whose head says its unit or percent.
pub fn difference(row: &ComparedRow) -> String {
    row.difference.map_or_else(|| NO_VALUE.into(), |d| with_interval(&d, row.unit))
}

/// The p-value (`0.004`, `<0.001`).
pub fn p_value(row: &ComparedRow) -> String {
    match row.difference.and_then(|difference| difference.p_value) {
        None => NO_VALUE.into(),
        Some(p) if p < 0.001 => "<0.001".into(),
        Some(p) if p < 0.1 => format!("{p:.3}"),
        Some(p) => format!("{p:.2}"),
    }
}

/// The verdict in words.
pub fn verdict(row: &ComparedRow) -> String {
    match row.verdict {
        Verdict::Worse => "worse".into(),
        Verdict::Better => "better".into(),
        Verdict::Negligible => "negligible".into(),
        Verdict::NoDifference => {
            let bound =
                row.difference.and_then(|d| Some((d.no_larger_than?, unit_of(&d, row.unit))));
            bound.map_or_else(
                || "none".into(),
                |(bound, unit)| format!("none > {:.*} {unit}", decimals(bound).min(2), bound),
            )
        }
        Verdict::Unclear => "unclear".into(),
        Verdict::TooFewBlocks => "too few blocks".into(),
        Verdict::NotComparable => "not comparable".into(),
    }
}

/// How to read it.
pub fn legend(comparison: &RunComparison) -> String {
    let test = &comparison.test;
    let how = match comparison.design {
        DesignKind::Paired => {
            "A and B were measured in one run, each block holding both: signs of whole blocks are flipped."
        }
        DesignKind::Separate => {
            "A and B are two runs: whole blocks are permuted, and a drift from one run to the next and \
             the dependence of blocks are allowed for in p and intervals. What changes from run to run \
             and not from block to block is in no interval: A and B in one run tell more."
        }
    };
    format!(
        "B vs A: geometric means over blocks, 95 % interval. p: permutation test, adjusted for all {} \
         rows that were tested (seed {}); a difference counts below {}. {how}",
        test.rows, test.seed, test.alpha
    )
}

/// What A and B are.
pub fn sides(comparison: &RunComparison) -> [String; 2] {
    [("A", &comparison.a), ("B", &comparison.b)].map(|(name, side)| {
        format!("{name}: {} ({}, {})", side.name, side.scenario, side.started_at)
    })
}

/// What else differs, one line each.
pub fn changes(comparison: &RunComparison) -> Vec<String> {
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| NO_VALUE.into());
    let changed = comparison.changed.iter();
    changed.map(|c| format!("{}: {} → {}", c.what, text(&c.a), text(&c.b))).collect()
}

/// Why rows say no more than they do: each reason with its cells.
pub fn notes(group: &Group<'_>) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<(CellId, String)>)> = Vec::new();
    for row in &group.rows {
        let Some(reason) = row.reason.as_deref() else { continue };
        let cell = (CellId(row.cell.clone()), String::new());
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, cells)) => cells.push(cell),
            None => reasons.push((reason, vec![cell])),
        }
    }
    let note = |(reason, cells): (&str, Vec<(CellId, String)>)| {
        format!("{}: {}.", wording::cells(&cells), reason)
    };
    reasons.into_iter().map(note).collect()
}

/// What stands beside what, of variants.
pub fn beside(comparison: &RunComparison) -> String {
    format!("Variants: {} (B) beside {} (A)", comparison.b.name, comparison.a.name)
}

/// What [`changes`] are.
pub fn changes_title(comparison: &RunComparison) -> &'static str {
    match comparison.design {
        DesignKind::Paired => "What the variants were given otherwise (A → B)",
        DesignKind::Separate => "What else differs between the runs (A → B)",
    }
}
