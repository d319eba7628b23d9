//! Where a number that is measured run after run changed its level.
//!
//! Binary segmentation with permutation tests, as in Matteson and James: "A Nonparametric Approach for
//! Multiple Change Point Analysis of Multivariate Data", Journal of the American Statistical Association
//! 109(505), 2014. First the one place is sought whose sides' means differ most, standardised for the
//! runs on each side. Where that is nothing out of the ordinary, the stretch is sought that differs most
//! from all before and after it, for a change that was taken back (Olshen, Venkatraman, Lucito, Wijsman:
//! "Circular binary segmentation for the analysis of array-based DNA copy number data", Biostatistics
//! 5(4), 2004). Out of the ordinary is what fewer than 1 in 200 random orders of the same runs give: with
//! two looks that is 1 in 100. No distribution is assumed, and a single run that is far off is as far off
//! in any order. Then the pieces are looked at in the same way. At last an edge is dropped whose levels differ by less than [`LEAST_CHANGE`], or are
//! not told apart when held against each other alone (p >= 0.05).
//!
//! Runs are taken as exchangeable where nothing changed: of histories in which nothing did, no more
//! than 1 in 100 is given a change.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

/// Of histories in which nothing changed, this part at most is given a change.
pub const SIGNIFICANCE: f64 = 0.01;
/// An edge stands where less than this part of random orders of its two levels tells them apart as well.
const SIGNIFICANCE_OF_AN_EDGE: f64 = 0.05;
/// Changes of less than this part of the level before are not told.
pub const LEAST_CHANGE: f64 = 0.03;
/// A level has so many runs at least.
const LEAST_RUNS: usize = 3;
/// Random orders; the chance that is told is a multiple of 1 in so many.
const ORDERS: usize = 1999;

/// A change of level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChangePoint {
    /// The first run of the new level, from 0.
    pub at: usize,
    /// Mean of the runs of the level before.
    pub before: f64,
    /// Mean of the runs of the new level.
    pub after: f64,
    /// The part of random orders of both levels' runs that tell them apart as well.
    pub p: f64,
}

impl ChangePoint {
    /// By how much of the level before, with its sign.
    pub fn ratio(&self) -> f64 {
        self.after / self.before - 1.0
    }
}

/// Finds the changes in `values`, which are in the order of time; the same seed finds the same.
pub fn find(values: &[f64], seed: u64) -> Vec<ChangePoint> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut edges = Vec::new();
    segment(values, 0, &mut edges, &mut random);
    edges.sort_unstable();
    edges.dedup();
    loop {
        let found = judge(values, &edges, &mut random);
        // The least convincing goes first: without it its neighbours are longer, and may stand.
        let weakest = found.iter().enumerate().filter(|(_, change)| !stands(change));
        let weakest = weakest.max_by(|(_, a), (_, b)| a.p.total_cmp(&b.p)).map(|(at, _)| at);
        match weakest {
            Some(at) => drop(edges.remove(at)),
            None => return found,
        }
    }
}

fn stands(change: &ChangePoint) -> bool {
    change.p < SIGNIFICANCE_OF_AN_EDGE && change.ratio().abs() >= LEAST_CHANGE
}

/// Each edge with the levels on both sides of it.
fn judge(values: &[f64], edges: &[usize], random: &mut ChaCha8Rng) -> Vec<ChangePoint> {
    let change = |(nth, &at): (usize, &usize)| {
        let from = nth.checked_sub(1).map_or(0, |before| edges[before]);
        let until = edges.get(nth + 1).copied().unwrap_or(values.len());
        ChangePoint {
            at,
            before: mean(&values[from..at]),
            after: mean(&values[at..until]),
            p: chance(&values[from..until], random, 1.0, |deviations| {
                let side = deviations[..at - from].iter().sum();
                standardised(side, at - from, deviations.len())
            }),
        }
    };
    edges.iter().enumerate().map(change).collect()
}

/// A way of looking for what is out of the ordinary, in deviations from the mean.
type Look = fn(&[f64]) -> Option<Stretch>;

/// Notes the edges inside of `values`, which begin at `offset`.
fn segment(values: &[f64], offset: usize, edges: &mut Vec<usize>, random: &mut ChaCha8Rng) {
    let looks: [Look; 2] = [|d| most_apart(d, true), |d| most_apart(d, false)];
    let limit = SIGNIFICANCE / looks.len() as f64;
    let found = looks.iter().find_map(|look| {
        let found = look(&deviations(values))?;
        let p = chance(values, random, limit, |d| look(d).map_or(0.0, |stretch| stretch.apart));
        (p < limit).then_some(found)
    });
    let Some(Stretch { from, until, .. }) = found else { return };
    let bounds = [0, from, until, values.len()];
    edges.extend(
        [from, until]
            .into_iter()
            .filter(|end| (1..values.len()).contains(end))
            .map(|end| offset + end),
    );
    for piece in bounds.windows(2) {
        segment(&values[piece[0]..piece[1]], offset + piece[0], edges, random);
    }
}

