//! A load to a machine that ssh gets to: the node is put there, serves, and leaves nothing.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test program")]

mod support;

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use support::machines::{SERVER, Wire};
use support::sshd::{Machine, USER};
use support::{Finished, vioperf};

const SHORT: &[&str] = &["--duration=800ms", "--warmup=100ms", "--json"];

fn report(finished: &Finished) -> Value {
    serde_json::from_str(&finished.stdout).unwrap_or_else(|error| panic!("{error}: {finished:#?}"))
}

/// A node may still be at its end when its conductor is; nobody waits for it longer than it waits itself.
#[track_caller]
fn nothing_is_left(machine: &Machine, wire: &Wire, within: Duration) {
    let deadline = Instant::now() + within;
    while !machine.nodes(wire).is_empty() {
        assert!(Instant::now() < deadline, "still there: {:?}", machine.nodes(wire));
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(machine.files(), Vec::<PathBuf>::new());
}

#[test]
fn both_ends_are_measured_both_ways_and_nothing_is_left() {
    let wire = Wire::new();
    let machine = Machine::start(&wire, false);
    for direction in ["to", "from"] {
        let arguments = [&["ssh://root@there", "--direction", direction], SHORT].concat();
        let report = report(&machine.test(&wire, &arguments).succeeded());
        let cell = &report["cells"][0];
        assert!(cell["receiver_bits_per_second"]["summary"]["mean"].as_f64().unwrap() > 1e6);
        for end in ["client", "server"] {
            let busy = &cell["between"][end]["machine"]["busy_percent_of_core"]["summary"];
            assert!(busy["mean"].as_f64().unwrap() > 0.0, "{end}: {cell:#}");
        }
        let testbed = &report["run"]["scenario"]["testbed"];
        assert_eq!(testbed["server"], "root@there", "as the user calls it");
        assert_eq!(testbed["mtu"], 1500);
        nothing_is_left(&machine, &wire, Duration::from_secs(5));
    }
}

#[test]
fn it_needs_neither_root_there_nor_a_tmp_that_runs_programs() {
    let wire = Wire::new();
    let machine = Machine::start(&wire, true);
    let there = format!("ssh://{USER}@there:22");
    let arguments = [&[&there, "--address", SERVER, "-w", "packet-rate"], SHORT].concat();
    let report = report(&machine.test(&wire, &arguments).succeeded());
    let datagrams = &report["cells"][0]["datagrams"];
    assert!(datagrams["received_per_second"]["summary"]["mean"].as_f64().unwrap() > 100.0);
    nothing_is_left(&machine, &wire, Duration::from_secs(5));
}

#[test]
fn a_connection_that_is_cut_leaves_nothing_there() {
    let wire = Wire::new();
    let machine = Machine::start(&wire, false);
    let mut test = machine.start_test(&wire, &["ssh://root@there", "--duration=40s"]);
    test.until("2.0 s");
    assert_eq!(machine.nodes(&wire).len(), 1);
    assert_eq!(machine.files(), Vec::<PathBuf>::new(), "it is gone as soon as it runs");
    wire.cut();
    test.ends().failed_with(1, &["did not answer within"]);
    // Nobody told it: it noticed by itself.
    nothing_is_left(&machine, &wire, Duration::from_secs(30));
}

#[test]
fn what_is_wrong_is_said() {
    let wire = Wire::new();
    let machine = Machine::start(&wire, false);
    let stranger = machine.test(&wire, &["ssh://nobody-of-that-name@there"]);
    stranger.failed_with(1, &["Permission denied", "before a node ran there", "`ssh` by hand"]);
    vioperf(&["test", "ssh://a b"]).failed_with(2, &["ssh://user@host"]);
    vioperf(&["test", "ssh://there", "--tls"]).failed_with(2, &["--tls", "vioperf serve"]);
    vioperf(&["test", "there", "--address=::1"]).failed_with(2, &["--address", "ssh"]);
    nothing_is_left(&machine, &wire, Duration::from_secs(5));
}
