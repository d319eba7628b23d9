//! The loads request-response and connect-rate between two nodes over a veth pair: needs root for
//! network namespaces.

// Helper functions stand outside #[test], where clippy.toml does not allow these by itself.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod nodes;

use std::thread::sleep;
use std::time::{Duration, Instant};

use nodes::{Node, RECEIVER_ADDRESS, connected_pair, interface, part, prepare_at, receiver, run};
use serde_json::{Value, json};
use vioperf_model::sample::NodeReport;
use vioperf_model::wire::{Prepare, Request, Role};
use vioperf_model::workload::Workload;

fn requests(options: &Value) -> Workload {
    let mut workload = json!({ "kind": "request-response", "warmup": "0s" });
    let (Value::Object(to), Value::Object(from)) = (&mut workload, options) else {
        panic!("options are an object");
    };
    to.extend(from.clone());
    serde_json::from_value(workload).unwrap()
}

fn prepare(nodes: &mut [Node; 2], workload: &Workload) {
    let adapt = |prepare: &mut Prepare| *prepare.workload = workload.clone();
    prepare_at(nodes, RECEIVER_ADDRESS.parse().unwrap(), adapt, 1);
}

fn transactions(report: &NodeReport) -> u64 {
    report.samples.last().unwrap().load.unwrap().transactions.unwrap()
}

fn latencies(report: &NodeReport) -> u64 {
    let latency = report.load.as_ref().unwrap().latency.as_ref().unwrap();
    latency.buckets.iter().map(|[_, count]| count).sum()
}

/// Packets that an interface sent while the load ran.
fn packets(report: &NodeReport, name: &str) -> u64 {
    let sent = |at: usize| report.samples[at].interfaces.as_ref().unwrap()[name].tx_packets;
    sent(report.samples.len() - 1) - sent(0)
}

#[test]
fn both_ends_count_the_same_transactions_and_the_interface_agrees() {
    let (mut nodes, _) = connected_pair();
    for (options, under_way) in [
        (json!({ "transport": "tcp" }), 1),
        (json!({ "transport": "udp" }), 1),
        (json!({ "transport": "tcp", "streams": 4, "outstanding": 8 }), 32),
        (json!({ "transport": "udp", "streams": 4, "outstanding": 8 }), 32),
        (json!({ "transport": "tcp", "request_size": "100 B", "response_size": "1 KiB" }), 1),
        (json!({ "transport": "udp", "request_size": "1 KiB", "response_size": "5 B" }), 1),
        (json!({ "transport": "udp", "request_size": "65507 B" }), 1),
        (json!({ "request_size": "1 MiB", "response_size": "1 MiB", "outstanding": 4 }), 4),
    ] {
        let workload = requests(&options);
        prepare(&mut nodes, &workload);
        let [asked, answered] = run(&mut nodes, Duration::from_millis(300));
        let [out, back] = [transactions(&asked), transactions(&answered)];
        assert!(out > 20 && out <= back && back <= out + under_way, "{options}: {out} {back}");
        let outcome = asked.load.as_ref().unwrap();
        assert_eq!(outcome.ended_early, None, "{options}");
        assert_eq!(answered.load.as_ref().unwrap().ended_early, None, "{options}");
        assert_eq!(outcome.timeouts, (options["transport"] == "udp").then_some(0), "{options}");
        assert_eq!(latencies(&asked), out, "{options}");
        let latency = outcome.latency.as_ref().unwrap();
        assert!(latency.minimum_ns > 1_000 && latency.maximum_ns < 1_000_000_000, "{latency:?}");
        // One packet each way a transaction over UDP where it fits one; TCP may acknowledge alone.
        let sent = packets(&asked, "left");
        let small = workload.request_size.is_none_or(|size| size.as_bytes() < 1300);
        if small && under_way == 1 {
            let most = if options["transport"] == "udp" { out + 10 } else { out * 2 + 10 };
            assert!(sent >= out && sent <= most, "{options}: {sent} packets, {out} transactions");
        }
        let bytes = asked.samples.last().unwrap().load.unwrap().bytes;
        let request = workload.request_size.map_or(1, |size| size.as_bytes());
        assert!(bytes >= out * request && bytes <= (out + under_way) * request, "{options}");
    }
}

