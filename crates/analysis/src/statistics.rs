//! Means and intervals over trials. The trial is the unit of replication, never a part of it.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::result::{Interval, Summary};

/// Mean, standard deviation and Student's t interval of `values`; nothing of no values. One value
/// has no interval: nothing is known about its scatter.
pub fn summarise(values: &[f64]) -> Option<Summary> {
    let mean = mean(values)?;
    let deviation = standard_deviation(values, mean);
    let interval = deviation.and_then(|sd| half_width(values.len(), sd));
    Some(Summary {
        n: values.len(),
        mean,
        standard_deviation: deviation,
        interval_95: interval.map(|half| Interval { low: mean - half, high: mean + half }),
    })
}

/// Geometric mean and interval of `percents`, each above zero: summarised as logarithms and
/// transformed back, so that twice and half as much weigh the same.
pub fn summarise_ratios(percents: &[f64]) -> Option<Summary> {
    let logs: Vec<f64> = percents.iter().map(|percent| percent.ln()).collect();
    if logs.iter().any(|log| !log.is_finite()) {
        return None;
    }
    let summary = summarise(&logs)?;
    let interval = summary
        .interval_95
        .map(|interval| Interval { low: interval.low.exp(), high: interval.high.exp() })
        .filter(|interval| interval.high.is_finite());
    Some(Summary {
        n: summary.n,
        mean: summary.mean.exp(),
        standard_deviation: None,
        interval_95: interval,
    })
}

fn mean(values: &[f64]) -> Option<f64> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    mean.is_finite().then_some(mean)
}

fn standard_deviation(values: &[f64], mean: f64) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let deviation = (squares / (values.len() - 1) as f64).sqrt();
    deviation.is_finite().then_some(deviation)
}

/// Half the width of the 95 % interval of the mean of `n` values.
fn half_width(n: usize, standard_deviation: f64) -> Option<f64> {
    let degrees_of_freedom = n.checked_sub(1)? as f64;
    let t = StudentsT::new(0.0, 1.0, degrees_of_freedom).ok()?.inverse_cdf(0.975);
    let half = t * standard_deviation / (n as f64).sqrt();
    half.is_finite().then_some(half)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn agrees_with_the_textbook() {
        // t(0.975; 2) = 4.3027 and sd = 1, so the half width is 4.3027 / √3.
        let summary = summarise(&[9.0, 10.0, 11.0]).unwrap();
        let interval = summary.interval_95.unwrap();
        assert!((summary.mean - 10.0).abs() < 1e-12);
        assert!((summary.standard_deviation.unwrap() - 1.0).abs() < 1e-12);
        assert!((interval.high - 12.484_1).abs() < 1e-3, "{interval:?}");
    }

    #[test]
    fn one_value_has_no_interval_and_none_has_nothing() {
        assert!(summarise(&[3.0]).unwrap().interval_95.is_none());
        assert!(summarise(&[]).is_none());
        assert!(summarise_ratios(&[50.0, 0.0]).is_none());
    }

    proptest! {
        #[test]
        fn the_interval_contains_the_mean(values in prop::collection::vec(0.001f64..1e12, 2..20)) {
            for summary in [summarise(&values), summarise_ratios(&values)] {
                let summary = summary.unwrap();
                let interval = summary.interval_95.unwrap();
                let slack = summary.mean * 1e-12;
                prop_assert!(interval.low <= summary.mean + slack);
                prop_assert!(summary.mean <= interval.high + slack);
            }
        }

        #[test]
        fn a_ratio_of_equals_is_100_percent(n in 1usize..10) {
            let summary = summarise_ratios(&vec![100.0; n]).unwrap();
            prop_assert!((summary.mean - 100.0).abs() < 1e-9);
        }
    }
}
