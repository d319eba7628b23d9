//! One of several receive queues gets all packets.

use super::symptoms::Symptoms;
use super::{Rule, Sign};
use crate::result::Confidence;
use crate::wording;

pub(super) const RULE: Rule = Rule {
    name: "one-receive-queue",
    title: "One of several receive queues gets nearly all packets",
    check,
};

/// Part of the packets that is nearly all.
const NEARLY_ALL: f64 = 0.9;
/// Packets a second below which a queue is not what limits.
const FEW_PER_SECOND: f64 = 5_000.0;

fn check(symptoms: &Symptoms<'_>) -> Option<Sign> {
    let receiver = &symptoms.receiver;
    let facts = receiver.interface()?;
    let queues = facts.queues.filter(|queues| queues.rx > 1)?.rx;
    // One flow is in one queue wherever it goes.
    if symptoms.workload.streams < 2 {
        return None;
    }
    let taken = receiver.receive_queues();
    let all: f64 = taken.iter().map(|(_, packets)| packets).sum();
    let (queue, most) = taken.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    if *most < NEARLY_ALL * all || all < FEW_PER_SECOND * receiver.seconds()? {
        return None;
    }
    let share = wording::percent(100.0 * most / all);
    let mut evidence = vec![
        receiver.counter(
            format!("packets of queue {queue}"),
            format!("{most:.0} of {all:.0}, {share}"),
        ),
        receiver.setting("receive queues", queues.to_string()),
    ];
    evidence.extend(
        facts
            .hash_entries
            .as_ref()
            .map(|entries| receiver.setting("RSS table, entries by queue", format!("{entries:?}"))),
    );
    let lost = symptoms.loses();
    let confidence = if lost { Confidence::Certain } else { Confidence::Likely };
    let advice = "The card's hash sees one flow: use more addresses or ports, let it hash ports too (`ethtool -N IFACE rx-flow-hash udp4 \
                  sdfn`), spread its table (`ethtool -X IFACE equal N`), or steer by software (rps_cpus).";
    Some(Sign { confidence, evidence, advice: advice.into() })
}
