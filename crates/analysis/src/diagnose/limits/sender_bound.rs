//! Whoever sends cannot go faster.

use super::end::QUOTA_ADVICE;
use super::symptoms::Symptoms;
use super::{Rule, Sign};
use crate::result::Confidence;

pub(super) const RULE: Rule = Rule {
    name: "sender-bound",
    title: "The sender cannot go faster: its busiest thread never sleeps",
    check,
};

/// Part of its time that the busiest thread is awake from which it is the limit, in percent.
const FULL_PERCENT: f64 = 85.0;

fn check(symptoms: &Symptoms<'_>) -> Option<Sign> {
    let sender = &symptoms.sender;
    let threads = sender.threads().filter(|threads| threads.awake() >= FULL_PERCENT)?;
    // Whoever sends more than arrives is not what limits.
    if symptoms.loses() {
        return None;
    }
    let mut evidence = vec![
        sender.share("busiest sending thread, on a CPU", threads.on_cpu),
        sender.share("the same, waiting for a CPU", threads.waiting),
        sender.setting("sending threads", threads.threads.to_string()),
    ];
    if let Some(throttled) = sender.throttled() {
        evidence.insert(0, throttled);
        return Some(Sign {
            confidence: Confidence::Certain,
            evidence,
            advice: QUOTA_ADVICE.into(),
        });
    }
    let advice = if symptoms.is_of_disk() {
        "The disk could do more: load it by more workers (streams) on cores of their own (sender_cpus)."
    } else {
        "The path could carry more: send with more threads and streams (threads, streams), larger messages \
                  (message_size), segmentation offload, or zero copy (send = \"zerocopy\"), on cores of their own (sender_cpus)."
    };
    Some(Sign { confidence: Confidence::Likely, evidence, advice: advice.into() })
}
