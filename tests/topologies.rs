//! Who talks to whom: each far end, a guest that forwards, rules of a packet filter and a neighbour are what
//! the record says, by counters that are not the load's own, and nothing is left of them.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test program")]

mod support;

use std::fs;

use nix::sys::signal::Signal;
use serde_json::Value;
use support::world::World;

/// With those keys of the testbed and factors.
fn scenario(testbed: &str, factors: &str) -> String {
    format!(
        "name = \"topologies\"\nquestion = \"Who talks to whom?\"\n[testbed]\n{testbed}\n\
         [workload]\nkind = \"tcp-stream\"\nduration = \"600ms\"\nwarmup = \"100ms\"\n\
         [factors]\nnic = \"virtio\"\n{factors}\n[repeat]\nblocks = 1\n"
    )
}

/// The records of a run of that scenario, all of which completed.
fn records(world: &World, testbed: &str, factors: &str) -> Vec<Value> {
    support::write(&world.path("here/topologies.toml"), &scenario(testbed, factors));
    let before = world.files_beside("here/run");
    world.vioperf(&["run", "topologies.toml", "--seed=3", "--out=run", "--quiet"]).succeeded();
    assert_eq!(world.files_beside("here/run"), before);
    let records = fs::read_to_string(world.path("here/run/trials.jsonl")).unwrap();
    let records = records.lines().map(|line| serde_json::from_str(line).unwrap());
    records.filter(|record: &Value| record["outcome"]["result"] == "completed").collect()
}

#[track_caller]
fn of_cell<'r>(records: &'r [Value], cell: &str) -> &'r Value {
    let found = records.iter().find(|record| record["cell"] == cell);
    found.unwrap_or_else(|| panic!("no trial of {cell} has completed"))
}

fn party<'r>(record: &'r Value, place: &str) -> &'r Value {
    let parties = record["parties"].as_array().unwrap();
    let found = parties.iter().find(|party| party["place"] == place);
    found.unwrap_or_else(|| panic!("no {place} in {}", record["cell"]))
}

/// What an interface of the host counted of bytes while samples were taken.
fn bytes(record: &Value, interface: &str, counter: &str) -> u64 {
    let samples = party(record, "host")["report"]["samples"].as_array().unwrap();
    let at = |sample: &Value| sample["interfaces"][interface][counter].as_u64().unwrap();
    at(samples.last().unwrap()) - at(&samples[0])
}

/// Bytes of payload that the receiver was given meanwhile.
fn received(record: &Value) -> u64 {
    let samples = party(record, "guest")["report"]["samples"].as_array().unwrap();
    samples.last().unwrap()["load"]["bytes"].as_u64().unwrap()
}

#[test]
fn each_far_end_is_where_it_should_be_and_the_switch_has_seen_it() {
    let world = World::new();
    let records = records(&world, "", "far_end = [\"remote\", \"host\", \"guest\"]");
    for (far_end, place, of_baseline) in [
        ("remote", "peer", "peer"),
        ("host", "host-end", "host-end"),
        ("guest", "far-guest", "peer"),
    ] {
        let record = of_cell(&records, &format!("virtio/far_end-{far_end}/1-stream/to-guest"));
        assert_eq!(party(record, place)["role"]["role"], "sender", "{far_end}");
        let baseline = format!("baseline/far_end-{far_end}/1-stream/to-guest");
        party(of_cell(&records, &baseline), of_baseline);
        // What came out of the guest's tap is what the load moved, and its headers.
        let tap = record["guest"]["port"].as_str().unwrap();
        let (moved, out) = (received(record), bytes(record, tap, "tx_bytes"));
        assert!(out >= moved && out < moved + moved / 4, "{far_end}: {moved} of {out}");
        if far_end == "guest" {
            let other = &record["guest"]["others"][0];
            assert_eq!(other["place"], "far-guest");
            let into = bytes(record, other["port"].as_str().unwrap(), "rx_bytes");
            assert!(into.abs_diff(out) < out / 4, "between the taps: {into} and {out}");
            assert_eq!(bytes(record, "peer", "rx_bytes") / 10_000, 0, "the peer has no part in it");
        }
    }
    let report = world.vioperf(&["report", "run", "--format=json"]).succeeded().stdout;
    let report: Value = serde_json::from_str(&report).unwrap();
    for cell in report["cells"].as_array().unwrap() {
        let is_between_guests = cell["id"] == "virtio/far_end-guest/1-stream/to-guest";
        let others = cell["other_guests"].as_array().map_or(&[][..], Vec::as_slice);
        assert_eq!(others.len(), usize::from(is_between_guests), "{}", cell["id"]);
        for other in others {
            assert_eq!(other["place"], "far-guest");
            let mean = |metric: &Value| metric["summary"]["mean"].as_f64().unwrap();
            assert!(mean(&other["machine"]["busy_percent_of_core"]) > 1.0);
            assert!(mean(&other["qemu"]["vcpu_percent_of_core"]) > 1.0);
            assert_eq!(other["machine"]["cores"].as_array().unwrap().len(), 1);
        }
    }
    let report = world.vioperf(&["report", "run"]).succeeded().stdout;
    assert!(report.contains("Guests beside the one under test"), "{report}");
}

