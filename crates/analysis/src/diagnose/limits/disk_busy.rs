//! The disk below is busy all the time.

use super::symptoms::Symptoms;
use super::{Rule, Sign};
use crate::result::Confidence;
use crate::wording::three_digits;

pub(super) const RULE: Rule = Rule {
    name: "disk-busy",
    title: "The host's own disk has work all the time: it is the limit, and not the path to it",
    check,
};

/// Of the time between the two readings of its counters, which begins and ends beside the load.
const BUSY_PERCENT: f64 = 90.0;
/// A device that moves less than this part of the load's bytes is not the one below it.
const LEAST_PERCENT_OF_LOAD: f64 = 50.0;

fn check(symptoms: &Symptoms<'_>) -> Option<Sign> {
    let device = symptoms.device()?;
    let host = symptoms.host()?;
    if device.busy_percent < BUSY_PERCENT || device.percent_of_load < LEAST_PERCENT_OF_LOAD {
        return None;
    }
    let asked = u32::from(symptoms.workload.queue_depth()) * u32::from(symptoms.workload.streams);
    let evidence = vec![
        host.setting(
            format!("{} had an operation under way", device.name),
            format!(
                "{} % of {} s",
                three_digits(device.busy_percent.min(100.0)),
                three_digits(device.seconds)
            ),
        ),
        host.setting("operations under way there, on average", three_digits(device.in_flight)),
        host.setting("operations that the load keeps under way", asked.to_string()),
        host.setting(
            "bytes it moved, of the load's",
            format!("{} %", three_digits(device.percent_of_load)),
        ),
    ];
    // A device that takes many at a time may be busy with one and have room for more.
    let is_deep = device.in_flight >= 0.8 * f64::from(asked) && asked > 1;
    let confidence = if is_deep { Confidence::Likely } else { Confidence::Possible };
    let advice = "A faster device, or fewer and larger operations (block_size). If it takes more at a time than it is given, \
                  a deeper queue (queue_depth, streams) tells.";
    Some(Sign { confidence, evidence, advice: advice.into() })
}
