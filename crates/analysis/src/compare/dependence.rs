//! The gap between two runs, and what blocks that depend on their neighbours do to its error.

/// Less than this part of the values is rounding.
const ROUNDING: f64 = 1e-12;
/// More correlation than this is not told from a drift.
const MOST_CORRELATION: f64 = 0.8;

/// A difference between two runs, the second less the first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gap {
    /// How large it is.
    pub size: f64,
    /// Its squared standard error, if blocks were independent; never 0.
    pub variance: f64,
    /// Welch's degrees of freedom.
    pub degrees_of_freedom: f64,
    /// Correlation of a residual with the next of the same run, as it comes out.
    pub neighbours: f64,
}

/// What one run expects at its edge.
struct Edge {
    value: f64,
    variance: f64,
    degrees_of_freedom: f64,
    /// Sums over the residuals: squares, and products of neighbours.
    squares: f64,
    products: f64,
}

impl Gap {
    /// Of the means; `None` of no values.
    pub fn of_means(first: &[f64], second: &[f64]) -> Option<f64> {
        Some(mean(second)? - mean(first)?)
    }

    /// Of the means (Welch, 1947); `None` of fewer than two values on a side.
    pub fn of_levels(first: &[f64], second: &[f64]) -> Option<Self> {
        Some(Self::between(&level(first)?, &level(second)?, rounding(first, second)))
    }

    /// Of two lines, one through each run, where the runs meet: what is left when each run's drift
    /// goes on to the other (a regression discontinuity in time). `None` of fewer than three values.
    pub fn of_trends(first: &[f64], second: &[f64]) -> Option<Self> {
        let meets = first.len() as f64 - 0.5;
        let (before, after) = (trend(first, meets)?, trend(second, -0.5)?);
        Some(Self::between(&before, &after, rounding(first, second)))
    }

    fn between(before: &Edge, after: &Edge, rounding: f64) -> Self {
        let size = after.value - before.value;
        let variance = before.variance + after.variance;
        let part = |edge: &Edge| edge.variance.powi(2) / edge.degrees_of_freedom;
        let welch = variance.powi(2) / (part(before) + part(after));
        let least = before.degrees_of_freedom.min(after.degrees_of_freedom);
        let neighbours = (before.products + after.products) / (before.squares + after.squares);
        Self {
            size: if size.abs() <= rounding { 0.0 } else { size },
            variance: variance.max(rounding.powi(2)).max(f64::MIN_POSITIVE),
            degrees_of_freedom: if welch.is_finite() { welch } else { least },
            neighbours: if neighbours.is_finite() { neighbours } else { 0.0 },
        }
    }
}

