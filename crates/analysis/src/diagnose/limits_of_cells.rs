//! What limits cells, told once for all that are limited by the same.

use vioperf_model::plan::CellId;

use super::{Evidence, about_cells};
use crate::result::{Finding, Limit, Severity};

pub fn check(evidence: &Evidence<'_>) -> Vec<Finding> {
    let mut found: Vec<(&Limit, Vec<(CellId, String)>)> = Vec::new();
    for cell in evidence.cells {
        let Some(limit) = cell.limits.first() else { continue };
        let Some(fact) = limit.evidence.first() else { continue };
        let told = (cell.id.clone(), format!("{}: {}", fact.what, fact.value));
        match found.iter_mut().find(|(first, _)| first.rule == limit.rule) {
            Some((_, cells)) => cells.push(told),
            None => found.push((limit, vec![told])),
        }
    }
    found
        .iter()
        .flat_map(|(limit, cells)| {
            about_cells(&limit.rule, Severity::Note, &limit.title, cells, &limit.advice)
        })
        .collect()
}
