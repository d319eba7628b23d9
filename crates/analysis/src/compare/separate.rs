//! A and B in two runs, one after the other: whole blocks are permuted.
//!
//! What a machine does from one run to the next can look like a difference. Two things are allowed
//! for, both visible inside the runs. Blocks that depend on each other: each statistic is divided by
//! a standard error that takes the correlation of neighbours into account, which makes the
//! permutation test hold for dependent data too (Romano & Tirlea, "Permutation testing for
//! dependence in time series", 2022; Chung & Romano, "Exact and asymptotically robust permutation
//! tests", 2013). And drift: a difference counts only if it is also there as a jump between the
//! lines that both runs follow.

use std::collections::{BTreeMap, BTreeSet};

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::dependence::{Gap, correlation, inflation};
use super::series::{Design, Estimate, Pair, Settings, Tested, t_quantile};
use super::step_down::StepDown;
use crate::result::Interval;

/// A difference by one way of looking at it, its squared standard error widened for dependence.
struct Look {
    gap: Gap,
    inflation: f64,
    autocorrelation: f64,
}

impl Look {
    /// The size of the difference in standard errors. It is never NaN.
    fn statistic(&self) -> f64 {
        if self.gap.size == 0.0 {
            return 0.0;
        }
        self.gap.size.abs() / (self.gap.variance * self.inflation).sqrt()
    }

    fn interval(&self, tail: f64) -> Option<Interval> {
        let degrees_of_freedom = self.gap.degrees_of_freedom / self.inflation;
        let error = (self.gap.variance * self.inflation).sqrt();
        let half = t_quantile(1.0 - tail, degrees_of_freedom)? * error;
        Some(Interval { low: self.gap.size - half, high: self.gap.size + half })
    }
}

/// Both ways of looking: at the levels, and at the jump between the runs' own trends.
struct Looks {
    levels: Look,
    jump: Look,
}

/// The values in the order of time: the first run's blocks, then the second's.
struct Timeline {
    /// Places of the first run.
    first: usize,
    /// By question, by place; absent where a block gave no value.
    series: Vec<Vec<Option<f64>>>,
}

impl Timeline {
    fn new(pairs: &[&Pair], a_first: bool) -> Self {
        let sides = |pair: &'_ Pair| {
            let (a, b) = (pair.a.clone(), pair.b.clone());
            if a_first { [a, b] } else { [b, a] }
        };
        let blocks = |side: usize| -> BTreeMap<u32, usize> {
            let blocks: BTreeSet<u32> = pairs
                .iter()
                .flat_map(|pair| sides(pair)[side].iter().map(|p| p.block).collect::<Vec<_>>())
                .collect();
            blocks.into_iter().enumerate().map(|(place, block)| (block, place)).collect()
        };
        let (first, second) = (blocks(0), blocks(1));
        let of = |pair: &&Pair| {
            let mut series = vec![None; first.len() + second.len()];
            let [earlier, later] = sides(pair);
            for point in earlier {
                first.get(&point.block).into_iter().for_each(|at| series[*at] = Some(point.value));
            }
            for point in later {
                let place = second.get(&point.block).map(|at| first.len() + at);
                place.into_iter().for_each(|at| series[at] = Some(point.value));
            }
            series
        };
        Self { first: first.len(), series: pairs.iter().map(of).collect() }
    }

    /// How the arrangement looks, by question; `None` where a side has too few values for it.
    fn look(&self, arrangement: &[usize]) -> Vec<Option<Looks>> {
        let mut first = Vec::new();
        let mut second = Vec::new();
        let mut gaps = Vec::with_capacity(self.series.len());
        for series in &self.series {
            let (earlier, later) = arrangement.split_at(self.first);
            first.clear();
            first.extend(earlier.iter().filter_map(|at| series[*at]));
            second.clear();
            second.extend(later.iter().filter_map(|at| series[*at]));
            let blocks = (first.len() + second.len()) as f64 / 2.0;
            let both = Gap::of_levels(&first, &second).zip(Gap::of_trends(&first, &second));
            gaps.push(both.map(|(levels, jump)| (levels, jump, blocks)));
        }
        let mean = |read: fn(&(Gap, Gap, f64)) -> f64| {
            let known = gaps.iter().flatten();
            known.clone().map(read).sum::<f64>() / known.count().max(1) as f64
        };
        // The machine is the same for all questions: what all of them show is shown by more blocks.
        let of_all = [mean(|g| g.0.neighbours), mean(|g| g.1.neighbours)];
        let widened = |gap: Gap, of_all: f64, blocks: f64, fitted: f64| {
            let autocorrelation = correlation(gap.neighbours.max(of_all), blocks, fitted);
            Look { inflation: inflation(autocorrelation, blocks), autocorrelation, gap }
        };
        let looks = |(levels, jump, blocks): (Gap, Gap, f64)| Looks {
            levels: widened(levels, of_all[0], blocks, 1.0),
            jump: widened(jump, of_all[1], blocks, 2.0),
        };
        gaps.into_iter().map(|gaps| gaps.map(looks)).collect()
    }
}

