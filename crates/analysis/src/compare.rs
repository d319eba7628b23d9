//! Compares two sides, cell by cell: two runs, or two variants of one run.
//!
//! A difference counts only if a permutation test tells it from chance, all cells and metrics together,
//! and if it is as large as matters. docs/statistics.md says how, and what was simulated.

mod busy;
mod changes;
mod dependence;
pub mod metric;
mod paired;
#[cfg(test)]
mod properties;
mod questions;
pub mod result;
mod separate;
pub mod series;
#[cfg(test)]
mod simulated;
mod step_down;
mod verdict;
mod within;
pub mod words;

use std::collections::BTreeMap;

use self::metric::{ComparedMetric, Wanted};
use self::questions::Question;
use self::result::{
    COMPARISON_SCHEMA_VERSION, ComparedRow, DesignKind, RunComparison, Side, TestFacts,
};
use self::series::{Design, Pair, Settings};
pub use self::within::variants;
use crate::result::RunAnalysis;

/// The level unless the user says otherwise.
pub const ALPHA: f64 = 0.01;
/// So many arrangements are drawn at least, and so many that this many of them may reach `alpha`.
const PERMUTATIONS: f64 = 19_999.0;
const PERMUTATIONS_IN_THE_TAIL: f64 = 200.0;

/// What is compared and how.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The part of comparisons without any difference in which one may be told.
    pub alpha: f64,
    /// The smallest ratio that matters, of metrics that are not named: 0.03 for 3 %; absent: each
    /// metric's own.
    pub smallest_ratio: Option<f64>,
    /// The smallest difference that matters by name of the metric: of a ratio 0.03 for 3 %, else in
    /// the metric's unit.
    pub smallest: BTreeMap<&'static str, f64>,
    /// What is compared.
    pub metrics: Vec<Wanted>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            alpha: ALPHA,
            smallest_ratio: None,
            smallest: BTreeMap::new(),
            metrics: Wanted::DEFAULT.to_vec(),
        }
    }
}

impl Options {
    fn smallest_of(&self, metric: &ComparedMetric) -> f64 {
        let every = self.smallest_ratio.filter(|_| metric.scale == metric::Scale::Ratio);
        self.smallest.get(metric.name).copied().or(every).unwrap_or(metric.smallest_difference)
    }

    fn settings(&self, seed: u64) -> Settings {
        let permutations = (PERMUTATIONS_IN_THE_TAIL / self.alpha).clamp(PERMUTATIONS, 1e6);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // just clamped
        Settings { alpha: self.alpha, permutations: permutations as u32, seed }
    }
}

/// Compares two runs. `names` are what A and B are called.
pub fn runs(
    names: [&str; 2],
    a: &RunAnalysis,
    b: &RunAnalysis,
    options: &Options,
) -> RunComparison {
    let questions = questions::between(a, b, &options.metrics);
    let design = Design::Separate { a_first: questions::is_a_first(a, b, &questions) };
    let settings = options.settings(a.run.plan.seed ^ b.run.plan.seed);
    let (mut rows, test) = answer(&questions, design, &settings, options);
    busy::take_back(&mut rows, a, b);
    let side = |name: &str, run: &RunAnalysis| Side {
        name: name.to_owned(),
        started_at: run.run.started_at.clone(),
        scenario: run.run.scenario.name.clone(),
        vioperf_version: run.run.vioperf_version.clone(),
    };
    RunComparison {
        notice: a.notice.clone().or_else(|| b.notice.clone()),
        schema_version: COMPARISON_SCHEMA_VERSION,
        design: DesignKind::Separate,
        a: side(names[0], a),
        b: side(names[1], b),
        summary: words::summary(&rows, &test),
        changed: changes::between(&a.run, &b.run),
        doubts: words::doubts(a, b, &rows),
        test,
        rows,
    }
}

/// Tests all questions together.
fn answer(
    questions: &[Question<'_>],
    design: Design,
    settings: &Settings,
    options: &Options,
) -> (Vec<ComparedRow>, TestFacts) {
    let comparable = || questions.iter().filter_map(|question| question.pair.as_ref().ok());
    let pairs: Vec<Pair> = comparable().cloned().collect();
    let tested = series::test(&pairs, design, settings);
    let facts = TestFacts {
        alpha: settings.alpha,
        rows: tested.iter().filter(|t| matches!(t, series::Tested::Estimated(_))).count(),
        permutations: settings.permutations,
        seed: settings.seed,
    };
    let mut tested = tested.iter();
    let row = |question: &Question<'_>| {
        let of = question.pair.is_ok().then(|| tested.next()).flatten();
        verdict::row(question, of, options.smallest_of(question.metric), settings.alpha)
    };
    (questions.iter().map(row).collect(), facts)
}
