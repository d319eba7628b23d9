//! Variants of one run, each set beside the first.

use std::collections::BTreeMap;

use super::metric::Wanted;
use super::questions::{self, Question};
use super::result::{COMPARISON_SCHEMA_VERSION, Change, DesignKind, RunComparison, Side};
use super::series::Design;
use super::{Options, answer, changes, words};
use crate::result::{CellAnalysis, RunAnalysis};

/// Compares the variants of a run: every further one with the first. `None` of a run without.
pub fn variants(run: &RunAnalysis, options: &Options) -> Option<RunComparison> {
    let names = names(run);
    let (first, others) = names.split_first().filter(|(_, others)| !others.is_empty())?;
    let questions: Vec<Question<'_>> = others
        .iter()
        .flat_map(|other| {
            let mut asked = beside(run, first, other, &options.metrics);
            let told = (others.len() > 1).then(|| (*other).to_owned());
            asked.iter_mut().for_each(|question| question.variant.clone_from(&told));
            asked
        })
        .collect();
    let settings = options.settings(run.run.plan.seed);
    let (rows, test) = answer(&questions, Design::Paired, &settings, options);
    let side = |name: String| Side {
        name,
        started_at: run.run.started_at.clone(),
        scenario: run.run.scenario.name.clone(),
        vioperf_version: run.run.vioperf_version.clone(),
    };
    Some(RunComparison {
        notice: run.notice.clone(),
        schema_version: COMPARISON_SCHEMA_VERSION,
        design: DesignKind::Paired,
        a: side((*first).to_owned()),
        b: side(others.join(", ")),
        summary: words::summary(&rows, &test),
        changed: changed(run, first, others),
        doubts: Vec::new(),
        test,
        rows,
    })
}

/// Names of the variants, in the plan's order.
fn names(run: &RunAnalysis) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for variant in run.cells.iter().filter_map(|cell| cell.variant.as_ref()) {
        if !names.contains(&variant.name.as_str()) {
            names.push(&variant.name);
        }
    }
    names
}

/// The questions about two variants: cells that differ in nothing else.
fn beside<'a>(
    run: &'a RunAnalysis,
    first: &str,
    other: &str,
    wanted: &[Wanted],
) -> Vec<Question<'a>> {
    type Sides<'a> = [Option<&'a CellAnalysis>; 2];
    let mut cells: Vec<(&str, Sides<'a>)> = Vec::new();
    for cell in &run.cells {
        let Some(variant) = &cell.variant else { continue };
        let Some(side) = [first, other].iter().position(|name| *name == variant.name) else {
            continue;
        };
        let of = variant.of.0.as_str();
        let known = cells.iter().position(|(known, _)| *known == of);
        let at = known.unwrap_or_else(|| {
            cells.push((of, [None, None]));
            cells.len() - 1
        });
        cells[at].1[side] = Some(cell);
    }
    cells.into_iter().flat_map(|(of, sides)| questions::of_cell(of, sides, wanted)).collect()
}

/// What the variants were given otherwise.
fn changed(run: &RunAnalysis, first: &str, others: &[&str]) -> Vec<Change> {
    let given = |name: &str| -> BTreeMap<String, String> {
        let variant = run.run.scenario.variants.iter().find(|variant| variant.name == name);
        variant.map(changes::dotted).unwrap_or_default()
    };
    let of_first = given(first);
    let mut changed = Vec::new();
    for other in others {
        let of_other = given(other);
        let prefix = if others.len() > 1 { format!("{other} ") } else { String::new() };
        for key in changes::union([&of_first, &of_other]).into_iter().filter(|key| key != "name") {
            let (a, b) = (of_first.get(&key).cloned(), of_other.get(&key).cloned());
            if a != b {
                changed.push(Change { what: format!("{prefix}{key}"), a, b });
            }
        }
    }
    changed
}
