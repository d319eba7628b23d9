//! How often the looks find something in runs that have nothing to be found.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{Course, humps, outliers, trend, within};

/// A normal value, by Box and Muller.
fn normal(random: &mut ChaCha8Rng) -> f64 {
    let (radius, turn): (f64, f64) = (random.random(), random.random());
    (-2.0 * (1.0 - radius).ln()).sqrt() * (std::f64::consts::TAU * turn).cos()
}

/// What is found in the cells of so many trials each, with a scatter of 8 %.
fn found(cells: usize, trials: usize, random: &mut ChaCha8Rng) -> Vec<&'static str> {
    let mut found = Vec::new();
    for _ in 0..cells {
        let values: Vec<f64> = (0..trials).map(|_| 1e9 * (0.08 * normal(random)).exp()).collect();
        let courses: Vec<Course> = (0..trials).filter_map(|_| course(random)).collect();
        found.extend((!outliers(&values).is_empty()).then_some("outliers"));
        found.extend(humps(&values).map(|_| "humps"));
        found.extend(trend(&values).map(|_| "trend"));
        found.extend(within(&courses.iter().collect::<Vec<_>>()).map(|_| "within"));
        found.extend(courses.iter().find_map(|course| course.dip).map(|_| "dip"));
    }
    found
}

fn course(random: &mut ChaCha8Rng) -> Option<Course> {
    let mut moved = 0.0;
    let samples = (0..=14).map(|tick| {
        moved += if tick > 0 { 1e4 * (0.2 * normal(random)).exp() } else { 0.0 };
        (f64::from(tick) * 0.1, moved)
    });
    Course::of(&samples.collect::<Vec<_>>(), 1.0)
}

/// 300 runs of forty cells: about three of them may have a finding. The seed is fixed, so that the
/// test says the same every time.
#[test]
fn a_clean_run_has_a_finding_in_one_of_a_hundred() {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let sizes = [(8, 6_000), (12, 5_000), (30, 1_000)];
    let all: Vec<_> =
        sizes.iter().flat_map(|(trials, cells)| found(*cells, *trials, &mut random)).collect();
    assert!(all.len() <= 6, "{}: {all:?}", all.len());
}
