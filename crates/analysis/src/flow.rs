//! The loads of a trial, each with its two ends.

use vioperf_model::record::{Party, Place, Purpose, TrialRecord};
use vioperf_model::sample::{LoadCounters, LoadOutcome, Sample};
use vioperf_model::wire::Role;
use vioperf_model::workload::Direction;

use crate::measure::{Measure, Truth, Unit};
use crate::shapes::Course;
use crate::window::{Absent, Reading, Window};

/// A party's part in one load, with its samples inside the window, or why there are none.
pub(crate) struct View<'a> {
    /// The party.
    pub(crate) party: Option<&'a Party>,
    /// Which of its legs.
    leg: usize,
    window: Result<Window<'a>, Absent>,
}

impl<'a> View<'a> {
    fn of_leg(trial: &'a TrialRecord, who: &'static str, party: &'a Party, leg: usize) -> Self {
        let window = Window::cut(party, trial.timeline.as_ref())
            .map_err(|reason| Absent::from(format!("{who}: {reason}")));
        Self { party: Some(party), leg, window }
    }

    fn missing(who: &'static str) -> Self {
        let window = Err(format!("{who}: not in the record").into());
        Self { party: None, leg: 0, window }
    }

    /// Of whoever is there, whatever it does.
    pub(crate) fn of_place(trial: &'a TrialRecord, who: &'static str, place: Place) -> Self {
        let party = trial.parties.iter().find(|party| party.place == place);
        party.map_or_else(|| Self::missing(who), |party| Self::of_leg(trial, who, party, 0))
    }

    /// Its part in that load.
    pub(crate) fn role(&self) -> Option<Role> {
        self.party?.legs().nth(self.leg).map(|leg| leg.role)
    }

    /// What its load had moved when that sample was taken.
    pub(crate) fn moved<'s>(&self, sample: &'s Sample) -> Option<&'s LoadCounters> {
        sample.load_of_leg(self.leg)
    }

    /// How its load ended.
    pub(crate) fn outcome(&self) -> Option<&'a LoadOutcome> {
        self.party?.report.load_of_leg(self.leg)
    }

    /// What its load had moved by that sample.
    pub(crate) fn load<'s>(&self, sample: &'s Sample) -> Option<&'s LoadCounters> {
        sample.load_of_leg(self.leg)
    }

    /// Datagrams that its load moved, from its first to its last.
    pub(crate) fn datagrams(&self) -> Option<u64> {
        let samples = &self.party?.report.samples;
        let moved = |sample: &Sample| sample.load_of_leg(self.leg)?.datagrams;
        moved(samples.last()?)?.checked_sub(moved(samples.first()?)?)
    }

    /// Its samples.
    pub(crate) fn window(&self) -> Result<&Window<'a>, Absent> {
        self.window.as_ref().map_err(Clone::clone)
    }
}

/// Both ends of one load that goes one way.
pub(crate) struct Flow<'a> {
    /// Which way payload, or requests, go.
    pub(crate) direction: Direction,
    /// Who sends, or asks; who reads and writes a disk, which has no other end.
    pub(crate) sender: View<'a>,
    /// Who receives, or answers.
    pub(crate) receiver: View<'a>,
}

/// A leg of a trial, and where its counters are.
type Placed<'a> = (&'a Party, usize, Role);

impl<'a> Flow<'a> {
    /// The flows of a trial that are there for that purpose, at least one: a record that lacks an end
    /// has a reason at it.
    pub(crate) fn all(trial: &'a TrialRecord, purpose: Purpose) -> Vec<Self> {
        let legs = trial.parties.iter().flat_map(|party| {
            let numbered = party.legs().enumerate().filter(|(_, leg)| leg.purpose == purpose);
            numbered.map(move |(number, leg)| (party, number, leg.role))
        });
        let (senders, rest): (Vec<_>, Vec<Placed<'_>>) =
            legs.partition(|(_, _, role)| matches!(role, Role::Sender { .. } | Role::Disk));
        let mut receivers: Vec<Placed<'_>> = rest;
        receivers.retain(|(_, _, role)| matches!(role, Role::Receiver { .. }));
        let mut flows = Vec::new();
        for sender in senders {
            let other = receivers.iter().position(|receiver| receiver.0.place != sender.0.place);
            flows.push(Self::of(trial, Some(sender), other.map(|at| receivers.remove(at))));
        }
        flows.extend(receivers.into_iter().map(|receiver| Self::of(trial, None, Some(receiver))));
        if flows.is_empty() && purpose == Purpose::Measured {
            flows.push(Self::of(trial, None, None));
        }
        flows
    }

    fn of(
        trial: &'a TrialRecord,
        sender: Option<Placed<'a>>,
        receiver: Option<Placed<'a>>,
    ) -> Self {
        let from_peer = match (sender, receiver) {
            (Some((party, ..)), _) => is_peer(party),
            (None, Some((party, ..))) => !is_peer(party),
            (None, None) => true,
        };
        let view = |who, placed: Option<Placed<'a>>| match placed {
            Some((party, leg, _)) => View::of_leg(trial, who, party, leg),
            None => View::missing(who),
        };
        Self {
            direction: if from_peer { Direction::ToGuest } else { Direction::FromGuest },
            sender: view("sender", sender),
            receiver: view("receiver", receiver),
        }
    }

