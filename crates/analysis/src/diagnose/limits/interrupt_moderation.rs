//! Interrupts are put off, and with them every answer.

use super::end::End;
use super::symptoms::Symptoms;
use super::{Rule, Sign};
use crate::result::Confidence;
use crate::wording::three_digits;

pub(super) const RULE: Rule = Rule {
    name: "interrupt-moderation",
    title: "Interrupts are put off to save work, and requests wait for them",
    check,
};

/// For how long an interrupt has to be put off to be felt, in microseconds.
const FELT_US: u32 = 10;
/// Part of the mean latency that it has to be.
const PART_OF_LATENCY: f64 = 0.25;

fn check(symptoms: &Symptoms<'_>) -> Option<Sign> {
    let mean = symptoms.mean_latency_us()?;
    symptoms.ends().into_iter().find_map(|end| sign(end, mean))
}

fn sign(end: &End<'_>, mean_us: f64) -> Option<Sign> {
    let facts = end.interface()?;
    let coalescing = facts.coalescing.filter(|coalescing| coalescing.rx_us >= FELT_US)?;
    if f64::from(coalescing.rx_us) < PART_OF_LATENCY * mean_us {
        return None;
    }
    let evidence = vec![
        end.setting(format!("rx-usecs of {}", facts.name), format!("{} µs", coalescing.rx_us)),
        end.setting("adaptive-rx", if coalescing.adaptive_rx { "on" } else { "off" }),
        end.setting("mean latency", format!("{} µs", three_digits(mean_us))),
    ];
    let advice = format!(
        "For latency: `ethtool -C {} adaptive-rx off rx-usecs 0`; it costs an interrupt for each packet where packets are many.",
        facts.name
    );
    Some(Sign { confidence: Confidence::Likely, evidence, advice: advice.into() })
}
