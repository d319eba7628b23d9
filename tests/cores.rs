//! Which cores a lab's threads run on, and whether somebody else used them.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test program")]

mod support;

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;
use support::world::{SHORT, World};

fn stored(world: &World, file: &str) -> String {
    fs::read_to_string(world.path("here/run").join(file)).unwrap()
}

/// The cores that each thread of a process may use, by the thread's name.
fn cores_of_threads(pid: i32) -> BTreeMap<String, String> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let read = |thread: fs::DirEntry| {
        let status = fs::read_to_string(thread.path().join("status")).ok()?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            Some(line?.trim().to_owned())
        };
        Some((field("Name:")?, field("Cpus_allowed_list:")?))
    };
    threads.flatten().filter_map(read).collect()
}

/// A run with that placement, which succeeds, and what QEMU's threads could use during its trial.
fn qemu_in_a_run(placement: &str) -> (World, BTreeMap<String, String>) {
    let world = World::new();
    let placement = format!("--set=testbed.placement={placement}");
    let mut run = world.start(&[SHORT, &["--out=run", &placement]].concat());
    let qemu = run.until_in_trial(None);
    let threads = cores_of_threads(qemu.as_raw());
    assert_eq!(run.ends().code, Some(0));
    (world, threads)
}

fn listed(cores: &Value) -> Vec<u64> {
    cores.as_array().unwrap().iter().map(|core| core.as_u64().unwrap()).collect()
}

#[test]
fn virtual_cpus_have_cores_of_their_own_and_the_report_says_which() {
    let (world, threads) = qemu_in_a_run("apart");
    let info: Value = serde_json::from_str(&stored(&world, "run.json")).unwrap();
    let [near, others] = ["near", "others"].map(|part| listed(&info["placement"][part]));
    let all = std::thread::available_parallelism().unwrap().get();
    assert!(all == 1 || near.iter().all(|core| !others.contains(core)), "{near:?} {others:?}");
    assert_eq!(near.len() + others.len(), all.max(2));
    let virtual_cpus: Vec<&str> = threads
        .iter()
        .filter(|(name, _)| name.starts_with("CPU "))
        .map(|(_, cores)| cores.as_str())
        .collect();
    let expected: Vec<String> = near.iter().map(u64::to_string).collect();
    assert_eq!(virtual_cpus, expected, "{threads:?}");
    let main_loop = threads.iter().find(|(name, _)| name.starts_with("qemu-system")).unwrap();
    if let [only] = others[..] {
        assert_eq!(*main_loop.1, only.to_string());
    } else {
        assert!(!virtual_cpus.contains(&main_loop.1.as_str()));
    }
    let report = world.vioperf(&["report", "run", "--format=markdown"]).succeeded().stdout;
    assert!(report.contains(" for the guest's virtual CPUs, "), "{report}");
}

#[test]
fn the_scheduler_is_left_alone_where_nobody_says_otherwise() {
    let (world, threads) = qemu_in_a_run("free");
    let own = cores_of_threads(std::process::id().cast_signed());
    let all = own.values().next().unwrap();
    assert!(threads.values().all(|cores| cores == all), "{threads:?}");
    assert!(!stored(&world, "run.json").contains("\"placement\": {"));
}

#[test]
fn every_trial_tells_how_fast_the_cores_were_and_those_that_count_are_a_plan_s() {
    let world = World::new();
    world.vioperf(&[SHORT, &["--out=run", "--set=undisturbed=true"]].concat()).succeeded();
    let mut counted = Vec::new();
    for line in stored(&world, "trials.jsonl").lines() {
        let trial: Value = serde_json::from_str(line).unwrap();
        let speed = &trial["core_speed"];
        let slowdowns = ["slowdown_before", "slowdown_after"].map(|end| speed[end].as_f64());
        assert!(slowdowns.iter().all(|slowdown| slowdown.unwrap() >= 1.0), "{speed}");
        let disturbed = slowdowns.iter().any(|slowdown| slowdown.unwrap() >= 1.25);
        match trial["outcome"]["result"].as_str().unwrap() {
            "disturbed" => assert!(disturbed, "{trial}"),
            "completed" => counted.push(trial["cell"].as_str().unwrap().to_owned()),
            other => panic!("{other}: {trial}"),
        }
    }
    counted.sort();
    assert_eq!(counted, ["baseline/1-stream/to-guest", "virtio/1-stream/to-guest"]);
}
