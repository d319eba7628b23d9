//! Simulated measurements in which nothing differs, of every shape that real ones have.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::compare::series::{Pair, Point};

/// How values scatter about what is measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// Evenly to both sides.
    Normal,
    /// Mostly a little, sometimes far to one side (a log-normal's exponential).
    Skewed,
    /// About one of two values; three of ten trials are in the lower.
    TwoHumps,
    /// Normal, and the machine gets faster by this part, evenly, over all that is measured.
    Drifting(f64),
    /// Normal, and this much of each value's deviation stays in the next (AR(1)).
    Autocorrelated(f64),
}

impl Shape {
    /// Every shape, as it is simulated.
    pub const ALL: [Self; 8] = [
        Self::Normal,
        Self::Skewed,
        Self::TwoHumps,
        Self::Drifting(0.03),
        Self::Drifting(0.15),
        Self::Autocorrelated(0.3),
        Self::Autocorrelated(0.5),
        Self::Autocorrelated(0.7),
    ];
}

/// A machine whose measurements are simulated.
#[derive(Debug)]
pub struct Machine {
    random: ChaCha8Rng,
    shape: Shape,
    scatter: f64,
}

impl Machine {
    /// With values that scatter by such a part of themselves.
    pub fn new(shape: Shape, scatter: f64, seed: u64) -> Self {
        Self { random: ChaCha8Rng::seed_from_u64(seed), shape, scatter }
    }

    /// From 0 to 1.
    fn uniform(&mut self) -> f64 {
        self.random.next_u32() as f64 / f64::from(u32::MAX)
    }

    /// Standard normal (Box & Muller, 1958).
    fn normal(&mut self) -> f64 {
        let (radius, angle) = (self.uniform().max(1e-9), self.uniform());
        (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
    }

    /// Logarithms of what is measured, one after the other.
    pub fn logarithms(&mut self, n: usize) -> Vec<f64> {
        let mut last = self.normal();
        let mut one = |at: usize| match self.shape {
            Shape::Normal => self.scatter * self.normal(),
            Shape::Skewed => self.scatter * (self.normal().exp() - 1.0),
            Shape::TwoHumps => {
                let is_low = self.uniform() < 0.3;
                self.scatter * (0.2 * self.normal() - if is_low { 2.0 } else { 0.0 })
            }
            Shape::Drifting(by) => by * at as f64 / n as f64 + self.scatter * self.normal(),
            Shape::Autocorrelated(part) => {
                let now = last;
                last = part * last + (1.0 - part * part).sqrt() * self.normal();
                self.scatter * now
            }
        };
        (0..n).map(&mut one).collect()
    }

    /// A and B in two runs of so many blocks each, one after the other, for each of `cells`; B is
    /// larger by `effect`.
    pub fn two_runs(&mut self, cells: usize, blocks: usize, effect: f64) -> Vec<Pair> {
        let mut cell = |_| {
            let values = self.logarithms(2 * blocks);
            let (a, b) = values.split_at(blocks);
            Pair { a: points(a, 0.0), b: points(b, effect) }
        };
        (0..cells).map(&mut cell).collect()
    }

    /// A and B in every block of one run, in random order.
    pub fn one_run(&mut self, cells: usize, blocks: usize, effect: f64) -> Vec<Pair> {
        let mut cell = |_| {
            let values = self.logarithms(2 * blocks);
            let (mut a, mut b) = (Vec::new(), Vec::new());
            for slots in values.chunks_exact(2) {
                let a_first = self.uniform() < 0.5;
                a.push(slots[usize::from(!a_first)]);
                b.push(slots[usize::from(a_first)]);
            }
            Pair { a: points(&a, 0.0), b: points(&b, effect) }
        };
        (0..cells).map(&mut cell).collect()
    }
}

fn points(values: &[f64], more: f64) -> Vec<Point> {
    let point = |(block, value): (u32, &f64)| Point { block, value: value + more };
    (0..).zip(values).map(point).collect()
}