    /// What is answered: the same two ends, the other way.
    pub(crate) fn reversed(self) -> Self {
        Self {
            direction: match self.direction {
                Direction::ToGuest => Direction::FromGuest,
                Direction::FromGuest => Direction::ToGuest,
                Direction::Both => Direction::Both,
            },
            sender: self.receiver,
            receiver: self.sender,
        }
    }

    /// How fast it moved, as the one tells whose counters are the truth.
    pub(crate) fn headline(&self, measure: &Measure) -> Reading {
        self.truth(measure).rate(measure.unit)
    }

    /// The same over the window.
    pub(crate) fn course(&self, measure: &Measure) -> Option<Course> {
        self.truth(measure).course(measure.unit)
    }

    fn truth(&self, measure: &Measure) -> &View<'a> {
        match measure.truth {
            Truth::Receiver => &self.receiver,
            Truth::Sender => &self.sender,
        }
    }
}

/// Between two machines it is the server that directions call the guest.
fn is_peer(party: &Party) -> bool {
    party.place.is_far_end()
}

impl View<'_> {
    /// How fast the load moved at that end.
    pub(crate) fn rate(&self, unit: Unit) -> Reading {
        let (counter, factor) = unit.counter();
        Ok(self.count_rate(counter)? * factor)
    }

    /// How much of a counter a second.
    pub(crate) fn count_rate(&self, counter: impl Fn(&LoadCounters) -> Option<u64>) -> Reading {
        let window = self.window()?;
        let count =
            window.increase("load", |sample| sample.load_of_leg(self.leg).and_then(&counter))?;
        Ok(count as f64 / self.seconds_counted(window)?)
    }

    /// Between the first and the last count of the load in the window.
    fn seconds_counted(&self, window: &Window<'_>) -> Result<f64, Absent> {
        let (first, last) = (window.samples().first(), window.samples().last());
        match (
            first.and_then(|one| self.counted_at(one)),
            last.and_then(|one| self.counted_at(one)),
        ) {
            (Some(first), Some(last)) if last > first => Ok((last - first) as f64 / 1e9),
            (Some(_), Some(_)) => Err("the load told nothing of itself meanwhile".into()),
            _ => Ok(window.seconds),
        }
    }

    /// When the load of a sample was counted, where there is one.
    fn counted_at(&self, sample: &Sample) -> Option<u64> {
        let load = sample.load_of_leg(self.leg)?;
        Some(load.counted_at_ns.unwrap_or(sample.monotonic_ns))
    }

    /// How the load moved at that end.
    fn course(&self, unit: Unit) -> Option<Course> {
        let (counter, factor) = unit.counter();
        let samples = self.window().ok()?.samples();
        let first = self.counted_at(samples.first()?)?;
        // What was counted once is in several samples.
        let mut last = None;
        let counted = samples.iter().filter(|sample| {
            let at = self.counted_at(sample);
            at.is_none() || std::mem::replace(&mut last, at) != at
        });
        let moved = counted.map(|sample| {
            let seconds = self.counted_at(sample)?.saturating_sub(first) as f64 / 1e9;
            let count = sample.load_of_leg(self.leg).and_then(counter)?;
            Some((seconds, count as f64 * factor))
        });
        Course::of(&moved.collect::<Option<Vec<_>>>()?, unit.grain())
    }
}

#[cfg(test)]
mod tests {
    use vioperf_model::record::Leg;
    use vioperf_model::workload::{Workload, WorkloadKind};

    use super::*;
    use crate::testing::Synthetic;

