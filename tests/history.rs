//! Runs enter themselves in the history, are listed, and are held against each other over time.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test program")]

mod support;

use std::fs;

use nix::sys::signal::Signal;
use serde_json::Value;
use support::past::Past;
use support::world::World;
use support::write;

#[test]
fn a_change_of_level_is_told_with_what_changed_there() {
    let past = Past::new();
    let names: Vec<String> = (1..=18).map(|day| format!("run-{day}")).collect();
    for (day, name) in (1..).zip(&names) {
        let (kernel, rate) = if day <= 10 { ("6.1.0", 1e9) } else { ("6.12.0", 1.5e9) };
        past.store(name, day, kernel, rate * (1.0 + (day % 3) as f64 / 100.0));
    }
    // In any order, and some again.
    let mut order: Vec<&str> = names.iter().rev().map(String::as_str).collect();
    order.extend(["run-3", "run-4"]);
    past.vioperf(&[&["history", "add"], &order[..]].concat()).succeeded();
    let runs = past.json(&["history"]);
    assert_eq!(runs.as_array().unwrap().len(), 18);
    assert_eq!(runs[0]["started_at"], "2026-01-18T03:04:05.000Z");
    assert_eq!(past.json(&["history", "--limit=5"]).as_array().unwrap().len(), 5);
    assert_eq!(
        past.json(&["history", "--since=2026-01-17T00:00:00Z"]).as_array().unwrap().len(),
        2
    );

    for metric in ["headline", "receiver_bits_per_second", "percent_of_baseline"] {
        let trends = past.json(&["trend", metric, "--cell", "*/to-guest"]);
        for trend in trends.as_array().unwrap() {
            let is_baseline = trend["cell"].as_str().unwrap().starts_with("baseline");
            assert_eq!(trend["points"].as_array().unwrap().len(), 18);
            let changes = trend["changes"].as_array().unwrap();
            assert_eq!(changes.len(), usize::from(!is_baseline), "{metric}: {changes:?}");
            if let Some(change) = changes.first() {
                assert_eq!(change["at"], 10);
                assert!((change["percent"].as_f64().unwrap() - 50.0).abs() < 2.0, "{change}");
                assert_eq!(change["provenance"][0], "host kernel: 6.1.0 → 6.12.0");
                assert_eq!(change["provenance"].as_array().unwrap().len(), 1);
            }
        }
        assert!(!trends.as_array().unwrap().is_empty(), "{metric}");
    }
    for format in ["terminal", "markdown", "csv"] {
        let shown = past.vioperf(&["trend", "headline", "--format", format]).succeeded().stdout;
        assert!(shown.contains("6.1.0 → 6.12.0"), "{format}: {shown}");
    }
    past.vioperf(&["trend", "percent_of_base"])
        .failed_with(2, &["did you mean `percent_of_baseline`"]);
}

#[test]
fn what_is_gone_is_marked_and_can_be_forgotten() {
    let past = Past::new();
    past.store("a", 1, "6.1", 1e9);
    past.store("b", 2, "6.1", 1e9);
    past.vioperf(&["history", "add", "a", "b"]).succeeded();
    fs::remove_dir_all(past.folder.path().join("a")).unwrap();
    let list = past.vioperf(&["history"]).succeeded().stdout;
    assert_eq!(list.matches("(gone)").count(), 1, "{list}");
    past.vioperf(&["history", "forget", "--gone"]).succeeded();
    let left = past.json(&["history"]);
    assert_eq!(left.as_array().unwrap().len(), 1);
    assert!(left[0]["directory"].as_str().unwrap().ends_with("/b"));
    let id = left[0]["id"].as_str().unwrap();
    past.vioperf(&["history", "forget", "nonsense"]).failed_with(2, &["`nonsense`"]);
    past.vioperf(&["history", "forget", &id[..6]]).succeeded();
    assert!(past.json(&["history"]).as_array().unwrap().is_empty());
    assert!(past.folder.path().join("b/run.json").exists());
    past.vioperf(&["history", "add", "a"]).failed_with(1, &["holds no run"]);
}

fn listed(world: &World) -> Vec<Value> {
    let done = world.vioperf(&["history", "--format=json"]).succeeded();
    serde_json::from_str(&done.stdout).unwrap()
}

#[test]
fn a_run_enters_itself_however_it_ends_unless_it_is_told_not_to() {
    let world = World::with_baselines("[repeat]\nblocks = 4\n");
    world.vioperf(&["run", "baselines.toml", "--out=no", "--no-history"]).succeeded();
    let mut command = world.command(&["run", "baselines.toml", "--out=never"]);
    command.env("VIOPERF_NO_HISTORY", "1");
    support::running::Run::start(command).ends().succeeded();
    assert_eq!(listed(&world).len(), 0);

    let mut run = world.start(&["run", "baselines.toml", "--out=run"]);
    run.until("[  2/4]");
    run.signal(Signal::SIGINT);
    assert_eq!(run.ends().code, Some(130));
    let entered = listed(&world);
    assert_eq!((entered.len(), &entered[0]["ending"]), (1, &"interrupted".into()));
    assert_eq!(entered[0]["directory"], world.text("here/run"));
    world.vioperf(&["run", "--resume=run"]).succeeded();
    let resumed = listed(&world);
    assert_eq!((resumed.len(), &resumed[0]["ending"]), (1, &"completed".into()));
    assert_eq!(resumed[0]["id"], entered[0]["id"]);
    assert_eq!(resumed[0]["trials_completed"], 4);
    assert!(!resumed[0]["host"].as_str().unwrap().is_empty());

    // That there can be no history is no reason to fail.
    fs::remove_dir_all(world.path("home/.local")).unwrap();
    write(&world.path("home/.local"), "a file");
    let without = world.vioperf(&["run", "baselines.toml", "--out=without"]).succeeded();
    assert!(without.stderr.contains("the run is not in the history"), "{}", without.stderr);
}
