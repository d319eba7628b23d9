//! Several threads read one socket.

use vioperf_model::workload::Receivers;

use super::symptoms::Symptoms;
use super::{Rule, Sign};
use crate::ledger::LossPlace;
use crate::result::Confidence;

pub(super) const RULE: Rule = Rule {
    name: "receive-lock-contention",
    title: "Several threads read one socket, and wait for its lock and its queue",
    check,
};

fn check(symptoms: &Symptoms<'_>) -> Option<Sign> {
    if symptoms.workload.receivers != Some(Receivers::Shared) {
        return None;
    }
    let receiver = &symptoms.receiver;
    let threads = receiver.threads().filter(|threads| threads.threads > 1)?;
    let mut evidence = symptoms.mostly_lost_at(&[LossPlace::ReceiverSocket])?;
    evidence
        .insert(0, receiver.setting("threads that read one socket", threads.threads.to_string()));
    evidence.push(receiver.share("busiest receiving thread, on a CPU", threads.on_cpu));
    let advice = "Give each thread a socket of its own on the same port (SO_REUSEPORT; receivers = \"reuseport\"): the kernel deals flows \
                  to them, and no lock is shared.";
    Some(Sign { confidence: Confidence::Certain, evidence, advice: advice.into() })
}
