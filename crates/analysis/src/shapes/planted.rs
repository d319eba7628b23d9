//! What is planted into the records of a calm run is found, with a picture, and nothing else is.

use vioperf_model::plan::{Cell, Plan};
use vioperf_model::record::TrialRecord;
use vioperf_model::wire::Role;

use crate::analyse;
use crate::result::{Finding, PictureOrder};
use crate::testing::{Synthetic, with_flat_rate};

const BLOCKS: u32 = 12;
const RULES: [&str; 5] = ["outliers", "two-humps", "trend-over-run", "trend-within-trials", "dips"];

/// Of a run in which one cell's rate is `rate(block)` and its trials are changed so; all others are calm.
fn found(rate: impl Fn(u32) -> f64, change: impl Fn(&mut TrialRecord)) -> Vec<Finding> {
    let mut run = Synthetic::calm_kvm().run;
    run.scenario.repeat.blocks = BLOCKS;
    run.plan = Plan::new(&run.scenario, 3);
    let planted = run.plan.cells.last().unwrap().id.clone();
    let calm = |cell: &Cell, block: u32| {
        let sum: u64 = cell.id.0.bytes().map(u64::from).sum::<u64>() + u64::from(block) * 7;
        1e9 * (1.0 + 0.02 * ((sum * 2_654_435_761 % 1000) as f64 / 500.0 - 1.0))
    };
    let mut trials = Vec::new();
    for block in 0..BLOCKS {
        for (cell, number) in run.plan.cells.iter().zip(0..) {
            let is_planted = cell.id == planted;
            let rate = calm(cell, block) * if is_planted { rate(block) } else { 1.0 };
            let mut trial = with_flat_rate(cell, block, block * 100 + number, rate);
            if is_planted {
                change(&mut trial);
            }
            trials.push(trial);
        }
    }
    let findings = analyse(&run, &trials).findings.into_iter();
    let shapes: Vec<Finding> = findings.filter(|f| RULES.contains(&f.rule.as_str())).collect();
    for finding in &shapes {
        assert_eq!(finding.cells, std::slice::from_ref(&planted), "{finding:?}");
        assert_eq!(finding.pictures.len(), 1, "{finding:?}");
        assert_eq!(finding.pictures[0].cell, planted);
    }
    shapes
}

fn only(findings: &[Finding], rule: &str) -> Finding {
    let rules: Vec<&str> = findings.iter().map(|finding| finding.rule.as_str()).collect();
    assert_eq!(rules, [rule], "{findings:?}");
    findings[0].clone()
}

fn as_is(_: &mut TrialRecord) {}

/// Changes what the receiver had at each sample: (its number, bytes so far) to bytes so far.
fn received(trial: &mut TrialRecord, change: impl Fn(u64, u64) -> u64) {
    for party in trial.parties.iter_mut().filter(|p| matches!(p.role, Role::Receiver { .. })) {
        for (sample, number) in party.report.samples.iter_mut().zip(0..) {
            if let Some(load) = &mut sample.load {
                load.bytes = change(number, load.bytes);
            }
        }
    }
}

#[test]
fn a_calm_run_has_no_shape() {
    assert_eq!(found(|_| 1.0, as_is), []);
}

#[test]
fn one_trial_far_off_is_an_outlier() {
    let finding = only(&found(|block| if block == 4 { 0.5 } else { 1.0 }, as_is), "outliers");
    assert!(finding.evidence.contains("1 of 12 trials"), "{}", finding.evidence);
    assert!(finding.evidence.contains("in block 5"), "{}", finding.evidence);
    assert_eq!(finding.pictures[0].marked, [4]);
}

#[test]
fn two_groups_of_trials_are_two_humps() {
    let finding = only(&found(|b| if b * 5 % 3 == 0 { 1.4 } else { 1.0 }, as_is), "two-humps");
    assert!(finding.evidence.contains("8 around 99"), "{}", finding.evidence);
    assert!(finding.evidence.contains("4 around 1.4"), "{}", finding.evidence);
}

#[test]
fn a_fall_over_the_run_is_a_trend() {
    let finding = only(&found(|block| 1.0 - 0.03 * f64::from(block), as_is), "trend-over-run");
    assert!(finding.evidence.contains("-3") || finding.evidence.contains("-4"), "{finding:?}");
    assert_eq!(finding.pictures[0].by, PictureOrder::Block);
    assert_eq!(finding.pictures[0].values.len(), 12);
}

#[test]
fn a_rise_within_the_trials_is_told_of_the_trial() {
    // Each of the 25 intervals moves 2 % more than the one before.
    let rises = |trial: &mut TrialRecord| {
        received(trial, |number, bytes| bytes + bytes * number / 50);
    };
    let finding = only(&found(|_| 1.0, rises), "trend-within-trials");
    assert!(finding.evidence.contains('+'), "{}", finding.evidence);
    assert_eq!(finding.pictures[0].by, PictureOrder::TenthOfTrial);
}

#[test]
fn a_stop_of_a_quarter_of_a_second_is_a_dip() {
    let stops = |trial: &mut TrialRecord| {
        if trial.block == 2 {
            // From sample 11 to 14 nothing arrives, and what was missed is not made up for.
            received(trial, |number, bytes| {
                let missed = number.clamp(11, 14) - 11;
                bytes - bytes * missed / number.max(1)
            });
        }
    };
    // Its trial is an outlier too.
    let findings = found(|_| 1.0, stops);
    let finding = findings.iter().find(|finding| finding.rule == "dips").unwrap();
    assert!(finding.evidence.contains("1 of 12 trials, the longest 0.3 s"), "{finding:?}");
    assert!(finding.evidence.contains("block 3"), "{}", finding.evidence);
}
