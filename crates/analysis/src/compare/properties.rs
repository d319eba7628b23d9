//! What holds of every comparison.

use proptest::prelude::*;

use super::result::{RunComparison, Verdict};
use super::series::{Design, Estimate, Pair, Point, Settings, Tested, test};
use super::{Options, runs};
use crate::analyse;
use crate::result::RunAnalysis;
use crate::testing::Synthetic;

const SETTINGS: Settings = Settings { alpha: 0.01, permutations: 199, seed: 11 };

/// One to three questions of 3 to 12 blocks, some of which gave no value.
fn pairs() -> impl Strategy<Value = Vec<Pair>> {
    let point = (0.1f64..10.0, 0..10u8);
    let side = prop::collection::vec(point, 3..12).prop_map(|values| {
        let kept = (0..).zip(values).filter(|(_, (_, dice))| *dice > 0);
        kept.map(|(block, (value, _))| Point { block, value: value.ln() }).collect::<Vec<_>>()
    });
    prop::collection::vec((side.clone(), side).prop_map(|(a, b)| Pair { a, b }), 1..4)
}

fn estimates(tested: &[Tested]) -> Vec<Option<&Estimate>> {
    fn estimate(tested: &Tested) -> Option<&Estimate> {
        match tested {
            Tested::Estimated(estimate) => Some(estimate),
            Tested::TooFewBlocks { .. } => None,
        }
    }
    tested.iter().map(estimate).collect()
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + a.abs().max(b.abs()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn swapping_the_sides_turns_the_sign_and_nothing_else(pairs in pairs(), a_first in any::<bool>()) {
        let swapped: Vec<Pair> =
            pairs.iter().map(|pair| Pair { a: pair.b.clone(), b: pair.a.clone() }).collect();
        let designs = [
            (Design::Paired, Design::Paired),
            (Design::Separate { a_first }, Design::Separate { a_first: !a_first }),
        ];
        for (design, turned) in designs {
            let one = test(&pairs, design, &SETTINGS);
            let other = test(&swapped, turned, &SETTINGS);
            for (one, other) in estimates(&one).into_iter().zip(estimates(&other)) {
                let (Some(one), Some(other)) = (one, other) else {
                    prop_assert!(one.is_none() && other.is_none());
                    continue;
                };
                prop_assert_eq!(one.effect, -other.effect);
                prop_assert_eq!(one.p_value, other.p_value);
                prop_assert_eq!(one.bounds.low, -other.bounds.high);
                prop_assert_eq!(one.interval_95.high, -other.interval_95.low);
            }
        }
    }

    /// On logarithms a factor is added.
    #[test]
    fn a_factor_on_all_values_changes_nothing(pairs in pairs(), factor in -5.0f64..5.0) {
        let more = |points: &[Point]| -> Vec<Point> {
            points.iter().map(|p| Point { value: p.value + factor, ..*p }).collect()
        };
        let scaled: Vec<Pair> =
            pairs.iter().map(|pair| Pair { a: more(&pair.a), b: more(&pair.b) }).collect();
        for design in [Design::Paired, Design::Separate { a_first: true }] {
            let one = test(&pairs, design, &SETTINGS);
            let other = test(&scaled, design, &SETTINGS);
            for (one, other) in estimates(&one).into_iter().zip(estimates(&other)) {
                let (Some(one), Some(other)) = (one, other) else {
                    prop_assert!(one.is_none() && other.is_none());
                    continue;
                };
                prop_assert!(close(one.effect, other.effect));
                prop_assert_eq!(one.p_value, other.p_value);
                prop_assert!(close(one.bounds.low, other.bounds.low));
            }
        }
    }

    #[test]
    fn a_side_beside_itself_does_not_differ(pairs in pairs()) {
        let same: Vec<Pair> =
            pairs.iter().map(|pair| Pair { a: pair.a.clone(), b: pair.a.clone() }).collect();
        for design in [Design::Paired, Design::Separate { a_first: true }] {
            for estimate in estimates(&test(&same, design, &SETTINGS)).into_iter().flatten() {
                prop_assert_eq!(estimate.effect, 0.0);
                prop_assert_eq!(estimate.p_value, 1.0);
            }
        }
    }
}

/// Calm runs of so many blocks, the virtio cells being faster by a factor.
fn run(started_at: &str, blocks: u32, virtio: f64) -> RunAnalysis {
    let synthetic = Synthetic::of_blocks(blocks, |cell, block| {
        let factor = if cell.path_name() == "virtio" { virtio } else { 1.0 };
        factor
            * 1e9
            * (1.0 + 0.002 * f64::from((block * 7 + cell.id.0.bytes().fold(0, |n, _| n + 1)) % 5))
    });
    let mut analysis = analyse(&synthetic.run, &synthetic.trials);
    analysis.run.started_at = started_at.into();
    analysis
}

fn verdicts(comparison: &RunComparison, verdict: Verdict) -> Vec<(&str, &str)> {
    let rows = comparison.rows.iter().filter(|row| row.verdict == verdict);
    rows.map(|row| (row.cell.as_str(), row.metric)).collect()
}

#[test]
fn a_run_beside_itself_never_differs_and_all_is_bounded() {
    let run = run("2026-01-01T00:00:00Z", 8, 1.0);
    let comparison = runs(["a", "a"], &run, &run, &Options::default());
    assert!(comparison.changed.is_empty());
    assert_eq!(verdicts(&comparison, Verdict::NoDifference).len(), comparison.rows.len());
    assert!(comparison.summary[0].starts_with("No difference that counts"));
}

#[test]
fn what_got_faster_is_better_and_turned_round_it_is_worse() {
    let a = run("2026-01-01T00:00:00Z", 6, 1.0);
    let b = run("2026-01-01T01:00:00Z", 6, 1.05);
    let options = Options { metrics: vec![super::Wanted::Headline], ..Options::default() };
    let forth = runs(["a", "b"], &a, &b, &options);
    let back = runs(["b", "a"], &b, &a, &options);
    let better = verdicts(&forth, Verdict::Better);
    assert!(!better.is_empty() && better.iter().all(|(cell, _)| cell.starts_with("virtio")));
    assert_eq!(better, verdicts(&back, Verdict::Worse));
    assert!(verdicts(&forth, Verdict::Worse).is_empty());
    for (one, other) in forth.rows.iter().zip(&back.rows) {
        let (one, other) = (one.difference.unwrap(), other.difference.unwrap());
        assert_eq!(one.p_value, other.p_value);
        let product = (1.0 + one.value / 100.0) * (1.0 + other.value / 100.0);
        assert!((product - 1.0).abs() < 1e-12, "{product}");
    }
}

#[test]
fn what_is_told_apart_but_less_than_matters_is_told_so() {
    let a = run("2026-01-01T00:00:00Z", 6, 1.0);
    let b = run("2026-01-01T01:00:00Z", 6, 1.05);
    let metrics = vec![super::Wanted::Headline];
    let options = Options { smallest_ratio: Some(0.08), metrics, ..Options::default() };
    let comparison = runs(["a", "b"], &a, &b, &options);
    let negligible = verdicts(&comparison, Verdict::Negligible);
    assert!(
        !negligible.is_empty() && negligible.iter().all(|(cell, _)| cell.starts_with("virtio"))
    );
}

#[test]
fn too_few_blocks_and_missing_cells_are_never_no_difference() {
    let a = run("2026-01-01T00:00:00Z", 4, 1.0);
    let b = run("2026-01-01T01:00:00Z", 4, 2.0);
    let comparison = runs(["a", "b"], &a, &b, &Options::default());
    assert_eq!(verdicts(&comparison, Verdict::TooFewBlocks).len(), comparison.rows.len());
    assert!(comparison.rows.iter().all(|row| row.reason.as_ref().unwrap().contains("takes 5")));
    let mut fewer = b;
    let gone = fewer.cells.pop().unwrap();
    let comparison = runs(["a", "b"], &a, &fewer, &Options::default());
    let missing = verdicts(&comparison, Verdict::NotComparable);
    assert_eq!(missing, [(gone.id.0.as_str(), "receiver_bits_per_second")]);
}

/// Eight blocks in which the machine drifts by more than the second variant of virtio is slower.
fn variants(names: &[&str]) -> RunAnalysis {
    let synthetic = Synthetic::of_variants(8, names, |cell, block| {
        let is_slower = cell.path_name() == "virtio" && cell.variant_name() == Some("slower");
        let drift = 1.0 + 0.05 * f64::from(block);
        let scatter = 0.004 * f64::from((block * 5 + cell.id.0.bytes().fold(0, |n, _| n + 1)) % 7);
        1e9 * drift * (1.0 + scatter) * if is_slower { 0.95 } else { 1.0 }
    });
    analyse(&synthetic.run, &synthetic.trials)
}

#[test]
fn variants_of_a_run_are_told_apart_whatever_the_machine_does_meanwhile() {
    let run = variants(&["before", "slower"]);
    let options = Options { metrics: vec![super::Wanted::Headline], ..Options::default() };
    let comparison = super::variants(&run, &options).unwrap();
    let worse = verdicts(&comparison, Verdict::Worse);
    assert_eq!(worse.len(), 4, "{:?}", comparison.summary);
    assert!(worse.iter().all(|(cell, _)| cell.starts_with("virtio/")));
    // Four of e1000e; baselines are the same for both and are no rows.
    assert_eq!(verdicts(&comparison, Verdict::NoDifference).len(), 4);
    assert_eq!(comparison.rows.len(), 8);
    assert_eq!((comparison.a.name.as_str(), comparison.b.name.as_str()), ("before", "slower"));
    let shown = run.variants.as_ref().unwrap();
    assert!(!verdicts(shown, Verdict::Worse).is_empty());
}

#[test]
fn several_variants_are_each_set_beside_the_first_and_none_is_no_comparison() {
    let run = variants(&["before", "same", "slower"]);
    let comparison = run.variants.as_ref().unwrap();
    for row in &comparison.rows {
        let is_slower = row.variant.as_deref() == Some("slower") && row.cell.starts_with("virtio/");
        assert_eq!(row.verdict.is_difference(), is_slower, "{row:?}");
    }
    assert_eq!(comparison.b.name, "same, slower");
    assert!(variants(&[]).variants.is_none());
    assert!(variants(&["alone"]).variants.is_none());
}
