//! Nothing of a trial with requests is left for the next, and a node stays small with the most
//! streams: needs root for network namespaces. A test file of its own, as it counts what the whole
//! process has.

// Helper functions stand outside #[test], where clippy.toml does not allow these by itself.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod nodes;

use std::time::Duration;

use nodes::{RECEIVER_ADDRESS, await_at_most, connected_pair, prepare_at, run, threads_and_files};
use serde_json::json;
use vioperf_model::wire::Prepare;

/// What both nodes may hold resident more than before, in KiB: 16 MiB each.
const BOTH_NODES_KIB: u64 = 32 << 10;

/// A line of `/proc/self/status` in KiB.
fn resident_kib(line: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|found| found.strip_prefix(line)).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn no_thread_and_no_file_is_left_and_no_node_grows_beyond_its_bound() {
    let (mut nodes, _) = connected_pair();
    let before = threads_and_files();
    let resident = resident_kib("VmRSS:");
    for options in [
        json!({ "kind": "request-response" }),
        json!({ "kind": "request-response", "transport": "udp", "streams": 16 }),
        json!({ "kind": "connect-rate", "streams": 16 }),
        json!({ "kind": "request-response", "streams": 256, "request_size": "1 MiB" }),
        json!({ "kind": "request-response", "streams": 256, "transport": "udp",
                "requests_per_second": 5000, "response_size": "15 KiB" }),
        json!({ "kind": "connect-rate", "streams": 256, "response_size": "64 KiB" }),
    ] {
        let workload: vioperf_model::workload::Workload =
            serde_json::from_value(options.clone()).unwrap();
        let adapt = |prepare: &mut Prepare| *prepare.workload = workload.clone();
        prepare_at(&mut nodes, RECEIVER_ADDRESS.parse().unwrap(), adapt, 1);
        let [asked, _] = run(&mut nodes, Duration::from_millis(500));
        assert_eq!(asked.load.unwrap().ended_early, None, "{options}");
        let grown = resident_kib("VmHWM:").saturating_sub(resident);
        assert!(grown < BOTH_NODES_KIB, "{options}: {grown} KiB more than before");
        await_at_most(before);
    }
    let [sender, receiver] = &mut nodes;
    sender.hang_up().unwrap();
    receiver.hang_up().unwrap();
    // Two threads, and both ends of two channels.
    await_at_most([before[0] - 2, before[1] - 4]);
}
