//! Keys of guest and testbed as factors: each level is in force in the guests that were measured.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test program")]

mod support;

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;
use support::vioperf;
use support::world::World;

const SMALL: [&str; 7] = [
    "--set=streams=2",
    "--set=direction=to-guest",
    "--set=duration=200ms",
    "--set=warmup=100ms",
    "--set=undisturbed=false",
    "--set=placement=free",
    "--blocks=1",
];

/// The trials of a run, by their cells; each has to have been completed.
fn run(world: &World, options: &[&str]) -> BTreeMap<String, Value> {
    let head = ["run", "nic-models", "--seed=3", "--out=run"];
    let arguments: Vec<&str> = head.iter().chain(&SMALL).chain(options).copied().collect();
    world.vioperf(&arguments).succeeded();
    let trials = fs::read_to_string(world.path("here/run/trials.jsonl")).unwrap();
    let trials = trials.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let by_cell = trials.map(|trial| {
        assert_eq!(
            trial["outcome"]["result"], "completed",
            "{}: {}",
            trial["cell"], trial["outcome"]
        );
        (trial["cell"].as_str().unwrap().to_owned(), trial)
    });
    by_cell.collect()
}

fn party<'a>(trial: &'a Value, place: &str) -> &'a Value {
    trial["parties"].as_array().unwrap().iter().find(|party| party["place"] == place).unwrap()
}

