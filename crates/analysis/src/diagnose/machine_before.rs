//! What went on the machine before the run, while vioperf did nothing.

use vioperf_model::record::MachineLook;

use super::{Evidence, about_run};
use crate::machine_look::{frequency, idle_noise, wake_ups};
use crate::result::{Finding, Severity};
use crate::wording::capitalised;

pub fn check(evidence: &Evidence<'_>) -> Vec<Finding> {
    let Some(look) = &evidence.run.machine_before else { return Vec::new() };
    not_idle(look).into_iter().chain(scaling(look)).collect()
}

fn not_idle(look: &MachineLook) -> Option<Finding> {
    let (idle, wake_ups) = (idle_noise(look), wake_ups(look));
    idle.advice.or(wake_ups.advice)?;
    Some(about_run(
        "machine-not-idle-before",
        Severity::Doubt,
        "The machine was not idle before the run",
        &format!("in the {} ms before it: {}, wake-ups {}", look.took_ms, idle.seen, wake_ups.seen),
        "End what else is running here and, of stolen time, on the hardware that this virtual machine \
         shares, and measure again.",
    ))
}

fn scaling(look: &MachineLook) -> Option<Finding> {
    let frequency = frequency(look);
    Some(about_run(
        "frequency-scales",
        Severity::Doubt,
        "The cores' frequency follows their load",
        &frequency.seen,
        &format!("{}.", capitalised(frequency.advice?)),
    ))
}
