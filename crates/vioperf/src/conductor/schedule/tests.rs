mod disturbed;
mod resumed;

use std::cell::Cell as Shared;

use signal_hook::consts::{SIGINT, SIGTERM};
use vioperf_analysis::testing::with_flat_rate;
use vioperf_model::scenario::Scenario;
use vioperf_model::scenario_file;

use super::*;

/// Does what a script says, and lets time pass without waiting for it.
struct Script<'a, F> {
    clock: &'a FakeClock,
    attempts: Vec<String>,
    play: F,
    /// Payload of every trial, where it matters.
    bits_per_second: Option<fn(&Cell, usize) -> f64>,
}

impl<F: FnMut(&Cell, usize) -> anyhow::Result<AttemptEnd>> Stage for Script<'_, F> {
    fn attempt(&mut self, cell: &Cell) -> anyhow::Result<Attempt> {
        self.attempts.push(cell.id.to_string());
        self.clock.now.set(self.clock.now.get() + Duration::from_secs(2));
        let attempts = self.attempts.len();
        let end = (self.play)(cell, attempts)?;
        if let Some(bits_per_second) = self.bits_per_second {
            let TrialRecord { timeline, parties, .. } =
                with_flat_rate(cell, 0, 0, bits_per_second(cell, attempts));
            return Ok(Attempt {
                end,
                guest: None,
                core_speed: None,
                storage: None,
                timeline,
                parties,
                search: None,
            });
        }
        Ok(Attempt {
            end,
            guest: None,
            core_speed: None,
            storage: None,
            timeline: None,
            parties: vec![],
            search: None,
        })
    }
}

#[derive(Default)]
struct FakeClock {
    now: Shared<Duration>,
}

impl Clock for FakeClock {
    fn elapsed(&self) -> Duration {
        self.now.get()
    }

    fn now(&self) -> String {
        format!("{} s", self.now.get().as_secs())
    }
}

#[derive(Default)]
struct Records {
    kept: Vec<TrialRecord>,
    full_after: Option<usize>,
}

