//! What probes prove: MLRsearch's classification of loads, relevant bounds and conditional throughput
//! (appendices A and B of the draft).

use vioperf_model::record::Probe;

use super::Goal;

/// A sender that leaves out more than this part of what was due was not sending at that rate.
const MOST_NOT_SENT: f64 = 0.01;

/// A sender that has sent so many times as fast before can send at a rate: where it does not, something
/// else had its core. Such a probe proves nothing, and is made again.
const EASY: f64 = 2.0;
/// But not for ever: so many at a rate at most.
const MOST_DISTURBED: usize = 3;

/// Whether the sender did not keep up with the rate that was asked of it.
pub fn is_short_of_sending(probe: &Probe) -> bool {
    probe.not_sent as f64 > MOST_NOT_SENT * due(probe)
}

fn due(probe: &Probe) -> f64 {
    probe.sent as f64 + probe.not_sent as f64
}

/// What did not arrive, as a part of what was sent; of what was due, where the sender did not keep up:
/// such a probe is never one that a rate has passed.
pub fn loss_ratio(probe: &Probe) -> f64 {
    let of = if is_short_of_sending(probe) { due(probe) } else { probe.sent as f64 };
    if of == 0.0 {
        return 1.0;
    }
    (1.0 - probe.received as f64 / of).clamp(0.0, 1.0)
}

/// What a rate is to a goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Proved good, whatever further probes might give.
    Lower,
    /// Proved bad.
    Upper,
    /// Neither yet.
    Undecided,
}

/// Sums of the probes at one rate, in seconds.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    full_low: f64,
    full_high: f64,
    short_low: f64,
    short_high: f64,
}

impl Sums {
    fn of<'a>(goal: &Goal, probes: impl Iterator<Item = &'a Probe>) -> Self {
        let mut sums = Self::default();
        for probe in probes {
            let high = loss_ratio(probe) > goal.loss_ratio;
            let sum = match (is_full_length(goal, probe), high) {
                (true, false) => &mut sums.full_low,
                (true, true) => &mut sums.full_high,
                (false, false) => &mut sums.short_low,
                (false, true) => &mut sums.short_high,
            };
            *sum += seconds(probe);
        }
        sums
    }

    /// High loss in short probes counts as far as low loss in short probes does not make up for it.
    fn effective_high(&self, goal: &Goal) -> f64 {
        let made_up_for = self.short_low * goal.exceed_ratio / (1.0 - goal.exceed_ratio);
        self.full_high + (self.short_high - made_up_for).max(0.0)
    }

    fn standing(&self, goal: &Goal) -> Standing {
        let high = self.effective_high(goal);
        let whole = (self.full_low + high).max(goal.sum_seconds);
        // As decimals of seconds add up, a thousandth more is no more.
        let allowed = whole * goal.exceed_ratio + 1e-3;
        match (high <= allowed, whole - self.full_low <= allowed) {
            (true, true) => Standing::Lower,
            (false, _) => Standing::Upper,
            (true, false) => Standing::Undecided,
        }
    }
}

/// Durations are compared as they were asked for.
pub(super) fn is_full_length(goal: &Goal, probe: &Probe) -> bool {
    seconds(probe) >= goal.probe_seconds - 1e-6
}

fn seconds(probe: &Probe) -> f64 {
    probe.asked_ns as f64 / 1e9
}

/// The probes at a rate that count.
fn at(probes: &[Probe], per_second: u64) -> impl Iterator<Item = &Probe> {
    let fastest = probes.iter().map(sent_per_second).fold(0.0, f64::max);
    let is_easy = per_second as f64 * EASY <= fastest;
    let mut disturbed = 0;
    let at_rate = probes.iter().filter(move |probe| probe.asked_per_second == Some(per_second));
    at_rate.filter(move |probe| {
        let is_disturbed = is_easy && is_short_of_sending(probe) && disturbed < MOST_DISTURBED;
        disturbed += usize::from(is_disturbed);
        !is_disturbed
    })
}

fn sent_per_second(probe: &Probe) -> f64 {
    probe.sent as f64 * 1e9 / (probe.took_ns as f64).max(1.0)
}

/// What a rate is to a goal, by the probes so far.
pub(super) fn standing(goal: &Goal, probes: &[Probe], per_second: u64) -> Standing {
    Sums::of(goal, at(probes, per_second)).standing(goal)
}

/// Every rate that was probed, ascending, each once.
pub(super) fn rates(probes: &[Probe]) -> Vec<u64> {
    let mut rates: Vec<u64> = probes.iter().filter_map(|probe| probe.asked_per_second).collect();
    rates.sort_unstable();
    rates.dedup();
    rates
}

