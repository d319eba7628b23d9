//! Trials that do not count.

use std::collections::BTreeMap;

use vioperf_model::plan::CellId;

use super::Evidence;
use crate::result::{Finding, Severity};
use crate::wording::{self, count};

pub fn check(evidence: &Evidence<'_>) -> Vec<Finding> {
    let mut by_reason: BTreeMap<&str, BTreeMap<&CellId, usize>> = BTreeMap::new();
    for trial in &evidence.gathered.void {
        *by_reason.entry(&trial.reason).or_default().entry(&trial.cell).or_default() += 1;
    }
    let advice = match evidence.run.scenario.testbed.server {
        None => {
            "They count for nothing; each is listed with the last lines of its guest's console."
        }
        Some(_) => {
            "It counts for nothing; what was measured until then is told above, if anything was."
        }
    };
    by_reason
        .into_iter()
        .map(|(reason, cells)| Finding { advice: advice.into(), ..finding(reason, &cells) })
        .collect()
}

fn finding(reason: &str, cells: &BTreeMap<&CellId, usize>) -> Finding {
    let named: Vec<(CellId, String)> =
        cells.iter().map(|(cell, n)| ((*cell).clone(), count(*n, "trial"))).collect();
    let void: usize = cells.values().sum();
    Finding {
        rule: "void-trials".into(),
        severity: Severity::Warning,
        cells: named.iter().map(|(cell, _)| cell.clone()).collect(),
        title: format!("{} void: {reason}", if void == 1 { "1 trial is" } else { "Trials are" }),
        evidence: wording::cells(&named),
        advice: String::new(),
        pictures: Vec::new(),
    }
}
