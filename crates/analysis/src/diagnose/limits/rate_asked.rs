//! The load was asked for no more.

use vioperf_model::workload::Workload;

use super::symptoms::Symptoms;
use super::{Rule, Sign};
use crate::measure::Unit;
use crate::result::Confidence;

pub(super) const RULE: Rule = Rule {
    name: "rate-asked",
    title: "All that was asked for arrived: the load's own rate is the limit",
    check,
};

/// Part of what was asked for that counts as all of it.
const ALL: f64 = 0.98;

fn check(symptoms: &Symptoms<'_>) -> Option<Sign> {
    let Workload { rate, pacing, datagrams_per_second, requests_per_second, streams, .. } =
        symptoms.workload;
    let (unit, asked) = match (datagrams_per_second, requests_per_second) {
        (Some(datagrams), _) => (Unit::Datagrams, f64::from(*datagrams)),
        (None, Some(requests)) => (Unit::Transactions, f64::from(*requests)),
        // This one is each stream's.
        (None, None) => {
            let each = rate.or(*pacing)?.as_bits_per_second() as f64;
            (Unit::Bits, each * f64::from((*streams).max(1)))
        }
    };
    let end = if unit == Unit::Transactions { &symptoms.sender } else { &symptoms.receiver };
    let arrived = end.rate(unit)?;
    if arrived < ALL * asked || symptoms.loses() {
        return None;
    }
    let evidence = vec![
        end.setting("asked for", unit.text(asked)),
        end.setting("arrived", unit.text(arrived)),
    ];
    let advice = "Ask for more, or leave the rate out, to find what the path carries.";
    Some(Sign { confidence: Confidence::Certain, evidence, advice: advice.into() })
}
