//! The host's busy cores ran at another frequency from one trial of a cell to the next.

use std::collections::BTreeSet;

use vioperf_model::plan::CellId;

use super::{Evidence, about_cells};
use crate::result::{CellAnalysis, Finding, Severity};
use crate::shapes::median;
use crate::speeds::{BusyCores, gigahertz, named};
use crate::window::percent;
use crate::wording;

/// How far the trials of a cell may lie apart, in percent of their median.
pub(super) const APART_PERCENT: f64 = 5.0;

/// What to do where a core's frequency is not the same all the time.
pub(super) const HOLD_IT: &str = "Set the governor to performance (cpupower frequency-set --governor \
     performance), switch turbo off (echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo, or echo 0 > \
     /sys/devices/system/cpu/cpufreq/boost), see to the cooling, and measure again.";

pub fn check(evidence: &Evidence<'_>) -> Vec<Finding> {
    let seen = |cell: &CellAnalysis| {
        let trials = &evidence.gathered.of_cell(&cell.id)?.completed;
        let busy: Vec<&BusyCores> =
            trials.iter().filter_map(|trial| trial.speeds.busy.as_ref().ok()).collect();
        Some((apart(&busy)?, cell.id.clone()))
    };
    let mut over: Vec<(Apart, CellId)> = evidence.cells.iter().filter_map(seen).collect();
    over.sort_by(|a, b| b.0.percent.total_cmp(&a.0.percent));
    let cells: Vec<(CellId, String)> =
        over.into_iter().map(|(apart, cell)| (cell, apart.said)).collect();
    about_cells(
        "frequency-differs",
        Severity::Doubt,
        "The busy cores' frequency differed from trial to trial",
        &cells,
        &format!("What a trial gives, and the CPU time that it takes, depends on it. {HOLD_IT}"),
    )
}

struct Apart {
    percent: f64,
    said: String,
}

fn apart(trials: &[&BusyCores]) -> Option<Apart> {
    let khz: Vec<f64> = trials.iter().map(|trial| trial.khz).collect();
    let middle = median(&khz)?;
    let least = khz.iter().copied().fold(f64::INFINITY, f64::min);
    let most = khz.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let apart = percent(most - least, middle);
    let cores: BTreeSet<u32> =
        trials.iter().flat_map(|trial| trial.cores.iter().copied()).collect();
    (apart > APART_PERCENT).then(|| Apart {
        percent: apart,
        said: format!(
            "{} to {} in {} trials ({} apart; {})",
            wording::three_digits(least / 1e6),
            gigahertz(most),
            khz.len(),
            wording::percent(apart),
            named(&cores.into_iter().collect::<Vec<_>>())
        ),
    })
}

#[cfg(test)]
mod tests {
    use vioperf_model::record::{Place, TrialRecord};
    use vioperf_model::sample::{CoreFrequencyNow, CoreThrottles, Sample};

    use crate::analyse;
    use crate::result::Finding;
    use crate::testing::Synthetic;

    /// What a calm run's findings are when its host's samples are changed: block, part of the
    /// trial from 0 to 1, sample.
    fn findings(change: impl Fn(u32, f64, &mut Sample)) -> Vec<Finding> {
        let Synthetic { run, mut trials } = Synthetic::calm_kvm();
        let host = |trial: &mut TrialRecord| {
            let block = trial.block;
            for party in trial.parties.iter_mut().filter(|party| party.place == Place::Host) {
                let samples = party.report.samples.len() as f64;
                for (sample, at) in party.report.samples.iter_mut().zip(0..) {
                    change(block, f64::from(at) / samples, sample);
                }
            }
        };
        trials.iter_mut().for_each(host);
        analyse(&run, &trials).findings
    }

    fn of(rule: &str, findings: &[Finding]) -> Option<Finding> {
        findings.iter().find(|finding| finding.rule == rule).cloned()
    }

    fn run_at(sample: &mut Sample, khz: u64) {
        let cores =
            [0, 1].map(|core| CoreFrequencyNow { core, khz: khz + u64::from(core) * 1_000 });
        sample.frequencies = Some(cores.into());
    }

    #[test]
    fn a_steady_frequency_is_nothing_to_tell() {
        let found = findings(|block, at, sample| {
            // Turbo by a few bins, from trial to trial and within.
            let bins = if at > 0.5 { 25_000 } else { 0 };
            run_at(sample, 3_000_000 + u64::from(block) * 25_000 + bins);
        });
        assert_eq!(of("frequency-differs", &found), None);
        assert_eq!(of("frequency-moves", &found), None);
    }

    #[test]
    fn trials_at_another_frequency_are_found_in_every_cell() {
        let slow_in_one = |block, _: f64, sample: &mut Sample| {
            run_at(sample, if block == 1 { 2_100_000 } else { 3_000_000 });
        };
        let found = findings(slow_in_one);
        let differs = of("frequency-differs", &found).unwrap();
        assert!(differs.cells.len() > 1);
        assert!(differs.evidence.contains("2.10 to 3.00 GHz in "), "{}", differs.evidence);
        assert!(differs.evidence.contains("(30.0 % apart; cores 0 and 1)"), "{}", differs.evidence);
        assert!(differs.advice.contains("cpupower frequency-set"));
        assert_eq!(of("frequency-moves", &found), None);
    }

    #[test]
    fn a_frequency_that_falls_within_trials_is_found() {
        let found = findings(|_, at, sample| {
            run_at(sample, if at > 0.6 { 2_700_000 } else { 3_000_000 });
        });
        let moves = of("frequency-moves", &found).unwrap();
        assert!(moves.evidence.contains("2.70 to 3.00 GHz at most (10.0 %;"), "{}", moves.evidence);
        assert_eq!(of("frequency-differs", &found), None);
    }

    #[test]
    fn throttling_is_told_by_core_and_how_often() {
        let found = findings(|block, at, sample| {
            let times = if block == 0 && at > 0.5 { 3 } else { 0 };
            let counts = |core, core_count| CoreThrottles {
                core,
                core_count,
                package_count: Some(100 + times / 3),
            };
            sample.throttles = Some(vec![counts(0, 50), counts(1, 50 + times)]);
        });
        let throttled = of("cores-throttled", &found).unwrap();
        let said = "core 1 3 times, a whole package 1 time";
        assert!(throttled.evidence.contains(said), "{}", throttled.evidence);
        assert!(throttled.evidence.contains("in 1 of "), "{}", throttled.evidence);
        let before = findings(|_, _, sample| {
            let counts = CoreThrottles { core_count: 9, ..CoreThrottles::default() };
            sample.throttles = Some(vec![counts]);
        });
        assert_eq!(of("cores-throttled", &before), None);
    }
}
