//! A queueing discipline that limits rates, or a policer, stands in the path.

use vioperf_model::sample::QdiscCounters;

use super::end::End;
use super::symptoms::Symptoms;
use super::{Rule, Sign};
use crate::ledger::LossPlace;
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

/// How many times longer than it has to a round trip takes where packets queue on the way.
const QUEUED_TIMES: f64 = 3.0;
/// By how much longer, in milliseconds.
const QUEUED_MS: f64 = 1.0;
/// How busy the threads of both ends may be, in percent.
const IDLE_PERCENT: f64 = 75.0;
/// Part of the datagrams that a network loses for its rate, and not by a fault.
const POLICED_IN_PATH: f64 = 0.25;

fn check(symptoms: &Symptoms<'_>) -> Option<Sign> {
    seen(symptoms).or_else(|| queued_in_path(symptoms)).or_else(|| dropped_in_path(symptoms))
}

/// Packets wait somewhere on the way: the round trip takes much longer than it has to, though nobody
/// is busy and no window is short of the delay.
fn queued_in_path(symptoms: &Symptoms<'_>) -> Option<Sign> {
    // What waits for a guest's card is no shaper's.
    if symptoms.guest().is_some() {
        return None;
    }
    let sender = &symptoms.sender;
    let least = symptoms.least_rtt_seconds()? * 1e3;
    let round_trips = sender.connections().map(|connection| f64::from(connection.rtt_us) / 1e3);
    let now = round_trips.min_by(f64::total_cmp)?;
    let busiest = symptoms.busiest_thread()?;
    if now < QUEUED_TIMES * least || now - least < QUEUED_MS || busiest > IDLE_PERCENT {
        return None;
    }
    let evidence = vec![
        sender.setting("round-trip time under load", format!("{} ms", wording::three_digits(now))),
        sender.setting("least round-trip time", format!("{} ms", wording::three_digits(least))),
        sender.share("busiest thread of either end", busiest),
    ];
    let advice = "Something between the ends takes packets more slowly than they are sent, and queues them: look for `tc qdisc` and \
                  <bandwidth> on the hosts and switches between, and for the speed of every port. A cloud limits its instances so.";
    Some(Sign { confidence: Confidence::Likely, evidence, advice: advice.into() })
}

/// So much is lost between the machines that no fault explains it.
fn dropped_in_path(symptoms: &Symptoms<'_>) -> Option<Sign> {
    let evidence = symptoms.mostly_lost_at(&[LossPlace::Network])?;
    if symptoms.lost_share()? < POLICED_IN_PATH {
        return None;
    }
    let advice = "The path between the machines carries no more than what arrived: look for a policer or a slower port on the way.";
    Some(Sign { confidence: Confidence::Likely, evidence, advice: advice.into() })
}

fn seen(symptoms: &Symptoms<'_>) -> Option<Sign> {
    symptoms.parties().find_map(|end| {
        let seconds = end.seconds()?;
        end.qdiscs().iter().find_map(|qdisc| sign(end, qdisc, seconds))
    })
}

fn sign(end: &End<'_>, qdisc: &QdiscCounters, seconds: f64) -> Option<Sign> {
    let QdiscCounters { interface, kind, overlimits, drops, bytes, packets, .. } = qdisc;
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
