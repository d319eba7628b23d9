//! Trials at whose ends others used the physical cores.

use super::*;

/// A machine whose cores are as slow, around each attempt, as it is told.
struct Machine<F> {
    slowdown: F,
    attempts: usize,
}

impl<F: FnMut(usize) -> f64> Stage for Machine<F> {
    fn attempt(&mut self, _: &Cell) -> anyhow::Result<Attempt> {
        let slowdown_after = Some((self.slowdown)(self.attempts));
        self.attempts += 1;
        let core_speed = CoreSpeed { slowdown_before: 1.02, slowdown_after, waited_ms: 30 };
        Ok(Attempt {
            end: AttemptEnd::Completed,
            guest: None,
            core_speed: Some(core_speed),
            storage: None,
            timeline: None,
            parties: vec![],
            search: None,
        })
    }
}

/// The records of two blocks of two cells; some of them may be there already.
fn measured(
    load: &str,
    undisturbed: bool,
    stored: &[TrialRecord],
    slowdown: impl FnMut(usize) -> f64,
) -> Vec<TrialRecord> {
    let text = format!(
        "name = \"s\"\nquestion = \"q\"\n[workload]\nkind = \"tcp-stream\"\n{load}\n[factors]\n\
         streams = [1, 4]\n[repeat]\nblocks = 2\nundisturbed = {undisturbed}\n"
    );
    let scenario = scenario_file::parse("s", &text, &[]).unwrap();
    let plan = Plan::new(&scenario, 1);
    let mut earlier = Earlier::default();
    stored.iter().for_each(|record| earlier.add(&plan, record));
    let mut records = Records::default();
    let ending = Schedule {
        plan: &plan,
        repeat: &scenario.repeat,
        block_estimate: Duration::from_secs(12),
        stage: &mut Machine { slowdown, attempts: stored.len() },
        audience: &mut records,
        clock: &FakeClock::default(),
        interrupt: &Interrupt::default(),
        earlier: &earlier,
        so_far: SoFar::new(&plan, &scenario.repeat, &earlier),
    }
    .run();
    assert_eq!(ending, RunEnding::Completed);
    stored.iter().cloned().chain(records.kept).collect()
}

const SHORT: &str = "duration = \"1s\"";

fn counted(records: &[TrialRecord]) -> Vec<u32> {
    let counts = |record: &&TrialRecord| record.outcome == Outcome::Completed;
    records.iter().filter(counts).map(|record| record.attempt).collect()
}

#[test]
fn a_disturbed_trial_is_kept_and_measured_again() {
    let noisy = |attempt| if attempt % 3 == 0 { 2.0 } else { 1.1 };
    let records = measured(SHORT, true, &[], noisy);
    assert_eq!(counted(&records), [2, 1, 2, 1]);
    assert_eq!(records.len(), 6);
    assert_eq!(records[0].outcome, Outcome::Disturbed);
    assert!(records.iter().zip(0..).all(|(record, sequence)| record.sequence == sequence));
}

#[test]
fn the_last_try_counts_whatever_it_is() {
    let records = measured(SHORT, true, &[], |_| 2.0);
    assert_eq!(counted(&records), [4, 4, 2, 1]);
}

#[test]
fn nothing_is_measured_again_where_nobody_asks_for_it_or_trials_are_long() {
    assert_eq!(counted(&measured(SHORT, false, &[], |_| 2.0)), [1, 1, 1, 1]);
    assert_eq!(counted(&measured("duration = \"30s\"", true, &[], |_| 2.0)), [1, 1, 1, 1]);
}

#[test]
fn a_run_that_is_resumed_goes_on_counting() {
    let noisy = |attempt| if attempt % 3 == 2 { 1.0 } else { 2.0 };
    let whole = measured(SHORT, true, &[], noisy);
    assert_eq!(counted(&whole), [3, 3, 3, 2]);
    for stored in 1..whole.len() {
        assert_eq!(counted(&measured(SHORT, true, &whole[..stored], noisy)), [3, 3, 3, 2]);
    }
}

#[test]
fn a_machine_that_is_never_quiet_is_not_asked_for_ever() {
    let mut disturbances = Disturbances::default();
    let plan = Plan::new(&scenario("blocks = 1"), 1);
    let mut cell = plan.cells[0].clone();
    cell.workload.duration = vioperf_model::units::TimeSpan::from_millis(400);
    let mut record = measured(SHORT, false, &[], |_| 2.0).swap_remove(0);
    let mut repeated = 0;
    for _ in 0..60 {
        let again = disturbances.ask_for_another(&cell, 0);
        repeated += u32::from(again);
        record.outcome = if again { Outcome::Disturbed } else { Outcome::Completed };
        disturbances.note(&record);
    }
    assert_eq!((repeated, disturbances.counted()), (24, 36));
}
