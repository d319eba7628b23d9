//! A machine is a guest itself and is not given its cores.

use super::symptoms::Symptoms;
use super::{Rule, Sign};
use crate::result::Confidence;
use crate::wording;

pub(super) const RULE: Rule = Rule {
    name: "cpu-stolen",
    title: "A machine of the path is a virtual machine that is denied its cores",
    check,
};

/// Part of the time of all its cores, in percent.
const STOLEN_PERCENT: f64 = 15.0;

fn check(symptoms: &Symptoms<'_>) -> Option<Sign> {
    let (end, stolen, cores) = symptoms.parties().find_map(|end| {
        let cores = end.cores();
        let stolen: f64 = cores.iter().filter_map(|(core, _)| core.states.steal).sum();
        let is_much = !cores.is_empty() && stolen >= STOLEN_PERCENT * cores.len() as f64;
        is_much.then_some((end, stolen, cores.len()))
    })?;
    let what = format!("steal of {}, 100 % being one core", wording::count(cores, "core"));
    let advice = "Its host has promised more virtual CPUs than it has cores: give it fewer guests, or this one cores of its own \
                  (<vcpupin>, dedicated CPUs), and measure again.";
    Some(Sign {
        confidence: Confidence::Likely,
        evidence: vec![end.share(what, stolen)],
        advice: advice.into(),
    })
}