#[test]
fn a_guest_forwards_by_a_bridge_or_a_router_and_holds_packets_against_rules() {
    for (way, rules) in [("bridge", 0), ("router", 500)] {
        let world = World::new();
        let testbed = format!("chain = \"{way}\"\nfirewall_rules = {rules}");
        let records = records(&world, &testbed, "");
        let record = of_cell(&records, "virtio/1-stream/to-guest");
        let other = &record["guest"]["others"][0];
        assert_eq!(
            (&other["forwarding"]["way"], other["place"].as_str()),
            (&way.into(), Some("forwarder"))
        );
        assert_eq!(other["forwarding"]["firewall_rules"], rules);
        if rules > 0 {
            let layers = party(record, "forwarder")["report"]["layers"].as_array().unwrap();
            let list = |at: &Value, counter: &str| at["access_list"][counter].as_u64().unwrap();
            let last = layers.last().unwrap();
            let passed = list(last, "passed") - list(&layers[0], "passed");
            assert!(passed > 10, "{way}: {passed} packets");
            assert_eq!(list(last, "passed"), list(last, "entered"), "no rule matches");
        }
        // What went into it on the far side came out of it on the near side.
        let port = |name: &str| other[name].as_str().unwrap();
        let into = bytes(record, port("far_port"), "tx_bytes");
        let out = bytes(record, port("port"), "rx_bytes");
        assert!(into.abs_diff(out) < into / 2, "{way}: {into} and {out}");
    }
}

#[test]
fn rules_on_the_host_cost_both_paths_and_a_busy_neighbour_burns() {
    let world = World::new();
    let records = records(&world, "firewall_rules = 300", "neighbour = [\"idle\", \"busy\"]");
    let burned = |record: &Value| {
        let samples = party(record, "neighbour")["report"]["samples"].as_array().unwrap();
        samples.last().unwrap()["burned_ns"].as_u64()
    };
    let cell = |neighbour: &str| {
        of_cell(&records, &format!("virtio/neighbour-{neighbour}/1-stream/to-guest"))
    };
    assert_eq!(burned(cell("idle")), None);
    assert!(burned(cell("busy")).unwrap() > 20_000_000);
    for record in [cell("idle"), of_cell(&records, "baseline/1-stream/to-guest")] {
        let last = party(record, "host")["report"]["layers"].as_array().unwrap().last().unwrap();
        assert!(last["access_list"]["passed"].as_u64().unwrap() > 10, "{}", record["cell"]);
    }
}

#[test]
fn what_a_switch_has_no_room_for_is_left_out_with_a_reason() {
    let world = World::new();
    let factors = "switch = [\"bridge\", \"none\"]\nfar_end = [\"remote\", \"guest\"]";
    support::write(&world.path("here/topologies.toml"), &scenario("", factors));
    let run = world.vioperf(&["run", "topologies.toml", "--seed=3", "--out=run"]).succeeded();
    let left_out = "switch none with far end guest is left out: two guests on it do not reach";
    assert!(run.stderr.contains(left_out), "{}", run.stderr);
    assert!(!run.stderr.contains("/none/") || !run.stderr.contains("far_end-guest/none"));
    let text = scenario("chain = \"router\"", "").replace("nic = \"virtio\"", "");
    support::write(&world.path("here/topologies.toml"), &text);
    let refused = world.vioperf(&["plan", "topologies.toml"]);
    refused.failed_with(2, &["topologies.toml:4:", "factors.nic"]);
}

/// Several guests end with their run, also when nobody is left to end them.
#[test]
fn a_killed_run_leaves_nothing_of_its_guests() {
    let world = World::new();
    let testbed = "chain = \"router\"\nfar_end = \"guest\"";
    let text = scenario(testbed, "").replace("600ms", "20s");
    support::write(&world.path("here/topologies.toml"), &text);
    let before = world.files_beside("here/run");
    let mut run = world.start(&["run", "topologies.toml", "--seed=3", "--out=run"]);
    run.until_some("three guests", |run| {
        let name = |pid: &i32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let guests =
            run.processes().iter().filter(|pid| name(pid).starts_with("qemu-system")).count();
        (guests >= 3).then_some(())
    });
    run.signal(Signal::SIGKILL);
    assert_eq!(run.ends().signal, Some(9));
    assert_eq!(world.files_beside("here/run"), before);
}
