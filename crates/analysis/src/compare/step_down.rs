//! Many questions at once, answered by permutations: step-down maxT.
//!
//! Every arrangement of the blocks gives one statistic a question, and the largest of them says what
//! chance alone does somewhere. As all questions are asked of the same arrangement, what they share
//! stays shared, and few blocks suffice. Westfall & Young, *Resampling-Based Multiple Testing* (1993),
//! algorithm 4.1; Romano & Wolf, "Exact and approximate stepdown methods for multiple hypothesis
//! testing", JASA 100 (2005).

/// What is as large as the observed, but for rounding, counts as large.
const ROUNDING: f64 = 1e-9;

/// Counts how often chance does as much as was observed.
#[derive(Debug)]
pub struct StepDown {
    /// Statistics as observed.
    observed: Vec<f64>,
    /// Questions, the largest observed statistic first.
    order: Vec<usize>,
    /// Arrangements, by place in `order`, in which the largest statistic of that place and all behind
    /// it reached the observed.
    reached: Vec<u64>,
    arrangements: u64,
}

impl StepDown {
    /// With the statistics of the arrangement that was measured, none of them NaN.
    pub fn new(observed: Vec<f64>) -> Self {
        let mut order: Vec<usize> = (0..observed.len()).collect();
        order.sort_by(|a, b| observed[*b].total_cmp(&observed[*a]));
        Self { reached: vec![0; order.len()], observed, order, arrangements: 0 }
    }

    /// Takes the statistics of another arrangement.
    pub fn add(&mut self, statistics: &[f64]) {
        let mut largest = f64::NEG_INFINITY;
        for (place, question) in self.order.iter().enumerate().rev() {
            largest = largest.max(statistics[*question]);
            if largest >= self.observed[*question] * (1.0 - ROUNDING) {
                self.reached[place] += 1;
            }
        }
        self.arrangements += 1;
    }

    /// The adjusted p-value of every question. `all` says that every arrangement was taken, the measured
    /// one included; else they were drawn, and the measured one counts as one more (Phipson & Smyth,
    /// "Permutation p-values should never be zero", 2010).
    pub fn p_values(&self, all: bool) -> Vec<f64> {
        let more = u64::from(!all);
        let mut adjusted = vec![1.0; self.order.len()];
        let mut largest: f64 = 0.0;
        for (reached, question) in self.reached.iter().zip(&self.order) {
            let p = (reached + more) as f64 / (self.arrangements + more).max(1) as f64;
            largest = largest.max(p);
            adjusted[*question] = largest;
        }
        adjusted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_counting_by_hand() {
        // The first question's largest rival is the second, so its p-value is that of the maximum;
        // the second steps down to its own.
        let mut step_down = StepDown::new(vec![3.0, 1.0]);
        for statistics in [[3.0, 1.0], [0.5, 2.0], [0.0, 3.5], [2.0, 0.5]] {
            step_down.add(&statistics);
        }
        assert_eq!(step_down.p_values(true), [0.5, 0.75]);
        assert_eq!(step_down.p_values(false), [3.0 / 5.0, 4.0 / 5.0]);
    }

    #[test]
    fn a_smaller_statistic_never_has_a_smaller_p_value() {
        let mut step_down = StepDown::new(vec![2.0, 1.9]);
        for statistics in [[2.0, 1.9], [2.5, 0.1], [2.1, 0.2]] {
            step_down.add(&statistics);
        }
        let p = step_down.p_values(true);
        assert_eq!(p, [1.0, 1.0]);
    }
}
