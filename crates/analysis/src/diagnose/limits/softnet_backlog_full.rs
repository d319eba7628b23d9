//! A core's backlog of received packets is full.

use super::symptoms::Symptoms;
use super::{Rule, Sign};
use crate::ledger::LossPlace;
use crate::result::Confidence;

pub(super) const RULE: Rule = Rule {
    name: "softnet-backlog-full",
    title: "A core's backlog of received packets is full",
    check,
};

fn check(symptoms: &Symptoms<'_>) -> Option<Sign> {
    let mut evidence =
        symptoms.mostly_lost_at(&[LossPlace::HostBacklog, LossPlace::ReceiverBacklog])?;
    evidence
        .insert(0, symptoms.receiver.setting("counter", "softnet_stat dropped (second column)"));
    let advice = "Raise it (sysctl -w net.core.netdev_max_backlog=10000), spread the packets over more cores (rps_cpus of the receiving \
                  interface), or make each cost less (GRO).";
    Some(Sign { confidence: Confidence::Certain, evidence, advice: advice.into() })
}
