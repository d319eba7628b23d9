//! A queueing discipline that limits rates, or a policer, stands in the path.

use super::symptoms::{End, QdiscGrowth, Symptoms};
use super::{Rule, Sign};
use crate::result::Confidence;
use crate::wording;

pub(super) const RULE: Rule =
    Rule { name: "shaper", title: "A shaper or policer in the path lets no more through", check };

/// Kinds that hold packets back for a rate that somebody set (tc(8)).
const SHAPING: [&str; 6] = ["tbf", "htb", "hfsc", "cake", "cbs", "taprio"];
/// Where policers stand (tc-police(8)): what they drop, these count.
const POLICING: [&str; 2] = ["ingress", "clsact"];
/// Times a second that a shaper holds a packet back from which it is what limits.
const HELD_BACK_PER_SECOND: f64 = 20.0;
/// Part of the packets that a policer drops from which it is what limits.
const POLICED: f64 = 0.001;

fn check(symptoms: &Symptoms<'_>) -> Option<Sign> {
    symptoms.parties().find_map(|end| {
        let seconds = end.seconds()?;
        end.qdiscs().iter().find_map(|qdisc| sign(&end, qdisc, seconds))
    })
}

fn sign(end: &End<'_>, qdisc: &QdiscGrowth, seconds: f64) -> Option<Sign> {
    let QdiscGrowth { interface, kind, overlimits, drops, bytes, packets, .. } = qdisc;
    let named = |counter: &str| format!("qdisc {kind} on {interface}: {counter}");
    let (evidence, advice) = if SHAPING.contains(&kind.as_str()) {
        if f64::from(*overlimits) < HELD_BACK_PER_SECOND * seconds {
            return None;
        }
        let rate = wording::rate(*bytes as f64 * 8.0 / seconds);
        let evidence = vec![
            end.counter(named("overlimits"), overlimits.to_string()),
            end.counter(named("sent"), format!("{bytes} bytes, {rate} with headers")),
            end.counter(named("dropped"), drops.to_string()),
        ];
        let advice = format!(
            "The rate is what was set there: see `tc -s qdisc show dev {interface}`, and raise it or take it \
             away (`tc qdisc del dev {interface} root`); under libvirt it is <bandwidth> of the interface."
        );
        (evidence, advice)
    } else if POLICING.contains(&kind.as_str()) {
        if f64::from(*drops) <= POLICED * f64::from(*packets) {
            return None;
        }
        let evidence = vec![
            end.counter(named("dropped"), drops.to_string()),
            end.counter(named("packets"), packets.to_string()),
        ];
        let advice = format!(
            "See `tc -s filter show dev {interface} ingress`: what comes faster than its policer's rate is dropped. Raise \
             its rate and burst, or take it away (`tc qdisc del dev {interface} {kind}`)."
        );
        (evidence, advice)
    } else {
        return None;
    };
    Some(Sign { confidence: Confidence::Certain, evidence, advice: advice.into() })
}
