//! Another program on the same machine took the cores.

use vioperf_model::record::Place;

use super::end::End;
use super::symptoms::Symptoms;
use super::{Rule, Sign};
use crate::result::Confidence;

pub(super) const RULE: Rule = Rule {
    name: "noisy-neighbour",
    title: "Another program on the machine takes the cores that the load needs",
    check,
};

/// Time of a core that neither nodes nor QEMU used, in percent: the kernel's own threads stay below.
pub(super) const FOREIGN_PERCENT: f64 = 40.0;
/// Time that a thread of the load waits for a core from which others are why, and from which they may be,
/// in percent: who never waits has lost nothing to them.
const WAITING_PERCENT: f64 = 15.0;
const NOTICED_PERCENT: f64 = 3.0;

fn check(symptoms: &Symptoms<'_>) -> Option<Sign> {
    // A guest's own cores are told of by what its threads on the host do.
    let mut ends = symptoms.ends().to_vec();
    ends.retain(|end| end.place().is_none_or(|place| !place.is_in_guest()));
    if ends.is_empty() {
        ends.extend(symptoms.host());
    }
    ends.into_iter().filter_map(|end| sign(symptoms, end)).min_by_key(|sign| sign.confidence)
}

fn sign(symptoms: &Symptoms<'_>, end: &End<'_>) -> Option<Sign> {
    // Whoever stands still for a quota of its own waits for nobody.
    if end.throttled().is_some() {
        return None;
    }
    let foreign = symptoms.foreign_percent(end).filter(|foreign| *foreign >= FOREIGN_PERCENT)?;
    let mut evidence =
        vec![end.share(
            "time of its cores that nothing of the test used, 100 % being one core",
            foreign,
        )];
    let neighbour = symptoms.party(Place::Neighbour).and_then(|neighbour| {
        let used = symptoms.qemu_of(neighbour)?.total().ok()?;
        Some(neighbour.share("CPU time of the QEMU that runs it", used))
    });
    evidence.extend(neighbour);
    let mut waiting = 0.0;
    if let Some(threads) = end.threads() {
        waiting = threads.waiting;
        evidence.push(end.share("busiest thread of the load, waiting for a CPU", waiting));
    }
    if let Some((host, qemu)) = symptoms.host().zip(symptoms.qemu_waiting_percent()) {
        waiting = qemu.max(waiting);
        evidence.push(host.share("QEMU's threads, waiting for a CPU", qemu));
    }
    if waiting < NOTICED_PERCENT {
        return None;
    }
    let confidence =
        if waiting >= WAITING_PERCENT { Confidence::Certain } else { Confidence::Possible };
    let advice = "Find it with `top -H` or `pidstat 1` while the load runs and end it, or give the path cores of its own \
                  (isolcpus, cgroup cpusets, <vcpupin>).";
    Some(Sign { confidence, evidence, advice: advice.into() })
}
