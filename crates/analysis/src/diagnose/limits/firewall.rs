//! A packet filter, or connection tracking, drops packets.

use super::symptoms::Symptoms;
use super::{Rule, Sign};
use crate::ledger::LossPlace;
use crate::result::Confidence;

pub(super) const RULE: Rule = Rule {
    name: "firewall",
    title: "A packet filter or connection tracking drops what arrives",
    check,
};

fn check(symptoms: &Symptoms<'_>) -> Option<Sign> {
    let places = [LossPlace::Conntrack, LossPlace::ReceiverFilter];
    let evidence = symptoms.mostly_lost_at(&places)?;
    let tracked = symptoms.ledger.as_ref()?.share_of_loss(LossPlace::Conntrack) > 0.0;
    let advice = if tracked {
        "The table of connections is full or short of memory: raise it (sysctl -w net.netfilter.nf_conntrack_max=...), or leave \
         the load's packets untracked (nft: `notrack` in a raw prerouting chain)."
    } else {
        "See which rule counts them: `nft -a list ruleset`, `iptables -nvL`; let the load through, or put its rule first."
    };
    Some(Sign { confidence: Confidence::Certain, evidence, advice: advice.into() })
}
