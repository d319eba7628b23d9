//! Datagrams vanish where nobody counts them.

use super::symptoms::Symptoms;
use super::{Rule, Sign};
use crate::ledger::LossPlace;
use crate::result::Confidence;

pub(super) const RULE: Rule = Rule {
    name: "loss-in-path",
    title: "Datagrams are lost on the way: neither end dropped them",
    check,
};

fn check(symptoms: &Symptoms<'_>) -> Option<Sign> {
    planted(symptoms).or_else(|| unseen(symptoms))
}

/// A discipline that loses on purpose (tc-netem(8)).
fn planted(symptoms: &Symptoms<'_>) -> Option<Sign> {
    let mut evidence = symptoms.mostly_lost_at(&[LossPlace::SenderQdisc, LossPlace::PortQdisc])?;
    let told = symptoms.parties().find_map(|end| {
        let netem =
            end.qdiscs().into_iter().find(|qdisc| qdisc.kind == "netem" && qdisc.drops > 0)?;
        let what = format!("qdisc netem on {}: dropped", netem.interface);
        Some((end.counter(what, netem.drops.to_string()), netem.interface))
    });
    let (fact, interface) = told?;
    evidence.insert(0, fact);
    let advice = format!("Take the emulated network away: `tc qdisc del dev {interface} root`.");
    Some(Sign { confidence: Confidence::Certain, evidence, advice: advice.into() })
}

fn unseen(symptoms: &Symptoms<'_>) -> Option<Sign> {
    let ledger = symptoms.ledger.as_ref().filter(|_| symptoms.loses())?;
    let evidence = match symptoms.mostly_lost_at(&[LossPlace::Network, LossPlace::Switch]) {
        Some(evidence) => evidence,
        None if ledger.unaccounted.unsigned_abs() * 2 >= ledger.lost && ledger.unaccounted > 0 => {
            let value = format!("{} of {} lost", ledger.unaccounted, ledger.lost);
            vec![symptoms.receiver.counter("datagrams lost where no counter tells", value)]
        }
        None => return None,
    };
    let advice = "Look at what is between the ends: `ethtool -S` and the counters of every switch and router port on the way, cables, \
                  a policer. A load at half the rate that loses as large a part has a fault on its way; one that loses \
                  nothing meets a limit.";
    Some(Sign { confidence: Confidence::Likely, evidence, advice: advice.into() })
}
