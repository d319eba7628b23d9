//! The kernel's vhost worker has no time left.

use super::symptoms::Symptoms;
use super::{Rule, Sign};
use crate::result::Confidence;
use crate::threads::Task;

pub(super) const RULE: Rule = Rule {
    name: "vhost-full",
    title: "A vhost worker uses a whole core: every packet of its queue passes through it",
    check,
};

const FULL_PERCENT: f64 = 90.0;

fn check(symptoms: &Symptoms<'_>) -> Option<Sign> {
    let used = symptoms.qemu_percent(Task::Vhost).filter(|used| *used >= FULL_PERCENT)?;
    let host = symptoms.host()?;
    let mut evidence = vec![host.share("CPU time of vhost workers", used)];
    let queues = symptoms.guest().and_then(|guest| Some((guest, guest.interface()?.queues?)));
    evidence.extend(
        queues.map(|(guest, queues)| guest.setting("receive queues", queues.rx.to_string())),
    );
    let advice = "Each queue has a worker of its own: more queues (queues=N; <driver name='vhost' queues='N'/>) on as many virtual CPUs, \
                  or larger segments (offloads, MTU).";
    Some(Sign { confidence: Confidence::Certain, evidence, advice: advice.into() })
}