fn rounding(first: &[f64], second: &[f64]) -> f64 {
    first.iter().chain(second).fold(0.0, |most: f64, value| most.max(value.abs())) * ROUNDING
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn level(values: &[f64]) -> Option<Edge> {
    let n = values.len() as f64;
    let mean = mean(values).filter(|_| values.len() >= 2)?;
    let (squares, products) = sums(values.iter().map(|value| value - mean));
    let variance = squares / (n - 1.0) / n;
    Some(Edge { value: mean, variance, degrees_of_freedom: n - 1.0, squares, products })
}

/// Least squares; the run's values stand at 0, 1, 2 and so on.
fn trend(values: &[f64], at: f64) -> Option<Edge> {
    let n = values.len() as f64;
    let mean = mean(values).filter(|_| values.len() >= 3)?;
    let middle = (n - 1.0) / 2.0;
    let placed = || values.iter().enumerate().map(|(place, value)| (place as f64 - middle, value));
    let spread: f64 = placed().map(|(place, _)| place * place).sum();
    let slope = placed().map(|(place, value)| place * (value - mean)).sum::<f64>() / spread;
    let (squares, products) = sums(placed().map(|(place, value)| value - mean - slope * place));
    let away = at - middle;
    let variance = squares / (n - 2.0) * (1.0 / n + away * away / spread);
    let value = mean + slope * away;
    Some(Edge { value, variance, degrees_of_freedom: n - 2.0, squares, products })
}

/// Sums of squares, and of products of neighbours.
fn sums(residuals: impl Iterator<Item = f64>) -> (f64, f64) {
    let mut last = 0.0;
    residuals.fold((0.0, 0.0), |(squares, products), residual| {
        let product = last * residual;
        last = residual;
        (squares + residual * residual, products + product)
    })
}

/// The correlation of neighbours, from that of `blocks` residuals of a run after so many parameters
/// were `fitted` to them, which makes it too small (Kendall, Biometrika 41, 1954; Marriott & Pope,
/// ibid.). Blocks that avoid each other are taken as independent.
pub fn correlation(of_residuals: f64, blocks: f64, fitted: f64) -> f64 {
    let bias = (fitted + (2.0 + fitted) * of_residuals.max(0.0)) / blocks;
    (of_residuals + bias).clamp(0.0, MOST_CORRELATION)
}

/// By how much the squared standard error of the mean of `blocks` values is larger than their scatter
/// says, when each is correlated so with the next and less and less with those further on (AR(1);
/// Bayley & Hammersley, 1946: the effective number of independent observations).
pub fn inflation(correlation: f64, blocks: f64) -> f64 {
    let mut larger = 1.0;
    let mut power = correlation;
    let mut lag = 1.0;
    while lag < blocks && power > ROUNDING {
        larger += 2.0 * (1.0 - lag / blocks) * power;
        power *= correlation;
        lag += 1.0;
    }
    // The scatter inside a run is too small by as much as the run's mean moves.
    let scatter = 1.0 - (larger - 1.0) / (blocks - 1.0);
    larger / scatter.max(0.05)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drift_that_goes_on_is_a_gap_of_levels_but_none_of_trends() {
        let line: Vec<f64> = (0..12).map(|i| 10.0 + 0.5 * f64::from(i)).collect();
        let (first, second) = line.split_at(5);
        let levels = Gap::of_levels(first, second).unwrap();
        let trends = Gap::of_trends(first, second).unwrap();
        assert!((levels.size - 3.0).abs() < 1e-9, "{levels:?}");
        assert!(trends.size.abs() < 1e-9, "{trends:?}");
    }

    #[test]
    fn welch_agrees_with_the_textbook() {
        // Means 2 and 5, variances 1 and 4 of three values each.
        let gap = Gap::of_levels(&[1.0, 2.0, 3.0], &[3.0, 5.0, 7.0]).unwrap();
        assert!((gap.size - 3.0).abs() < 1e-12);
        assert!((gap.variance - 5.0 / 3.0).abs() < 1e-12);
        // (1/3 + 4/3)² / ((1/3)²/2 + (4/3)²/2) = 2.941.
        assert!((gap.degrees_of_freedom - 2.941_176).abs() < 1e-5, "{gap:?}");
    }

    #[test]
    fn dependence_widens_and_independence_does_not() {
        assert!((inflation(0.0, 10.0) - 1.0).abs() < 1e-12);
        // Of very many blocks it is (1 + r) / (1 - r).
        assert!((inflation(0.5, 1e6) - 3.0).abs() < 1e-3);
        assert!(inflation(0.8, 5.0).is_finite());
        assert!(correlation(-0.5, 10.0, 1.0) == 0.0 && correlation(0.9, 10.0, 1.0) == 0.8);
    }

    #[test]
    fn runs_without_scatter_are_told_apart_and_equal_ones_are_not() {
        let apart = Gap::of_levels(&[20.0; 5], &[21.0; 5]).unwrap();
        assert!(apart.size == 1.0 && apart.variance > 0.0 && apart.degrees_of_freedom > 0.0);
        let equal = Gap::of_levels(&[0.1 + 0.2; 5], &[0.3; 7]).unwrap();
        assert!(equal.size == 0.0);
    }
}
