//! All cores of a machine are full.

use super::symptoms::Symptoms;
use super::{Rule, Sign, noisy_neighbour};
use crate::result::Confidence;
use crate::wording;

pub(super) const RULE: Rule =
    Rule { name: "cores-full", title: "All cores of a machine are busy all the time", check };

const FULL_PERCENT: f64 = 90.0;

fn check(symptoms: &Symptoms<'_>) -> Option<Sign> {
    // A guest's cores are threads of the host: they are a matter of their own.
    let mut machines =
        symptoms.parties().filter(|end| end.place().is_none_or(|place| !place.is_in_guest()));
    let end = machines.find(|end| {
        let cores = end.cores();
        let busy: f64 = cores.iter().map(|(_, busy)| busy).sum();
        let is_full = !cores.is_empty() && busy >= FULL_PERCENT * cores.len() as f64;
        // What others use is another matter.
        let foreign = symptoms.foreign_percent(end).unwrap_or(0.0);
        is_full && foreign < noisy_neighbour::FOREIGN_PERCENT
    })?;
    let cores = end.cores();
    let busy: f64 = cores.iter().map(|(_, busy)| busy).sum();
    let evidence = vec![end.share(
        format!("busy time of {}, 100 % being one core", wording::count(cores.len(), "core")),
        busy,
    )];
    let advice = if symptoms.is_of_disk() {
        "More cores, or operations that cost less: larger ones (block_size), a paravirtual disk, fewer at a time."
    } else {
        "More cores, or work that costs less for each packet: larger segments (offloads, MTU), fewer hops, a cheaper NIC \
                  model. Where both ends share a machine, each has only what the other leaves."
    };
    Some(Sign { confidence: Confidence::Likely, evidence, advice: advice.into() })
}