/// The part of random orders of `values` that give as much as their own; once it is sure to be no less
/// than `limit`, no more are tried.
fn chance(
    values: &[f64],
    random: &mut ChaCha8Rng,
    limit: f64,
    statistic: impl Fn(&[f64]) -> f64,
) -> f64 {
    let part = |as_much: usize| (1 + as_much) as f64 / (1 + ORDERS) as f64;
    let mut deviations = deviations(values);
    // A difference of rounding is none.
    let own = statistic(&deviations) * (1.0 - 1e-9);
    let mut as_much = 0_usize;
    for _ in 0..ORDERS {
        deviations.shuffle(random);
        as_much += usize::from(statistic(&deviations) >= own);
        if part(as_much) >= limit {
            break;
        }
    }
    part(as_much)
}

/// Some runs one after the other.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    from: usize,
    until: usize,
    /// How far its mean is from that of the rest, standardised.
    apart: f64,
}

/// The stretch that differs most from the rest, of those that reach to the `end` or of all; `None` for
/// too few runs.
fn most_apart(deviations: &[f64], end: bool) -> Option<Stretch> {
    let n = deviations.len();
    let mut sums = vec![0.0];
    for deviation in deviations {
        sums.push(sums[sums.len() - 1] + deviation);
    }
    let mut most: Option<Stretch> = None;
    // A piece before or after the stretch is a level too, so it is none or long enough.
    for from in (0..n).filter(|from| *from == 0 || *from >= LEAST_RUNS) {
        for until in if end { n } else { from + LEAST_RUNS }..=n {
            let (length, after) = (until.saturating_sub(from), n - until);
            if length < LEAST_RUNS || length == n || (after > 0 && after < LEAST_RUNS) {
                continue;
            }
            let apart = standardised(sums[until] - sums[from], length, n);
            if most.is_none_or(|most| apart > most.apart) {
                most = Some(Stretch { from, until, apart });
            }
        }
    }
    most
}

/// How far a sum of `length` of `n` deviations is off, in units of what it would scatter by in random
/// orders if the deviations had a variance of 1: that is the same in every order.
fn standardised(sum: f64, length: usize, n: usize) -> f64 {
    let (length, n) = (length as f64, n as f64);
    sum.abs() / (length * (n - length) / n).sqrt()
}

/// What each value is off from the mean.
fn deviations(values: &[f64]) -> Vec<f64> {
    let mean = mean(values);
    values.iter().map(|value| value - mean).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use rand::RngExt;
    use statrs::distribution::{ContinuousCDF, Normal};

    use super::*;

    /// Levels with so many runs each, scattered by `noise` of them.
    fn history(levels: &[(f64, usize)], noise: f64, seed: u64) -> Vec<f64> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let normal = Normal::standard();
        let runs = levels.iter().flat_map(|&(level, runs)| std::iter::repeat_n(level, runs));
        runs.map(|level| {
            let uniform: f64 = random.random_range(1e-9..1.0);
            level * (1.0 + noise * normal.inverse_cdf(uniform))
        })
        .collect()
    }

    fn places(values: &[f64]) -> Vec<usize> {
        find(values, 1).iter().map(|change| change.at).collect()
    }

    #[test]
    fn a_planted_step_is_found_where_it_is() {
        for seed in 0..20 {
            for (before, after) in [(6, 6), (8, 8), (20, 5), (5, 20), (30, 4), (10, 4)] {
                let values = history(&[(100.0, before), (90.0, after)], 0.01, seed);
                assert_eq!(places(&values), [before], "seed {seed}, {before} and {after}");
            }
        }
        let change = find(&history(&[(100.0, 10), (120.0, 10)], 0.01, 1), 1)[0];
        assert!((change.ratio() - 0.2).abs() < 0.02 && change.p < 0.01, "{change:?}");
    }

    #[test]
    fn several_steps_are_found_and_one_that_is_taken_back() {
        let mut found = 0;
        for seed in 0..20 {
            let back = history(&[(100.0, 10), (80.0, 6), (100.0, 10)], 0.01, seed);
            found += usize::from(places(&back) == [10, 16]);
            let stairs = history(&[(100.0, 12), (120.0, 12), (150.0, 12)], 0.02, seed);
            found += usize::from(places(&stairs) == [12, 24]);
        }
        // A level of its own is taken for two in a few of them.
        assert!(found >= 36, "{found} of 40");
    }

    #[test]
    fn noise_has_no_change_in_99_of_100_histories() {
        let (mut histories, mut changed) = (0, 0);
        for runs in [6, 12, 25, 40] {
            for noise in [0.01, 0.05, 0.2] {
                for seed in 0..100 {
                    histories += 1;
                    let values = history(&[(100.0, runs)], noise, 1000 * runs as u64 + seed);
                    changed += usize::from(!find(&values, seed).is_empty());
                }
            }
        }
        assert!(changed * 100 <= histories, "{changed} of {histories}");
    }

    #[test]
    fn a_single_run_that_is_far_off_is_no_change() {
        let mut values = history(&[(100.0, 20)], 0.01, 3);
        values[11] = 20.0;
        assert!(places(&values).is_empty());
    }

    #[test]
    fn what_is_too_small_too_short_or_no_change_at_all_is_not_told() {
        assert!(places(&history(&[(100.0, 20), (98.0, 20)], 0.002, 5)).is_empty());
        assert!(places(&[1.0, 9.0, 1.0, 9.0]).is_empty());
        assert!(places(&[7.0; 30]).is_empty());
        assert!(places(&[]).is_empty());
        // A level of nothing has no part of it that a change could be of.
        assert!(places(&history(&[(0.0, 20)], 0.0, 1)).is_empty());
    }
}
