//! False alarms and what is found, on simulated measurements. `examples/false_alarms.rs` simulates more.

use super::series::{Design, Pair, Settings, Tested, test};
use crate::testing::noise::{Machine, Shape};

const SEPARATE: Design = Design::Separate { a_first: true };

/// How many of `tries` comparisons tell a difference somewhere.
fn told(
    tries: u32,
    shape: Shape,
    design: Design,
    (cells, blocks, effect): (usize, usize, f64),
) -> u32 {
    let told = |at: &u32| {
        let mut machine = Machine::new(shape, 0.05, u64::from(*at));
        let pairs = match design {
            Design::Paired => machine.one_run(cells, blocks, effect),
            Design::Separate { .. } => machine.two_runs(cells, blocks, effect),
        };
        let settings = Settings { alpha: 0.01, permutations: 299, seed: u64::from(*at) };
        test(&pairs, design, &settings).iter().any(is_told)
    };
    u32::try_from((0..tries).filter(told).count()).unwrap()
}

fn is_told(tested: &Tested) -> bool {
    matches!(tested, Tested::Estimated(estimate) if estimate.p_value < 0.01)
}

/// Of so many tries at the level of 1 %, more false alarms than this come by chance less than once
/// in a thousand times (binomial).
const TRIES: u32 = 60;
const MOST: u32 = 4;

#[test]
fn nothing_is_told_where_nothing_differs() {
    for shape in Shape::ALL {
        for design in [Design::Paired, SEPARATE] {
            let alarms = told(TRIES, shape, design, (6, 9, 0.0));
            assert!(alarms <= MOST, "{shape:?} {design:?}: {alarms} of {TRIES}");
        }
    }
}

#[test]
fn what_differs_by_more_than_the_blocks_scatter_is_found() {
    for (design, size) in [(Design::Paired, (4, 10, 0.5)), (SEPARATE, (4, 10, 0.5))] {
        let found = told(40, Shape::Normal, design, size);
        assert!(found >= 38, "{design:?} {size:?}: {found} of 40");
    }
}

/// A plain permutation test of two runs takes a drift for a difference: that this one does not is
/// no accident of what is simulated.
#[test]
fn levels_alone_would_raise_false_alarms_under_drift() {
    let by_levels = (0..40_u64).filter(|seed| {
        let mut machine = Machine::new(Shape::Drifting(0.10), 0.05, *seed);
        let settings = Settings { alpha: 0.01, permutations: 299, seed: *seed };
        let tested = test(&machine.two_runs(4, 20, 0.0), SEPARATE, &settings);
        tested.iter().any(|tested| match tested {
            Tested::Estimated(estimate) => estimate.p_value_without_drift < 0.01,
            Tested::TooFewBlocks { .. } => false,
        })
    });
    assert!(by_levels.count() > 10);
}

/// Bounds hold the truth: of a difference that is there they do not say that there is none.
#[test]
fn a_bound_is_not_below_the_truth() {
    for design in [Design::Paired, SEPARATE] {
        for shape in [Shape::Normal, Shape::TwoHumps, Shape::Drifting(0.03)] {
            let mut wrong = 0;
            for seed in 0..TRIES {
                let mut machine = Machine::new(shape, 0.03, u64::from(seed));
                let pairs: Vec<Pair> = match design {
                    Design::Paired => machine.one_run(1, 10, 0.05),
                    Design::Separate { .. } => machine.two_runs(1, 10, 0.05),
                };
                let settings = Settings { alpha: 0.01, permutations: 9, seed: 1 };
                for tested in test(&pairs, design, &settings) {
                    let Tested::Estimated(estimate) = tested else {
                        panic!("10 blocks are enough")
                    };
                    wrong += u32::from(estimate.bounds.high < 0.05);
                }
            }
            assert!(wrong <= MOST, "{design:?} {shape:?}: {wrong} of {TRIES}");
        }
    }
}
