//! What limits a cell: one file a rule, one line a rule in [`RULES`]. Each rule looks at one trial; a cell
//! is limited by what more than half of its trials show.

mod congestion_by_loss;
mod cores_full;
mod cpu_stolen;
mod disk_busy;
mod end;
mod firewall;
mod firewall_rules;
mod fragmentation;
mod interrupt_moderation;
mod interrupts_on_one_core;
mod loss_in_path;
mod main_loop_full;
mod mtu_small;
mod noisy_neighbour;
mod offload_off;
mod one_receive_queue;
mod path_delay;
mod rate_asked;
mod receive_lock_contention;
mod receiver_bound;
mod ring_full;
mod sender_bound;
mod shaper;
mod softnet_backlog_full;
mod symptoms;
mod vcpu_full;
mod vhost_full;
mod window_small;
mod wire_rate;

use std::borrow::Cow;

use vioperf_model::record::{Purpose, TrialRecord};
use vioperf_model::workload::{Workload, WorkloadKind};

use self::symptoms::Symptoms;
use crate::flow::Flow;
use crate::rates::TrialReadings;
use crate::result::{Confidence, Fact, Limit};

/// What a rule saw in a trial.
#[derive(Debug, Clone)]
struct Sign {
    confidence: Confidence,
    evidence: Vec<Fact>,
    advice: Cow<'static, str>,
}

/// A rule: its stable name, what it says, and how it is found.
struct Rule {
    name: &'static str,
    title: &'static str,
    check: fn(&Symptoms<'_>) -> Option<Sign>,
}

/// Of two that are equally sure the earlier one is the cause of the other, or the more exact word for it.
const RULES: &[Rule] = &[
    rate_asked::RULE,
    shaper::RULE,
    firewall::RULE,
    firewall_rules::RULE,
    fragmentation::RULE,
    softnet_backlog_full::RULE,
    loss_in_path::RULE,
    mtu_small::RULE,
    offload_off::RULE,
    window_small::RULE,
    congestion_by_loss::RULE,
    noisy_neighbour::RULE,
    main_loop_full::RULE,
    vhost_full::RULE,
    vcpu_full::RULE,
    one_receive_queue::RULE,
    interrupts_on_one_core::RULE,
    receive_lock_contention::RULE,
    ring_full::RULE,
    receiver_bound::RULE,
    wire_rate::RULE,
    interrupt_moderation::RULE,
    path_delay::RULE,
    sender_bound::RULE,
    disk_busy::RULE,
    cpu_stolen::RULE,
    cores_full::RULE,
];

/// What limited the trials of one cell.
#[derive(Debug, Clone, Default)]
pub(crate) struct Signs {
    trials: u32,
    /// The place of the rule in [`RULES`], the trial's sequence, and what was seen.
    seen: Vec<(usize, u32, Sign)>,
}

impl Signs {
    /// Takes a trial that counts, and what was derived of it.
    pub(crate) fn add(
        &mut self,
        trial: &TrialRecord,
        workload: &Workload,
        readings: &TrialReadings,
    ) {
        // The record of a search shows one of its probes, and what it looks for is a limit by itself.
        if workload.kind == WorkloadKind::RateSearch {
            return;
        }
        self.trials = self.trials.saturating_add(1);
        let flows = Flow::all(trial, Purpose::Measured);
        let symptoms: Vec<Symptoms<'_>> =
            flows.into_iter().map(|flow| Symptoms::of(trial, workload, flow, readings)).collect();
        for (at, rule) in RULES.iter().enumerate() {
            // Where payload goes both ways at once, what limits either of them.
            let signs = symptoms.iter().filter_map(rule.check);
            if let Some(sign) = signs.min_by_key(|sign| sign.confidence) {
                self.seen.push((at, trial.sequence, sign));
            }
        }
    }

    /// What limits the cell, the surest first.
    pub(crate) fn limits(&self) -> Vec<Limit> {
        let mut limits: Vec<Limit> =
            RULES.iter().enumerate().filter_map(|(at, rule)| self.limit(at, rule)).collect();
        limits.sort_by_key(|limit| limit.confidence);
        limits
    }

    fn limit(&self, at: usize, rule: &Rule) -> Option<Limit> {
        let mut signs: Vec<_> = self.seen.iter().filter(|(of, ..)| *of == at).collect();
        let trials_seen = u32::try_from(signs.len()).unwrap_or(u32::MAX);
        if trials_seen.saturating_mul(2) <= self.trials {
            return None;
        }
        signs.sort_by_key(|(_, sequence, sign)| (sign.confidence, *sequence));
        let (.., sign) = signs.get(signs.len() / 2)?;
        Some(Limit {
            rule: rule.name.to_owned(),
            confidence: sign.confidence,
            title: rule.title.to_owned(),
            evidence: sign.evidence.clone(),
            advice: sign.advice.clone().into_owned(),
            trials_seen,
            trials: self.trials,
        })
    }
}

#[cfg(test)]
mod tests;
