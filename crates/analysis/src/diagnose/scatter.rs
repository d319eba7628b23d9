//! Intervals too wide to compare by.

use vioperf_model::plan::CellId;

use super::{Evidence, about_cells};
use crate::result::{CellAnalysis, Finding, Severity};
use crate::window::percent;
use crate::wording::{self, capitalised};

/// Half widths above this part of the mean are doubtful, in percent.
const WIDE_PERCENT: f64 = 10.0;

pub fn check(evidence: &Evidence<'_>) -> Vec<Finding> {
    // With a goal it is the goal that tells what is too wide.
    if evidence.run.scenario.repeat.goal.is_some() {
        return Vec::new();
    }
    let width = |cell: &CellAnalysis| -> Option<(f64, CellId)> {
        let summary = cell.headline().summary?;
        Some((percent(summary.half_width()?, summary.mean), cell.id.clone()))
    };
    let mut wide: Vec<(f64, CellId)> = evidence
        .cells
        .iter()
        .filter_map(width)
        .filter(|(width, _)| *width > WIDE_PERCENT)
        .collect();
    wide.sort_by(|a, b| b.0.total_cmp(&a.0));
    let cells: Vec<(CellId, String)> = wide
        .into_iter()
        .map(|(width, cell)| (cell, format!("± {}", wording::percent(width))))
        .collect();
    let noun = evidence.cells.first().map_or("throughput", |cell| cell.measure().noun);
    about_cells(
        "wide-interval",
        Severity::Doubt,
        &format!("{} scatters: the 95 % interval is wider than ± 10 %", capitalised(noun)),
        &cells,
        "Measure more blocks or longer trials, on a machine that does nothing else, before trusting \
         small differences.",
    )
}