#[test]
fn queues_and_virtual_cpus_are_as_their_levels_say() {
    let world = World::new();
    let trials = run(&world, &["--set=nic=virtio,rtl8139", "--set=vcpus=1,2", "--set=queues=1,2"]);
    let of = |cell: &str| &trials[&format!("{cell}/2-streams/to-guest")];
    for vcpus in [1, 2] {
        for queues in [1, 2] {
            let name = |n, word: &str| format!("{n}-{word}{}", if n == 1 { "" } else { "s" });
            let cell = format!("virtio/{}/{}", name(queues, "queue"), name(vcpus, "vcpu"));
            let guest = party(of(&cell), "guest");
            let facts = &guest["interface"];
            assert_eq!(facts["queues"]["rx"], queues, "{cell}: {facts}");
            assert_eq!(facts["queues"]["tx"], queues, "{cell}: {facts}");
            let cores = guest["report"]["samples"][0]["cores"].as_array().unwrap().len();
            assert_eq!(cores, vcpus, "{cell}");
        }
    }
    // Two queues of one virtual CPU are used by it, too: the tap has them all.
    let moved = &party(of("virtio/2-queues/2-vcpus"), "guest")["report"]["layers"];
    assert!(moved.to_string().contains("rx_queue_1_packets"), "{moved}");
    // What has one queue pair is left out where it should have two, and measured where one was asked for.
    let of_rtl8139: Vec<&String> =
        trials.keys().filter(|cell| cell.starts_with("rtl8139")).collect();
    assert!(of_rtl8139.iter().all(|cell| cell.contains("/1-queue/")), "{of_rtl8139:?}");
    assert_eq!(of_rtl8139.len(), 2);
    let baselines = trials.keys().filter(|cell| cell.starts_with("baseline")).count();
    assert_eq!(baselines, 1, "guests do not multiply it");
    let report = world.vioperf(&["report", "run", "--format=json"]).succeeded().stdout;
    let report: Value = serde_json::from_str(&report).unwrap();
    let cells = report["cells"].as_array().unwrap();
    let levels = |cell: &Value| {
        let levels = cell["levels"].as_array().cloned().unwrap_or_default();
        levels
            .iter()
            .map(|level| format!("{}={}", level["factor"], level["level"]))
            .collect::<Vec<_>>()
    };
    assert!(
        cells.iter().any(|cell| levels(cell) == [r#""guest.queues"="2""#, r#""guest.vcpus"="1""#])
    );
    let text = world.vioperf(&["report", "run"]).succeeded().stdout;
    assert!(text.contains("virtio 2-queues 2-vcpus") && text.contains("left out"), "{text}");
}

#[test]
fn interfaces_of_both_ends_are_set_up_as_their_levels_say() {
    let world = World::new();
    let trials = run(
        &world,
        &[
            "--set=nic=e1000e",
            "--set=rings.rx=default,128",
            "--set=rps=all",
            "--set=coalesce.rx_usecs=50",
            "--set=testbed.peer.offloads.gro=on,off",
        ],
    );
    assert_eq!(trials.len(), 2 + 4);
    for (cell, trial) in &trials {
        let gro = &party(trial, "peer")["interface"]["offloads"]["rx-gro"];
        assert_eq!(*gro, cell.contains("/peer-gro-on/"), "{cell}");
        if cell.starts_with("baseline/") {
            continue;
        }
        let facts = &party(trial, "guest")["interface"];
        let ring = if cell.contains("/128-rings-rx/") { 128 } else { 256 };
        assert_eq!(facts["rings"]["rx"], ring, "{cell}");
        assert_eq!(facts["coalescing"]["rx_us"], 50, "{cell}");
        assert_eq!(facts["steering"]["receive"][0], "1", "of one virtual CPU: {cell}");
    }
}

/// The host's end of a guest's NIC is a factor too; the baseline has none, and what the tap has not makes a trial void.
#[test]
fn the_hosts_end_of_a_nic_is_set_up_as_its_levels_say() {
    let world = World::new();
    let trials = run(&world, &["--set=nic=virtio", "--set=guest.port.offloads.tso=on,off"]);
    assert_eq!(trials.len(), 1 + 2);
    for (cell, trial) in &trials {
        let facts = &party(trial, "host")["interface"];
        if cell.starts_with("baseline/") {
            assert!(facts.is_null(), "{cell}: {facts}");
            continue;
        }
        assert_eq!(facts["driver"], "tun", "{cell}");
        let tso = &facts["offloads"]["tx-tcp-segmentation"];
        assert_eq!(*tso, cell.contains("/port-tso-on/"), "{cell}");
    }
    let head = ["run", "nic-models", "--seed=3", "--out=void", "--set=nic=virtio"];
    let rings = ["--set=guest.port.rings.rx=128"];
    let void = world.vioperf(&[&head[..], &SMALL[..], &rings[..]].concat());
    assert!(void.stdout.contains("does not let its rings be set"), "{void:#?}");
}

#[test]
fn machines_are_of_their_type_and_burn_what_they_are_told() {
    let world = World::new();
    let trials = run(
        &world,
        &[
            "--set=nic=rtl8139",
            "--set=machine=q35,pc",
            "--set=huge_pages=none",
            "--set=guest.load=30 %",
            "--set=testbed.host_load=130 %",
        ],
    );
    assert_eq!(trials.len(), 1 + 2);
    let mut places = Vec::new();
    let burned = |party: &Value| {
        let samples = party["report"]["samples"].as_array().unwrap();
        samples.last().unwrap()["burned_ns"].as_u64().unwrap_or_default()
    };
    for (cell, trial) in &trials {
        assert!(burned(party(trial, "host")) > 0, "{cell}");
        if cell.starts_with("baseline/") {
            assert_eq!(burned(party(trial, "second")), 0, "a guest's load is no baseline's");
            continue;
        }
        let guest = party(trial, "guest");
        assert!(burned(guest) > 0, "{cell}");
        assert_eq!(trial["guest"]["huge_pages_mib"], 0, "{cell}");
        places.push(guest["interface"]["bus_address"].as_str().unwrap().to_owned());
    }
    assert_ne!(places[0], places[1], "another machine has its slots elsewhere");
}

#[test]
fn what_a_driver_does_not_do_makes_the_trial_void() {
    let world = World::new();
    let small: Vec<&str> =
        SMALL.into_iter().chain(["--set=nic=pcnet", "--set=attempts=1"]).collect();
    let set = ["--set=coalesce.rx_usecs=50", "--out=run"];
    let arguments: Vec<&str> = ["run", "nic-models"].into_iter().chain(small).chain(set).collect();
    assert_ne!(world.vioperf(&arguments).code, Some(0));
    let trials = fs::read_to_string(world.path("here/run/trials.jsonl")).unwrap();
    let void = trials.lines().find(|line| line.contains("pcnet/")).unwrap();
    let void: Value = serde_json::from_str(void).unwrap();
    assert_eq!(void["outcome"]["result"], "void");
    let reason = void["outcome"]["reason"].as_str().unwrap();
    assert!(reason.contains("coalescing") && reason.contains("leave it out"), "{reason}");
}

#[test]
fn what_no_model_can_have_is_refused_before_anything_is_touched() {
    for (set, word) in [
        ("--set=vhost=on", "vhost-net serves virtio"),
        ("--set=queues=2", "e1000 has one queue pair"),
        ("--set=qemu=/nonexistent/qemu", "/nonexistent/qemu"),
    ] {
        let refused =
            vioperf(&["run", "nic-models", "--set=nic=e1000", "--out=/nonexistent/x", set]);
        assert_ne!(refused.code, Some(0));
        assert!(refused.stderr.contains(word), "{set}: {}", refused.stderr);
    }
}
