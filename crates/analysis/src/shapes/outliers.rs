//! Trials that lie far from all others of their cell.

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::{ALPHA, median};

/// Of fewer trials none can be told to be off.
const LEAST_TRIALS: usize = 5;
/// With fewer trials only one is looked for: the test's levels hold for several from here on (Rosner).
const LEAST_FOR_SEVERAL: usize = 15;
/// At most this part of the trials is looked for.
const MOST_PART: usize = 10;
/// Nearer to the median than this part of it, a trial is none that anybody would ask about.
const RELEVANT: f64 = 0.05;

/// The places of the trials that are off, ascending: the generalized extreme Studentized deviate test
/// (B. Rosner, Technometrics 25, 1983), which for a single outlier is Grubbs's. Rates scatter by
/// factors: where all are above zero it is their logarithms that are looked at.
pub fn outliers(values: &[f64]) -> Vec<usize> {
    let n = values.len();
    if n < LEAST_TRIALS || values.iter().any(|value| !value.is_finite()) {
        return Vec::new();
    }
    let is_rate = values.iter().all(|value| *value > 0.0);
    let scale = |value: &f64| if is_rate { value.ln() } else { *value };
    let scaled: Vec<f64> = values.iter().map(scale).collect();
    let most = if n < LEAST_FOR_SEVERAL { 1 } else { (n / MOST_PART).max(2) };
    let mut left: Vec<usize> = (0..n).collect();
    let (mut off, mut found) = (Vec::new(), 0);
    for _ in 0..most {
        let Some((place, deviate)) = most_extreme(&scaled, &left) else { break };
        let critical = critical_deviate(left.len());
        off.push(left.swap_remove(place));
        if critical.is_some_and(|critical| deviate > critical) {
            found = off.len();
        }
    }
    off.truncate(found);
    let centre = median(values).unwrap_or(0.0);
    off.retain(|at| (values[*at] - centre).abs() > RELEVANT * centre.abs());
    off.sort_unstable();
    off
}

/// Where in `left` the value is that is furthest from their mean, and by how many standard deviations.
fn most_extreme(values: &[f64], left: &[usize]) -> Option<(usize, f64)> {
    let n = left.len() as f64;
    let mean = left.iter().map(|at| values[*at]).sum::<f64>() / n;
    let squares: f64 = left.iter().map(|at| (values[*at] - mean).powi(2)).sum();
    let deviation = (squares / (n - 1.0)).sqrt();
    let distances = left.iter().map(|at| (values[*at] - mean).abs() / deviation);
    distances
        .enumerate()
        .filter(|(_, deviate)| deviate.is_finite())
        .max_by(|a, b| a.1.total_cmp(&b.1))
}

/// What the largest of `n` deviates exceeds by chance with a probability of [`ALPHA`].
fn critical_deviate(n: usize) -> Option<f64> {
    let n = n as f64;
    let t = StudentsT::new(0.0, 1.0, n - 2.0).ok()?.inverse_cdf(1.0 - ALPHA / (2.0 * n));
    let critical = (n - 1.0) * t / (n * (n - 2.0 + t * t)).sqrt();
    critical.is_finite().then_some(critical)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_published_table_of_grubbs() {
        // NIST/SEMATECH, section 1.3.5.17.1: at a level of 5 %, of 8 values, 2.126 two-sided.
        let (n, alpha) = (8.0, 0.05);
        let t = StudentsT::new(0.0, 1.0, n - 2.0).unwrap().inverse_cdf(1.0 - alpha / (2.0 * n));
        let critical: f64 = (n - 1.0) * t / (n * (n - 2.0_f64 + t * t)).sqrt();
        assert!((critical - 2.126).abs() < 2e-3, "{critical}");
        // Never more than what n values can come to: (n - 1) / √n.
        assert!(critical_deviate(8).unwrap() < 7.0 / 8f64.sqrt());
    }

    #[test]
    fn one_that_is_far_off_is_found_and_the_rest_is_not() {
        let values = [100.0, 101.0, 99.5, 100.4, 60.0, 99.0, 100.2, 100.9];
        assert_eq!(outliers(&values), [4]);
        let several: Vec<f64> =
            (0..20).map(|i| if i % 9 == 3 { 20.0 } else { 100.0 + f64::from(i % 5) }).collect();
        assert_eq!(outliers(&several), [3, 12]);
        assert!(outliers(&[1.0, 1.0, 1.0, 9.0]).is_empty());
        assert!(outliers(&[1.0; 12]).is_empty() && outliers(&[0.0; 5]).is_empty());
        assert!(outliers(&[f64::INFINITY, 1.0, 2.0, 3.0, 4.0, 5.0]).is_empty());
        // Sure, but nobody would ask about 1 %.
        assert!(outliers(&[100.0, 100.0001, 99.9999, 100.0, 101.0, 100.0002, 99.9998]).is_empty());
    }
}
