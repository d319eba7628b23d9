//! Variants of a scenario, measured in turn in one run, with guests that really differ.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test program")]

mod support;

use std::fs;

use serde_json::Value;
use support::vioperf;
use support::world::World;

const SMALL: [&str; 6] = [
    "--set=nic=virtio",
    "--set=streams=1",
    "--set=direction=to-guest",
    "--set=duration=300ms",
    "--set=warmup=100ms",
    "--set=undisturbed=false",
];

fn run(world: &World, options: &[&str]) -> Vec<Value> {
    let head = ["run", "nic-models", "--seed=3", "--out=run"];
    let arguments: Vec<&str> = head.iter().chain(&SMALL).chain(options).copied().collect();
    world.vioperf(&arguments).succeeded();
    let trials = fs::read_to_string(world.path("here/run/trials.jsonl")).unwrap();
    trials.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn guest(trial: &Value) -> Option<&Value> {
    trial["parties"].as_array().unwrap().iter().find(|party| party["place"] == "guest")
}

#[test]
fn guests_are_what_their_variant_says_and_follow_each_other() {
    let world = World::new();
    let trials = run(
        &world,
        &[
            "--blocks=2",
            "--variant=plain",
            "--variant=cut:offloads.gro=off",
            // Without it a virtio NIC has no receive side that merges buffers, nor GRO by the device.
            "--variant=cut:device_options.guest_tso4=off",
            "--variant=cut:device_options.guest_tso6=off",
        ],
    );
    let mut order = Vec::new();
    for trial in &trials {
        assert_eq!(trial["outcome"]["result"], "completed", "{}", trial["outcome"]);
        let Some(guest) = guest(trial) else { continue };
        let is_plain = trial["cell"].as_str().unwrap().starts_with("virtio/plain/");
        let offloads = &guest["interface"]["offloads"];
        assert_eq!(offloads["rx-gro"], is_plain, "{}: {offloads}", trial["cell"]);
        assert_eq!(offloads["rx-gro-hw"], is_plain, "{}: {offloads}", trial["cell"]);
        order.push(is_plain);
    }
    assert_eq!(order.len(), 4);
    assert_ne!(order[0], order[1]);
    assert_ne!(order[2], order[3]);
    let report = world.vioperf(&["report", "run"]).succeeded().stdout;
    assert!(report.contains("virtio cut") && report.contains("virtio plain"), "{report}");
}

#[test]
fn variants_of_the_testbed_have_baselines_of_their_own() {
    let world = World::new();
    let trials = run(
        &world,
        &["--blocks=1", "--variant=slow:rate=20 Mbit/s", "--variant=fast:testbed.rate=40 Mbit/s"],
    );
    assert_eq!(trials.len(), 4);
    let report = world.vioperf(&["report", "run", "--format=json"]).succeeded();
    let report: Value = serde_json::from_str(&report.stdout).unwrap();
    for cell in report["cells"].as_array().unwrap() {
        let rate = cell["receiver_bits_per_second"]["summary"]["mean"].as_f64().unwrap();
        let slow = cell["variant"]["name"] == "slow";
        // Over 300 ms one read of 64 KiB that had waited when they began is 1.7 Mbit/s.
        let most = if slow { 25e6 } else { 45e6 };
        assert!(rate < most && rate > 5e6, "{}: {rate}", cell["id"]);
    }
}

#[test]
fn what_no_device_and_no_driver_has_is_refused_before_anything_is_touched() {
    let variants = [
        "--variant=a:device_options.warp=on",
        "--variant=b:driver_options.virtio_net=nap=0",
        "--variant=b:driver_options.e1000=debug=1",
    ];
    let arguments: Vec<&str> =
        ["run", "nic-models"].iter().chain(&SMALL).chain(&variants).copied().collect();
    let refused = vioperf(&arguments);
    assert_ne!(refused.code, Some(0));
    for word in ["no property `warp`", "does not take `nap`", "loads that module"] {
        assert!(refused.stderr.contains(word), "{word}: {}", refused.stderr);
    }
}

#[test]
fn the_plan_names_the_variants() {
    let shown = vioperf(&["plan", "nic-models", "--set=nic=e1000", "--variant=a", "--variant=b"]);
    let text = shown.succeeded().stdout;
    assert!(text.contains("e1000/a/1-stream/to-guest"), "{text}");
    let alone = vioperf(&["plan", "nic-models", "--variant=a"]);
    assert!(alone.stderr.contains("2 to 8 variants"), "{}", alone.stderr);
}
