//! Segmentation or merging is left to software, or not done at all.

use super::symptoms::Symptoms;
use super::{Rule, Sign};
use crate::result::{Confidence, Fact};

pub(super) const RULE: Rule = Rule {
    name: "offload-off",
    title: "Segmentation or receive offload is off: every packet takes the whole way through the stack by itself",
    check,
};

/// Emulated cards that have none, whose driver does not offer it or not by itself: the card is the cause.
const CANNOT: [&str; 5] = ["8139cp", "8139too", "pcnet32", "ne2k-pci", "tulip"];
/// Beside the MTU a packet has its link layer's header, and there may be a tag.
const LINK_HEADER_BYTES: f64 = 22.0;

/// From so many packets a second each by itself is felt.
const MANY_PER_SECOND: f64 = 20_000.0;

fn check(symptoms: &Symptoms<'_>) -> Option<Sign> {
    not_cut_late(symptoms).or_else(|| not_merged(symptoms))
}

/// What was cut on the way goes up the receiver's stack packet by packet.
fn not_merged(symptoms: &Symptoms<'_>) -> Option<Sign> {
    symptoms.sender.connections().next()?;
    let receiver = &symptoms.receiver;
    let facts = receiver.interface()?;
    if facts.offloads.get("rx-gro") != Some(&false) {
        return None;
    }
    let bytes = receiver.bytes_per_packet(false)?;
    let packets = symptoms.bits_per_second()? / 8.0 / bytes;
    if bytes > f64::from(facts.mtu) + LINK_HEADER_BYTES || packets < MANY_PER_SECOND {
        return None;
    }
    let evidence = vec![
        receiver.counter("bytes of a packet that arrives", format!("{bytes:.0}")),
        receiver.setting("packets a second", format!("{packets:.0}")),
        receiver.setting("rx-gro", "off"),
    ];
    let advice = format!(
        "Merge what arrives: `ethtool -K {} gro on`. It costs nothing where packets come one by one.",
        facts.name
    );
    Some(Sign { confidence: Confidence::Likely, evidence, advice: advice.into() })
}

fn not_cut_late(symptoms: &Symptoms<'_>) -> Option<Sign> {
    // What arrives is split already, and a load that does not send streams has nothing to split.
    symptoms.sender.connections().next()?;
    let sender = &symptoms.sender;
    let facts = sender.interface()?;
    let bytes = sender.bytes_per_packet(true)?;
    if bytes > f64::from(facts.mtu) + LINK_HEADER_BYTES {
        return None;
    }
    let off: Vec<&str> = [
        "tx-tcp-segmentation",
        "tx-generic-segmentation",
        "tx-scatter-gather",
        "tx-checksum-ip-generic",
    ]
    .into_iter()
    .filter(|name| facts.offloads.get(*name) == Some(&false))
    .collect();
    let segmentation = ["tx-tcp-segmentation", "tx-generic-segmentation"];
    if !segmentation.iter().any(|name| off.contains(name)) {
        return None;
    }
    let mut evidence: Vec<Fact> =
        vec![sender.counter("bytes of a packet that leaves", format!("{bytes:.0}"))];
    evidence.extend(off.iter().map(|name| sender.setting(*name, "off")));
    let driver = facts.driver.as_deref().unwrap_or_default();
    evidence.push(sender.setting("driver", driver));
    let (confidence, advice) = if CANNOT.contains(&driver) {
        (Confidence::Possible, "This card has no segmentation offload that its driver uses: choose another model (virtio).".into())
    } else {
        let advice = format!(
            "Switch it on: `ethtool -K {0} sg on tx on tso on gso on`, at the receiver `gro on`; of a guest's virtio also in QEMU \
             (csum=on,host_tso4=on,guest_tso4=on; <host tso4='on'/>).",
            facts.name
        );
        (Confidence::Certain, advice)
    };
    Some(Sign { confidence, evidence, advice: advice.into() })
}
