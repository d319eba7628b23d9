//! Adds the counters of every layer up over the trials of a cell.

use std::collections::BTreeMap;

use vioperf_model::record::{Party, Place, TrialRecord};

use super::Span;
use super::names::{Count, Name, OF_MACHINE, is_zero_where_missing, named};
use crate::result::{MovedCounter, PlaceCounters};

/// What every party counted, trial by trial added up.
#[derive(Debug, Clone, Default)]
pub struct CounterTotals {
    places: BTreeMap<Place, PlaceTotals>,
}

#[derive(Debug, Clone, Default)]
struct PlaceTotals {
    trials: u32,
    seconds: f64,
    counters: BTreeMap<Name, Total>,
    absent: BTreeMap<String, u32>,
}

#[derive(Debug, Clone, Default)]
struct Total {
    trials: u32,
    sum: u128,
    max: u64,
}

impl CounterTotals {
    /// Takes a trial that counts.
    pub fn add(&mut self, trial: &TrialRecord) {
        let has_host = trial.parties.iter().any(|party| party.place == Place::Host);
        for party in &trial.parties {
            let is_beside_host = has_host && party.place.is_end_on_host();
            self.places.entry(party.place).or_default().add(party, is_beside_host);
        }
    }

    /// All of them, in the order of places.
    pub fn gather(&self) -> Vec<PlaceCounters> {
        self.places.iter().map(|(place, totals)| totals.gather(*place)).collect()
    }
}

impl PlaceTotals {
    fn add(&mut self, party: &Party, is_beside_host: bool) {
        let span = match Span::of(party) {
            Ok(span) => span,
            Err(reason) => return self.add_reason(reason.into_owned()),
        };
        self.trials = self.trials.saturating_add(1);
        self.seconds += span.seconds;
        for (group, reason) in &party.report.absent {
            if let Some(group) = group.strip_prefix("layers.") {
                self.add_reason(format!("{group}: {reason}"));
            }
        }
        let mut grown: BTreeMap<Name, u64> = BTreeMap::new();
        let before = named(span.first);
        for (key, now) in named(span.last) {
            if is_beside_host && OF_MACHINE.contains(&key.0.layer) {
                continue;
            }
            // What was not there before, such as a new thread, is of this trial whole or not at all.
            let none = is_zero_where_missing(key.0.layer).then_some(Count::Grows(0));
            let Some(before) = before.get(&key).copied().or(none) else { continue };
            match now.since(before) {
                Some(count) => {
                    let sum = grown.entry(key.0).or_default();
                    *sum = sum.saturating_add(count);
                }
                None => self.add_reason(format!("{} {}: ran backwards", key.0.layer, key.0.of)),
            }
        }
        for (name, count) in grown {
            let total = self.counters.entry(name).or_default();
            total.trials = total.trials.saturating_add(1);
            total.sum = total.sum.saturating_add(count.into());
            total.max = total.max.max(count);
        }
    }

    fn add_reason(&mut self, reason: String) {
        let trials = self.absent.entry(reason).or_default();
        *trials = trials.saturating_add(1);
    }

    fn gather(&self, place: Place) -> PlaceCounters {
        let moved: Vec<_> = self.counters.iter().filter(|(_, total)| total.max > 0).collect();
        PlaceCounters {
            place,
            trials: self.trials,
            mean_seconds: self.seconds / f64::from(self.trials.max(1)),
            unmoved: u32::try_from(self.counters.len() - moved.len()).unwrap_or(u32::MAX),
            moved: moved
                .into_iter()
                .map(|(name, total)| MovedCounter {
                    layer: name.layer.to_owned(),
                    of: name.of.clone(),
                    counter: name.counter.clone(),
                    mean: total.sum as f64 / f64::from(total.trials.max(1)),
                    max: total.max,
                })
                .collect(),
            absent: self.absent.clone(),
        }
    }
}