/// A rate that was proved good or bad.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    /// The rate, in datagrams a second.
    pub per_second: u64,
    /// What arrives of that a second, typically: the draft's conditional throughput.
    pub throughput_per_second: f64,
    /// The median loss there, as a part of what was sent.
    pub loss_ratio: f64,
    /// Whether most of the probes with too much loss were such that the sender did not keep up with.
    pub sender_is_short: bool,
}

/// The bounds of a goal, as far as there are any.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Bounds {
    /// The highest rate below the upper bound that was proved good.
    pub lower: Option<Bound>,
    /// The lowest rate that was proved bad.
    pub upper: Option<Bound>,
}

/// The relevant bounds of a goal, by the probes so far. What is proved good beyond a rate that is
/// proved bad does not count.
pub fn bounds(goal: &Goal, probes: &[Probe]) -> Bounds {
    let mut found = Bounds::default();
    for per_second in rates(probes) {
        match standing(goal, probes, per_second) {
            Standing::Lower => found.lower = Some(bound(goal, probes, per_second)),
            Standing::Undecided => {}
            Standing::Upper => {
                found.upper = Some(bound(goal, probes, per_second));
                break;
            }
        }
    }
    found
}

fn bound(goal: &Goal, probes: &[Probe], per_second: u64) -> Bound {
    let mut losses: Vec<f64> = at(probes, per_second).map(loss_ratio).collect();
    losses.sort_by(f64::total_cmp);
    let high = || at(probes, per_second).filter(|probe| loss_ratio(probe) > goal.loss_ratio);
    let short = high().filter(|probe| is_short_of_sending(probe)).count();
    Bound {
        per_second,
        throughput_per_second: per_second as f64 * (1.0 - quantile_loss(goal, probes, per_second)),
        loss_ratio: losses.get(losses.len() / 2).copied().unwrap_or(0.0),
        sender_is_short: short * 2 > high().count(),
    }
}

/// The loss that the part of the time that must not exceed the goal stays within; probes that are
/// missing until the sum of durations are taken to have lost everything.
fn quantile_loss(goal: &Goal, probes: &[Probe], per_second: u64) -> f64 {
    let full = at(probes, per_second).filter(|probe| is_full_length(goal, probe));
    let mut full: Vec<(f64, f64)> =
        full.map(|probe| (arrival_loss(probe), seconds(probe))).collect();
    full.sort_by(|a, b| a.0.total_cmp(&b.0));
    let whole = full.iter().map(|(_, seconds)| seconds).sum::<f64>().max(goal.sum_seconds);
    let mut left = whole * (1.0 - goal.exceed_ratio);
    for (loss, seconds) in &full {
        left -= seconds;
        if left <= 1e-3 {
            return *loss;
        }
    }
    1.0
}

