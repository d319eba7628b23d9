//! Published figures beside a run's own: ratios and ranking, never rates, as hardware, year and versions differ.

mod matching;
mod of_run;
mod ranking;
mod result;

use vioperf_model::plan::Cell;
use vioperf_model::reference::{Figure, FigureKind, Reference};

use crate::columns;
use crate::ratio::percents_of;
use crate::result::{RunAnalysis, Summary};
use crate::sanity::{self, ReferenceDefect};
use crate::statistics::summarise_ratios;
use matching::Own;

pub use of_run::{hardware, of_run, versions};
pub use result::{
    Agreement, BesideReference, FigureBeside, RankedCell, RankedFigure, RankingBeside, Reason,
    Reversed, Untold,
};

/// The run beside a reference.
pub fn beside(analysis: &RunAnalysis, reference: &Reference) -> BesideReference {
    let plan = &analysis.run.plan;
    let cells: Vec<Own<'_>> = plan
        .cells
        .iter()
        .zip(&analysis.cells)
        .map(|(cell, analysed)| Own { cell, analysed })
        .collect();
    let all_defects = sanity::of_reference(reference);
    let mut figures = Vec::new();
    let mut not_compared = std::collections::BTreeMap::new();
    for figure in &reference.figures {
        match of_figure(reference, figure, &cells, &all_defects) {
            Ok(found) => figures.extend(found),
            Err(reason) => *not_compared.entry(reason.to_owned()).or_insert(0) += 1,
        }
    }
    let rankings = ranking::rankings(analysis, reference, &cells);
    let is_used = |defect: &ReferenceDefect| {
        let ranked = rankings.iter().flat_map(|ranking| &ranking.published);
        let mut used = figures.iter().map(|f| &f.figure).chain(ranked.map(|r| &r.figure));
        defect.figures.is_empty() || used.any(|id| defect.figures.contains(id))
    };
    BesideReference {
        name: reference.name.clone(),
        title: reference.title.clone(),
        year: reference.year,
        year_is_inferred: reference.year_is_inferred,
        hardware: reference.hardware.clone(),
        versions: reference.versions.clone(),
        own_hardware: hardware(&analysis.run),
        own_versions: versions(&analysis.run),
        notes: reference.notes.clone(),
        impossible: all_defects.iter().filter(|defect| is_used(defect)).cloned().collect(),
        figures,
        rankings,
        not_compared,
    }
}

/// The cells that a figure is compared with, or why there is none.
fn of_figure(
    reference: &Reference,
    figure: &Figure,
    cells: &[Own<'_>],
    defects: &[ReferenceDefect],
) -> Result<Vec<FigureBeside>, &'static str> {
    if !matches!(figure.kind, FigureKind::Measurement | FigureKind::Claim) {
        return Err("a setting, a theory, or told before");
    }
    let (Some(name), Some(_)) = (&figure.metric, &figure.load) else {
        return Err("no metric of a scenario is the same");
    };
    if figure.is_impossible() {
        return Err("a time of zero, or a number below it, that cannot be");
    }
    let matching: Vec<Own<'_>> =
        cells.iter().copied().filter(|own| matching::matches(figure, *own)).collect();
    if matching.is_empty() {
        return Err("no cell of this run has its setting");
    }
    let Some(published_percent) = reference.percent_of(figure) else {
        return Err("nothing is published to divide it by: ranked alone");
    };
    let published_percents = repetitions(reference, figure);
    let column = columns::named(name).ok_or("this vioperf does not know its metric")?;
    let of_divisor =
        figure.divided_by.first().and_then(|id| reference.figure(id)?.metric.as_deref());
    let divisor_column = of_divisor.and_then(columns::named).unwrap_or(column);
    let mut found = Vec::new();
    for own in matching {
        let Some(divisor) = divisor(reference, figure, own, cells) else { continue };
        let both = column.read(own.analysed).zip(divisor_column.read(divisor.analysed));
        let own_percents = both.map_or_else(Vec::new, |(mine, other)| percents_of(mine, other));
        let Some(own_percent) = summarise_ratios(&own_percents) else { continue };
        found.push(FigureBeside {
            figure: figure.id.clone(),
            cell: own.cell.id.clone(),
            metric: name.clone(),
            published: figure.as_printed(),
            divided_by: divided_by(own, divisor, divisor_column.name),
            published_percent,
            published_percents: published_percents.clone(),
            own_percent,
            own_percents,
            agreement: agreement(&published_percents, &own_percent),
            otherwise: matching::otherwise(figure, own.cell),
            doubts: doubts(figure, defects),
        });
    }
    if found.is_empty() {
        Err("it, or what it is divided by, was not measured here")
    } else {
        Ok(found)
    }
}

/// What a cell is divided by: its baseline, another cell, or another metric of its own.
fn divided_by(own: Own<'_>, divisor: Own<'_>, metric: &str) -> String {
    if own.cell.id == divisor.cell.id {
        return format!("its {metric}");
    }
    match divisor.analysed.is_baseline && !own.analysed.is_baseline {
        true => "baseline".to_owned(),
        false => divisor.cell.id.0.clone(),
    }
}

/// The cell that is to this one what the figure's divisor is to the figure: its baseline, or the one that differs in
/// nothing but what those two differ in.
fn divisor<'a>(
    reference: &Reference,
    figure: &Figure,
    own: Own<'a>,
    cells: &[Own<'a>],
) -> Option<Own<'a>> {
    let there = figure.divided_by.first().and_then(|id| reference.figure(id));
    if figure.is_percent_of_baseline
        || there.is_some_and(|there| there.is_baseline && !figure.is_baseline)
    {
        let id = own.cell.baseline.as_ref()?;
        return cells.iter().copied().find(|other| other.cell.id == *id);
    }
    let there = there?;
    let keys = figure.setting.keys().chain(there.setting.keys());
    let differing: Vec<&str> = keys
        .filter(|key| figure.setting.get(*key) != there.setting.get(*key))
        .map(String::as_str)
        .collect();
    let rest = |cell: &Cell| cell.without(&differing);
    let wanted = rest(own.cell);
    cells
        .iter()
        .copied()
        .find(|other| matching::matches(there, *other) && rest(other.cell) == wanted)
}

/// The published repetitions, in percent of the mean of what the figure is divided by.
fn repetitions(reference: &Reference, figure: &Figure) -> Vec<f64> {
    if figure.is_percent_of_baseline {
        return figure.numbers();
    }
    let Some(divisor) = reference.divisor_of(figure) else { return Vec::new() };
    figure.base_numbers().into_iter().map(|value| 100.0 * value / divisor).collect()
}

/// Whether any of the published repetitions is within the own interval.
fn agreement(published: &[f64], own: &Summary) -> Agreement {
    let Some(interval) = own.interval_95.filter(|_| !published.is_empty()) else {
        return Agreement::NotTold;
    };
    let low = published.iter().copied().fold(f64::INFINITY, f64::min);
    let high = published.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if low <= interval.high && high >= interval.low {
        Agreement::Agrees
    } else {
        Agreement::Differs
    }
}

fn doubts(figure: &Figure, defects: &[ReferenceDefect]) -> Vec<String> {
    let is_of = |defect: &&ReferenceDefect| {
        let mut ids = std::iter::once(&figure.id).chain(&figure.divided_by);
        ids.any(|id| defect.figures.contains(id))
    };
    let mut said: Vec<String> =
        defects.iter().filter(is_of).map(|defect| defect.what.clone()).collect();
    said.dedup();
    said
}

#[cfg(test)]
mod tests;
