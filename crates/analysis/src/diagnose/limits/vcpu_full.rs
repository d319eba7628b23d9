//! A virtual CPU of the guest has no time left.

use vioperf_model::record::Place;

use super::end::End;
use super::symptoms::Symptoms;
use super::{Rule, Sign};
use crate::result::Confidence;
use crate::threads::Task;
use crate::wording;

pub(super) const RULE: Rule = Rule {
    name: "vcpu-full",
    title: "A virtual CPU of a guest in the path is busy all the time",
    check,
};

const FULL_PERCENT: f64 = 90.0;

fn check(symptoms: &Symptoms<'_>) -> Option<Sign> {
    // Of guests that packets pass through, the one under test first.
    symptoms.guests().find_map(|guest| of_guest(symptoms, guest))
}

fn of_guest(symptoms: &Symptoms<'_>, guest: &End<'_>) -> Option<Sign> {
    let cores = guest.cores();
    let (core, busy) = cores.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let mut evidence = vec![guest.share(format!("CPU {} busy", core.core), *busy)];
    if *busy < FULL_PERCENT {
        // What QEMU does for the guest while it waits, its device's registers, the guest does not count.
        let used = symptoms.qemu_of(guest)?.task(Task::Vcpu).ok()?;
        if used < FULL_PERCENT * cores.len() as f64 {
            return None;
        }
        evidence.push(symptoms.host()?.share("CPU time of QEMU's vCPU threads", used));
    }
    let states =
        [("serving soft interrupts", core.states.softirq), ("in user mode", core.states.user)];
    let share = |(what, share): (&str, Option<f64>)| {
        Some(guest.share(format!("CPU {} {what}", core.core), share?))
    };
    evidence.extend(states.into_iter().filter_map(share));
    evidence.extend(symptoms.exits_per_packet().filter(|_| guest.place() == Some(Place::Guest)));
    let full = cores.iter().filter(|(_, busy)| *busy >= FULL_PERCENT).count();
    let advice = if symptoms.is_of_disk() {
        "Each operation costs the guest so much: larger operations (block_size), a paravirtual disk (virtio-blk, virtio-scsi), \
         or more virtual CPUs with as many workers (streams)."
            .to_owned()
    } else if full == cores.len() || full == 0 {
        format!(
            "The {} has {}. It cannot take or make packets faster: more virtual CPUs with as many queues \
             (queues=N, mq=on; <driver queues='N'/>), larger segments (offloads, MTU), or a NIC model that costs it less.",
            guest.name(),
            wording::count(cores.len(), "virtual CPU"),
        )
    } else {
        "Other virtual CPUs of it have time: more queues (queues=N, mq=on; <driver queues='N'/>, then `ethtool -L`), or \
         receive packet steering (rps_cpus), spread the work over them."
            .to_owned()
    };
    Some(Sign { confidence: Confidence::Certain, evidence, advice: advice.into() })
}
