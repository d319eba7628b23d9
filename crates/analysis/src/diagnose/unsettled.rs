//! Cells that have not reached the scenario's goal.

use vioperf_model::plan::CellId;

use super::{Evidence, about_cells};
use crate::result::{Finding, Settling, Severity};
use crate::wording::{count, percent};

pub fn check(evidence: &Evidence<'_>) -> Vec<Finding> {
    let Some(goal) = evidence.run.scenario.repeat.goal else { return Vec::new() };
    let mut unsettled: Vec<(&CellId, &Settling)> = evidence
        .cells
        .iter()
        // What was never measured is said elsewhere.
        .filter(|cell| cell.trials.completed > 0)
        .filter_map(|cell| Some((&cell.id, cell.settling.as_ref()?)))
        .filter(|(_, settling)| !settling.is_settled)
        .collect();
    let width = |settling: &Settling| settling.half_width_percent.unwrap_or(f64::INFINITY);
    unsettled.sort_by(|a, b| width(b.1).total_cmp(&width(a.1)));
    let cells: Vec<(CellId, String)> =
        unsettled.into_iter().map(|(cell, settling)| (cell.clone(), said(settling))).collect();
    about_cells(
        "unsettled",
        Severity::Doubt,
        &format!(
            "{} of {} not settled within ± {goal}",
            cells.len(),
            count(evidence.cells.len(), "cell")
        ),
        &cells,
        "Give more time (--budget, --most-blocks), longer trials, a wider goal (--goal), or a quieter \
         machine.",
    )
}

fn said(settling: &Settling) -> String {
    let width = match settling.half_width_percent {
        Some(width) => format!("± {}", percent(width)),
        None => "scatter not known".into(),
    };
    match settling.further_trials {
        Some(further) => {
            let trials = count(usize::try_from(further).unwrap_or(usize::MAX), "more trial");
            format!("{width}, about {trials}")
        }
        None => width,
    }
}
