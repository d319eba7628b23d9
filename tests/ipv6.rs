//! A lab whose load goes over IPv6, guest included.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test program")]

mod support;

use std::fs;

use serde_json::Value;
use support::vioperf;
use support::world::World;

fn run(options: &[&str]) -> (Vec<Value>, Value) {
    let world = World::new();
    let common = [
        "--set=undisturbed=false",
        "--blocks=1",
        "--seed=3",
        "--set=nic=virtio",
        "--set=warmup=100ms",
        "--out=run",
    ];
    let arguments: Vec<&str> = ["run"].iter().chain(options).chain(&common).copied().collect();
    world.vioperf(&arguments).succeeded();
    let trials = fs::read_to_string(world.path("here/run/trials.jsonl")).unwrap();
    let report = world.vioperf(&["report", "run", "--format=json"]).succeeded();
    let trials = trials.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (trials, serde_json::from_str(&report.stdout).unwrap())
}

#[test]
fn both_protocols_carry_the_load_to_a_guest() {
    let (trials, report) = run(&[
        "nic-models",
        "--set=ip=ipv4,ipv6",
        "--set=streams=1",
        "--set=direction=to-guest",
        "--set=duration=1s",
    ]);
    assert_eq!(trials.len(), 4);
    for trial in &trials {
        assert_eq!(trial["outcome"]["result"], "completed", "{}", trial["outcome"]);
        let cell = trial["cell"].as_str().unwrap();
        let peer = trial["parties"]
            .as_array()
            .unwrap()
            .iter()
            .find_map(|party| party["role"]["peer"].as_str().map(str::to_owned));
        let network = if cell.contains("/ipv6/") { "[fd76:696f:7066::" } else { "198.18." };
        assert!(peer.as_ref().unwrap().starts_with(network), "{cell}: {peer:?}");
    }
    for cell in report["cells"].as_array().unwrap() {
        let rate = cell["receiver_bits_per_second"]["summary"]["mean"].as_f64().unwrap();
        assert!(rate > 1e6, "{}: {rate}", cell["id"]);
    }
}

#[test]
fn a_datagram_takes_twenty_bytes_more_of_the_wire() {
    let options = ["packet-rate", "--set=payload=18 B", "--set=receivers=one"];
    let length = |ip: &str| -> Vec<u64> {
        let ip = format!("--set=testbed.ip={ip}");
        let mut options = options.to_vec();
        options.extend(["--set=duration=300ms", ip.as_str()]);
        let (_, report) = run(&options);
        let cells = report["cells"].as_array().unwrap().clone();
        cells.iter().map(|cell| cell["datagrams"]["bytes_on_wire"].as_u64().unwrap()).collect()
    };
    // RFC 2544: 64 bytes of frame, 8 of preamble, a gap of 12.
    assert_eq!(length("ipv4"), [84, 84]);
    assert_eq!(length("ipv6"), [104, 104]);
}

#[test]
fn what_fits_into_no_packet_is_refused_before_anything_is_touched() {
    let refused = vioperf(&["plan", "packet-rate", "--set=testbed.ip=ipv6"]);
    assert_ne!(refused.code, Some(0));
    assert!(refused.stderr.contains("1452 B is the most over ipv6"), "{}", refused.stderr);
}