impl Audience for Records {
    fn trial_begins(&mut self, _: &Position<'_>) {}

    fn trial_ended(&mut self, _: &Position<'_>, record: &TrialRecord) -> Result<(), StoreError> {
        if self.full_after.is_some_and(|most| self.kept.len() >= most) {
            return Err(StoreError::Io {
                action: "append a record to",
                path: "trials.jsonl".into(),
                source: std::io::ErrorKind::StorageFull.into(),
            });
        }
        self.kept.push(record.clone());
        Ok(())
    }
}

fn scenario(repeat: &str) -> Scenario {
    let text = format!(
        "name = \"s\"\nquestion = \"q\"\n[workload]\nkind = \"tcp-stream\"\n[factors]\n\
         nic = [\"virtio\", \"e1000\"]\nstreams = [1, 4]\n[repeat]\nseed = 1\n{repeat}\n"
    );
    scenario_file::parse("s", &text, &[]).unwrap()
}

fn void(never_ready: bool) -> AttemptEnd {
    AttemptEnd::Void { reason: "r".into(), console_tail: vec![], never_ready }
}

fn run(
    repeat: &str,
    interrupt: &Interrupt,
    records: Records,
    play: impl FnMut(&Cell, usize) -> anyhow::Result<AttemptEnd>,
) -> (RunEnding, Vec<TrialRecord>, Vec<String>) {
    run_at(repeat, interrupt, records, None, play)
}

fn run_at(
    repeat: &str,
    interrupt: &Interrupt,
    mut records: Records,
    bits_per_second: Option<fn(&Cell, usize) -> f64>,
    play: impl FnMut(&Cell, usize) -> anyhow::Result<AttemptEnd>,
) -> (RunEnding, Vec<TrialRecord>, Vec<String>) {
    let scenario = scenario(repeat);
    let plan = Plan::new(&scenario, 1);
    let clock = FakeClock::default();
    let earlier = Earlier::default();
    let mut stage = Script { clock: &clock, attempts: vec![], play, bits_per_second };
    let ending = Schedule {
        plan: &plan,
        repeat: &scenario.repeat,
        block_estimate: Duration::from_secs(12),
        stage: &mut stage,
        audience: &mut records,
        clock: &clock,
        interrupt,
        earlier: &earlier,
        so_far: SoFar::new(&plan, &scenario.repeat, &earlier),
    }
    .run();
    (ending, records.kept, stage.attempts)
}

#[test]
fn measures_every_cell_once_a_block() {
    let (ending, records, _) =
        run("blocks = 3", &Interrupt::default(), Records::default(), |_, _| {
            Ok(AttemptEnd::Completed)
        });
    assert_eq!(ending, RunEnding::Completed);
    assert_eq!(records.len(), 3 * 6);
    assert!(records.iter().enumerate().all(|(i, record)| record.sequence as usize == i));
    assert_eq!(records.iter().filter(|record| record.block == 2).count(), 6);
}

#[test]
fn a_void_trial_is_recorded_and_tried_again_a_bounded_number_of_times() {
    let (ending, records, _) =
        run("blocks = 1\nattempts = 3", &Interrupt::default(), Records::default(), |cell, _| {
            Ok(if cell.id.0 == "virtio/4-streams/to-guest" {
                void(false)
            } else {
                AttemptEnd::Completed
            })
        });
    assert_eq!(ending, RunEnding::Completed);
    let voids: Vec<_> = records.iter().filter(|r| r.outcome != Outcome::Completed).collect();
    assert_eq!(voids.iter().map(|r| r.attempt).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(records.len(), 5 + 3);
}

#[test]
fn a_testbed_that_never_becomes_ready_does_not_hold_up_the_others() {
    let (ending, records, attempts) =
        run("blocks = 5", &Interrupt::default(), Records::default(), |cell, _| {
            let broken = cell.path_name() == "e1000";
            Ok(if broken { void(true) } else { AttemptEnd::Completed })
        });
    assert_eq!(ending, RunEnding::Completed);
    let tried = attempts.iter().filter(|id| id.starts_with("e1000")).count();
    assert_eq!(tried, HOPELESS_AFTER_BLOCKS * 2, "one cell, two attempts, in two blocks");
    assert_eq!(records.iter().filter(|r| r.outcome == Outcome::Completed).count(), 5 * 4);
}

#[test]
fn no_block_is_begun_that_would_not_end_within_the_budget() {
    // A block is 6 trials of 2 s.
    for (budget, blocks) in [("5s", 1), ("23s", 1), ("24s", 2), ("40s", 3)] {
        let repeat = format!("blocks = 9\nbudget = \"{budget}\"");
        let (ending, records, _) =
            run(&repeat, &Interrupt::default(), Records::default(), |_, _| {
                Ok(AttemptEnd::Completed)
            });
        assert_eq!(ending, RunEnding::BudgetUsed);
        assert_eq!(records.len(), blocks * 6, "{budget}");
    }
}

#[test]
fn a_first_interrupt_keeps_the_trial_that_was_running() {
    let interrupt = Interrupt::default();
    let (ending, records, attempts) =
        run("blocks = 3", &interrupt, Records::default(), |_, attempt| {
            if attempt == 4 {
                interrupt.note(SIGINT);
            }
            Ok(AttemptEnd::Completed)
        });
    assert_eq!(ending, RunEnding::Interrupted { signal: "SIGINT".into() });
    assert_eq!((records.len(), attempts.len()), (4, 4));
}

#[test]
fn termination_gives_up_the_trial_that_was_running() {
    let interrupt = Interrupt::default();
    let (ending, records, _) = run("blocks = 3", &interrupt, Records::default(), |_, attempt| {
        if attempt < 4 {
            return Ok(AttemptEnd::Completed);
        }
        interrupt.note(SIGTERM);
        Ok(AttemptEnd::Interrupted)
    });
    assert_eq!(ending, RunEnding::Interrupted { signal: "SIGTERM".into() });
    assert_eq!(records.len(), 3);
}

#[test]
fn a_full_disk_and_a_hopeless_stage_end_the_run_with_their_reason() {
    let records = Records { full_after: Some(2), ..Records::default() };
    let (ending, kept, _) =
        run("blocks = 3", &Interrupt::default(), records, |_, _| Ok(AttemptEnd::Completed));
    assert_eq!(kept.len(), 2);
    assert!(matches!(ending, RunEnding::Failed { message } if message.contains("make room")));
    let (ending, _, _) = run("blocks = 3", &Interrupt::default(), Records::default(), |_, _| {
        Err(anyhow::anyhow!("no lab"))
    });
    assert_eq!(ending, RunEnding::Failed { message: "no lab".into() });
}

#[test]
fn a_run_with_a_goal_ends_when_every_cell_has_settled() {
    let calm: fn(&Cell, usize) -> f64 = |_, _| 1e9;
    let completed = |_: &Cell, _| Ok(AttemptEnd::Completed);
    let repeat = "blocks = 2\ngoal = \"5 %\"";
    let interrupt = Interrupt::default();
    let (ending, records, _) =
        run_at(repeat, &interrupt, Records::default(), Some(calm), completed);
    // Two blocks are not enough for an interval to be believed.
    assert_eq!((ending, records.len()), (RunEnding::Settled, 3 * 6));

    let wild: fn(&Cell, usize) -> f64 =
        |cell, attempt| if cell.is_baseline() { 1e9 } else { 1e9 * (1 + attempt % 7) as f64 };
    let repeat = "blocks = 2\nmost_blocks = 5\ngoal = \"5 %\"";
    let (ending, records, _) =
        run_at(repeat, &interrupt, Records::default(), Some(wild), completed);
    assert_eq!((ending, records.len()), (RunEnding::Completed, 5 * 6));
}

#[test]
fn a_settled_cell_is_left_out_where_the_scenario_says_so_but_no_baseline_is() {
    let wild: fn(&Cell, usize) -> f64 = |cell, attempt| {
        if cell.id.0 == "virtio/4-streams/to-guest" { 1e9 * (1 + attempt % 7) as f64 } else { 1e9 }
    };
    let repeat = "blocks = 3\nmost_blocks = 6\ngoal = \"5 %\"\nstop_settled = true";
    let completed = |_: &Cell, _| Ok(AttemptEnd::Completed);
    let (ending, records, _) =
        run_at(repeat, &Interrupt::default(), Records::default(), Some(wild), completed);
    assert_eq!(ending, RunEnding::Completed);
    let times = |id: &str| records.iter().filter(|record| record.cell.0 == id).count();
    assert_eq!(times("virtio/4-streams/to-guest"), 6);
    assert_eq!(times("e1000/1-stream/to-guest"), 3);
    assert_eq!([times("baseline/1-stream/to-guest"), times("baseline/4-streams/to-guest")], [6, 6]);
}
