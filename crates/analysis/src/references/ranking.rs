//! What is ranked by one factor, there and here.

use std::cmp::Ordering;

use serde_json::Value;
use vioperf_model::reference::{Figure, FigureKind, Reference, in_base_units};

use super::matching::{Own, matches, words};
use super::result::{Agreement, RankedCell, RankedFigure, RankingBeside, Reason, Reversed, Untold};
use crate::columns;
use crate::compare::metric::better_of_column;
use crate::measure::Better;
use crate::ratio::{percent_of, side};
use crate::result::{Metric, RunAnalysis, Severity};

/// What cells of one factor can differ in beside, that is no level of its own.
const USUAL: [&str; 8] =
    ["nic", "disk", "switch", "mtu", "transport", "payload", "streams", "direction"];

/// Every group of figures that differ in one factor and that this run has cells for.
pub fn rankings(
    analysis: &RunAnalysis,
    reference: &Reference,
    cells: &[Own<'_>],
) -> Vec<RankingBeside> {
    let mut found = Vec::new();
    for (factor, figures) in groups(reference) {
        let own = of_own(&factor, &figures, cells);
        for entries in &own {
            let common = common(&factor, entries, &own);
            found.extend(ranking(analysis, &factor, common, entries));
        }
    }
    found
}

/// A published figure and a cell of its setting.
#[derive(Clone, Copy)]
struct Entry<'a> {
    figure: &'a Figure,
    own: Own<'a>,
    metric: &'a Metric,
}

impl Entry<'_> {
    /// The cell's own level of the factor, which the figure may name several of.
    fn level(&self, factor: &str) -> String {
        self.own.cell.value_of(factor).unwrap_or_default()
    }
}

/// Figures of a series that differ in nothing but one factor, by that factor.
fn groups(reference: &Reference) -> Vec<(String, Vec<&Figure>)> {
    let ranked: Vec<&Figure> = reference
        .figures
        .iter()
        .filter(|figure| figure.kind == FigureKind::Measurement && figure.metric.is_some())
        .filter(|figure| figure.load.is_some() && figure.mean().is_some())
        .filter(|figure| !figure.is_impossible())
        .collect();
    let mut groups: Vec<(String, Vec<&Figure>)> = Vec::new();
    for (at, first) in ranked.iter().enumerate() {
        for factor in first.setting.keys() {
            let alike = |other: &&&Figure| differ_only_in(factor, first, other);
            // Each group is found by the first of its figures alone.
            if ranked[..at].iter().any(|other| alike(&other)) {
                continue;
            }
            let group: Vec<&Figure> = ranked[at..].iter().filter(alike).copied().collect();
            let levels = group.iter().map(|figure| &figure.setting[factor]);
            if levels.clone().any(|level| Some(level) != levels.clone().next()) {
                groups.push((factor.clone(), group));
            }
        }
    }
    groups
}

fn differ_only_in(factor: &str, a: &Figure, b: &Figure) -> bool {
    let of = |figure: &Figure| {
        let rest = figure.setting.iter().filter(|(key, _)| *key != factor);
        let rest: Vec<(String, Value)> =
            rest.map(|(key, value)| (key.clone(), value.clone())).collect();
        let has = figure.setting.contains_key(factor);
        (has, rest, figure.series.clone(), figure.metric.clone(), figure.load.clone())
    };
    let counted = |figure: &Figure| in_base_units(&figure.unit).map(|(counted, _)| counted);
    a.is_baseline == b.is_baseline && counted(a) == counted(b) && of(a) == of(b)
}

