//! What goes on while a load runs: once a second, from what both ends count.

use vioperf_analysis::measure::{Measure, Truth, Unit};
use vioperf_model::record::{Leg, Purpose};
use vioperf_model::sample::{CoreTicks, Sample};
use vioperf_model::wire::Role;
use vioperf_model::workload::WorkloadKind;

/// `/proc/stat` counts in ticks of this length on every Linux (`USER_HZ`).
const TICKS_PER_SECOND: f64 = 100.0;

/// Who looks on while a trial runs.
pub trait Watch {
    /// What was seen since the last look.
    fn sees(&self, moment: &Moment);
    /// What is done at the moment, where that takes several steps.
    fn step(&self, step: &str);
}

/// What one end says at this moment.
#[derive(Debug, Clone, Copy)]
pub struct EndNow<'a> {
    /// Where it is (`here`, `there`).
    pub name: &'a str,
    /// What it does, in the order of its counters.
    pub legs: &'a [Leg],
    /// Its counters.
    pub sample: &'a Sample,
}

/// What was seen so far of a load that runs.
#[derive(Debug)]
pub struct Live {
    measure: &'static Measure,
    /// The samples of the line before, end by end.
    before: Vec<Sample>,
}

impl Live {
    /// Of a load of that kind.
    pub fn new(kind: WorkloadKind) -> Self {
        Self { measure: Measure::of(kind), before: Vec::new() }
    }

    /// What moved since the last look, in one line; `seconds` is the time since the load began. The
    /// first call has nothing to compare with.
    pub fn line(&mut self, seconds: f64, ends: &[EndNow<'_>]) -> Option<String> {
        self.look(seconds, ends).map(|moment| moment.line())
    }

    /// What moved since the last look. The first has nothing to compare with.
    pub fn look(&mut self, seconds: f64, ends: &[EndNow<'_>]) -> Option<Moment> {
        let before = std::mem::replace(
            &mut self.before,
            ends.iter().map(|end| end.sample.clone()).collect(),
        );
        if before.is_empty() {
            return None;
        }
        let seen: Vec<Seen<'_>> =
            ends.iter().zip(&before).map(|(now, before)| Seen { before, now }).collect();
        let again = seen.iter().filter(|seen| seen.does(is_sender)).filter_map(Seen::sent_again);
        let sent_again = match self.measure.may_retransmit {
            true => again.reduce(u64::saturating_add),
            false => None,
        };
        let of_end = |seen: &Seen<'_>| Some((seen.now.name.to_owned(), seen.busy_percents()?));
        let cores = seen.iter().filter_map(of_end).collect();
        Some(Moment { seconds, moved: self.moved(&seen), sent_again, cores })
    }

    /// The rate, by the counters that are the truth where they are known.
    fn moved(&self, seen: &[Seen<'_>]) -> Option<Moved> {
        let wanted: [(Wanted, &str); 2] = match self.measure.truth {
            Truth::Receiver => [(is_receiver, " received"), (is_sender, " sent")],
            Truth::Sender => [(is_sender, ""), (is_receiver, " answered")],
        };
        let (unit, (counter, factor)) = (self.measure.unit, self.measure.unit.counter());
        wanted.into_iter().find_map(|(wanted, verb)| {
            let counts = seen.iter().filter_map(|seen| seen.per_second(wanted, counter));
            let per_second = counts.reduce(|sum, rate| sum + rate)? * factor;
            Some(Moved { per_second, unit, verb })
        })
    }
}

/// What was seen since the last look.
#[derive(Debug, Clone, PartialEq)]
pub struct Moment {
    /// Since the load began.
    pub seconds: f64,
    /// How fast payload moved; absent where nobody could tell.
    pub moved: Option<Moved>,
    /// Segments sent again since the last look.
    pub sent_again: Option<u64>,
    /// How busy each core of each end was, in percent.
    pub cores: Vec<(String, Vec<f64>)>,
}

impl Moment {
    /// In one line.
    pub fn line(&self) -> String {
        let moved = self.moved.as_ref();
        let moved = moved.map_or_else(
            || format!("{:>12}", "–"),
            |moved| format!("{:>12}{}", moved.text(), moved.verb),
        );
        let mut parts = vec![format!("{:>6.1} s", self.seconds), moved];
        parts.extend(self.sent_again.map(|again| format!("{again} sent again")));
        for (name, cores) in &self.cores {
            let percent: f64 = cores.iter().sum();
            parts.push(format!("CPU {name} {percent:.0} %").replace("  ", " "));
        }
        parts.join("   ")
    }
}

/// A rate, and whose counters it is from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moved {
    /// So many of the unit.
    pub per_second: f64,
    unit: Unit,
    verb: &'static str,
}

impl Moved {
    /// The rate with its unit.
    pub fn text(&self) -> String {
        self.unit.text(self.per_second)
    }
}

/// Whether a leg is one of those.
type Wanted = fn(&Leg) -> bool;

fn is_sender(leg: &Leg) -> bool {
    leg.purpose == Purpose::Measured && matches!(leg.role, Role::Sender { .. } | Role::Disk)
}

fn is_receiver(leg: &Leg) -> bool {
    leg.purpose == Purpose::Measured && matches!(leg.role, Role::Receiver { .. })
}

/// One end between two lines.
struct Seen<'a> {
    before: &'a Sample,
    now: &'a EndNow<'a>,
}

impl Seen<'_> {
    fn seconds(&self) -> Option<f64> {
        let (before, now) = (self.before.monotonic_ns, self.now.sample.monotonic_ns);
        let ns = now.checked_sub(before).filter(|ns| *ns > 0)?;
        Some(ns as f64 / 1e9)
    }

