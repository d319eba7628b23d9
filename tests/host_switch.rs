//! A bridge that the host had before is measured, and is as it was afterwards, however the run ends. The host is a network
//! namespace of the test's.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test program")]

mod support;

use std::fs;

use nix::sys::signal::{Signal, kill};
use serde_json::Value;
use support::own_network::{OpenVswitch, bridge_with_a_port, in_own_network, look, said};
use support::running::Run;
use support::world::World;

fn scenario(switch: &str, interface: &str, nic: &str) -> String {
    format!(
        "name = \"of-host\"\nquestion = \"What does the host's bridge carry?\"\n\
         [testbed]\nswitch = \"{switch}\"\nbridge = \"{interface}\"\n\
         [workload]\nkind = \"tcp-stream\"\nduration = \"500ms\"\nwarmup = \"100ms\"\n\
         [factors]\nnic = {nic}\n[repeat]\nblocks = 1\n"
    )
}

fn world(switch: &str, interface: &str, nic: &str) -> World {
    let world = World::new();
    support::write(&world.path("here/of-host.toml"), &scenario(switch, interface, nic));
    world
}

const RUN: &[&str] = &["run", "of-host.toml", "--seed=3", "--no-history"];

fn run<'a>(further: &[&'a str]) -> Vec<&'a str> {
    [RUN, further].concat()
}

/// Line by line, so that a difference is seen.
#[track_caller]
fn assert_same(after: &str, before: &str) {
    let after: Vec<&str> = after.lines().collect();
    let before: Vec<&str> = before.lines().collect();
    let gone: Vec<_> = before.iter().filter(|line| !after.contains(line)).collect();
    let new: Vec<_> = after.iter().filter(|line| !before.contains(line)).collect();
    assert!(after == before, "gone: {gone:#?}, new: {new:#?}");
}