/// The cells of these figures' settings, in groups that differ in nothing but the factor.
fn of_own<'a>(factor: &str, figures: &[&'a Figure], cells: &[Own<'a>]) -> Vec<Vec<Entry<'a>>> {
    let mut groups: Vec<(Value, Vec<Entry<'a>>)> = Vec::new();
    for own in cells.iter().copied() {
        for figure in figures.iter().copied().filter(|figure| matches(figure, own)) {
            let column = figure.metric.as_deref().and_then(columns::named);
            let Some(metric) = column.and_then(|column| column.read(own.analysed)) else {
                continue;
            };
            if metric.mean().is_none() {
                continue;
            }
            let rest = own.cell.without(&[factor]);
            let entry = Entry { figure, own, metric };
            match groups.iter_mut().find(|(known, _)| *known == rest) {
                Some((_, entries)) => entries.push(entry),
                None => groups.push((rest, vec![entry])),
            }
        }
    }
    groups.into_iter().map(|(_, entries)| entries).collect()
}

fn ranking(
    analysis: &RunAnalysis,
    factor: &str,
    common: String,
    entries: &[Entry<'_>],
) -> Option<RankingBeside> {
    let first = entries.first()?;
    let metric = first.figure.metric.clone()?;
    if entries.iter().all(|entry| entry.figure.id == first.figure.id) {
        return None;
    }
    let better = better_of(&metric);
    let mut published: Vec<&Figure> = Vec::new();
    for entry in entries {
        if !published.iter().any(|figure| figure.id == entry.figure.id) {
            published.push(entry.figure);
        }
    }
    published.sort_by(|a, b| best_first(better, a.base_mean(), b.base_mean()));
    let mut own: Vec<&Entry<'_>> = Vec::new();
    for entry in entries {
        if !own.iter().any(|known| known.own.cell.id == entry.own.cell.id) {
            own.push(entry);
        }
    }
    own.sort_by(|a, b| best_first(better, a.metric.mean(), b.metric.mean()));
    let (mut reversed, mut untold) = (Vec::new(), Vec::new());
    let (mut told, mut not_told) = (0u32, 0u32);
    for (at, a) in entries.iter().enumerate() {
        for b in entries.iter().skip(at + 1) {
            let there = published_order(better, a.figure, b.figure);
            let percent = percent_of(a.metric, b.metric);
            let here = percent.as_ref().and_then(side).map(|side| by(better, side));
            match (there, here) {
                // Two figures of one setting have one cell.
                _ if a.figure.id == b.figure.id || a.own.cell.id == b.own.cell.id => {}
                (Some(there), Some(here)) if there == here => told += 1,
                (Some(Ordering::Less), Some(_)) => reversed.extend(pair(analysis, a, b)),
                (Some(_), Some(_)) => reversed.extend(pair(analysis, b, a)),
                (None, _) => not_told += 1,
                (Some(there), None) => {
                    not_told += 1;
                    let is_first = there == Ordering::Less;
                    let (better, other) = if is_first { (a, b) } else { (b, a) };
                    untold.push(undecided(analysis, better, other));
                }
            }
        }
    }
    let agreement = match (reversed.is_empty(), told) {
        (false, _) => Agreement::Differs,
        (true, 0) => Agreement::NotTold,
        (true, _) => Agreement::Agrees,
    };
    Some(RankingBeside {
        metric,
        factor: factor.to_owned(),
        common,
        published: ranked_figures(factor, better, &published),
        own: ranked_cells(factor, &own),
        agreement,
        not_told,
        untold,
        reversed,
    })
}

/// Which value is the good one: of times that runs are not compared by (what a path adds to a response) the lower.
fn better_of(metric: &str) -> Better {
    let is_time = || columns::named(metric).is_some_and(|column| column.unit == "µs");
    better_of_column(metric).unwrap_or(if is_time() { Better::Lower } else { Better::Higher })
}

fn ranked_figures(factor: &str, better: Better, figures: &[&Figure]) -> Vec<RankedFigure> {
    let ranked = |(at, figure): (usize, &&Figure)| RankedFigure {
        figure: figure.id.clone(),
        level: figure.setting.get(factor).map(words).unwrap_or_default(),
        published: figure.as_printed(),
        is_told_from_next: figures
            .get(at + 1)
            .is_some_and(|next| published_order(better, figure, next).is_some()),
    };
    figures.iter().enumerate().map(ranked).collect()
}

fn ranked_cells(factor: &str, own: &[&Entry<'_>]) -> Vec<RankedCell> {
    let cell = |(at, entry): (usize, &&Entry<'_>)| {
        let next = own.get(at + 1).and_then(|next| percent_of(entry.metric, next.metric));
        RankedCell {
            cell: entry.own.cell.id.clone(),
            level: entry.level(factor),
            mean: entry.metric.mean().unwrap_or_default(),
            is_told_from_next: next.as_ref().and_then(side).is_some(),
        }
    };
    own.iter().enumerate().map(cell).collect()
}

/// What tells this group from others of its factor (`streams 1, far_end remote`): the figure's setting, and in what
/// the groups of this run's cells differ beside.
fn common(factor: &str, entries: &[Entry<'_>], groups: &[Vec<Entry<'_>>]) -> String {
    let Some(first) = entries.first() else { return String::new() };
    let told = |key: &&str| *key != factor && !first.figure.setting.contains_key(*key);
    let levels = first.own.cell.levels.iter().map(|level| level.factor.as_str());
    let differs = |key: &&str| {
        let value = |group: &Vec<Entry<'_>>| Some(group.first()?.own.cell.value_of(key));
        groups.iter().any(|group| value(group) != groups.first().and_then(value))
    };
    let mut beside: Vec<&str> =
        USUAL.iter().copied().chain(levels).filter(told).filter(differs).collect();
    beside.dedup();
    let set = first.figure.setting.keys().map(String::as_str).filter(|key| *key != factor);
    let keys = set.chain(beside);
    let words = keys.filter_map(|key| Some(format!("{key} {}", first.own.cell.value_of(key)?)));
    words.collect::<Vec<_>>().join(", ")
}

fn best_first(better: Better, a: Option<f64>, b: Option<f64>) -> Ordering {
    let order = a.unwrap_or(f64::NAN).total_cmp(&b.unwrap_or(f64::NAN));
    match better {
        Better::Higher => order.reverse(),
        Better::Lower => order,
    }
}

/// `Less` where the first is the better one.
fn by(better: Better, side: Ordering) -> Ordering {
    match better {
        Better::Higher => side.reverse(),
        Better::Lower => side,
    }
}

/// `Less` where the first is the better one; nothing where their repetitions overlap.
fn published_order(better: Better, a: &Figure, b: &Figure) -> Option<Ordering> {
    let reach = |figure: &Figure| {
        let numbers = figure.base_numbers();
        let low = numbers.iter().copied().fold(f64::INFINITY, f64::min);
        (low, numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max))
    };
    let ((low_a, high_a), (low_b, high_b)) = (reach(a), reach(b));
    if low_a > high_b {
        Some(by(better, Ordering::Greater))
    } else if high_a < low_b {
        Some(by(better, Ordering::Less))
    } else {
        None
    }
}

/// Two that are the other way round: `there` is the better one as published.
fn pair(analysis: &RunAnalysis, there: &Entry<'_>, here: &Entry<'_>) -> Option<Reversed> {
    Some(Reversed {
        better_there: there.own.cell.id.clone(),
        better_here: here.own.cell.id.clone(),
        own_percent: percent_of(there.metric, here.metric)?,
        why: reasons(analysis, there, here),
    })
}

/// Two that are in an order there, and in none here.
fn undecided(analysis: &RunAnalysis, better: &Entry<'_>, other: &Entry<'_>) -> Untold {
    let mut why: Vec<Reason> = limits(other)
        .into_iter()
        .filter(|limit| better.own.analysed.limits.iter().any(|own| own.rule == limit.rule))
        .map(|limit| Reason { cell: None, ..limit })
        .collect();
    why.extend(doubts(analysis, better, other));
    Untold {
        better_there: better.own.cell.id.clone(),
        other: other.own.cell.id.clone(),
        own_percent: percent_of(better.metric, other.metric),
        why,
    }
}

/// What limits the one that is slower than it should be, and doubts about either.
fn reasons(analysis: &RunAnalysis, slow: &Entry<'_>, fast: &Entry<'_>) -> Vec<Reason> {
    limits(slow).into_iter().chain(doubts(analysis, slow, fast)).collect()
}

fn limits(entry: &Entry<'_>) -> Vec<Reason> {
    let limits = entry.own.analysed.limits.iter().map(|limit| Reason {
        rule: limit.rule.clone(),
        cell: Some(entry.own.cell.id.clone()),
        title: format!("{} ({})", limit.title, limit.confidence),
    });
    limits.collect()
}

/// Doubts about either of two; and that guests were emulated, which holds for all.
fn doubts(analysis: &RunAnalysis, one: &Entry<'_>, other: &Entry<'_>) -> Vec<Reason> {
    const OF_ALL: [&str; 1] = ["software-emulation"];
    let mut found = Vec::new();
    for finding in &analysis.findings {
        let ids = [&one.own.cell.id, &other.own.cell.id];
        let of_cell = ids.into_iter().find(|id| finding.cells.contains(id));
        let is_doubt = finding.severity != Severity::Note && of_cell.is_some();
        if is_doubt || OF_ALL.contains(&finding.rule.as_str()) {
            found.push(Reason {
                rule: finding.rule.clone(),
                cell: of_cell.cloned(),
                title: finding.title.clone(),
            });
        }
    }
    found
}
