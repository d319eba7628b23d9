//! Every switch that can be had here carries a load, with a guest and without, is seen to be in force, and
//! leaves nothing behind.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test program")]

mod support;

use std::fs;

use nix::sys::signal::Signal;
use serde_json::Value;
use support::world::World;
use support::{emulated_machine, vioperf};

/// Each switch, and what its guest's way is said to be.
const SWITCHES: &[(&str, &str)] = &[
    ("bridge", "a tap on a Linux bridge"),
    ("none", "a tap, which is the peer's own interface"),
    ("openvswitch", "a tap on Open vSwitch"),
    ("openvswitch-dpdk", "a vhost-user socket to Open vSwitch"),
    ("macvtap-bridge", "a macvtap in bridge mode"),
    ("macvtap-vepa", "a macvtap in vepa mode"),
    ("macvtap-private", "a macvtap in private mode"),
    ("macvtap-passthru", "a macvtap in passthru mode"),
    ("passt", "a socket to passt"),
    ("slirp", "slirp in QEMU's main loop"),
];

fn scenario(switches: &[&str]) -> String {
    format!(
        "name = \"switches\"\nquestion = \"What does each switch cost?\"\n\
         [workload]\nkind = \"tcp-stream\"\nduration = \"1s\"\nwarmup = \"100ms\"\n\
         [factors]\nnic = \"virtio\"\nswitch = {switches:?}\n[repeat]\nblocks = 1\n"
    )
}

#[test]
fn every_switch_carries_a_load_and_is_seen_to_be_in_force() {
    let world = World::new();
    let names: Vec<&str> = SWITCHES.iter().map(|(name, _)| *name).collect();
    support::write(&world.path("here/switches.toml"), &scenario(&names));
    world.vioperf(&["run", "switches.toml", "--seed=3", "--out=run", "--quiet"]).succeeded();
    let records = fs::read_to_string(world.path("here/run/trials.jsonl")).unwrap();
    let records: Vec<Value> =
        records.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (name, way) in SWITCHES {
        for path in ["baseline", "virtio"] {
            let cell = format!("{path}/{name}/1-stream/to-guest");
            let of_cell = |record: &&Value| record["cell"] == cell.as_str();
            let record = records.iter().rfind(of_cell).unwrap_or_else(|| panic!("no {cell}"));
            assert_eq!(record["outcome"]["result"], "completed", "{cell}");
            if path == "virtio" {
                let said = record["guest"]["path"].as_str().unwrap();
                assert!(said.starts_with(way), "{cell}: {said}");
            }
        }
    }
    let report = world.vioperf(&["report", "run", "--format=json"]).succeeded();
    let report: Value = serde_json::from_str(&report.stdout).unwrap();
    for cell in report["cells"].as_array().unwrap() {
        let rate = cell["receiver_bits_per_second"]["summary"]["mean"].as_f64();
        assert!(rate.is_some_and(|rate| rate > 1e6), "{}: {rate:?}", cell["id"]);
    }
}

/// What this kernel has not is left out with what to do; what it has carries a load.
#[test]
fn bridges_with_vlans_carry_a_load_or_say_what_is_missing() {
    let world = World::new();
    let text = scenario(&["bridge", "vlan-filtering", "bridge-per-vlan"]);
    let text = text.replace("nic = \"virtio\"", "nic = []");
    support::write(&world.path("here/vlan.toml"), &text);
    let run = world.vioperf(&["run", "vlan.toml", "--seed=3", "--out=run"]).succeeded();
    let records = fs::read_to_string(world.path("here/run/trials.jsonl")).unwrap();
    for (name, advice) in
        [("vlan-filtering", "CONFIG_BRIDGE_VLAN_FILTERING"), ("bridge-per-vlan", "8021q")]
    {
        let completed = records.lines().any(|line| {
            line.contains(&format!("baseline/{name}/")) && line.contains("\"completed\"")
        });
        let left_out = run.stderr.contains(&format!("switch {name} is left out"));
        assert!(completed != left_out, "{name}: {}", run.stderr);
        assert!(completed || run.stderr.contains(advice), "{name}: {}", run.stderr);
    }
}

