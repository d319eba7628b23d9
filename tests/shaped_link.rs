//! A lab whose link is held to a rate: what arrives is what that rate leaves for payload.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test program")]

mod support;

use serde_json::Value;
use support::tries::in_one_of_three;
use support::world::World;
use support::{vioperf, write};

/// Bits a second on the link.
const RATE: f64 = 50e6;

/// Of each frame the link counts the Ethernet header (14), and carries IPv4 (20) and TCP with time
/// stamps (32), or UDP (8).
const TCP_SHARE: f64 = 1448.0 / 1514.0;
const UDP_SHARE: f64 = 1470.0 / 1512.0;

/// Runs a scenario without guests; what each cell received, in bits a second.
fn received(options: &[&str]) -> Vec<(String, f64)> {
    let world = World::new();
    write(
        &world.path("here/link.toml"),
        "name = \"link\"\nquestion = \"What does the link carry?\"\n\
         [testbed]\nrate = \"50 Mbit/s\"\n\
         [workload]\nkind = \"tcp-stream\"\nduration = \"2s\"\n\
         [factors]\ndirection = [\"to-guest\", \"from-guest\"]\n\
         [repeat]\nblocks = 1\n",
    );
    let common = ["run", "link.toml", "--seed=3", "--out=run", "--quiet"];
    let arguments: Vec<&str> = common.iter().chain(options).copied().collect();
    world.vioperf(&arguments).succeeded();
    let markdown = world.vioperf(&["report", "run", "--format=markdown"]).succeeded();
    assert!(markdown.stdout.contains("held to 50 Mbit/s each way"), "{}", markdown.stdout);
    let report = world.vioperf(&["report", "run", "--format=json"]).succeeded();
    let report: Value = serde_json::from_str(&report.stdout).unwrap();
    let cells = report["cells"].as_array().unwrap();
    let rate = |cell: &Value| {
        let mean = cell["receiver_bits_per_second"]["summary"]["mean"].as_f64().unwrap();
        (cell["id"].as_str().unwrap().to_owned(), mean)
    };
    cells.iter().map(rate).collect()
}

/// More than the link carries never arrives; less does where the machine is elsewhere for a while.
fn assert_share(options: &[&str], share: f64) {
    in_one_of_three(|| {
        let cells = received(options);
        assert_eq!(cells.len(), 2, "one cell a direction: {cells:?}");
        let of_expected = cells.iter().map(|(_, rate)| rate / (RATE * share));
        assert!(of_expected.clone().all(|part| part < 1.03), "{cells:?}");
        let met = of_expected.clone().all(|part| part > 0.97);
        if met { Ok(()) } else { Err(format!("{cells:?}")) }
    });
}

#[test]
fn tcp_gets_what_the_link_leaves_for_payload_either_way() {
    // A window below the link's queue: nothing is lost.
    assert_share(&["--set=socket_buffer=128 KiB"], TCP_SHARE);
}

#[test]
fn datagrams_beyond_the_rate_do_not_arrive_either_way() {
    assert_share(&["--set=kind=udp-stream", "--set=workload.rate=100 Mbit/s"], UDP_SHARE);
}

#[test]
fn a_rate_that_no_link_has_is_refused() {
    let refused = vioperf(&["plan", "nic-models", "--set=testbed.rate=9 bit/s"]);
    refused.failed_with(2, &["testbed.rate", "64 kbit/s"]);
}
