//! Where the threads of a load run: needs root for network namespaces, and two cores. A test file of
//! its own, as it looks at all threads of the process.

// Helper functions stand outside #[test], where clippy.toml does not allow these by itself.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod nodes;

use nodes::{connected_pair, prepare_both};
use serde_json::json;
use vioperf_model::wire::{Prepare, Request};
use vioperf_model::workload::Workload;

/// Where the load's threads in this process may run.
fn cores_of_load_threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let statuses =
        tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("status")).ok());
    let field = |status: &str, name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    let mut cores: Vec<String> = statuses
        .filter(|status| field(status, "Name:").starts_with("load-"))
        .map(|status| field(&status, "Cpus_allowed_list:"))
        .collect();
    cores.sort();
    cores
}

#[test]
fn threads_are_as_many_and_where_they_were_asked_to_be() {
    let (mut nodes, _) = connected_pair();
    for (kind, threads) in [
        (json!({ "kind": "tcp-stream", "threads": 3 }), 3),
        (json!({ "kind": "udp-stream", "threads": 3, "rate": "1 Mbit/s", "payload": "99 B" }), 3),
        (json!({ "kind": "packet-rate", "threads": 3, "receivers": "reuseport" }), 3),
        (json!({ "kind": "request-response" }), 4),
        (json!({ "kind": "connect-rate" }), 4),
    ] {
        let mut options = kind;
        options["streams"] = json!(4);
        options["sender_cpus"] = json!([1]);
        options["receiver_cpus"] = json!([0]);
        let workload: Workload = serde_json::from_value(options.clone()).unwrap();
        prepare_both(&mut nodes, |prepare: &mut Prepare| *prepare.workload = workload.clone(), 4);
        let [sender, receiver] = &mut nodes;
        receiver.must(&Request::Start);
        sender.must(&Request::Start);
        // A thread pins itself when it begins.
        std::thread::sleep(std::time::Duration::from_millis(50));
        let expected: Vec<&str> = [["0"; 4].get(..threads), ["1"; 4].get(..threads)]
            .into_iter()
            .flatten()
            .flatten()
            .copied()
            .collect();
        assert_eq!(cores_of_load_threads(), expected, "{options}");
        sender.must(&Request::Stop);
        receiver.must(&Request::Stop);
    }
}
