//! A queue between two machines, or between a card and its driver, is full.

use super::symptoms::Symptoms;
use super::{Rule, Sign};
use crate::ledger::LossPlace;
use crate::result::Confidence;

pub(super) const RULE: Rule = Rule {
    name: "ring-full",
    title: "The receive ring or the tap's queue is full: it is not emptied as fast as packets come",
    check,
};

fn check(symptoms: &Symptoms<'_>) -> Option<Sign> {
    let places = [
        LossPlace::ReceiverInterface,
        LossPlace::TapQueue,
        LossPlace::Port,
        LossPlace::GuestOutput,
        LossPlace::SenderInterface,
    ];
    let mut evidence = symptoms.mostly_lost_at(&places)?;
    for end in symptoms.ends() {
        let rings = end.interface().and_then(|facts| facts.rings);
        evidence.extend(rings.map(|rings| {
            end.setting("ring", format!("{} to receive, {} to send", rings.rx, rings.tx))
        }));
    }
    let advice = "Make the ring larger (`ethtool -G IFACE rx 4096`; of a guest rx_queue_size=1024, <driver rx_queue_size='1024'/>), and \
                  see why it is not emptied: the cores that should are the next to look at.";
    Some(Sign { confidence: Confidence::Likely, evidence, advice: advice.into() })
}
