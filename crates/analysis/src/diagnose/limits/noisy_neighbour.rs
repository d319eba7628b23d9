//! Another program on the same machine took the cores.

use super::symptoms::{End, Symptoms};
use super::{Rule, Sign};
use crate::result::Confidence;

pub(super) const RULE: Rule = Rule {
    name: "noisy-neighbour",
    title: "Another program on the machine takes the cores that the load needs",
    check,
};

/// Time of a core that neither nodes nor QEMU used, in percent: the kernel's own threads stay below.
pub(super) const FOREIGN_PERCENT: f64 = 40.0;
/// Time that a thread of the load waits for a core, in percent.
const WAITING_PERCENT: f64 = 15.0;

fn check(symptoms: &Symptoms<'_>) -> Option<Sign> {
    symptoms.ends().into_iter().find_map(|end| sign(symptoms, end))
}

fn sign(symptoms: &Symptoms<'_>, end: &End<'_>) -> Option<Sign> {
    let foreign = symptoms.foreign_percent(end).filter(|foreign| *foreign >= FOREIGN_PERCENT)?;
    let threads = end.threads();
    let waiting = threads.map_or(0.0, |threads| threads.waiting);
    let mut evidence = vec![end.share(
        "time of its cores that neither vioperf nor QEMU used, 100 % being one core",
        foreign,
    )];
    evidence.extend(threads.map(|threads| {
        end.share("busiest thread of the load, waiting for a CPU", threads.waiting)
    }));
    let confidence =
        if waiting >= WAITING_PERCENT { Confidence::Certain } else { Confidence::Possible };
    let advice = "Find it with `top -H` or `pidstat 1` while the load runs and end it, or give the path cores of its own \
                  (isolcpus, cgroup cpusets, <vcpupin>).";
    Some(Sign { confidence, evidence, advice: advice.into() })
}
