//! fio in the place of our own engine: on the host and in a guest it reads and writes the same file, what is recorded is
//! what it tells, what it means otherwise is left out, and nothing is left of it.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test program")]

mod support;

use std::collections::BTreeMap;
use std::fs;

use nix::sys::signal::Signal;
use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use serde_json::Value;
use support::world::World;

/// A load of a disk by fio; its bytes are in a directory of the world.
fn scenario(world: &World, workload: &str, factors: &str) {
    let directory = world.text("disks");
    fs::create_dir_all(&directory).unwrap();
    let text = format!(
        "name = \"engines\"\nquestion = \"Who reads?\"\n[testbed.storage]\ndirectory = {directory:?}\n\
         [guest]\nmemory = \"512 MiB\"\n[workload]\nkind = \"disk\"\nduration = \"1 s\"\nwarmup = \"200ms\"\n\
         file_size = \"8 MiB\"\n{workload}\n[factors]\n{factors}\n[repeat]\nblocks = 1\n"
    );
    support::write(&world.path("here/engines.toml"), &text);
}

/// The end of a trial that reads and writes.
fn end_of(trial: &Value) -> &Value {
    let parties = trial["parties"].as_array().unwrap();
    &parties.iter().find(|party| party["role"]["role"] == "disk").unwrap()["report"]
}

fn sum(values: &Value, of: &str) -> u64 {
    values.as_array().unwrap().iter().map(|value| value[of].as_u64().unwrap()).sum()
}

/// Operations in a histogram.
fn counted(histogram: &Value) -> u64 {
    histogram["buckets"].as_array().unwrap().iter().map(|bucket| bucket[1].as_u64().unwrap()).sum()
}

/// Bytes that the host's block devices moved from the first sample of them to the last.
fn moved_by_devices(trial: &Value) -> u64 {
    let parties = trial["parties"].as_array().unwrap();
    let host = parties.iter().find(|party| party["place"] == "host").unwrap();
    let layers = host["report"]["layers"].as_array().unwrap();
    let bytes = |sample: &Value| {
        let devices = sample["disks"].as_object().unwrap();
        let moved = |device: &Value| {
            device["bytes_read"].as_u64().unwrap() + device["bytes_written"].as_u64().unwrap()
        };
        devices.values().map(moved).sum::<u64>()
    };
    bytes(layers.last().unwrap()) - bytes(&layers[0])
}

#[test]
fn fio_reads_and_writes_on_the_host_and_in_a_guest_and_is_told_as_it_tells() {
    let world = World::new();
    let factors = "disk = \"virtio-blk\"\nengine = [\"vioperf\", \"fio\"]\nrandom_share = [\"0 %\", \"100 %\"]";
    scenario(&world, "read_share = \"67 %\"\nqueue_depth = 4", factors);
    let finished = world.vioperf(&["run", "engines.toml", "--seed=3", "--out=run"]).succeeded();
    assert!(finished.stderr.contains("engine fio"), "{}", finished.stderr);
    assert!(finished.stderr.contains("a place for reads and another for writes"));
    let trials = fs::read_to_string(world.path("here/run/trials.jsonl")).unwrap();
    let trials: BTreeMap<String, Value> = trials
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|trial| (trial["cell"].as_str().unwrap().to_owned(), trial))
        .collect();
    let is_by_fio = |cell: &&String| cell.contains("engine-fio");
    // In order, reads and writes mixed, it is left out.
    assert_eq!((trials.len(), trials.keys().filter(is_by_fio).count()), (6, 2), "{trials:?}");
    let has_device =
        statfs(world.path("disks").as_path()).unwrap().filesystem_type() != TMPFS_MAGIC;
    for (cell, trial) in trials.iter().filter(|(cell, _)| is_by_fio(cell)) {
        assert_eq!(trial["outcome"]["result"], "completed", "{cell}: {}", trial["outcome"]);
        let end = end_of(trial);
        let (load, last) =
            (&end["load"], &end["samples"].as_array().unwrap().last().unwrap()["load"]);
        let told = &load["disk"];
        assert!(told["fio"].as_str().unwrap().starts_with("fio-"), "{cell}: {told}");
        // What is sampled in the end is what its workers told in the end.
        assert_eq!(last["bytes"], sum(&load["streams"], "bytes"), "{cell}");
        let (reads, writes) =
            (last["disk"]["reads"].as_u64().unwrap(), last["disk"]["writes"].as_u64().unwrap());
        assert_eq!(last["bytes"], (reads + writes) * 4096, "{cell}");
        let part = reads as f64 / (reads + writes) as f64;
        assert!((0.5..0.84).contains(&part), "{cell}: {reads} of {}", reads + writes);
        // Its histograms are of the time after the warm-up.
        let timed = counted(&told["reads"]) + counted(&told["writes"]);
        assert!(timed > 0 && timed < reads + writes, "{cell}: {timed}");
        assert_eq!(counted(&load["latency"]), timed, "{cell}");
        // The kernel saw it, past every cache. It is told from the outside, so that others are in it too.
        if has_device && told["direct"] == true {
            let (moved, bytes) = (moved_by_devices(trial), last["bytes"].as_u64().unwrap());
            assert!(moved * 10 >= bytes * 9, "{cell}: {moved} of {bytes} bytes");
        }
    }
    let report = world.vioperf(&["report", "run", "--format=json"]).succeeded();
    let report: Value = serde_json::from_str(&report.stdout).unwrap();
    for cell in report["cells"].as_array().unwrap() {
        let is_fio = cell["id"].as_str().unwrap().contains("engine-fio");
        assert_eq!(cell["disk"]["fio"].is_array(), is_fio, "{}", cell["id"]);
        let rate = &cell["disk"]["operations_per_second"];
        assert!(rate["summary"]["mean"].as_f64().unwrap() > 0.0, "{}: {rate}", cell["id"]);
    }
    let said = world.vioperf(&["report", "run"]).succeeded().stdout;
    assert!(said.contains("Read and written by") || said.contains("and written by fio-"), "{said}");
    assert_eq!(fs::read_dir(world.path("disks")).unwrap().count(), 0, "a file with a name is left");
}

#[test]
fn what_fio_cannot_mean_and_a_machine_without_it_are_told() {
    let world = World::new();
    scenario(&world, "engine = \"fio\"\nread_share = \"50 %\"", "");
    let refused = world.vioperf(&["run", "engines.toml", "--out=run"]);
    refused.failed_with(3, &["engine fio", "a place for reads and another for writes"]);
    scenario(&world, "engine = \"fio\"", "");
    let mut command = world.command(&["run", "engines.toml", "--out=run"]);
    command.env("PATH", world.path("tmp"));
    let missing = support::running::Run::start(command).ends();
    missing.failed_with(3, &["engine fio", "apt-get install fio"]);
    assert!(!world.path("here/run").exists());
}

#[test]
fn nothing_is_left_of_fio_when_a_run_is_killed() {
    let world = World::new();
    scenario(&world, "engine = \"fio\"\nstreams = 2", "");
    let before = world.files_beside("here/run");
    let arguments = ["run", "engines.toml", "--set=duration=20s", "--seed=3", "--out=run"];
    let mut run = world.start(&arguments);
    run.until_some("fio at work", |run| run.running("fio"));
    run.signal(Signal::SIGKILL);
    // It looks for processes that are left.
    run.ends();
    assert_eq!(world.files_beside("here/run"), before);
}
