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

/// Part of what is lost that it dropped, where an interface counts it as well: veth's sender does.
const MOST: f64 = 0.5;
/// Part of what is sent that is dropped there from which it is what limits, where no ledger tells.
const DROPPED: f64 = 0.001;

fn check(symptoms: &Symptoms<'_>) -> Option<Sign> {
    let ends = symptoms.ends().into_iter();
    let (end, dropped) = ends
        .filter_map(|end| Some((end, end.backlog_drops()?)))
        .filter(|(_, dropped)| *dropped > 0.0)
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    let fact = end.counter("softnet_stat dropped (second column)", format!("{dropped:.0}"));
    let mut evidence = vec![fact];
    match &symptoms.ledger {
        Some(ledger) => evidence.extend(
            symptoms
                .mostly_lost_at(&[LossPlace::HostBacklog, LossPlace::ReceiverBacklog])
                .or_else(|| {
                    let is_most = dropped >= MOST * ledger.lost as f64;
                    symptoms
                        .mostly_lost_at(&[LossPlace::SenderInterface, LossPlace::Port])
                        .filter(|_| is_most)
                })?,
        ),
        None => {
            let sent = symptoms
                .sender
                .datagrams()
                .or_else(|| symptoms.sent_again().map(|[_, sent]| sent))?;
            if dropped < DROPPED * sent {
                return None;
            }
            evidence.push(symptoms.sender.counter("sent", format!("{sent:.0} packets")));
        }
    }
    let advice = "Raise it (sysctl -w net.core.netdev_max_backlog=10000), spread the packets over more cores (rps_cpus of the receiving \
                  interface), or make each cost less (GRO).";
    Some(Sign { confidence: Confidence::Certain, evidence, advice: advice.into() })
}