    fn does(&self, wanted: Wanted) -> bool {
        self.now.legs.iter().any(wanted)
    }

    /// What the wanted legs moved together; nothing where there are none.
    fn per_second(
        &self,
        wanted: Wanted,
        counter: fn(&vioperf_model::sample::LoadCounters) -> Option<u64>,
    ) -> Option<f64> {
        let legs = self.now.legs.iter().enumerate().filter(|(_, leg)| wanted(leg));
        let moved = |(number, _): (usize, &Leg)| {
            let count = |sample: &Sample| sample.load_of_leg(number).and_then(counter);
            count(self.now.sample)?.checked_sub(count(self.before)?)
        };
        let moved = legs.map(moved).collect::<Option<Vec<u64>>>()?;
        let sum = moved.into_iter().reduce(u64::saturating_add)?;
        Some(sum as f64 / self.seconds()?)
    }

    /// Segments sent again.
    fn sent_again(&self) -> Option<u64> {
        let again = |sample: &Sample| Some(sample.tcp.as_ref()?.segments_retransmitted);
        again(self.now.sample)?.checked_sub(again(self.before)?)
    }

    /// Each core that both samples tell of.
    fn busy_percents(&self) -> Option<Vec<f64>> {
        let seconds = self.seconds()?;
        let before = self.before.cores.as_ref()?;
        let mut percents = Vec::new();
        for core in self.now.sample.cores.as_ref()? {
            let Some(then) = before.iter().find(|then| then.core == core.core) else { continue };
            let ticks = busy_ticks(core).checked_sub(busy_ticks(then))?;
            percents.push(ticks as f64 / TICKS_PER_SECOND / seconds * 100.0);
        }
        Some(percents)
    }
}

/// `guest` is contained in `user`.
fn busy_ticks(core: &CoreTicks) -> u64 {
    [core.user, core.nice, core.system, core.irq, core.softirq]
        .into_iter()
        .fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use vioperf_model::sample::{LoadCounters, TcpCounters};

    use super::*;

    fn sample(seconds: u64, bytes: u64, again: u64) -> Sample {
        let tcp = TcpCounters { segments_retransmitted: again, ..TcpCounters::default() };
        Sample {
            monotonic_ns: seconds * 1_000_000_000,
            load: Some(LoadCounters { bytes, ..LoadCounters::default() }),
            tcp: Some(tcp),
            ..Sample::default()
        }
    }

    #[test]
    fn the_receiver_tells_the_rate_and_the_sender_what_was_sent_again() {
        let sends = [Leg {
            purpose: Purpose::Measured,
            role: Role::Sender { peer: "192.0.2.1:1".parse().unwrap() },
        }];
        let receives = [Leg {
            purpose: Purpose::Measured,
            role: Role::Receiver { bind: "192.0.2.1".parse().unwrap() },
        }];
        let mut live = Live::new(WorkloadKind::TcpStream);
        let mut line = |seconds, sent: &Sample, received: &Sample| {
            let here = EndNow { name: "here", legs: &sends, sample: sent };
            let there = EndNow { name: "there", legs: &receives, sample: received };
            live.line(seconds, &[here, there])
        };
        assert_eq!(line(0.0, &sample(1, 0, 5), &sample(100, 0, 0)), None);
        let second = line(1.0, &sample(2, 9_000_000, 7), &sample(101, 1_000_000, 0)).unwrap();
        assert_eq!(second, "   1.0 s    8.00 Mbit/s received   2 sent again");
        // A counter that runs backwards is no rate.
        let third = line(2.0, &sample(3, 0, 0), &sample(102, 0, 0)).unwrap();
        assert!(third.contains('–'), "{third}");
    }
}
