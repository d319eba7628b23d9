//! One core serves all interrupts.

use super::end::End;
use super::symptoms::Symptoms;
use super::{Rule, Sign};
use crate::result::Confidence;
use crate::wording;

pub(super) const RULE: Rule = Rule {
    name: "interrupts-on-one-core",
    title: "One core serves the interrupts of all packets, and is full of it",
    check,
};

/// Time that this core serves interrupts, in percent.
const FULL_PERCENT: f64 = 70.0;
/// The same of every other core, at most.
const IDLE_PERCENT: f64 = 20.0;

fn check(symptoms: &Symptoms<'_>) -> Option<Sign> {
    symptoms.ends().into_iter().find_map(sign)
}

fn sign(end: &End<'_>) -> Option<Sign> {
    let cores = end.cores();
    if cores.len() < 2 {
        return None;
    }
    let serving = |state: &crate::cores::CoreReading| {
        Some(state.states.softirq? + state.states.irq.unwrap_or(0.0))
    };
    let mut shares: Vec<(u32, f64)> =
        cores.iter().filter_map(|(core, _)| Some((core.core, serving(core)?))).collect();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    let ((core, most), rest) = shares.split_first().map(|(first, rest)| (*first, rest))?;
    if most < FULL_PERCENT || rest.iter().any(|(_, share)| *share > IDLE_PERCENT) {
        return None;
    }
    let mut evidence = vec![end.share(format!("CPU {core}, serving interrupts"), most)];
    evidence.extend(
        rest.first().map(|(other, share)| {
            end.setting(format!("next: CPU {other}"), wording::percent(*share))
        }),
    );
    let advice = "Spread them: more queues (`ethtool -L IFACE combined N`) with interrupts on different cores (irqbalance, \
                  /proc/irq/N/smp_affinity_list), or receive packet steering (rps_cpus).";
    Some(Sign { confidence: Confidence::Likely, evidence, advice: advice.into() })
}