/// Of what was due: what a sender left out did not arrive either.
fn arrival_loss(probe: &Probe) -> f64 {
    let due = due(probe);
    if due == 0.0 { 1.0 } else { (1.0 - probe.received as f64 / due).clamp(0.0, 1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many probes of so many seconds with a loss in parts of a thousand.
    type Group = (usize, u64, u64);

    fn probes(groups: &[Group]) -> Vec<Probe> {
        let probe = |seconds: u64, loss: u64| Probe {
            asked_per_second: Some(1_000_000),
            asked_ns: seconds * 1_000_000_000,
            began_after_ns: 0,
            took_ns: 0,
            sent: 1_000_000 * seconds,
            not_sent: 0,
            received: (1_000 - loss) * 1_000 * seconds,
            socket_drops: None,
        };
        groups
            .iter()
            .flat_map(|(count, seconds, loss)| std::iter::repeat_n(probe(*seconds, *loss), *count))
            .collect()
    }

    fn goal(probe_seconds: f64, sum_seconds: f64, loss_ratio: f64, exceed_ratio: f64) -> Goal {
        Goal { loss_ratio, probe_seconds, sum_seconds, exceed_ratio, width: 0.005 }
    }

    /// The worked example of the draft: four goals, and what one load is to each of them as probes are
    /// added. The draft's text (version 10) calls the load a lower bound of the last goal in the end,
    /// against its own ratios (42.9 % and 27.3 % of the time where 20 % is allowed) and against its
    /// algorithm; the algorithm counts.
    #[test]
    fn a_load_is_classified_as_in_the_drafts_example() {
        use Standing::{Lower, Undecided, Upper};
        let goals = [
            goal(60.0, 60.0, 0.0, 0.0),
            goal(60.0, 120.0, 0.0, 0.5),
            goal(1.0, 120.0, 0.005, 0.5),
            goal(60.0, 60.0, 0.005, 0.2),
        ];
        let points: [(&[Group], [Standing; 4]); 6] = [
            (&[(59, 1, 0), (1, 1, 10)], [Upper, Undecided, Undecided, Undecided]),
            (&[(59, 1, 0), (60, 1, 10)], [Upper, Undecided, Undecided, Upper]),
            (&[(60, 1, 0), (60, 1, 10)], [Upper, Undecided, Lower, Upper]),
            (&[(60, 1, 0), (60, 1, 10), (1, 60, 1)], [Upper, Undecided, Lower, Upper]),
            (&[(60, 1, 0), (60, 1, 10), (1, 60, 1), (1, 60, 0)], [Upper, Lower, Lower, Upper]),
            (&[], [Undecided; 4]),
        ];
        for (groups, expected) in points {
            let probes = probes(groups);
            let got = goals.each_ref().map(|goal| standing(goal, &probes, 1_000_000));
            assert_eq!(got, expected, "{groups:?}");
        }
        let all = probes(&[(60, 1, 0), (60, 1, 10), (1, 60, 1), (1, 60, 0)]);
        let throughput = goals.each_ref().map(|goal| {
            let loss = quantile_loss(goal, &all, 1_000_000);
            (1_000_000.0 * (1.0 - loss)).round()
        });
        assert_eq!(throughput[1..], [1_000_000.0, 1_000_000.0, 999_000.0]);
    }

    #[test]
    fn a_sender_that_was_kept_from_sending_proves_nothing_but_only_so_often() {
        let goal = goal(1.0, 1.0, 0.0, 0.0);
        let mut fast = probes(&[(1, 1, 0)])[0];
        (fast.asked_per_second, fast.took_ns) = (None, 1_000_000_000);
        let mut starved = probes(&[(1, 1, 0)])[0];
        starved.asked_per_second = Some(1_000);
        (starved.took_ns, starved.sent) = (1_000_000_000, 900);
        (starved.not_sent, starved.received) = (100, 900);
        let standing = |count: usize, rate: u64| {
            let mut all = vec![fast];
            let starved = Probe { asked_per_second: Some(rate), ..starved };
            all.extend(std::iter::repeat_n(starved, count));
            super::standing(&goal, &all, rate)
        };
        assert_eq!(standing(3, 1_000), Standing::Undecided);
        assert_eq!(standing(4, 1_000), Standing::Upper);
        // Near to what it can, the sender is the limit.
        assert_eq!(standing(1, 900_000), Standing::Upper);
    }

    #[test]
    fn good_beyond_bad_does_not_count() {
        let goal = goal(1.0, 1.0, 0.0, 0.0);
        let mut all = Vec::new();
        for (rate, loss) in [(10, 0), (20, 0), (30, 5), (40, 0), (50, 7)] {
            let mut one = probes(&[(1, 1, loss)]);
            one[0].asked_per_second = Some(rate);
            all.extend(one);
        }
        let found = bounds(&goal, &all);
        let [lower, upper] = [found.lower, found.upper].map(|bound| bound.unwrap().per_second);
        assert_eq!((lower, upper), (20, 30));
    }

    #[test]
    fn a_rate_that_was_not_sent_is_not_passed() {
        let mut probe = probes(&[(1, 1, 0)])[0];
        assert_eq!(loss_ratio(&probe), 0.0);
        (probe.sent, probe.not_sent, probe.received) = (980_000, 20_000, 980_000);
        assert!(is_short_of_sending(&probe) && (loss_ratio(&probe) - 0.02).abs() < 1e-9);
        // A little is left out by every sender.
        (probe.sent, probe.not_sent, probe.received) = (995_000, 5_000, 995_000);
        assert!(!is_short_of_sending(&probe) && loss_ratio(&probe) == 0.0);
        let goal = goal(1.0, 1.0, 0.0, 0.0);
        let lower = bounds(&goal, &[probe]).lower.unwrap();
        assert_eq!((lower.per_second, lower.throughput_per_second), (1_000_000, 995_000.0));
        // Duplicates are no gain, and nothing is no success.
        probe.received = 2_000_000;
        assert_eq!(loss_ratio(&probe), 0.0);
        (probe.sent, probe.not_sent, probe.received) = (0, 0, 0);
        assert_eq!(loss_ratio(&probe), 1.0);
    }
}