    /// A trial towards the guest, to which as much is added the other way.
    fn both_ways() -> TrialRecord {
        let mut trial = Synthetic::calm_kvm().trials.remove(0);
        let roles = [trial.parties[1].role, trial.parties[0].role];
        for (party, role) in trial.parties.iter_mut().zip(roles) {
            party.further_legs.push(Leg { purpose: Purpose::Measured, role });
            for sample in &mut party.report.samples {
                sample.further_loads.extend(sample.load);
            }
        }
        trial
    }

    #[test]
    fn what_was_counted_earlier_is_a_rate_of_the_time_between_the_counts() {
        let mut trial = Synthetic::calm_kvm().trials.remove(0);
        let measure = Measure::of(WorkloadKind::TcpStream);
        let rate =
            |trial: &TrialRecord| Flow::all(trial, Purpose::Measured).remove(0).headline(measure);
        let as_sampled = rate(&trial).unwrap();
        let receiver = trial
            .parties
            .iter_mut()
            .find(|party| matches!(party.role, Role::Receiver { .. }))
            .unwrap();
        // Each sample has what was counted at the one before it; the first counts twice.
        let before: Vec<_> = receiver.report.samples.clone();
        for (at, sample) in receiver.report.samples.iter_mut().enumerate() {
            let counted = &before[at.saturating_sub(1)];
            let counted_at_ns = Some(counted.monotonic_ns);
            sample.load = counted.load.map(|load| LoadCounters { counted_at_ns, ..load });
        }
        let as_counted = rate(&trial).unwrap();
        assert!((as_counted / as_sampled - 1.0).abs() < 1e-6, "{as_counted} {as_sampled}");
        let course = Flow::all(&trial, Purpose::Measured).remove(0).course(measure);
        assert!(course.is_some());
        for party in &mut trial.parties {
            for load in party.report.samples.iter_mut().filter_map(|sample| sample.load.as_mut()) {
                load.counted_at_ns = Some(7);
            }
        }
        assert!(rate(&trial).unwrap_err().to_string().contains("told nothing of itself"));
    }

    #[test]
    fn each_way_is_a_flow_and_the_headline_is_both() {
        let one_way = Synthetic::calm_kvm().trials.remove(0);
        let measure = Measure::of(WorkloadKind::TcpStream);
        let one =
            crate::rates::headline(&one_way, &Workload::new(WorkloadKind::TcpStream)).unwrap();
        let trial = both_ways();
        let flows = Flow::all(&trial, Purpose::Measured);
        assert_eq!(flows.len(), 2);
        assert_ne!(flows[0].direction, flows[1].direction);
        for flow in &flows {
            let [sender, receiver] = [&flow.sender, &flow.receiver].map(|view| view.party.unwrap());
            assert_ne!(sender.place, receiver.place);
            assert_eq!(flow.direction == Direction::ToGuest, sender.place == Place::Peer);
            assert_eq!(flow.headline(measure), Ok(one));
        }
        assert_eq!(
            crate::rates::headline(&trial, &Workload::new(WorkloadKind::TcpStream)),
            Ok(2.0 * one)
        );
    }

    #[test]
    fn a_background_is_not_part_of_what_is_measured() {
        let mut trial = both_ways();
        let one = {
            let flows = Flow::all(&trial, Purpose::Measured);
            flows[0].receiver.rate(Unit::Bits).unwrap()
        };
        for party in &mut trial.parties {
            party.further_legs.iter_mut().for_each(|leg| leg.purpose = Purpose::Background);
        }
        assert_eq!(Flow::all(&trial, Purpose::Measured).len(), 1);
        let background = Flow::all(&trial, Purpose::Background);
        assert_eq!(background.len(), 1);
        assert_eq!(background[0].receiver.rate(Unit::Bits), Ok(one));
        assert_eq!(
            crate::rates::headline(&trial, &Workload::new(WorkloadKind::TcpStream)),
            Ok(one)
        );
    }

    #[test]
    fn an_end_that_is_missing_has_a_reason() {
        let mut trial = Synthetic::calm_kvm().trials.remove(0);
        trial.parties.retain(|party| !matches!(party.role, Role::Receiver { .. }));
        let flows = Flow::all(&trial, Purpose::Measured);
        assert_eq!(flows.len(), 1);
        assert!(flows[0].sender.rate(Unit::Bits).is_ok());
        assert!(flows[0].receiver.rate(Unit::Bits).unwrap_err().contains("not in the record"));
        trial.parties.clear();
        assert_eq!(Flow::all(&trial, Purpose::Measured).len(), 1);
        assert!(Flow::all(&trial, Purpose::Background).is_empty());
    }
}
