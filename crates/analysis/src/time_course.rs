//! How a trial went: what each party counted, cut to the same steps of time.

use vioperf_model::record::{Party, Timeline, TrialRecord};
use vioperf_model::sample::{CoreTicks, Sample};

use crate::flow::{Flow, View};
use crate::measure::Measure;
use crate::rates::TrialReadings;
use crate::result::{CourseOf, TimeCourse};

/// No more steps than can be seen.
const MOST_STEPS: usize = 40;
/// Ticks of the cores are of 10 ms: in shorter steps they would be noise.
const SHORTEST_STEP_SECONDS: f64 = 0.05;
/// A party whose samples reach over less than this part of what counts tells no course.
const LEAST_COVER: f64 = 0.5;

/// (seconds from the begin of what counts, counted so far) of one party.
type Counted = Vec<(f64, f64)>;

/// The steps that all parties' samples reach over.
struct Steps {
    edges: Vec<f64>,
    width: f64,
}

impl Steps {
    fn of(parties: &[&Party], timeline: &Timeline) -> Option<Self> {
        let times = |party: &Party| -> Option<(f64, f64, usize)> {
            let samples = &party.report.samples;
            let at = |sample: &Sample| seconds(party, timeline, sample);
            Some((at(samples.first()?), at(samples.last()?), samples.len()))
        };
        let spans: Vec<_> = parties.iter().filter_map(|party| times(party)).collect();
        let from = spans.iter().map(|span| span.0).fold(f64::NEG_INFINITY, f64::max);
        let until = spans.iter().map(|span| span.1).fold(f64::INFINITY, f64::min);
        let samples = spans.iter().map(|span| span.2).min()?;
        let span = until - from;
        let counts = measured_seconds(timeline);
        if !span.is_finite() || span <= 0.0 || span < LEAST_COVER * counts {
            return None;
        }
        let mut steps = samples.saturating_sub(1).clamp(1, MOST_STEPS);
        while steps > 1 && span / (steps as f64) < SHORTEST_STEP_SECONDS {
            steps -= 1;
        }
        let width = span / steps as f64;
        let edges = (0..=steps).map(|number| from + width * number as f64).collect();
        Some(Self { edges, width })
    }

    /// By how much it grew in each step, a second; absent where the counter is not known.
    fn rates(&self, counted: &Counted) -> Vec<Option<f64>> {
        let at: Vec<Option<f64>> = self.edges.iter().map(|edge| between(counted, *edge)).collect();
        let rate = |pair: &[Option<f64>]| {
            let grown = pair[1]? - pair[0]?;
            (grown >= 0.0).then(|| rounded(grown / self.width))
        };
        at.windows(2).map(rate).collect()
    }

    /// The same of several that are added up.
    fn sum(&self, all: &[Counted]) -> Vec<Option<f64>> {
        let mut sum = vec![(!all.is_empty()).then_some(0.0); self.edges.len() - 1];
        for counted in all {
            for (sum, rate) in sum.iter_mut().zip(self.rates(counted)) {
                *sum = sum.zip(rate).map(|(sum, rate)| rounded(sum + rate));
            }
        }
        sum
    }
}

/// The count at that time, by a line between two samples. A rounding's worth beside the first or the last is
/// still there.
fn between(counted: &Counted, at: f64) -> Option<f64> {
    const NEXT_TO: f64 = 1e-6;
    let (first, last) = (counted.first()?, counted.last()?);
    if at < first.0 - NEXT_TO || at > last.0 + NEXT_TO {
        return None;
    }
    let after = counted.partition_point(|(seconds, _)| *seconds < at).clamp(1, counted.len() - 1);
    let (before, after) = (counted.get(after - 1)?, counted.get(after)?);
    let part = ((at - before.0) / (after.0 - before.0)).clamp(0.0, 1.0);
    (part.is_finite() && after.1 >= before.1).then_some(before.1 + part * (after.1 - before.1))
}

/// Four digits: a picture has no more, and a page that is full of them would be large.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let scale = 10f64.powf(3.0 - value.abs().log10().floor());
    (value * scale).round() / scale
}

fn seconds(party: &Party, timeline: &Timeline, sample: &Sample) -> f64 {
    let on_conductors = i128::from(sample.monotonic_ns) - i128::from(party.clock.offset_ns);
    (on_conductors - i128::from(timeline.measured_from_ns)) as f64 / 1e9
}

