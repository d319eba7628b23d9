//! The guest's virtual CPUs are the bottleneck.

use vioperf_model::plan::CellId;

use super::{Evidence, about_cells};
use crate::result::{CellAnalysis, Finding, Severity};
use crate::wording;

const SATURATED_PERCENT: f64 = 90.0;

pub fn check(evidence: &Evidence<'_>) -> Vec<Finding> {
    let cells: Vec<(CellId, String)> =
        evidence.cells.iter().filter_map(|cell| Some((cell.id.clone(), busiest(cell)?))).collect();
    let emulated = evidence.run.hypervisor.as_ref().is_some_and(|hypervisor| hypervisor.emulated);
    let advice = if emulated {
        "The guest cannot take or make packets faster than its CPU runs; under software emulation \
         that is expected, and offloads that save the guest work matter most."
    } else {
        "The guest cannot take or make packets faster than its CPU runs: more queues on more \
         virtual CPUs, larger segments (offloads, MTU) or a cheaper NIC model may help."
    };
    about_cells(
        "vcpus-saturated",
        Severity::Note,
        "A virtual CPU of the guest is busy all the time: it is the bottleneck",
        &cells,
        advice,
    )
}

/// The busiest core, where it is saturated.
fn busiest(cell: &CellAnalysis) -> Option<String> {
    let cores = cell.guest.as_ref()?.cores.iter();
    let (busy, core) = cores
        .filter_map(|core| Some((core.busy_percent.mean()?, core.core)))
        .max_by(|a, b| a.0.total_cmp(&b.0))?;
    (busy > SATURATED_PERCENT).then(|| format!("{} of CPU {core}", wording::percent(busy)))
}