pub fn test(pairs: &[Pair], a_first: bool, settings: &Settings) -> Vec<Tested> {
    let design = Design::Separate { a_first };
    let is_enough = |pair: &&Pair| {
        design.least_p(pair.a.len(), pair.b.len()) < settings.alpha
            && pair.a.len().min(pair.b.len()) >= 3
    };
    let tested: Vec<&Pair> = pairs.iter().filter(is_enough).collect();
    let timeline = Timeline::new(&tested, a_first);
    let mut estimates = estimates(&timeline, &tested, a_first, settings).into_iter();
    let too_few = |pair: &Pair| Tested::TooFewBlocks {
        blocks: pair.a.len().min(pair.b.len()),
        needed: design.least_blocks(settings.alpha),
        effect: Gap::of_means(&values(&pair.a), &values(&pair.b)),
    };
    pairs
        .iter()
        .map(|pair| match is_enough(&pair) {
            true => estimates.next().flatten().map_or(too_few(pair), Tested::Estimated),
            false => too_few(pair),
        })
        .collect()
}

fn values(points: &[super::series::Point]) -> Vec<f64> {
    points.iter().map(|point| point.value).collect()
}

fn estimates(
    timeline: &Timeline,
    tested: &[&Pair],
    a_first: bool,
    settings: &Settings,
) -> Vec<Option<Estimate>> {
    let places = timeline.series.first().map_or(0, Vec::len);
    let mut arrangement: Vec<usize> = (0..places).collect();
    let measured = timeline.look(&arrangement);
    let statistics = |looks: &[Option<Looks>], of: fn(&Looks) -> &Look| -> Vec<f64> {
        // An arrangement that cannot be judged counts as one that chance made.
        looks.iter().map(|l| l.as_ref().map_or(f64::INFINITY, |l| of(l).statistic())).collect()
    };
    let mut levels = StepDown::new(statistics(&measured, |looks| &looks.levels));
    let mut jumps = StepDown::new(statistics(&measured, |looks| &looks.jump));
    let mut random = ChaCha8Rng::seed_from_u64(settings.seed);
    for _ in 0..settings.permutations {
        arrangement.shuffle(&mut random);
        let looks = timeline.look(&arrangement);
        levels.add(&statistics(&looks, |looks| &looks.levels));
        jumps.add(&statistics(&looks, |looks| &looks.jump));
    }
    let p_values = levels.p_values(false).into_iter().zip(jumps.p_values(false));
    let tail = settings.alpha / tested.len().max(1) as f64;
    let estimate = |((looks, p), pair): ((&Option<Looks>, (f64, f64)), &&Pair)| {
        estimate(looks.as_ref()?, p, pair, a_first, tail)
    };
    measured.iter().zip(p_values).zip(tested).map(estimate).collect()
}

fn estimate(
    looks: &Looks,
    (of_levels, of_jump): (f64, f64),
    pair: &Pair,
    a_first: bool,
    tail: f64,
) -> Option<Estimate> {
    let turn = |interval: Interval| match a_first {
        true => interval,
        false => Interval { low: -interval.high, high: -interval.low },
    };
    let both = |tail: f64| {
        let (levels, jump) = (looks.levels.interval(tail)?, looks.jump.interval(tail)?);
        let widest = Interval { low: levels.low.min(jump.low), high: levels.high.max(jump.high) };
        Some(turn(widest))
    };
    let size = looks.levels.gap.size;
    Some(Estimate {
        effect: if a_first { size } else { -size },
        interval_95: both(0.025)?,
        bounds: both(tail)?,
        p_value: of_levels.max(of_jump),
        p_value_without_drift: of_levels,
        autocorrelation: looks.levels.autocorrelation,
        blocks: pair.a.len().min(pair.b.len()),
        design: Design::Separate { a_first },
        tail,
    })
}
