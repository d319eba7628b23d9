//! Trials that fall into two groups with nothing in between.

use super::median;

/// The smaller group has at least so many trials,
const LEAST_IN_HUMP: usize = 3;
/// and at least one of so many: else they are outliers.
const LEAST_PART: usize = 4;
/// Groups that are nearer to each other than this part of the median are not worth a word.
const RELEVANT: f64 = 0.05;

/// What part of the scatter the best split of so many normal values explains, exceeded by chance with a
/// probability of [`super::ALPHA`]. Of fewer values than the first row's, groups cannot be told from chance.
/// From 80 000 to 1 500 000 simulated samples each. In between the
/// one before holds, which is on the safe side.
const CRITICAL: [(usize, f64); 15] = [
    (8, 0.9882),
    (9, 0.9816),
    (10, 0.9759),
    (11, 0.9676),
    (12, 0.9598),
    (13, 0.9512),
    (14, 0.9458),
    (16, 0.9343),
    (20, 0.9071),
    (25, 0.8817),
    (30, 0.8641),
    (40, 0.8397),
    (60, 0.8018),
    (100, 0.7617),
    (200, 0.7312),
];

/// Two groups of trials.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Humps {
    /// Mean of the lower group.
    pub low: f64,
    /// Trials in it.
    pub low_trials: usize,
    /// Mean of the upper group.
    pub high: f64,
    /// Trials in it.
    pub high_trials: usize,
}

/// The two groups that the trials fall into, if they do: the split of the sorted values that leaves the
/// least scatter inside its halves explains more of it than a split of normal values does but once in
/// 20 000 samples (the statistic of L. Engelman and J. A. Hartigan, JASA 64, 1969; unlike Hartigan's dip
/// it can tell with as few as eight values). A normal distribution comes to 64 %, an even one to 75 %.
pub fn humps(values: &[f64]) -> Option<Humps> {
    let n = values.len();
    let critical = CRITICAL.iter().rev().find(|(least, _)| *least <= n)?.1;
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let mean = sorted.iter().sum::<f64>() / n as f64;
    let scatter: f64 = sorted.iter().map(|value| (value - mean).powi(2)).sum();
    let least = LEAST_IN_HUMP.max(n.div_ceil(LEAST_PART));
    let mut below = 0.0;
    let mut best: Option<(f64, usize, f64)> = None;
    for (lower, value) in (1..).zip(&sorted) {
        below += value - mean;
        let upper = n - lower;
        if lower < least || upper < least {
            continue;
        }
        let explained = below * below * (1.0 / lower as f64 + 1.0 / upper as f64);
        if best.is_none_or(|(most, ..)| explained > most) {
            best = Some((explained, lower, below));
        }
    }
    let (explained, lower, below) = best?;
    let upper = n - lower;
    let found = Humps {
        low: mean + below / lower as f64,
        low_trials: lower,
        high: mean - below / upper as f64,
        high_trials: upper,
    };
    let apart = found.high - found.low > RELEVANT * median(values)?.abs();
    (apart && explained / scatter > critical).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_tight_groups_are_found_and_one_wide_is_not() {
        let two = [100.0, 140.2, 100.4, 139.5, 99.7, 140.0, 100.1, 139.9];
        let found = humps(&two).unwrap();
        assert_eq!((found.low_trials, found.high_trials), (4, 4));
        assert!(
            (found.low - 100.05).abs() < 1e-9 && (found.high - 139.9).abs() < 1e-9,
            "{found:?}"
        );
        let even: Vec<f64> = (0..30).map(|i| 100.0 + f64::from(i)).collect();
        assert_eq!(humps(&even), None);
        assert_eq!(humps(&two[..7]), None);
        assert_eq!(humps(&[5.0; 20]), None);
        // Two off by far are outliers, not a hump.
        let mut few = even.clone();
        few.extend([900.0, 901.0]);
        assert_eq!(humps(&few), None);
        assert_eq!(humps(&[f64::NAN; 9]), None);
    }
}
