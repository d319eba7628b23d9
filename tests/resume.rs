//! A run that was stopped in earnest goes on: same plan, same order, nothing lost, nothing twice.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test program")]

mod support;

use std::fs;
use std::path::PathBuf;

use nix::sys::signal::Signal;
use serde_json::Value;
use support::world::World;
use support::write;

/// Two cells in six blocks.
const REPEATED: &str = "[factors]\nstreams = [1, 2]\n[repeat]\nblocks = 6\nseed = 5\n";

const TRIALS: usize = 12;

fn world() -> World {
    World::with_baselines(REPEATED)
}

fn run_file(world: &World, run: &str) -> Value {
    let text = fs::read(world.path("here").join(run).join("run.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

fn trials_file(world: &World, run: &str) -> PathBuf {
    world.path("here").join(run).join("trials.jsonl")
}

/// Block, cell, attempt and number of every record, and whether it counts.
fn order(world: &World, run: &str) -> Vec<[String; 5]> {
    let text = fs::read_to_string(trials_file(world, run)).unwrap();
    let of = |line: &str| {
        let record: Value = serde_json::from_str(line).unwrap();
        ["sequence", "block", "cell", "attempt", "outcome"].map(|key| record[key].to_string())
    };
    text.lines().map(of).collect()
}

fn started_after_ms(world: &World, run: &str) -> Vec<u64> {
    let text = fs::read_to_string(trials_file(world, run)).unwrap();
    let of = |line: &str| {
        serde_json::from_str::<Value>(line).unwrap()["started_after_ms"].as_u64().unwrap()
    };
    text.lines().map(of).collect()
}

#[test]
fn a_run_that_was_killed_goes_on_as_if_it_had_not_been() {
    let world = world();
    world.vioperf(&["run", "baselines.toml", "--out=whole"]).succeeded();
    assert_eq!(order(&world, "whole").len(), TRIALS);

    let mut run = world.start(&["run", "baselines.toml", "--out=cut"]);
    run.until("[  4/12]");
    // Nobody else may write there meanwhile.
    world.vioperf(&["run", "--resume=cut"]).failed_with(2, &["another vioperf is writing"]);
    run.signal(Signal::SIGKILL);
    run.ends();
    assert_eq!(run_file(&world, "cut")["ended"], Value::Null);
    // As if it had been writing: half a record.
    let whole = fs::read(trials_file(&world, "cut")).unwrap();
    fs::write(trials_file(&world, "cut"), &whole[..whole.len() - 100]).unwrap();
    let before = whole.iter().filter(|&&byte| byte == b'\n').count() - 1;

    let mut run = world.start(&["run", "--resume", "cut"]);
    run.until("[  8/12]");
    run.signal(Signal::SIGINT);
    let interrupted = run.ends();
    assert_eq!(interrupted.code, Some(130), "{interrupted:#?}");
    for words in ["cut off", "it was killed", "to go on: vioperf run --resume cut"] {
        assert!(interrupted.stderr.contains(words), "no `{words}` in {}", interrupted.stderr);
    }

    let finished = world.vioperf(&["run", "--resume", "cut"]).succeeded();
    assert!(finished.stderr.contains("interrupted by SIGINT"), "{}", finished.stderr);
    assert_eq!(order(&world, "cut"), order(&world, "whole"));
    let (cut, whole) = (run_file(&world, "cut"), run_file(&world, "whole"));
    for same in ["plan", "scenario", "scenario_origin", "left_out"] {
        assert_eq!(cut[same], whole[same], "{same}");
    }
    assert_eq!(
        (&cut["ended"]["how"], &whole["ended"]["how"]),
        (&"completed".into(), &"completed".into())
    );
    let sittings = cut["resumed"].as_array().unwrap();
    assert_eq!(sittings.len(), 2);
    assert_eq!(
        (&sittings[0]["stopped"], &sittings[0]["first_sequence"]),
        (&Value::Null, &before.into())
    );
    assert_eq!(sittings[1]["stopped"]["how"], "interrupted");
    assert!(started_after_ms(&world, "cut").is_sorted());

    // Now nothing is left, and the report is what it was.
    let stored = fs::read(trials_file(&world, "cut")).unwrap();
    let again = world.vioperf(&["run", "--resume", "cut"]).succeeded();
    assert!(again.stderr.contains("nothing is left to measure"), "{}", again.stderr);
    assert_eq!(again.stdout, finished.stdout);
    assert_eq!(fs::read(trials_file(&world, "cut")).unwrap(), stored);
    assert_eq!(run_file(&world, "cut"), cut);
}

#[test]
fn a_used_up_budget_is_said_and_a_larger_one_goes_on() {
    let world = world();
    world.vioperf(&["run", "baselines.toml", "--budget=1s", "--out=run"]).succeeded();
    let few = order(&world, "run").len();
    assert!(few < TRIALS, "{few}");
    let used = world.vioperf(&["run", "--resume=run"]).succeeded();
    assert!(used.stderr.contains("a larger --budget goes on"), "{}", used.stderr);
    assert_eq!(order(&world, "run").len(), few);
    world.vioperf(&["run", "--resume=run", "--budget=10m"]).succeeded();
    assert_eq!(order(&world, "run").len(), TRIALS);
}

#[test]
fn what_would_make_another_run_of_it_is_refused() {
    let world = world();
    world.vioperf(&["run", "baselines.toml", "--budget=1s", "--out=run"]).succeeded();
    let resume =
        |more: &[&str]| world.vioperf(&[&["run", "--resume=run", "--budget=10m"], more].concat());
    for option in ["--blocks=9", "--seed=1", "--set=streams=4", "--out=other", "--goal=5%"] {
        let name = option.split('=').next().unwrap();
        resume(&[option]).failed_with(2, &[name, "all trials are of one plan"]);
    }
    resume(&["baselines.toml"]).failed_with(2, &["leave out a scenario"]);
    world.vioperf(&["run", "--resume=nothing"]).failed_with(2, &["holds no run"]);
    world.vioperf(&["run"]).failed_with(2, &["SCENARIO"]);

    // Another machine, as far as run.json knows.
    let mut info = run_file(&world, "run");
    info["host"]["kernel_release"] = "2.6.32".into();
    write(&world.path("here/run/run.json"), &info.to_string());
    let few = order(&world, "run").len();
    resume(&[]).failed_with(3, &["host kernel: 2.6.32 → ", "--resume-anyway"]);
    assert_eq!(order(&world, "run").len(), few);
    assert_eq!(run_file(&world, "run"), info);
    let mixed = resume(&["--resume-anyway"]).succeeded();
    assert_eq!(order(&world, "run").len(), TRIALS);
    assert!(mixed.stdout.contains("was no more as it was"), "{}", mixed.stdout);
}