/// In a machine whose kernel has all of it they carry a load for certain. To a bridge of its own the VLAN is the wire's. What
/// that kernel has not is what holds a link to a rate.
#[test]
fn bridges_with_vlans_carry_a_load_where_the_kernel_has_them() {
    let text = scenario(&["bridge", "vlan-filtering", "bridge-per-vlan"]);
    let text = text.replace("nic = \"virtio\"", "nic = []").replace("1s", "500ms");
    let script = format!(
        "echo '{text}' >/tmp/vlan.toml\n\
         vioperf run /tmp/vlan.toml --set 'testbed.rate=1 Gbit/s' --out=/tmp/held 2>&1 | tr -s ' \\n' ' ' >&3; echo >&3\n\
         vioperf run /tmp/vlan.toml --set undisturbed=false --seed=3 --out=/tmp/run --quiet\n\
         vioperf report /tmp/run --format=json >&3"
    );
    let said = emulated_machine::run(&script);
    let (of_rate, report) = said.answer.split_once('\n').expect(&said.console);
    assert!(of_rate.contains("the kernel has no token bucket filter: `sudo modprobe"), "{of_rate}");
    let report: Value = serde_json::from_str(report).expect(&said.console);
    let cells = report["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 3, "{}", said.console);
    for cell in cells {
        let rate = cell["receiver_bits_per_second"]["summary"]["mean"].as_f64();
        assert!(rate.is_some_and(|rate| rate > 1e6), "{}: {rate:?}\n{}", cell["id"], said.console);
    }
}

/// A switch either holds its peer's link to a rate or says beforehand that it cannot.
#[test]
fn a_rate_holds_or_its_switch_is_left_out() {
    let world = World::new();
    let names: Vec<&str> = SWITCHES.iter().map(|(name, _)| *name).collect();
    let text = scenario(&names).replace("nic = \"virtio\"", "nic = []");
    let text = text.replace("[workload]", "[testbed]\nrate = \"50 Mbit/s\"\n[workload]");
    support::write(&world.path("here/rate.toml"), &text);
    let run = world.vioperf(&["run", "rate.toml", "--seed=3", "--out=run"]).succeeded();
    let said = run.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    let report = world.vioperf(&["report", "run", "--format=json"]).succeeded();
    let report: Value = serde_json::from_str(&report.stdout).unwrap();
    let cells = report["cells"].as_array().unwrap();
    for name in names {
        let is_without_port = ["none", "passt", "slirp"].contains(&name);
        let left_out = format!("switch {name} with a rate of 50 Mbit/s is left out");
        assert_eq!(said.contains(&left_out), is_without_port, "{name}: {said}");
        let id = format!("baseline/{name}/1-stream/to-guest");
        let cell = cells.iter().find(|cell| cell["id"] == id.as_str());
        let rate =
            cell.and_then(|cell| cell["receiver_bits_per_second"]["summary"]["mean"].as_f64());
        let is_held = rate.is_some_and(|rate| rate > 10e6 && rate < 55e6);
        assert_ne!(is_held, is_without_port, "{name}: {rate:?}");
    }
}

/// The programs of a switch end with its lab, also when nobody is left to end them.
#[test]
fn a_killed_run_leaves_nothing_of_its_switch() {
    for (switch, program) in [
        ("openvswitch", "ovs-vswitchd"),
        ("openvswitch-dpdk", "ovs-vswitchd-dpdk"),
        ("openvswitch-dpdk", "qemu-system-x86_64"),
        ("passt", "passt"),
        ("macvtap-bridge", "qemu-system-x86_64"),
    ] {
        let world = World::new();
        support::write(&world.path("here/switches.toml"), &scenario(&[switch]));
        let before = world.files_beside("here/run");
        let mut run = world.start(&["run", "switches.toml", "--seed=3", "--out=run"]);
        run.until_some(program, |run| run.running(program));
        run.signal(Signal::SIGKILL);
        assert_eq!(run.ends().signal, Some(9), "{switch}");
        assert_eq!(world.files_beside("here/run"), before, "{switch}");
    }
}

/// QEMU hands nothing on: the switch itself counts what it wrote into the guest's rings and found no room for, and no other
/// model than virtio has such rings.
#[test]
fn a_switch_that_polls_counts_what_it_moves_and_serves_virtio_alone() {
    let world = World::new();
    let text = scenario(&["openvswitch-dpdk"]).replace("\"virtio\"", "[\"virtio\", \"e1000\"]");
    let text = text.replace("tcp-stream", "packet-rate");
    support::write(&world.path("here/dpdk.toml"), &text);
    let run = world.vioperf(&["run", "dpdk.toml", "--seed=3", "--out=run"]).succeeded();
    let said = "reads and writes a ring of virtio, which e1000 has not";
    assert!(run.stderr.contains(said), "{}", run.stderr);
    let records = fs::read_to_string(world.path("here/run/trials.jsonl")).unwrap();
    let record = records.lines().find(|line| line.contains("\"virtio/")).unwrap();
    let record: Value = serde_json::from_str(record).unwrap();
    let path = record["guest"]["path"].as_str().unwrap();
    assert!(path.contains("with DPDK") && path.contains("moved by the switch"), "{path}");
    let port = record["guest"]["port"].as_str().unwrap();
    let parties = record["parties"].as_array().unwrap();
    let of = |place: &str| parties.iter().find(|party| party["place"] == place).unwrap();
    let layers = of("host")["report"]["layers"].as_array().unwrap();
    let sent = |at: &Value| at["open_vswitch"]["ports"][port]["tx_packets"].as_u64().unwrap();
    let moved = sent(layers.last().unwrap()) - sent(&layers[0]);
    let samples = of("guest")["report"]["samples"].as_array().unwrap();
    let name = of("guest")["interface"]["name"].as_str().unwrap();
    let received = |at: &Value| at["interfaces"][name]["rx_packets"].as_u64().unwrap();
    let arrived = received(samples.last().unwrap()) - received(&samples[0]);
    assert!(moved > 100 && arrived > 100 && arrived <= moved, "{moved} moved, {arrived} arrived");
    let report = world.vioperf(&["report", "run"]).succeeded();
    assert!(report.stdout.contains("openvswitch-dpdk polls"), "{}", report.stdout);
}

#[test]
fn a_switch_that_nobody_knows_is_refused_with_the_nearest() {
    let refused = vioperf(&["plan", "nic-models", "--set=testbed.switch=brigde"]);
    refused.failed_with(2, &["unknown switch `brigde`", "did you mean `bridge`?"]);
}

#[test]
fn what_has_no_port_for_the_peer_is_held_to_no_rate() {
    let world = World::new();
    support::write(&world.path("here/none.toml"), &scenario(&["none"]));
    let arguments = ["run", "none.toml", "--out=run", "--set=testbed.rate=10 Mbit/s"];
    let said = ["switch none with a rate of 10 Mbit/s", "leave testbed.rate out"];
    world.vioperf(&arguments).failed_with(3, &said);
}
