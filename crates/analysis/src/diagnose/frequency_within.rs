//! The frequency of the host's busy cores moved while a trial was measured.

use vioperf_model::plan::CellId;

use super::frequency::{APART_PERCENT, HOLD_IT};
use super::{Evidence, about_cells};
use crate::result::{CellAnalysis, Finding, Severity};
use crate::speeds::{BusyCores, gigahertz, named};
use crate::wording;

pub fn check(evidence: &Evidence<'_>) -> Vec<Finding> {
    let seen = |cell: &CellAnalysis| {
        let trials = &evidence.gathered.of_cell(&cell.id)?.completed;
        let (percent, said) = moved(trials.iter().filter_map(|t| t.speeds.busy.as_ref().ok()))?;
        Some((percent, cell.id.clone(), said))
    };
    let mut over: Vec<(f64, CellId, String)> = evidence.cells.iter().filter_map(seen).collect();
    over.sort_by(|a, b| b.0.total_cmp(&a.0));
    let cells: Vec<(CellId, String)> =
        over.into_iter().map(|(_, cell, said)| (cell, said)).collect();
    about_cells(
        "frequency-moves",
        Severity::Doubt,
        "The busy cores' frequency moved while trials were measured",
        &cells,
        &format!(
            "Medians of the thirds of the window. {HOLD_IT} A longer workload.warmup helps where it \
                  settles after a while."
        ),
    )
}

/// How far it moved in the trial where it moved most, if that is far.
fn moved<'t>(trials: impl Iterator<Item = &'t BusyCores>) -> Option<(f64, String)> {
    let told = trials.filter_map(|trial| Some((trial.moved_percent()?, trial)));
    let told: Vec<(f64, &BusyCores)> = told.collect();
    let over = told.iter().filter(|(percent, _)| *percent > APART_PERCENT).count();
    let (percent, worst) = told.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let (least, most) = worst.parts_khz?;
    (over > 0).then(|| {
        let said = format!(
            "in {over} of {} trials, {} to {} at most ({}; {})",
            told.len(),
            wording::three_digits(least / 1e6),
            gigahertz(most),
            wording::percent(*percent),
            named(&worst.cores)
        );
        (*percent, said)
    })
}
