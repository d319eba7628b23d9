//! `vioperf calibrate`: what can be exact is, the verdict and the exit code follow from the readings, and a
//! later run cites what was stored. How near readings come to a rate or a delay is the machine's affair.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test program")]

mod support;

use std::fs;

use serde_json::Value;
use support::vioperf;
use support::world::World;

fn calibrated(world: &World) -> Value {
    let path = world.text("here/calibration.json");
    let arguments = ["calibrate", "--quick", "--quiet", "--format=json", "--out", path.as_str()];
    let finished = world.vioperf(&arguments);
    let calibration: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let right =
        calibration["checks"].as_array().unwrap().iter().all(|check| check["passed"] == true);
    assert_eq!(finished.code, Some(if right { 0 } else { 6 }), "{finished:#?}");
    calibration
}

/// The numbers of a check, and whether its verdict is what they say.
fn judged(check: &Value) -> [f64; 2] {
    let number = |key: &str| check[key].as_f64().unwrap();
    let (truth, reading) = (number("truth"), number("reading"));
    let within = (number("allowed_low")..=number("allowed_high")).contains(&reading);
    assert_eq!(check["passed"], within, "{check}");
    [truth, reading]
}

#[test]
fn what_is_planted_is_read_stored_and_cited() {
    let world = World::new();
    let calibration = calibrated(&world);
    let checks = calibration["checks"].as_array().unwrap();
    let all = |area: &'static str| checks.iter().filter(move |check| check["area"] == area);
    for area in ["rate", "counts", "loss", "delay", "cpu"] {
        assert!(all(area).count() > 0, "no check of {area}: {calibration:#}");
    }
    // Sender, receiver and port, on the host and with a guest.
    assert_eq!(all("counts").count(), 6);
    for check in all("counts") {
        let [truth, reading] = judged(check);
        assert!(truth > 500.0 && (truth - reading).abs() < 0.5, "{check}");
    }
    let dropped =
        all("loss").find(|check| check["what"].as_str().unwrap().contains("of those dropped"));
    let [truth, reading] = judged(dropped.unwrap());
    assert!(truth > 50.0 && (truth - reading).abs() < 0.5, "{dropped:?}");
    for check in checks {
        judged(check);
    }
    let floor = &calibration["noise_floor"];
    assert!(floor["throughput"]["mean"].as_f64().unwrap() > 1e6, "{floor}");
    assert!(floor["latency_p50_us"]["standard_deviation"].as_f64().unwrap() >= 0.0, "{floor}");

    let folder = world.path("home/.local/state/vioperf/calibrations");
    let stored: Vec<_> = fs::read_dir(folder).unwrap().flatten().collect();
    assert_eq!(stored.len(), 1);
    let stored: Value = serde_json::from_slice(&fs::read(stored[0].path()).unwrap()).unwrap();
    assert_eq!(stored, calibration);

    // A run without guests: the host's part holds for it.
    let options = ["--blocks=1", "--set=duration=200ms", "--set=warmup=50ms", "--set=streams=1"];
    let run = ["run", "nic-models", "--set=nic=[]", "--quiet", "--out=run"];
    let arguments: Vec<&str> = run.iter().chain(&options).copied().collect();
    world.vioperf(&arguments).succeeded();
    let report = world.vioperf(&["report", "run", "--format=markdown"]).succeeded();
    assert!(report.stdout.contains("calibrated here on 20"), "{}", report.stdout);
    let info: Value =
        serde_json::from_slice(&fs::read(world.path("here/run/run.json")).unwrap()).unwrap();
    assert_eq!(info["calibration"]["made_at"], calibration["made_at"]);
}

#[test]
fn a_machine_that_was_never_calibrated_is_told_so() {
    let world = World::new();
    let arguments = [
        "run",
        "nic-models",
        "--set=nic=[]",
        "--blocks=1",
        "--set=duration=200ms",
        "--quiet",
        "--out=run",
    ];
    world.vioperf(&arguments).succeeded();
    let report = world.vioperf(&["report", "run", "--format=markdown"]).succeeded();
    assert!(report.stdout.contains("not calibrated here"), "{}", report.stdout);
}

#[test]
fn the_help_says_what_is_needed_and_the_schema_is_there() {
    let help = vioperf(&["calibrate", "--help"]).succeeded();
    for word in ["nft", "--quick", "Exit code 6"] {
        assert!(help.stdout.contains(word), "no {word} in {}", help.stdout);
    }
    let schema = vioperf(&["schema", "calibration"]).succeeded();
    let schema: Value = serde_json::from_str(&schema.stdout).unwrap();
    assert!(schema["properties"]["noise_floor"].is_object(), "{schema}");
}
