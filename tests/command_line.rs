//! The command line: what needs no lab, and every kind of bad input.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::fs;

use support::{vioperf, write};

const SCENARIO: &str = "name = \"short\"\nquestion = \"Which?\"\n\n[workload]\n\
    kind = \"tcp-stream\"\nduration = \"300ms\"\n\n[factors]\nnic = [\"virtio\"]\n";

#[test]
fn scenarios_tells_what_each_answers() {
    let listed = vioperf(&["scenarios"]).succeeded().stdout;
    assert!(listed.contains("nic-models\n  How much of the host's own network path"), "{listed}");
    let json = vioperf(&["scenarios", "--json"]).succeeded().stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let names: Vec<&str> =
        json.as_array().unwrap().iter().filter_map(|scenario| scenario["name"].as_str()).collect();
    assert!(names.contains(&"nic-models"), "{names:?}");
}

#[test]
fn plan_shows_cells_order_and_time_and_repeats_by_seed() {
    let arguments = ["plan", "nic-models", "--seed", "7"];
    let plan = vioperf(&arguments).succeeded().stdout;
    assert!(plan.contains("32 cells x 3 to 20 blocks until settled within ± 5 %"), "{plan}");
    assert!(plan.contains("about"), "{plan}");
    assert_eq!(plan, vioperf(&arguments).succeeded().stdout);
    assert_ne!(plan, vioperf(&["plan", "nic-models", "--seed", "8"]).succeeded().stdout);
}

#[test]
fn plan_takes_changes_from_the_command_line() {
    let plan = vioperf(&[
        "plan",
        "nic-models",
        "--set",
        "nic=pcnet",
        "--set",
        "streams=1",
        "--blocks",
        "5",
    ]);
    let plan = plan.succeeded().stdout;
    assert!(plan.contains("4 cells x 5 blocks = 20 trials"), "{plan}");
}

#[test]
fn bad_scenarios_get_their_place_and_the_nearest() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("s.toml");
    let path = file.to_str().unwrap();
    for (from, to, words) in [
        ("duration", "durration", ["s.toml:6:1:", "did you mean `duration`?"]),
        ("virtio", "virtoi", ["s.toml:9:8:", "did you mean `virtio`?"]),
        ("300ms", "300 parsecs", ["s.toml:6:12:", "is not a time"]),
        ("300ms", "1ms", ["s.toml:6:12: `workload.duration`", "too short"]),
        ("[factors]", "[factors", ["s.toml:8:", "unclosed"]),
    ] {
        write(&file, &SCENARIO.replacen(from, to, 1));
        vioperf(&["plan", path]).failed_with(2, &words);
    }
    vioperf(&["plan", "nic-model"]).failed_with(2, &["did you mean `nic-models`?"]);
    vioperf(&["plan", "nowhere/s.toml"]).failed_with(2, &["nowhere/s.toml"]);
    vioperf(&["plan", "nic-models", "--set", "blocs=4"])
        .failed_with(2, &["did you mean `repeat.blocks`?"]);
    vioperf(&["plan", "nic-models", "--set", "nic=virtoi"])
        .failed_with(2, &["--set nic=virtoi", "did you mean `virtio`?"]);
    vioperf(&["plan", "nic-models", "--blocks", "0"]).failed_with(2, &["--blocks 0"]);
}

#[test]
fn run_directories_that_are_none_damaged_or_newer_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    vioperf(&["report", path]).failed_with(1, &["holds no run"]);
    write(&folder.path().join("run.json"), "{\"schema_version\": 1, ");
    vioperf(&["report", path]).failed_with(1, &["run.json is damaged"]);
    write(&folder.path().join("run.json"), "{\"schema_version\": 99}");
    vioperf(&["report", path]).failed_with(1, &["newer vioperf", "99"]);
}

#[test]
fn schemas_completions_and_man_pages_are_made() {
    for of in ["scenario", "run", "trial", "report", "compare"] {
        let schema = vioperf(&["schema", of]).succeeded().stdout;
        let schema: serde_json::Value = serde_json::from_str(&schema).unwrap();
        assert!(schema["properties"].is_object(), "{of}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let completions = vioperf(&["completions", shell]).succeeded().stdout;
        assert!(completions.contains("budget"), "{shell}: {completions}");
    }
    let folder = tempfile::tempdir().unwrap();
    vioperf(&["man", folder.path().to_str().unwrap()]).succeeded();
    assert!(fs::read_to_string(folder.path().join("vioperf-run.1")).unwrap().contains("budget"));
}
