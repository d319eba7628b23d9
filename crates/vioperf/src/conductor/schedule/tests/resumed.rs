//! A run that is interrupted, wherever and however, and resumed has the records of one that was not.

use proptest::prelude::*;

use super::*;

/// How a sitting comes to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// Ctrl-C during the trial: it is still recorded.
    AfterTrial,
    /// SIGTERM during the trial: it is lost.
    InTrial,
    /// The disk was full: its record is lost.
    DiskFull,
    /// SIGKILL, or the power went: nothing knows that it ended.
    Killed,
}

const STOPS: [Stop; 4] = [Stop::AfterTrial, Stop::InTrial, Stop::DiskFull, Stop::Killed];

/// What happens at the `nth` attempt of a run, from 0, and how fast it is where that matters.
type Play = fn(&Cell, usize) -> (AttemptEnd, Option<f64>);

/// One sitting: from what is stored to the `stop_at`th attempt of the run, or to the end.
fn sit(
    repeat: &str,
    play: Play,
    stored: &mut Vec<TrialRecord>,
    stop_at: Option<(usize, Stop)>,
) -> RunEnding {
    let scenario = scenario(repeat);
    let plan = Plan::new(&scenario, 1);
    let mut earlier = Earlier::default();
    // What is not in the files is not known any more.
    for line in stored.iter().map(|record| serde_json::to_string(record).unwrap()) {
        earlier.add(&plan, &serde_json::from_str(&line).unwrap());
    }
    let clock = FakeClock { now: Shared::new(earlier.took()) };
    let interrupt = Interrupt::default();
    let before = stored.len();
    let killed = stop_at.filter(|(_, stop)| *stop == Stop::Killed).map(|(at, _)| at);
    let full = stop_at.filter(|(_, stop)| *stop == Stop::DiskFull).map(|(at, _)| at - before);
    let mut records = Records { kept: vec![], full_after: full };
    let mut stage = Played { clock: &clock, interrupt: &interrupt, next: before, play, stop_at };
    let ending = Schedule {
        plan: &plan,
        repeat: &scenario.repeat,
        block_estimate: Duration::from_secs(12),
        stage: &mut stage,
        audience: &mut records,
        clock: &clock,
        interrupt: &interrupt,
        earlier: &earlier,
        so_far: SoFar::new(&plan, &scenario.repeat, &earlier),
    }
    .run();
    stored.append(&mut records.kept);
    stored.truncate(killed.unwrap_or(usize::MAX));
    ending
}

/// Plays a run attempt by attempt; the same attempt always goes the same way.
struct Played<'a> {
    clock: &'a FakeClock,
    interrupt: &'a Interrupt,
    next: usize,
    play: Play,
    stop_at: Option<(usize, Stop)>,
}

impl Stage for Played<'_> {
    fn attempt(&mut self, cell: &Cell) -> anyhow::Result<Attempt> {
        let stop = self.stop_at.filter(|(at, _)| *at == self.next).map(|(_, stop)| stop);
        let (end, bits_per_second) = (self.play)(cell, self.next);
        self.next += 1;
        let measured = bits_per_second.map(|rate| with_flat_rate(cell, 0, 0, rate));
        let (timeline, parties) =
            measured.map(|record| (record.timeline, record.parties)).unwrap_or_default();
        let attempt = Attempt {
            end,
            guest: None,
            core_speed: None,
            storage: None,
            timeline,
            parties,
            search: None,
        };
        if stop == Some(Stop::InTrial) {
            self.interrupt.note(SIGTERM);
            return Ok(Attempt { end: AttemptEnd::Interrupted, ..attempt });
        }
        if stop == Some(Stop::AfterTrial) {
            self.interrupt.note(SIGINT);
        }
        self.clock.now.set(self.clock.now.get() + Duration::from_secs(2));
        Ok(attempt)
    }
}

fn untroubled(_: &Cell, _: usize) -> (AttemptEnd, Option<f64>) {
    (AttemptEnd::Completed, None)
}

fn calm(_: &Cell, _: usize) -> (AttemptEnd, Option<f64>) {
    (AttemptEnd::Completed, Some(1e9))
}