/// What is written down of the host at the moment.
fn journal(world: &World) -> Vec<String> {
    let entries = fs::read_dir(world.path("home/.local/state/vioperf/journal"));
    let entries = entries.into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

fn records(world: &World) -> Vec<Value> {
    let records = fs::read_to_string(world.path("here/run/trials.jsonl")).unwrap();
    records.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The cell was measured, and the host's observer saw its port on the host.
fn assert_measured(records: &[Value], cell: &str, port: &str) -> Value {
    let found = records.iter().rfind(|record| record["cell"] == cell);
    let record = found.unwrap_or_else(|| panic!("no {cell} in {records:?}"));
    assert_eq!(record["outcome"]["result"], "completed", "{}", record["outcome"]);
    let host = record["parties"].as_array().unwrap().iter().find(|party| party["place"] == "host");
    let samples = host.unwrap()["report"]["samples"].as_array().unwrap();
    let carried = samples.last().unwrap()["interfaces"][port]["tx_bytes"].as_u64().unwrap();
    assert!(carried > 100_000, "{cell}: {carried} B out of {port}");
    record.clone()
}

#[test]
fn a_bridge_of_the_hosts_is_measured_and_is_as_it_was() {
    in_own_network(|| {
        bridge_with_a_port();
        let before = look();
        let world = world("bridge", "br0", "\"virtio\"");
        world.vioperf(&run(&["--out=run", "--quiet"])).succeeded();
        assert_same(&look(), &before);
        assert!(journal(&world).is_empty());
        let records = records(&world);
        assert_measured(&records, "baseline/1-stream/to-guest", "vioperf-second");
        let record = assert_measured(&records, "virtio/1-stream/to-guest", "vioperf-tap0");
        let way = record["guest"]["path"].as_str().unwrap();
        assert!(way.starts_with("a tap on the host's bridge br0"), "{way}");
    });
}

/// Until a baseline is under way the ports are there; then the processes are killed.
fn killed(world: &World, both: bool) {
    let mut run = world.start(&run(&["--set=duration=30s", &format!("--out={both}")]));
    run.until_some("ports on the host", |_| {
        let ports = said("ip", "-brief link show");
        (ports.contains("vioperf-peer") && ports.contains("vioperf-second")).then_some(())
    });
    if both {
        run.signal_all(Signal::SIGKILL);
    } else {
        kill(run.until_some("PID 1 of the lab", Run::inner), Signal::SIGKILL).unwrap();
    }
    run.ends();
}

#[test]
fn a_killed_run_leaves_nothing_on_the_bridge() {
    in_own_network(|| {
        bridge_with_a_port();
        let before = look();
        let world = world("bridge", "br0", "[]");
        killed(&world, false);
        assert_same(&look(), &before);
        assert!(journal(&world).is_empty());
        killed(&world, true);
        assert_eq!(journal(&world).len(), 1, "nobody was left to end it");
        // What a killed run left is put back before anything else is asked.
        let next = world.vioperf(&run(&["--out=next", "--set=testbed.mtu=9000"]));
        next.failed_with(3, &["br0 was left with ports", "br0 has an MTU of 1500, less than 9000"]);
        assert!(journal(&world).is_empty());
        assert_same(&look(), &before);
    });
}

#[test]
fn what_is_in_the_way_is_told_with_what_to_do() {
    in_own_network(|| {
        bridge_with_a_port();
        said("ip", "link add lonely type bridge");
        said("ip", "link set lonely up");
        said("ip", "link add idle address 52:54:00:00:00:07 type bridge");
        let before = look();
        let world = world("bridge", "br0", "[]");
        for (interface, words) in [
            ("nobody", ["there is no interface nobody", "the Linux bridges here are br0"]),
            (
                "foreign-far",
                ["foreign-far is no Linux bridge, but veth", "ip link show type bridge"],
            ),
            ("idle", ["idle is down", "`ip link set idle up`"]),
            ("lonely", ["lonely has no port", "`ip link set lonely address "]),
        ] {
            let interface = format!("--set=testbed.bridge={interface}");
            world.vioperf(&run(&["--out=run", &interface])).failed_with(3, &words);
        }
        let chain = ["--set=nic=virtio", "--set=testbed.chain=router", "--out=run"];
        world.vioperf(&run(&chain)).failed_with(3, &["a guest that forwards cannot stand"]);
        let nothing = world.path("nothing");
        fs::create_dir(&nothing).unwrap();
        let mut command = world.command(&run(&["--out=run", "--set=testbed.switch=openvswitch"]));
        command.env("OVS_RUNDIR", nothing);
        Run::start(command).ends().failed_with(3, &["no Open vSwitch runs here", "OVS_RUNDIR"]);
        assert_same(&look(), &before);
        // One that has an address of its own needs no port to keep it.
        said("ip", "link set idle up");
        world.vioperf(&run(&["--out=run", "--set=testbed.bridge=idle", "--quiet"])).succeeded();
        assert!(said("ip", "link show idle").contains("52:54:00:00:00:07"));
    });
}

#[test]
fn an_open_vswitch_of_the_hosts_is_measured_and_is_as_it_was() {
    in_own_network(|| {
        let world = world("openvswitch", "ovs0", "\"virtio\"");
        let ovs = OpenVswitch::start(world.path("ovs"));
        let before = (ovs.look(), look());
        let vioperf = |further: &[&str]| {
            let mut command = world.command(&run(further));
            command.env("OVS_RUNDIR", ovs.folder());
            Run::start(command)
        };
        vioperf(&["--out=run", "--quiet"]).ends().succeeded();
        assert_same(&ovs.look(), &before.0);
        assert_same(&look(), &before.1);
        let records = records(&world);
        assert_measured(&records, "baseline/1-stream/to-guest", "vioperf-second");
        let record = assert_measured(&records, "virtio/1-stream/to-guest", "vioperf-tap0");
        let way = record["guest"]["path"].as_str().unwrap();
        assert!(way.starts_with("a tap on ovs0 of the host's Open vSwitch"), "{way}");
        // Ports stay in its database when everybody who knew of them is dead.
        let mut killed = vioperf(&["--out=killed", "--set=duration=30s"]);
        killed.until_some("ports on the host", |_| {
            ovs.look().contains("vioperf-second").then_some(())
        });
        killed.signal_all(Signal::SIGKILL);
        killed.ends();
        assert!(ovs.look().contains("vioperf-second"), "{}", ovs.look());
        let next = vioperf(&["--out=next", "--set=testbed.bridge=nobody"]).ends();
        next.failed_with(3, &["ovs0 was left with ports", "has no bridge nobody", "it has ovs0"]);
        assert_same(&ovs.look(), &before.0);
        assert_same(&look(), &before.1);
        assert!(journal(&world).is_empty());
    });
}
