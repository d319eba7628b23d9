//! Packets of the path are shorter than they could be.

use super::symptoms::Symptoms;
use super::{Rule, Sign};
use crate::result::Confidence;

pub(super) const RULE: Rule = Rule {
    name: "mtu-small",
    title: "The path's MTU is smaller than Ethernet's own: every packet carries less than it could",
    check,
};

/// Ethernet's MTU in bytes (RFC 894).
const ETHERNET: u32 = 1_500;

fn check(symptoms: &Symptoms<'_>) -> Option<Sign> {
    let sender = &symptoms.sender;
    let path = sender
        .connections()
        .map(|connection| connection.path_mtu_bytes)
        .filter(|mtu| *mtu > 0)
        .min()?;
    if path >= ETHERNET {
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
    Some(Sign { confidence: Confidence::Certain, evidence, advice: advice.into() })
}
