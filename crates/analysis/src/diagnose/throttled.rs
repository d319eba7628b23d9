//! Heat held cores of the host back while trials were measured.

use std::collections::BTreeMap;

use vioperf_model::plan::CellId;

use super::{Evidence, about_cells};
use crate::rates::TrialReadings;
use crate::result::{CellAnalysis, Finding, Severity};
use crate::speeds::named;
use crate::wording::count;

pub fn check(evidence: &Evidence<'_>) -> Vec<Finding> {
    let seen = |cell: &CellAnalysis| -> Option<(CellId, String)> {
        let trials = &evidence.gathered.of_cell(&cell.id)?.completed;
        Some((cell.id.clone(), said(trials)?))
    };
    about_cells(
        "cores-throttled",
        Severity::Doubt,
        "Heat throttled cores of the host while trials were measured",
        &evidence.cells.iter().filter_map(seen).collect::<Vec<_>>(),
        "These trials were measured on slower cores: see to the cooling (fans, dust, what else is in the \
         rack), or hold the cores below the heat (turbo off: echo 1 > \
         /sys/devices/system/cpu/intel_pstate/no_turbo, or echo 0 > \
         /sys/devices/system/cpu/cpufreq/boost), and measure again.",
    )
}

/// Which cores, how often, in how many trials; nothing where none was.
fn said(trials: &[TrialReadings]) -> Option<String> {
    let mut by_core: BTreeMap<u32, u64> = BTreeMap::new();
    let (mut in_trials, mut of_packages) = (0, 0_u64);
    for trial in trials.iter().filter(|trial| !trial.speeds.throttled.is_empty()) {
        in_trials += 1;
        for core in trial.speeds.throttled.iter().filter(|core| core.times > 0) {
            let times = by_core.entry(core.core).or_default();
            *times = times.saturating_add(core.times);
        }
        // Every core of a package tells the same count.
        let most = trial.speeds.throttled.iter().map(|core| core.package_times).max();
        of_packages = of_packages.saturating_add(most.unwrap_or(0));
    }
    if in_trials == 0 {
        return None;
    }
    let times = |times: u64| count(usize::try_from(times).unwrap_or(usize::MAX), "time");
    let mut parts = Vec::new();
    if !by_core.is_empty() {
        let cores: Vec<u32> = by_core.keys().copied().collect();
        parts.push(format!(
            "{} {}",
            named(&cores),
            times(by_core.values().fold(0, |sum, times| sum.saturating_add(*times)))
        ));
    }
    if of_packages > 0 {
        parts.push(format!("a whole package {}", times(of_packages)));
    }
    Some(format!("in {in_trials} of {}, {}", count(trials.len(), "trial"), parts.join(", ")))
}