/// Every fifth trial is void, and one path never becomes ready.
fn troubled(cell: &Cell, nth: usize) -> (AttemptEnd, Option<f64>) {
    let end = match nth {
        _ if cell.path_name() == "e1000" => void(true),
        _ if nth % 5 == 3 => void(false),
        _ => AttemptEnd::Completed,
    };
    (end, None)
}

/// One cell scatters, so that it alone does not settle.
fn scattered(cell: &Cell, nth: usize) -> (AttemptEnd, Option<f64>) {
    let wild = cell.id.0 == "virtio/4-streams/to-guest";
    (AttemptEnd::Completed, Some(if wild { 1e9 * (1 + nth % 7) as f64 } else { 1e9 }))
}

const RUNS: [(&str, Play); 5] = [
    ("blocks = 3", untroubled),
    ("blocks = 4\nattempts = 3", troubled),
    ("blocks = 2\ngoal = \"5 %\"", calm),
    ("blocks = 3\nmost_blocks = 6\ngoal = \"5 %\"\nstop_settled = true", scattered),
    ("blocks = 9\nbudget = \"40s\"", untroubled),
];

#[test]
fn interrupted_at_any_attempt_the_records_are_those_of_an_uninterrupted_run() {
    for (repeat, play) in RUNS {
        let mut whole = Vec::new();
        let whole_ending = sit(repeat, play, &mut whole, None);
        for (at, stop) in (0..whole.len()).flat_map(|at| STOPS.map(|stop| (at, stop))) {
            let mut stored = Vec::new();
            sit(repeat, play, &mut stored, Some((at, stop)));
            let kept = if stop == Stop::AfterTrial { at + 1 } else { at };
            assert_eq!(stored.len(), kept, "{repeat:?} {stop:?} at {at}");
            let ending = sit(repeat, play, &mut stored, None);
            assert_eq!(ending, whole_ending, "{repeat:?} {stop:?} at {at}");
            assert_eq!(stored, whole, "{repeat:?} {stop:?} at {at}");
        }
    }
}

#[test]
fn a_run_that_has_ended_is_not_gone_on_with() {
    for (repeat, play) in RUNS {
        let mut stored = Vec::new();
        let ending = sit(repeat, play, &mut stored, None);
        let trials = stored.len();
        assert_eq!(sit(repeat, play, &mut stored, None), ending);
        assert_eq!(stored.len(), trials, "{repeat:?}");
    }
}

#[test]
fn a_larger_budget_goes_on_and_counts_the_time_before() {
    let mut stored = Vec::new();
    assert_eq!(
        sit("blocks = 9\nbudget = \"24s\"", untroubled, &mut stored, None),
        RunEnding::BudgetUsed
    );
    assert_eq!(stored.len(), 2 * 6);
    assert_eq!(
        sit("blocks = 9\nbudget = \"40s\"", untroubled, &mut stored, None),
        RunEnding::BudgetUsed
    );
    assert_eq!(stored.len(), 3 * 6);
}

#[test]
fn what_was_lost_in_the_middle_is_measured_anew() {
    let mut stored = Vec::new();
    sit("blocks = 2", untroubled, &mut stored, None);
    let lost = stored.remove(4);
    assert_eq!(sit("blocks = 2", untroubled, &mut stored, None), RunEnding::Completed);
    let last = stored.last().unwrap();
    assert_eq!((&last.cell, last.block, last.sequence), (&lost.cell, lost.block, 12));
    assert_eq!(stored.len(), 12);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// However often it is interrupted.
    #[test]
    fn any_number_of_interruptions_changes_nothing(
        which in 0..RUNS.len(),
        stops in proptest::collection::vec((0usize..40, 0..STOPS.len()), 0..5),
    ) {
        let (repeat, play) = RUNS[which];
        let mut whole = Vec::new();
        let whole_ending = sit(repeat, play, &mut whole, None);
        let mut stored = Vec::new();
        for (further, stop) in stops {
            let at = (stored.len() + further).min(whole.len());
            sit(repeat, play, &mut stored, Some((at, STOPS[stop])));
        }
        prop_assert_eq!(sit(repeat, play, &mut stored, None), whole_ending);
        prop_assert_eq!(stored, whole);
    }
}