#[test]
fn connections_are_made_and_closed_without_end_and_every_one_is_counted() {
    let (mut nodes, _) = connected_pair();
    for streams in [1_u64, 4] {
        let options = json!({ "kind": "connect-rate", "streams": streams });
        prepare(&mut nodes, &requests(&options));
        let [asked, answered] = run(&mut nodes, Duration::from_millis(500));
        for report in [&asked, &answered] {
            assert_eq!(report.load.as_ref().unwrap().ended_early, None);
        }
        let [out, back] = [transactions(&asked), transactions(&answered)];
        assert!(out > 100 && out <= back && back <= out + streams, "{out} {back}");
        assert_eq!(latencies(&asked), out);
        // To connect two packets from here, the request, and at least the end of our side.
        let each = packets(&asked, "left") / out;
        assert!((4..=7).contains(&each), "{each} packets a transaction");
    }
}

#[test]
fn more_connections_than_ports_are_possible_as_the_receiver_closes_first() {
    let (mut nodes, _) = connected_pair();
    nodes[0].inside(|| {
        std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", "40000 40063").unwrap();
    });
    prepare(&mut nodes, &requests(&json!({ "kind": "connect-rate", "streams": 2 })));
    let [asked, _] = run(&mut nodes, Duration::from_millis(500));
    assert_eq!(asked.load.as_ref().unwrap().ended_early, None);
    assert!(transactions(&asked) > 3 * 64, "{}", transactions(&asked));
}

#[test]
fn ipv6_buffers_and_a_warm_up_work_too() {
    let (mut nodes, _) = connected_pair();
    for (node, name, address) in [(0, "left", "fd07::1"), (1, "right", "fd07::2")] {
        nodes[node].must(&Request::ConfigureInterface(interface(name, address)));
    }
    for options in [
        json!({ "transport": "tcp", "warmup": "200ms" }),
        json!({ "transport": "udp", "warmup": "200ms", "streams": 3, "socket_buffer": "64 KiB" }),
        json!({ "kind": "connect-rate", "warmup": "200ms", "socket_buffer": "64 KiB" }),
    ] {
        let adapt = |prepare: &mut Prepare| *prepare.workload = requests(&options);
        prepare_at(&mut nodes, "fd07::2".parse().unwrap(), adapt, 1);
        let [asked, _] = run(&mut nodes, Duration::from_millis(400));
        let (measured, all) = (latencies(&asked), transactions(&asked));
        assert!(measured > 10 && measured < all / 10 * 9, "{options}: {measured} of {all}");
    }
}

#[test]
fn an_open_loop_keeps_its_rate_over_all_streams() {
    let (mut nodes, _) = connected_pair();
    for transport in ["tcp", "udp"] {
        let options = json!({ "transport": transport, "streams": 3, "requests_per_second": 2000 });
        prepare(&mut nodes, &requests(&options));
        let [sender, receiver] = &mut nodes;
        receiver.must(&Request::Start);
        let began = Instant::now();
        sender.must(&Request::Start);
        sleep(Duration::from_millis(500));
        sender.must(&Request::Stop);
        let due = began.elapsed().as_secs_f64() * 2000.0;
        receiver.must(&Request::Stop);
        let [asked, answered] = [sender.collect(), receiver.collect()];
        assert_eq!(asked.load.as_ref().unwrap().not_sent, Some(0));
        let ended = transactions(&asked);
        assert!((0.9 * due..due + 3.0).contains(&(ended as f64)), "{transport}: {ended}, {due}");
        assert!(transactions(&answered) >= ended);
    }
}

