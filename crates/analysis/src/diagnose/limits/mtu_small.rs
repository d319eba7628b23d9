//! Packets of the path are shorter than they could be.

use super::symptoms::Symptoms;
use super::{Rule, Sign};
use crate::result::Confidence;

pub(super) const RULE: Rule = Rule {
    name: "mtu-small",
    title: "The path's MTU is smaller than it could be: every packet carries less",
    check,
};

/// Ethernet's MTU in bytes (RFC 894).
const ETHERNET: u32 = 1_500;
/// Part of what it could be up to which it matters: the rest is a few percent of the headers' cost.
const SMALL: f64 = 0.9;
/// Part of its time that a thread of the load is awake from which packets cost what there is, in percent.
const FULL_PERCENT: f64 = 85.0;

fn check(symptoms: &Symptoms<'_>) -> Option<Sign> {
    let sender = &symptoms.sender;
    let path = sender
        .connections()
        .map(|connection| connection.path_mtu_bytes)
        .filter(|mtu| *mtu > 0)
        .min()?;
    // What is smaller than the sender's own is smaller on the way.
    let own = sender.interface().map_or(ETHERNET, |facts| facts.mtu);
    if f64::from(path) >= SMALL * f64::from(own.max(ETHERNET)) {
        return None;
    }
    let mut evidence = vec![sender.setting("MTU of the path (tcpi_pmtu)", format!("{path} bytes"))];
    for end in symptoms.ends() {
        evidence.extend(end.interface().map(|facts| {
            end.setting(format!("MTU of {}", facts.name), format!("{} bytes", facts.mtu))
        }));
    }
    let advice = "Raise the MTU of every interface of the path to 1500 or, where all of them can, to 9000 (`ip link set IFACE mtu 9000`; \
                  host_mtu= of virtio, <mtu size='9000'/>). `ip route get ADDRESS` and `tracepath` show where it shrinks.";
    // What each packet costs matters to whoever has no time left; else something else may limit.
    let threads = symptoms.ends().map(|end| end.threads().map_or(0.0, |threads| threads.awake()));
    let is_full = threads.into_iter().any(|awake| awake >= FULL_PERCENT);
    let cores = sender.cores();
    let busy: f64 = cores.iter().map(|(_, busy)| busy).sum();
    let is_busy = busy >= FULL_PERCENT * cores.len() as f64;
    let confidence = if is_full || is_busy { Confidence::Certain } else { Confidence::Likely };
    Some(Sign { confidence, evidence, advice: advice.into() })
}
