//! A request takes as long as the path is.

use super::symptoms::Symptoms;
use super::{Rule, Sign};
use crate::result::Confidence;
use crate::wording::three_digits;

pub(super) const RULE: Rule = Rule {
    name: "path-delay",
    title: "A request waits for the path: nobody works while it is under way",
    check,
};

/// The least latency of a path whose delay is worth the name, in microseconds.
const DELAY_US: f64 = 300.0;
/// Part of the mean that the least latency has to be: queues and schedulers make the rest.
const PART_OF_MEAN: f64 = 0.5;
/// How busy the threads may be, in percent.
const IDLE_PERCENT: f64 = 50.0;

fn check(symptoms: &Symptoms<'_>) -> Option<Sign> {
    // A guest's own delay is its virtual card's and not the path's.
    if symptoms.guest().is_some() {
        return None;
    }
    let sender = &symptoms.sender;
    let least = sender.outcome()?.latency.as_ref()?.minimum_ns as f64 / 1e3;
    let mean = symptoms.mean_latency_us()?;
    let busiest = symptoms.busiest_thread().unwrap_or(0.0);
    if least < DELAY_US || least < PART_OF_MEAN * mean || busiest > IDLE_PERCENT {
        return None;
    }
    let evidence = vec![
        sender.counter("least latency", format!("{} µs", three_digits(least))),
        sender.counter("mean latency", format!("{} µs", three_digits(mean))),
        sender.share("busiest thread of either end", busiest),
    ];
    let advice = "Only a shorter way makes one request faster; more of them at once (outstanding, streams) fill the time.";
    Some(Sign { confidence: Confidence::Likely, evidence, advice: advice.into() })
}
