//! Datagrams are longer than the path's packets may be.

use super::symptoms::Symptoms;
use super::{Rule, Sign};
use crate::result::Confidence;

pub(super) const RULE: Rule = Rule {
    name: "fragmentation",
    title: "Datagrams are sent in fragments: they are longer than the MTU lets a packet be",
    check,
};

/// Fragments for each datagram from which most datagrams were split.
const FRAGMENTS_PER_DATAGRAM: f64 = 1.0;
/// Part of the packets of another load that are fragments from which it matters.
const PART_OF_PACKETS: f64 = 0.05;

fn check(symptoms: &Symptoms<'_>) -> Option<Sign> {
    let sender = &symptoms.sender;
    let made = sender.grown(&["IpFragCreates", "Ip6FragCreates"])?;
    let joined = symptoms.receiver.grown(&["IpReasmReqds", "Ip6ReasmReqds"]).unwrap_or(0.0);
    let fragments = made.max(joined);
    let is_split = match sender.datagrams() {
        Some(datagrams) => datagrams > 0.0 && fragments >= FRAGMENTS_PER_DATAGRAM * datagrams,
        None => {
            let packets = sender.grown(&["IpOutRequests", "Ip6OutRequests"])?;
            packets > 0.0 && fragments >= PART_OF_PACKETS * packets
        }
    };
    if !is_split {
        return None;
    }
    let mut evidence = vec![
        sender.counter("IpFragCreates", format!("{made:.0}")),
        symptoms.receiver.counter("IpReasmReqds", format!("{joined:.0}")),
    ];
    evidence.extend(
        sender.interface().map(|facts| sender.setting("MTU", format!("{} bytes", facts.mtu))),
    );
    let bytes = symptoms.workload.payload_bytes();
    evidence.push(sender.setting("payload of a datagram", format!("{bytes} bytes")));
    let advice = "Each fragment costs as much as a packet, and one that is lost takes its datagram with it: send datagrams of at \
                  most the MTU less 28 bytes (48 with IPv6), raise the MTU of the whole path, or let the kernel split them late \
                  (segmentation = true).";
    Some(Sign { confidence: Confidence::Certain, evidence, advice: advice.into() })
}
