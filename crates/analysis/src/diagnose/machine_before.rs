//! What went on the machine before the run, while vioperf did nothing.

use vioperf_model::record::{CoreFrequency, MachineLook};

use super::{Evidence, about_run};
use crate::result::{Finding, Severity};
use crate::wording::{percent, three_digits};

/// Busy or stolen time of all cores together, in percent of all of them, from which it matters.
const BUSY_PERCENT: f64 = 5.0;
/// A sleep whose median end is later than this was kept waiting for a core. Timers that are merged make
/// it 50 µs (`PR_SET_TIMERSLACK`).
const LATE_MEDIAN_NS: u64 = 500_000;
/// Where the least frequency is a smaller part of the most, load decides which of them it is.
const SCALES_BELOW: f64 = 0.95;

pub fn check(evidence: &Evidence<'_>) -> Vec<Finding> {
    let Some(look) = &evidence.run.machine_before else { return Vec::new() };
    not_idle(look).into_iter().chain(scaling(look)).collect()
}

fn not_idle(look: &MachineLook) -> Option<Finding> {
    let cores = look.cores.len().max(1) as f64;
    let busy = look.cores.iter().map(|core| core.busy_percent).sum::<f64>() / cores;
    let stolen = look.cores.iter().map(|core| core.steal_percent).sum::<f64>() / cores;
    let late_us = look.wake_up_late_median_ns as f64 / 1e3;
    let is_idle = busy + stolen <= BUSY_PERCENT && look.wake_up_late_median_ns <= LATE_MEDIAN_NS;
    (!is_idle).then(|| {
        about_run(
            "machine-not-idle-before",
            Severity::Doubt,
            "The machine was not idle before the run",
            &format!(
                "in the {} ms before it: {} of all cores busy, {} stolen, {} runnable at most, wake-ups {} µs \
                 late in the median",
                look.took_ms,
                percent(busy),
                percent(stolen),
                look.runnable_at_most,
                three_digits(late_us)
            ),
            "End what else is running, on the host and (stolen time) on the machine that it is a guest \
             of, and measure again.",
        )
    })
}

fn scaling(look: &MachineLook) -> Option<Finding> {
    let scales = |core: &&CoreFrequency| {
        let range = core.least_khz.zip(core.most_khz);
        core.governor != "performance"
            && range.is_some_and(|(least, most)| (least as f64) < SCALES_BELOW * most as f64)
    };
    let cores: Vec<&CoreFrequency> = look.frequencies.iter().filter(scales).collect();
    let core = cores.first()?;
    let ghz = |khz: Option<u64>| three_digits(khz.unwrap_or_default() as f64 / 1e6);
    Some(about_run(
        "frequency-scales",
        Severity::Doubt,
        "The cores' frequency follows their load",
        &format!(
            "{} of {} cores, governor {}: {} to {} GHz",
            cores.len(),
            look.cores.len(),
            core.governor,
            ghz(core.least_khz),
            ghz(core.most_khz)
        ),
        "A light load is then measured on slow cores, and CPU time per unit of work is not that of a busy \
         machine: set the governor to performance (cpupower frequency-set -g performance).",
    ))
}