fn measured_seconds(timeline: &Timeline) -> f64 {
    timeline.measured_until_ns.saturating_sub(timeline.measured_from_ns) as f64 / 1e9
}

/// What a party counted, sample by sample; nothing where one of them lacks it.
fn counted(
    party: &Party,
    timeline: &Timeline,
    read: impl Fn(&Sample) -> Option<f64>,
) -> Option<Counted> {
    let samples = party.report.samples.iter();
    let point = |sample: &Sample| Some((seconds(party, timeline, sample), read(sample)?));
    let counted: Counted = samples.map(point).collect::<Option<_>>()?;
    (counted.len() > 1).then_some(counted)
}

fn busy(sample: &Sample, ticks_per_second: f64) -> Option<f64> {
    let ticks = |core: &CoreTicks| {
        [core.user, core.nice, core.system, core.irq, core.softirq].map(|ticks| ticks as f64)
    };
    let cores = sample.cores.as_ref()?.iter().flat_map(ticks);
    Some(cores.sum::<f64>() * 100.0 / ticks_per_second)
}

fn dropped(sample: &Sample) -> Option<f64> {
    let of = sample.interfaces.as_ref()?.values();
    Some(of.map(|counters| counters.rx_dropped as f64 + counters.tx_dropped as f64).sum())
}

/// What the loads of these moved; nothing where one of them does not tell.
fn moved<'v, 'p: 'v>(
    views: impl Iterator<Item = &'v View<'p>>,
    measure: &Measure,
    timeline: &Timeline,
) -> Vec<Counted> {
    let (counter, factor) = measure.unit.counter();
    let of = |view: &View<'_>| {
        let count = |sample: &Sample| Some(counter(view.load(sample)?)? as f64 * factor);
        counted(view.party?, timeline, count)
    };
    views.map(of).collect::<Option<_>>().unwrap_or_default()
}

/// The course of a trial, not yet said which of the cell's it is. `host` is whoever sees the host's cores.
pub(crate) fn of_trial(
    trial: &TrialRecord,
    flows: &[Flow<'_>],
    measure: &Measure,
    host: &View<'_>,
    guest: &View<'_>,
) -> Option<TimeCourse> {
    let timeline = trial.timeline.as_ref()?;
    let mut parties: Vec<&Party> = Vec::new();
    let ends = flows.iter().flat_map(|flow| [flow.sender.party, flow.receiver.party]);
    for party in ends.chain([host.party, guest.party]).flatten() {
        if !parties.iter().any(|known| known.place == party.place) {
            parties.push(party);
        }
    }
    let steps = Steps::of(&parties, timeline)?;
    let cores = |view: &View<'_>| -> Vec<Counted> {
        let of = view.party.filter(|party| party.report.ticks_per_second > 0).and_then(|party| {
            let ticks = f64::from(party.report.ticks_per_second);
            counted(party, timeline, |sample| busy(sample, ticks))
        });
        of.into_iter().collect()
    };
    let dropped =
        parties.iter().filter_map(|party| counted(party, timeline, dropped)).collect::<Vec<_>>();
    let again = |flow: &Flow<'_>| {
        let tcp = |sample: &Sample| Some(sample.tcp.as_ref()?.segments_retransmitted as f64);
        counted(flow.sender.party?, timeline, tcp)
    };
    let again: Vec<Counted> = flows.iter().filter_map(again).collect();
    let guest_cores = cores(guest);
    Some(TimeCourse {
        of: CourseOf::Typical,
        sequence: trial.sequence,
        block: trial.block,
        from_seconds: rounded(steps.edges[0]),
        step_seconds: rounded(steps.width),
        measured_seconds: measured_seconds(timeline),
        received_per_second: steps.sum(&moved(
            flows.iter().map(|flow| &flow.receiver),
            measure,
            timeline,
        )),
        sent_per_second: steps.sum(&moved(
            flows.iter().map(|flow| &flow.sender),
            measure,
            timeline,
        )),
        host_percent_of_core: steps.sum(&cores(host)),
        guest_percent_of_core: if guest_cores.is_empty() {
            Vec::new()
        } else {
            steps.sum(&guest_cores)
        },
        dropped_per_second: steps.sum(&dropped),
        retransmitted_per_second: match measure.may_retransmit && !again.is_empty() {
            true => steps.sum(&again),
            false => Vec::new(),
        },
        intervals: None,
    })
}