#[test]
fn a_sender_that_dies_ends_the_receiver_early_and_what_was_measured_is_kept() {
    for options in [json!({}), json!({ "transport": "udp" }), json!({ "kind": "connect-rate" })] {
        let (mut nodes, _) = connected_pair();
        prepare(&mut nodes, &requests(&options));
        let [sender, receiver] = &mut nodes;
        receiver.must(&Request::Start);
        sender.must(&Request::Start);
        sleep(Duration::from_millis(200));
        sender.hang_up().unwrap();
        // What closes is known at once, silence after 5 s.
        sleep(Duration::from_millis(if options == json!({}) { 100 } else { 6000 }));
        receiver.must(&Request::Stop);
        let report = receiver.collect();
        let reason = report.load.as_ref().unwrap().ended_early.clone().unwrap();
        assert!(reason.contains("transactions: "), "{reason}");
        assert!(transactions(&report) > 10);
    }
}

#[test]
fn a_receiver_that_dies_ends_the_sender_early_and_what_was_measured_is_kept() {
    for options in [json!({}), json!({ "transport": "udp" }), json!({ "kind": "connect-rate" })] {
        let (mut nodes, _) = connected_pair();
        prepare(&mut nodes, &requests(&options));
        let [sender, receiver] = &mut nodes;
        receiver.must(&Request::Start);
        sender.must(&Request::Start);
        sleep(Duration::from_millis(200));
        receiver.hang_up().unwrap();
        sleep(Duration::from_millis(500));
        sender.must(&Request::Stop);
        let report = sender.collect();
        let reason = report.load.as_ref().unwrap().ended_early.clone().unwrap();
        assert!(reason.contains(RECEIVER_ADDRESS), "{options}: {reason}");
        assert!(transactions(&report) > 10 && latencies(&report) == transactions(&report));
    }
}

#[test]
fn a_path_that_goes_down_ends_every_load_in_a_bounded_time() {
    for options in [json!({}), json!({ "transport": "udp" }), json!({ "kind": "connect-rate" })] {
        let (mut nodes, _) = connected_pair();
        prepare(&mut nodes, &requests(&options));
        nodes[1].must(&Request::Start);
        nodes[0].must(&Request::Start);
        sleep(Duration::from_millis(200));
        nodes[1].take_down("right");
        sleep(Duration::from_millis(6500));
        let began = Instant::now();
        nodes[0].must(&Request::Stop);
        nodes[1].must(&Request::Stop);
        assert!(began.elapsed() < Duration::from_secs(1), "{options}: {:?}", began.elapsed());
        let report = nodes[0].collect();
        let reason = report.load.as_ref().unwrap().ended_early.clone().unwrap();
        assert!(reason.contains(RECEIVER_ADDRESS), "{options}: {reason}");
        assert!(transactions(&report) > 10);
    }
}

#[test]
fn what_cannot_be_had_is_named() {
    let (mut nodes, _) = connected_pair();
    let sender = &mut nodes[0];
    let peer = format!("{RECEIVER_ADDRESS}:9").parse().unwrap();
    for options in [json!({}), json!({ "transport": "udp" }), json!({ "kind": "connect-rate" })] {
        let ask = Request::Prepare(part(Role::Sender { peer }, requests(&options)));
        let message = sender.must_fail(&ask);
        assert!(message.contains("10.7.0.2:9"), "{options}: {message}");
        let none = Request::Prepare(part(receiver(), requests(&json!({ "streams": 0 }))));
        assert!(sender.must_fail(&none).contains("streams"));
    }
    let huge = json!({ "transport": "udp", "socket_buffer": "1 GiB" });
    let message = sender.must_fail(&Request::Prepare(part(receiver(), requests(&huge))));
    assert!(message.contains("SO_RCVBUF") && message.contains("net.core.rmem_max"), "{message}");
    // A receiver whose sender never greets says so at Start.
    let receiving = &mut nodes[1];
    receiving.must(&Request::Prepare(part(receiver(), requests(&json!({ "transport": "udp" })))));
    assert!(receiving.must_fail(&Request::Start).contains("0 of 1"));
}
