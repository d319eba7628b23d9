//! A machine whose clock is unsound.

use vioperf_model::plan::CellId;

use super::{Evidence, about_cells};
use crate::result::{Finding, Severity};
use crate::wording::count;

/// Part of a cell's trials from which it is the machine and not a moment.
const MATTERS: f64 = 0.5;

pub fn check(evidence: &Evidence<'_>) -> Vec<Finding> {
    let mut cells: Vec<(CellId, String)> = Vec::new();
    for cell in evidence.cells {
        let Some(trials) = evidence.gathered.of_cell(&cell.id) else { continue };
        let odd: Vec<&String> =
            trials.completed.iter().filter_map(|trial| trial.impossible_times.as_ref()).collect();
        let Some(first) = odd.first() else { continue };
        if odd.len() as f64 >= MATTERS * trials.completed.len() as f64 {
            let trials = count(trials.completed.len(), "trial");
            cells.push((cell.id.clone(), format!("{first} ({} of {trials})", odd.len())));
        }
    }
    about_cells(
        "guest-clock-unsound",
        Severity::Doubt,
        "A machine told times that cannot be: its rates and shares mean little",
        &cells,
        "A guest needs a clock of its hypervisor (`cat /sys/devices/system/clocksource/clocksource0/current_clocksource`: kvm-clock, \
         tsc; <timer name='kvmclock'/>), and no more virtual CPUs than the host has cores for.",
    )
}

#[cfg(test)]
mod tests {
    use crate::analyse;
    use crate::testing::Synthetic;

    #[test]
    fn a_clock_that_runs_back_in_most_trials_is_told() {
        let mut synthetic = Synthetic::calm_kvm();
        let told = |synthetic: &Synthetic| {
            let found = analyse(&synthetic.run, &synthetic.trials).findings;
            found.into_iter().find(|finding| finding.rule == "guest-clock-unsound")
        };
        assert_eq!(told(&synthetic), None);
        for trial in &mut synthetic.trials {
            trial.parties[1].report.samples[5].monotonic_ns -= 2_000_000_000;
        }
        assert!(told(&synthetic).unwrap().evidence.contains("ran back"));
    }
}
