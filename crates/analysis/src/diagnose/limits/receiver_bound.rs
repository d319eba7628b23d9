//! Whoever receives takes no more.

use super::end::QUOTA_ADVICE;
use super::symptoms::Symptoms;
use super::{Rule, Sign};
use crate::ledger::LossPlace;
use crate::result::Confidence;
use crate::wording;

pub(super) const RULE: Rule = Rule {
    name: "receiver-bound",
    title: "The receiving application takes no more: what arrives waits for it",
    check,
};

/// Part of its time that the busiest thread is awake from which it is the limit, in percent.
const FULL_PERCENT: f64 = 85.0;
/// The same of a sender that waits for whoever receives, at most.
const SLEEPS_PERCENT: f64 = 70.0;
/// Part of the time that senders wait for the receivers' windows from which those limit.
const WINDOW_LIMITS: f64 = 0.25;

fn check(symptoms: &Symptoms<'_>) -> Option<Sign> {
    if symptoms.workload.kind.is_of_datagrams() {
        sockets_overflow(symptoms)
    } else {
        windows_close(symptoms)
    }
}

fn sockets_overflow(symptoms: &Symptoms<'_>) -> Option<Sign> {
    let receiver = &symptoms.receiver;
    let mut evidence = match &symptoms.ledger {
        Some(_) => symptoms.mostly_lost_at(&[LossPlace::ReceiverSocket])?,
        // A record that lacks what a ledger takes.
        None => {
            let drops =
                receiver.outcome()?.socket_drops.filter(|drops| *drops > 0 && symptoms.loses())?;
            vec![receiver.counter("messages that its sockets had no room for", drops.to_string())]
        }
    };
    let drops = receiver.grown(&["UdpRcvbufErrors", "Udp6RcvbufErrors"]);
    evidence.extend(drops.map(|drops| receiver.counter("UdpRcvbufErrors", format!("{drops:.0}"))));
    if let Some(threads) = receiver.threads() {
        evidence.push(receiver.share("busiest receiving thread, on a CPU", threads.on_cpu));
        evidence.push(receiver.setting("receiving threads", threads.threads.to_string()));
    }
    if let Some(buffers) = receiver.outcome().and_then(|load| load.socket_buffers) {
        evidence
            .push(receiver.setting("receive buffer", format!("{} bytes", buffers.receive_bytes)));
    }
    let idle: f64 = receiver.cores().iter().map(|(_, busy)| 100.0 - busy).sum();
    evidence.push(receiver.share("idle time of its cores, 100 % being one core", idle.max(0.0)));
    if let Some(throttled) = receiver.throttled() {
        evidence.push(throttled);
        return Some(Sign {
            confidence: Confidence::Certain,
            evidence,
            advice: QUOTA_ADVICE.into(),
        });
    }
    let advice = "Receive with more sockets, each with a thread of its own (SO_REUSEPORT; receivers = \"reuseport\"), and with \
                  larger buffers for bursts (sysctl -w net.core.rmem_max=..., socket_buffer).";
    Some(Sign { confidence: Confidence::Certain, evidence, advice: advice.into() })
}

fn windows_close(symptoms: &Symptoms<'_>) -> Option<Sign> {
    let receiver = &symptoms.receiver;
    let threads = receiver.threads()?;
    let waits = symptoms.receive_window_limits();
    let is_full = threads.awake() >= FULL_PERCENT;
    let mut evidence = vec![
        receiver.share("busiest receiving thread, on a CPU", threads.on_cpu),
        receiver.share("the same, waiting for a CPU", threads.waiting),
    ];
    if let Some(share) = waits {
        evidence.push(symptoms.sender.setting(
            "time that connections waited for the receiver's window (tcpi_rwnd_limited)",
            wording::percent(100.0 * share),
        ));
    }
    if let Some(throttled) = receiver.throttled().filter(|_| is_full) {
        evidence.insert(0, throttled);
        return Some(Sign {
            confidence: Confidence::Certain,
            evidence,
            advice: QUOTA_ADVICE.into(),
        });
    }
    let waits = waits.is_some_and(|share| share >= WINDOW_LIMITS);
    let sender_sleeps =
        symptoms.sender.threads().is_some_and(|threads| threads.awake() < SLEEPS_PERCENT);
    let confidence = match (waits, is_full) {
        (true, true) => Confidence::Certain,
        (true, false) if !symptoms.window_fits_delay() => Confidence::Likely,
        (false, true) if sender_sleeps => Confidence::Likely,
        (false, true) if threads.on_cpu >= FULL_PERCENT => Confidence::Possible,
        _ => return None,
    };
    let advice = if is_full {
        "Receive with more threads and streams on cores of their own (threads, receiver_cpus), with larger segments (GRO, MTU), \
         or without copying (receive = \"discard\" shows how much that is)."
    } else {
        "The application does not read as fast as data arrives, and its core has time: look what it waits for."
    };
    Some(Sign { confidence, evidence, advice: advice.into() })
}
