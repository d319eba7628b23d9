//! Others used the physical cores: the other thread of a core, or of a host that this one is a guest of.

use vioperf_model::plan::CellId;
use vioperf_model::record::DISTURBED_SLOWDOWN;

use super::{Evidence, about_cells};
use crate::result::{Finding, Severity};
use crate::wording::count;

/// Part of a cell's trials from which it matters.
const MATTERS: f64 = 0.25;

pub fn check(evidence: &Evidence<'_>) -> Vec<Finding> {
    let mut over: Vec<(f64, CellId, String)> = Vec::new();
    for cell in evidence.cells {
        let Some(trials) = evidence.gathered.of_cell(&cell.id) else { continue };
        let slowdowns: Vec<f64> =
            trials.completed.iter().filter_map(|trial| trial.core_slowdown).collect();
        let disturbed =
            slowdowns.iter().filter(|slowdown| **slowdown >= DISTURBED_SLOWDOWN).count();
        let share = disturbed as f64 / slowdowns.len().max(1) as f64;
        let worst = slowdowns.iter().copied().fold(1.0, f64::max);
        if share >= MATTERS {
            let told =
                format!("{disturbed} of {}, {worst:.1} times", count(slowdowns.len(), "trial"));
            over.push((share, cell.id.clone(), told));
        }
    }
    over.sort_by(|a, b| b.0.total_cmp(&a.0));
    let cells: Vec<(CellId, String)> = over.into_iter().map(|(_, id, told)| (id, told)).collect();
    about_cells(
        "cores-shared",
        Severity::Doubt,
        "Somebody else used the physical cores just before or after trials that count",
        &cells,
        "How many times longer known work took than at the core's best. A core runs at about half its \
         speed while its other hardware thread is busy; where that is another machine's, no counter shows \
         it. End what else runs, or measure where the cores are its own; repeat.undisturbed waits for \
         quiet moments.",
    )
}

#[cfg(test)]
mod tests {
    use vioperf_model::record::{CoreSpeed, Outcome};

    use crate::analyser::analyse;
    use crate::testing::Synthetic;

    #[test]
    fn trials_on_shared_cores_are_told_and_those_measured_again_count_for_nothing() {
        let Synthetic { run, mut trials } = Synthetic::calm_kvm();
        let alone = analyse(&run, &trials);
        let told = |analysis: &crate::result::RunAnalysis| {
            analysis.findings.iter().any(|finding| finding.rule == "cores-shared")
        };
        let speed = |slowdown| CoreSpeed {
            slowdown_before: 1.02,
            slowdown_after: Some(slowdown),
            waited_ms: 30,
        };
        trials.iter_mut().for_each(|trial| trial.core_speed = Some(speed(1.03)));
        assert!(!told(&alone) && !told(&analyse(&run, &trials)));
        let again: Vec<_> = trials
            .iter()
            .cloned()
            .map(|mut trial| {
                trial.outcome = Outcome::Disturbed;
                trial.core_speed = Some(speed(2.0));
                trial
            })
            .collect();
        trials.extend(again);
        let analysis = analyse(&run, &trials);
        assert!(!told(&analysis));
        for (cell, same) in analysis.cells.iter().zip(&alone.cells) {
            assert_eq!(cell.trials.disturbed, cell.trials.completed);
            assert_eq!(cell.receiver_bits_per_second, same.receiver_bits_per_second);
        }
        trials.iter_mut().for_each(|trial| trial.core_speed = Some(speed(2.0)));
        assert!(told(&analyse(&run, &trials)));
    }
}