/// The courses that are told of a cell: of its median trial, and of the lowest and the highest.
pub fn gather(trials: &[TrialReadings]) -> Vec<TimeCourse> {
    let mut known: Vec<(f64, &TimeCourse)> = trials
        .iter()
        .filter_map(|trial| Some((*trial.headline.as_ref().ok()?, trial.time_course.as_ref()?)))
        .collect();
    known.sort_by(|a, b| a.0.total_cmp(&b.0));
    let pick = |at: usize, of: CourseOf| {
        known.get(at).map(|(_, course)| TimeCourse { of, ..(*course).clone() })
    };
    let mut told: Vec<TimeCourse> = pick(known.len() / 2, CourseOf::Typical).into_iter().collect();
    if known.len() > 2 {
        told.extend(pick(0, CourseOf::Lowest));
        told.extend(pick(known.len() - 1, CourseOf::Highest));
    }
    told
}

#[cfg(test)]
mod tests {
    use crate::analyse;
    use crate::result::CourseOf;
    use crate::testing::Synthetic;

    use super::*;

    #[test]
    fn steps_of_a_counter_are_its_rate_and_what_lies_outside_is_absent() {
        let steps = Steps { edges: vec![0.0, 1.0, 2.0, 3.0], width: 1.0 };
        let counted = vec![(0.0, 0.0), (0.5, 10.0), (1.5, 30.0), (2.5, 30.0)];
        assert_eq!(steps.rates(&counted), [Some(20.0), Some(10.0), None]);
        // A counter that runs backwards has no rate there.
        let back = vec![(0.0, 0.0), (1.0, 9.0), (2.0, 3.0), (3.0, 5.0)];
        assert_eq!(steps.rates(&back)[1], None);
        assert_eq!(steps.sum(&[]), [None, None, None]);
        assert_eq!(rounded(123_456.0), 123_500.0);
    }

    #[test]
    fn a_course_has_the_mean_that_the_trial_has() {
        let Synthetic { run, trials } = Synthetic::calm_kvm();
        for cell in &analyse(&run, &trials).cells {
            let typical = &cell.courses[0];
            assert_eq!(typical.of, CourseOf::Typical);
            let trial =
                cell.headline().values.iter().find(|trial| trial.sequence == typical.sequence);
            let counts = |number: &usize| {
                let at = typical.from_seconds + typical.step_seconds * *number as f64;
                at > 0.0 && at < typical.measured_seconds - typical.step_seconds
            };
            let inside: Vec<f64> = (0..typical.received_per_second.len())
                .filter(counts)
                .filter_map(|number| typical.received_per_second[number])
                .collect();
            let mean = inside.iter().sum::<f64>() / inside.len() as f64;
            let told = trial.unwrap().value;
            assert!((mean / told - 1.0).abs() < 0.02, "{}: {mean} {told}", cell.id);
            assert!(typical.from_seconds < 0.0, "the warm-up is in it");
            assert_eq!(typical.guest_percent_of_core.is_empty(), cell.is_baseline);
            assert!(typical.retransmitted_per_second.iter().flatten().any(|rate| *rate > 0.0));
            let orders: Vec<CourseOf> = cell.courses.iter().map(|course| course.of).collect();
            assert!(orders.len() == 1 || orders[1..] == [CourseOf::Lowest, CourseOf::Highest]);
        }
    }

    #[test]
    fn hostile_times_make_no_course_and_no_panic() {
        let Synthetic { run, mut trials } = Synthetic::calm_kvm();
        for (trial, n) in trials.iter_mut().zip(0..) {
            for party in &mut trial.parties {
                let samples = &mut party.report.samples;
                match n % 4 {
                    0 => samples.truncate(1),
                    1 => samples.iter_mut().for_each(|sample| sample.monotonic_ns = u64::MAX),
                    2 => samples.reverse(),
                    _ => party.clock.offset_ns = i64::MIN,
                }
            }
        }
        for cell in &analyse(&run, &trials).cells {
            for course in &cell.courses {
                assert!(course.received_per_second.len() <= MOST_STEPS);
            }
        }
    }
}
