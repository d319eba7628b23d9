//! What is tested: two series of values, one a block, and what comes of it.

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::{paired, separate};
use crate::result::Interval;

/// The value of one block, on the scale that differences are taken on: a logarithm, or as it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// The block.
    pub block: u32,
    /// The value; finite.
    pub value: f64,
}

/// The two sides of one question, each in the order of blocks, one value a block at most.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pair {
    /// What is compared with.
    pub a: Vec<Point>,
    /// What is compared.
    pub b: Vec<Point>,
}

/// How A and B were measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Design {
    /// In one run, each block holding both, now one and now the other first.
    Paired,
    /// In two runs, one after the other.
    Separate {
        /// Whether A was the first of them.
        a_first: bool,
    },
}

impl Design {
    /// The least blocks (of each run) by which chance can be excluded to `alpha` at all: with
    /// fewer, even the most extreme arrangement is too frequent.
    pub fn least_blocks(self, alpha: f64) -> usize {
        (2..64).find(|n| self.least_p(*n, *n) < alpha).unwrap_or(64)
    }

    /// How frequent the two most extreme arrangements are, of so many blocks.
    pub fn least_p(self, a: usize, b: usize) -> f64 {
        match self {
            Self::Paired => 2.0 * 0.5_f64.powi(i32::try_from(a.min(b)).unwrap_or(i32::MAX)),
            Self::Separate { .. } => 2.0 / choices(a, b),
        }
    }

    /// Degrees of freedom of the scatter's estimate, of `n` blocks (of each run).
    fn degrees_of_freedom(self, n: f64) -> f64 {
        match self {
            Self::Paired => n - 1.0,
            // Two levels and two slopes.
            Self::Separate { .. } => 2.0 * n - 4.0,
        }
    }
}

/// In how many ways `a + b` blocks can be told off to two sides.
fn choices(a: usize, b: usize) -> f64 {
    (1..=a).map(|i| (b + i) as f64 / i as f64).product()
}

/// How it is tested.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// The part of comparisons without any difference in which one may be told, all questions together.
    pub alpha: f64,
    /// Arrangements that are drawn where there are too many to take all.
    pub permutations: u32,
    /// Seed of what is drawn.
    pub seed: u64,
}

/// What is known about one question.
#[derive(Debug, Clone, PartialEq)]
pub enum Tested {
    /// Nothing can be said of so few blocks.
    TooFewBlocks {
        /// Blocks (pairs, or of the side that has fewer).
        blocks: usize,
        /// How many it takes.
        needed: usize,
        /// B less A, as far as it is known.
        effect: Option<f64>,
    },
    /// Something can.
    Estimated(Estimate),
}

/// A difference, B less A, with what is known about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    /// The difference of the means.
    pub effect: f64,
    /// Its 95 % interval.
    pub interval_95: Interval,
    /// What it is not beyond, of all questions together: each end holds to `alpha` divided by the number
    /// of questions.
    pub bounds: Interval,
    /// How often chance does as much somewhere among all questions.
    pub p_value: f64,
    /// The same, as if nothing drifted from one run to the next.
    pub p_value_without_drift: f64,
    /// Correlation of a block with the next, as it was allowed for; 0 for paired blocks.
    pub autocorrelation: f64,
    /// Blocks (pairs, or of the side that has fewer).
    pub blocks: usize,
    /// How its scatter shrinks with blocks.
    pub design: Design,
    /// The tail that `bounds` leave at each end.
    pub tail: f64,
}

impl Estimate {
    /// So many more blocks (of each run) of the same scatter would tell a difference of `size` from none;
    /// absent where they are more than anybody would measure.
    pub fn further_blocks(&self, size: f64) -> Option<usize> {
        const MOST: usize = 1_000;
        let half = (self.bounds.high - self.bounds.low) / 2.0;
        let width = |n: usize| {
            let n = n as f64;
            Some(t_quantile(1.0 - self.tail, self.design.degrees_of_freedom(n))? / n.sqrt())
        };
        let scatter = half / width(self.blocks)?;
        (1..MOST).find(|further| {
            width(self.blocks + further).is_some_and(|width| width * scatter <= size)
        })
    }
}

/// Student's t; absent without a degree of freedom.
pub(super) fn t_quantile(probability: f64, degrees_of_freedom: f64) -> Option<f64> {
    let student = StudentsT::new(0.0, 1.0, degrees_of_freedom.max(1.0)).ok()?;
    Some(student.inverse_cdf(probability)).filter(|t| t.is_finite())
}

/// Tests all `pairs` together.
pub fn test(pairs: &[Pair], design: Design, settings: &Settings) -> Vec<Tested> {
    match design {
        Design::Paired => paired::test(pairs, settings),
        Design::Separate { a_first } => separate::test(pairs, a_first, settings),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_blocks_suffice_but_not_fewer() {
        let separate = Design::Separate { a_first: true };
        assert_eq!(Design::Paired.least_blocks(0.01), 8);
        assert_eq!(separate.least_blocks(0.01), 5);
        assert!((separate.least_p(5, 5) - 2.0 / 252.0).abs() < 1e-12);
        assert!((separate.least_p(4, 6) - 2.0 / 210.0).abs() < 1e-12);
        assert!((Design::Paired.least_p(8, 8) - 2.0 / 256.0).abs() < 1e-12);
    }
}
