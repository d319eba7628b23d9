//! What may be said of a row.

use super::metric::{ComparedMetric, Scale};
use super::questions::Question;
use super::result::{ComparedRow, Difference, DifferenceUnit, Verdict};
use super::series::{Estimate, Tested};
use crate::measure::Better;
use crate::result::Interval;
use crate::wording::{count, three_digits};

/// A row of the comparison. `smallest` is the smallest difference that matters: of a ratio 0.03 for
/// 3 %, else in the metric's unit.
pub fn row(
    question: &Question<'_>,
    tested: Option<&Tested>,
    smallest: f64,
    alpha: f64,
) -> ComparedRow {
    let metric = question.metric;
    let blocks = |read: Option<&crate::result::Metric>| read.map_or(0, |m| m.values.len());
    let told = Told { metric, smallest };
    let mut row = ComparedRow {
        cell: question.cell.clone(),
        variant: question.variant.clone(),
        is_baseline: question.is_baseline,
        metric: metric.name,
        title: metric.title,
        unit: metric.unit.name(),
        higher_is_better: metric.better == Better::Higher,
        a: question.a.and_then(|metric| metric.summary),
        b: question.b.and_then(|metric| metric.summary),
        blocks_a: blocks(question.a),
        blocks_b: blocks(question.b),
        difference: None,
        smallest_difference: told.difference(told.smallest_on_scale()),
        verdict: Verdict::NotComparable,
        reason: question.pair.as_ref().err().cloned(),
        further_blocks: None,
    };
    match tested {
        None => {}
        Some(Tested::TooFewBlocks { blocks, needed, effect }) => {
            row.verdict = Verdict::TooFewBlocks;
            let have = count(*blocks, "block");
            row.reason = Some(format!(
                "{have}, and it takes {needed}: measure with --blocks {needed} or more"
            ));
            row.difference = effect.map(|effect| told.of(effect, None));
        }
        Some(Tested::Estimated(estimate)) => {
            row.difference = Some(told.of(estimate.effect, Some(estimate)));
            row.verdict = told.verdict(estimate, alpha);
            row.reason = told.reason(estimate, row.verdict, alpha);
            if row.verdict == Verdict::Unclear {
                row.further_blocks = estimate.further_blocks(told.smallest_on_scale());
            }
        }
    }
    row
}

/// How a metric's differences are told.
struct Told {
    metric: &'static ComparedMetric,
    smallest: f64,
}

impl Told {
    /// A ratio that matters is a factor, up and down alike, so that it makes no difference which
    /// side is called A.
    fn smallest_on_scale(&self) -> f64 {
        match self.metric.scale {
            Scale::Ratio => self.smallest.ln_1p(),
            Scale::Difference => self.smallest,
        }
    }

    fn verdict(&self, estimate: &Estimate, alpha: f64) -> Verdict {
        let smallest = self.smallest_on_scale();
        let is_higher = estimate.effect > 0.0;
        if estimate.p_value < alpha {
            return match estimate.effect.abs() >= smallest {
                false => Verdict::Negligible,
                true if is_higher == (self.metric.better == Better::Higher) => Verdict::Better,
                true => Verdict::Worse,
            };
        }
        match largest(estimate.bounds) <= smallest {
            true => Verdict::NoDifference,
            false => Verdict::Unclear,
        }
    }

    fn reason(&self, estimate: &Estimate, verdict: Verdict, alpha: f64) -> Option<String> {
        match verdict {
            Verdict::Unclear if estimate.p_value_without_drift < alpha => Some(
                "a drift that goes on from one run to the next would explain it: measure A and B in \
                 one run"
                    .into(),
            ),
            Verdict::Unclear => {
                let blocks = estimate.further_blocks(self.smallest_on_scale());
                let so_many = match blocks {
                    Some(blocks) => format!("about {} more would tell", count(blocks, "block")),
                    None => "more blocks than anybody would measure would be needed".into(),
                };
                Some(format!("the blocks scatter too much: {so_many}"))
            }
            Verdict::Negligible if largest(estimate.bounds) > self.smallest_on_scale() => {
                let most = three_digits(self.difference(largest(estimate.bounds)));
                Some(format!("as measured less than matters, at most {most} {}", self.unit_name()))
            }
            _ => None,
        }
    }

    fn unit_name(&self) -> &'static str {
        match self.metric.scale {
            Scale::Ratio => "%",
            Scale::Difference => self.metric.unit.name(),
        }
    }

    /// As a person reads it: percent of A, or in the metric's unit.
    fn difference(&self, on_scale: f64) -> f64 {
        match self.metric.scale {
            Scale::Ratio => 100.0 * on_scale.exp_m1(),
            Scale::Difference => on_scale,
        }
    }

    fn of(&self, effect: f64, estimate: Option<&Estimate>) -> Difference {
        let interval = |interval: Interval| Interval {
            low: self.difference(interval.low),
            high: self.difference(interval.high),
        };
        Difference {
            unit: match self.metric.scale {
                Scale::Ratio => DifferenceUnit::Percent,
                Scale::Difference => DifferenceUnit::Unit,
            },
            value: self.difference(effect),
            interval_95: estimate.map(|estimate| interval(estimate.interval_95)),
            p_value: estimate.map(|estimate| estimate.p_value),
            no_larger_than: estimate.map(|estimate| self.difference(largest(estimate.bounds))),
            autocorrelation: estimate.map(|estimate| estimate.autocorrelation),
        }
    }
}

fn largest(bounds: Interval) -> f64 {
    bounds.low.abs().max(bounds.high.abs())
}
