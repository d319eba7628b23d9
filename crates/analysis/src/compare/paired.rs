//! A and B in one run: the signs of whole blocks are flipped.
//!
//! Inside a block now A and now B comes first, so without a difference each block's could as well have
//! come out with the other sign: what the machine does from block to block makes no false alarm
//! (Fisher, *The Design of Experiments*, 1935, section 21). The test is exact because the order is drawn.

use std::collections::{BTreeMap, BTreeSet};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::series::{Design, Estimate, Pair, Settings, Tested, t_quantile};
use super::step_down::StepDown;
use crate::result::Interval;

/// Up to so many blocks all signs are taken.
const MOST_ENUMERATED: usize = 14;
/// Less than this part of the values is rounding.
const ROUNDING: f64 = 1e-12;

/// B less A of every block that has both.
struct Differences {
    /// By block.
    values: Vec<(u32, f64)>,
    /// What is no more than this is nothing.
    rounding: f64,
}

impl Differences {
    fn of(pair: &Pair) -> Self {
        let a: BTreeMap<u32, f64> = pair.a.iter().map(|p| (p.block, p.value)).collect();
        let both = pair.b.iter().filter_map(|b| Some((b, a.get(&b.block)?)));
        let rounding = both.clone().map(|(b, a)| b.value.abs().max(a.abs())).fold(0.0, f64::max);
        let rounding = rounding * ROUNDING;
        let differ = |a: f64, b: f64| if (b - a).abs() <= rounding { 0.0 } else { b - a };
        let values = both.map(|(b, a)| (b.block, differ(*a, b.value))).collect();
        Self { values, rounding }
    }

    fn mean(&self) -> Option<f64> {
        let sum: f64 = self.values.iter().map(|(_, value)| value).sum();
        (!self.values.is_empty()).then(|| sum / self.values.len() as f64)
    }

    /// Student's t of this sum of the same values, whatever their signs. It is never NaN.
    fn statistic(&self, sum: f64, squares: f64) -> f64 {
        let n = self.values.len() as f64;
        if sum.abs() <= self.rounding * n {
            return 0.0;
        }
        let scatter = (squares - sum * sum / n).max(squares * ROUNDING);
        sum.abs() / (n * scatter / (n - 1.0)).sqrt()
    }
}

pub fn test(pairs: &[Pair], settings: &Settings) -> Vec<Tested> {
    let needed = Design::Paired.least_blocks(settings.alpha);
    let all: Vec<Differences> = pairs.iter().map(Differences::of).collect();
    let tested: Vec<&Differences> = all.iter().filter(|d| d.values.len() >= needed).collect();
    let p_values = p_values(&tested, settings);
    let tail = settings.alpha / tested.len().max(1) as f64;
    let mut p_values = p_values.into_iter();
    all.iter()
        .map(|differences| {
            let too_few = Tested::TooFewBlocks {
                blocks: differences.values.len(),
                needed,
                effect: differences.mean(),
            };
            if differences.values.len() < needed {
                return too_few;
            }
            let estimated = p_values.next().and_then(|p| estimate(differences, p, tail));
            estimated.map_or(too_few, Tested::Estimated)
        })
        .collect()
}

fn estimate(differences: &Differences, p_value: f64, tail: f64) -> Option<Estimate> {
    let effect = differences.mean()?;
    let n = differences.values.len() as f64;
    let squares: f64 = differences.values.iter().map(|(_, d)| (d - effect).powi(2)).sum();
    let error = (squares / (n - 1.0) / n).sqrt();
    let interval = |tail: f64| {
        let half = t_quantile(1.0 - tail, n - 1.0)? * error;
        Some(Interval { low: effect - half, high: effect + half })
    };
    Some(Estimate {
        effect,
        interval_95: interval(0.025)?,
        bounds: interval(tail)?,
        p_value,
        p_value_without_drift: p_value,
        autocorrelation: 0.0,
        blocks: differences.values.len(),
        design: Design::Paired,
        tail,
    })
}

fn p_values(tested: &[&Differences], settings: &Settings) -> Vec<f64> {
    let blocks: BTreeSet<u32> =
        tested.iter().flat_map(|d| d.values.iter().map(|(block, _)| *block)).collect();
    let place: BTreeMap<u32, usize> =
        blocks.iter().enumerate().map(|(place, block)| (*block, place)).collect();
    let by_place: Vec<Vec<(usize, f64)>> = tested
        .iter()
        .map(|d| d.values.iter().filter_map(|(b, v)| Some((*place.get(b)?, *v))).collect())
        .collect();
    let squares: Vec<f64> =
        by_place.iter().map(|values| values.iter().map(|(_, v)| v * v).sum()).collect();
    let statistics = |signs: &[f64]| -> Vec<f64> {
        let sum = |values: &[(usize, f64)]| values.iter().map(|(at, v)| signs[*at] * v).sum();
        let of = |i: usize| tested[i].statistic(sum(&by_place[i]), squares[i]);
        (0..tested.len()).map(of).collect()
    };
    let mut signs = vec![1.0; blocks.len()];
    let mut step_down = StepDown::new(statistics(&signs));
    let enumerates = blocks.len() <= MOST_ENUMERATED;
    if enumerates {
        // The sign of the last block stays: all signs turned give the same statistic.
        for pattern in 0..1_u32 << blocks.len().saturating_sub(1) {
            for (at, sign) in signs.iter_mut().enumerate() {
                *sign = if pattern >> at & 1 == 1 { -1.0 } else { 1.0 };
            }
            step_down.add(&statistics(&signs));
        }
    } else {
        let mut random = ChaCha8Rng::seed_from_u64(settings.seed);
        for _ in 0..settings.permutations {
            for sign in &mut signs {
                *sign = if random.next_u32() & 1 == 1 { -1.0 } else { 1.0 };
            }
            step_down.add(&statistics(&signs));
        }
    }
    step_down.p_values(enumerates)
}
