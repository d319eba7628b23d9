//! What loads read against what was planted in the kernel: a limit of the link (tc's tbf), random
//! losses (nftables), and the interface's own counters. Needs root, tc and nft.

// Helper functions stand outside #[test], where clippy.toml does not allow these by itself.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod nodes;

use std::thread::sleep;
use std::time::Duration;

use nodes::{
    Node, RECEIVER_ADDRESS, moved, on_interface, part, prepare_both, quiet_pair, receiver, run,
};
use serde_json::{Value, json};
use vioperf_model::sample::NodeReport;
use vioperf_model::wire::{Prepare, Request, Response, Role};
use vioperf_model::workload::Workload;

const ETHERNET: u64 = 14;
const IPV4: u64 = 20;
const UDP: u64 = 8;
/// With timestamps (RFC 7323), which the kernel sends by default.
const TCP: u64 = 20 + 12;
/// Of the links that the nodes' tests make.
const MTU: u64 = 1400;

fn workload(options: &Value) -> Workload {
    let mut workload = json!({ "warmup": "0s" });
    workload.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
    serde_json::from_value(workload).unwrap()
}

/// Prepares and runs a load from the first node to the second.
fn measure(nodes: &mut [Node; 2], options: &Value, time: Duration) -> [NodeReport; 2] {
    let wanted = workload(options);
    prepare_both(nodes, |prepare: &mut Prepare| *prepare.workload = wanted.clone(), wanted.streams);
    run_whole(nodes, time)
}

/// Runs a load that both have prepared, to its end.
fn run_whole(nodes: &mut [Node; 2], time: Duration) -> [NodeReport; 2] {
    let reports = run(nodes, time);
    for report in &reports {
        assert_eq!(report.load.as_ref().unwrap().ended_early, None, "{:?}", report.load);
    }
    reports
}

#[test]
fn every_datagram_is_on_the_interface_and_nothing_else() {
    let mut nodes = quiet_pair();
    for (kind, payload) in [("packet-rate", 18), ("packet-rate", 1000), ("udp-stream", 700)] {
        let options = json!({ "kind": kind, "payload": format!("{payload} B"), "streams": 2 });
        let [sent, received] = measure(&mut nodes, &options, Duration::from_millis(300));
        let load = received.load.as_ref().unwrap();
        let [out, arrived] = [moved(&sent), moved(&received)].map(|m| m.datagrams.unwrap());
        assert_eq!(moved(&sent).bytes, out * payload, "{options}");
        let [left, right] = [on_interface(&sent, "left"), on_interface(&received, "right")];
        // Beside the datagrams there are a few of 32 bytes, which tell where a flow ended.
        let told = left.tx_packets - out;
        assert!(told <= 40, "{options}: {told} packets are no datagrams of the load");
        let headers = ETHERNET + IPV4 + UDP;
        let bytes = out * (payload + headers) + told * (32 + headers);
        assert_eq!(left.tx_bytes, bytes, "{options}");
        let dropped = load.socket_drops.unwrap();
        let unheard = right.rx_packets - arrived - dropped;
        assert!(unheard <= 40, "{options}: {unheard} packets never came to the load");
        // The receiver looks last: it sees what was told after the sender's last look, too.
        let later = right.rx_packets - left.tx_packets;
        assert!(later <= 40, "{options}: {left:?} {right:?}");
        assert_eq!(right.rx_bytes, left.tx_bytes + later * (32 + headers), "{options}");
    }
}

#[test]
fn over_ipv6_every_datagram_takes_twenty_bytes_more() {
    let (mut nodes, _) = nodes::connected_pair();
    for (node, name, address) in [(0, "left", "fd07::1"), (1, "right", "fd07::2")] {
        nodes[node].must(&Request::ConfigureInterface(nodes::interface(name, address)));
    }
    for (kind, payload) in [("packet-rate", 18), ("udp-stream", 1352)] {
        let wanted = workload(&json!({ "kind": kind, "payload": format!("{payload} B") }));
        let adapt = |prepare: &mut Prepare| *prepare.workload = wanted.clone();
        nodes::prepare_at(&mut nodes, "fd07::2".parse().unwrap(), adapt, 1);
        let [sent, received] = run(&mut nodes, Duration::from_millis(300));
        let out = moved(&sent).datagrams.unwrap();
        let left = on_interface(&sent, "left");
        let other = left.tx_bytes - out * (payload + ETHERNET + IPV4 + 20 + UDP);
        // IPv6 talks by itself, and a flow's end is told.
        let others = left.tx_packets - out;
        assert!(others <= 40 && other <= others * 200, "{kind}: {others} others, {other} bytes");
        assert!(moved(&received).datagrams.unwrap() > 0);
    }
}

#[test]
fn every_byte_of_a_stream_is_on_the_interface_with_the_headers_of_its_packets() {
    let mut nodes = quiet_pair();
    // A packet of its own for every segment, so that each has its headers in the counters.
    nodes[0].command("ip link set dev left gso_max_segs 1");
    for streams in [1_u16, 4] {
        let options =
            json!({ "kind": "tcp-stream", "streams": streams, "socket_buffer": "64 KiB" });
        let [sent, received] = measure(&mut nodes, &options, Duration::from_millis(300));
        let [out, arrived] = [moved(&sent).bytes, moved(&received).bytes];
        let left = on_interface(&sent, "left");
        let payload = left.tx_bytes - left.tx_packets * (ETHERNET + IPV4 + TCP);
        let retransmitted = {
            let tcp = |at: &vioperf_model::sample::Sample| at.tcp.unwrap().segments_retransmitted;
            tcp(sent.samples.last().unwrap()) - tcp(&sent.samples[0])
        };
        // On the wire is what was received and what lies unread at the receiver: no more than its
        // buffers, of which the kernel gives twice what it is asked for (socket(7)). So at the sender,
        // from whose buffers the rest goes out after it has looked at its interface last.
        let buffers = u64::from(streams) * 2 * (64 << 10);
        let again = retransmitted * MTU;
        assert!(arrived.abs_diff(payload) <= buffers + again, "{arrived} {payload}");
        assert!((payload - again..=payload + buffers).contains(&out), "{payload} {out}");
        assert!(left.tx_bytes / left.tx_packets <= MTU + ETHERNET, "{left:?}");
    }
}

/// Payload received a second between the first sample after half a second and the last.
fn rate(report: &NodeReport) -> f64 {
    let started = report.samples[0].monotonic_ns;
    let mut samples =
        report.samples.iter().skip_while(|sample| sample.monotonic_ns < started + 500_000_000);
    let (first, last) = (samples.next().unwrap(), report.samples.last().unwrap());
    let bytes = last.load.unwrap().bytes - first.load.unwrap().bytes;
    bytes as f64 * 8e9 / (last.monotonic_ns - first.monotonic_ns) as f64
}

#[test]
fn a_limited_link_is_read_within_one_percent() {
    let payload_of_segment = MTU - IPV4 - TCP;
    for (options, payload, headers) in [
        (json!({ "kind": "tcp-stream" }), payload_of_segment, ETHERNET + IPV4 + TCP),
        (json!({ "kind": "udp-stream", "payload": "1300 B" }), 1300, ETHERNET + IPV4 + UDP),
        (json!({ "kind": "packet-rate", "payload": "400 B" }), 400, ETHERNET + IPV4 + UDP),
    ] {
        let mut nodes = quiet_pair();
        // The bucket holds 15 ms: for so long the machine may do something else, and no more than
        // 1 % of the time below can be made up for.
        nodes[0].command(
            "tc qdisc add dev left root tbf rate 100mbit burst 187500 latency 30ms mtu 2000",
        );
        let truth = 100e6 * payload as f64 / (payload + headers) as f64;
        // A machine that does something else for longer loses link time, and so reads less; more than
        // there is can never be read.
        let mut best = 0.0_f64;
        for _ in 0..5 {
            let [_, received] = measure(&mut nodes, &options, Duration::from_millis(2500));
            let read = rate(&received) / truth;
            assert!(read <= 1.01, "{options}: {read} of what the link carries");
            best = best.max(read);
            if best >= 0.99 {
                break;
            }
        }
        assert!(best >= 0.99, "{options}: {best} of what the link carries");
    }
}

/// Every datagram that was sent left the queueing discipline, was dropped by it or waits in it.
#[test]
fn what_a_queueing_discipline_drops_is_told() {
    let mut nodes = quiet_pair();
    nodes[0]
        .command("tc qdisc add dev left root tbf rate 20mbit burst 20000 latency 10ms mtu 2000");
    let options = json!({ "kind": "packet-rate", "payload": "1000 B" });
    let [sent, _] = measure(&mut nodes, &options, Duration::from_millis(300));
    let [before, after] = [0, 1].map(|at| {
        let disciplines = sent.layers[at].qdiscs.as_ref().unwrap();
        disciplines.iter().find(|found| found.kind == "tbf").unwrap()
    });
    assert_eq!((after.interface.as_str(), after.parent.as_str()), ("left", "root"));
    let dropped = after.drops - before.drops;
    let told = u64::from(after.packets - before.packets + dropped + after.queued_packets);
    let datagrams = moved(&sent).datagrams.unwrap();
    // Beside them there are a few that tell where a flow ended.
    assert!((datagrams..datagrams + 41).contains(&told), "{after:?} of {datagrams}");
    assert!(u64::from(dropped) > datagrams / 2, "{dropped} of {datagrams} dropped");
}

/// Drops datagrams of the load that come to this node's `port`, at random; by what is in their UDP
/// header they are told from those that prepare and end a load.
fn plant_loss(node: &Node, rule: &str) {
    node.command("nft add table inet truth");
    node.command("nft add chain inet truth input { type filter hook input priority 0 ; }");
    node.command(&format!("nft add rule inet truth input {rule} counter drop"));
}

/// How many were dropped.
fn planted_losses(node: &Node) -> u64 {
    let listing = node.command("nft list table inet truth");
    let (_, rest) = listing.split_once("counter packets ").unwrap();
    rest.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn a_planted_loss_is_read_and_is_not_the_sockets() {
    for percent in [1_u64, 10] {
        let mut nodes = quiet_pair();
        // 5000 a second: never more than the receiving sockets have room for.
        let options = json!({
            "kind": "udp-stream", "payload": "200 B", "rate": "4 Mbit/s", "streams": 2,
        });
        let wanted = workload(&options);
        prepare_both(&mut nodes, |own| *own.workload = wanted.clone(), wanted.streams);
        // Only now: the word that tries the path is as long as a datagram of the load.
        let rule = format!("udp length {} numgen random mod 100 < {percent}", 200 + UDP);
        plant_loss(&nodes[1], &rule);
        let [sent, received] = run_whole(&mut nodes, Duration::from_millis(2000));
        let load = received.load.as_ref().unwrap();
        let outcome = load.datagrams.unwrap();
        // Exactly what was dropped, and nothing of it where the sockets had no room.
        assert_eq!(outcome.lost, planted_losses(&nodes[1]), "{outcome:?}");
        assert_eq!(load.socket_drops, Some(0));
        assert_eq!((outcome.duplicated, outcome.late), (0, 0));
        // The interface had them all: they were lost after it.
        let out = moved(&sent).datagrams.unwrap();
        assert_eq!(outcome.received + outcome.lost, out);
        assert!(on_interface(&received, "right").rx_packets >= out);
        // Four standard errors of a binomial share.
        let share = percent as f64 / 100.0;
        let error = (share * (1.0 - share) / out as f64).sqrt();
        let read = outcome.lost as f64 / out as f64;
        assert!((read - share).abs() <= 4.0 * error, "{read} of {out} were lost, {share} planted");
    }
}

#[test]
fn requests_over_a_lossy_path_time_out_as_often_as_was_dropped_and_go_on() {
    let mut nodes = quiet_pair();
    let streams = 4;
    let options = json!({ "kind": "request-response", "transport": "udp", "streams": streams, "request_size": "40 B" });
    let wanted = workload(&options);
    let [asking, answering] = &mut nodes;
    let prepare = Request::Prepare(part(receiver(), wanted.clone()));
    let Response::Ready { port: Some(port) } = answering.must(&prepare) else {
        panic!("no port");
    };
    let peer = format!("{RECEIVER_ADDRESS}:{port}").parse().unwrap();
    asking.must(&Request::Prepare(part(Role::Sender { peer }, wanted)));
    // Everybody has greeted: what comes from now on are requests.
    plant_loss(answering, &format!("udp dport {port} numgen random mod 100 < 1"));
    let [asked, answered] = run(&mut nodes, Duration::from_millis(3000));
    let load = asked.load.as_ref().unwrap();
    assert_eq!([&load.ended_early, &answered.load.as_ref().unwrap().ended_early], [&None, &None]);
    let dropped = planted_losses(&nodes[1]);
    let timeouts = load.timeouts.unwrap();
    // Of each stream one may have been dropped too late to time out.
    assert!(timeouts <= dropped && dropped <= timeouts + streams, "{timeouts} {dropped}");
    // About 100 answers for each drop: it goes on after every one of them.
    let transactions = moved(&asked).transactions.unwrap();
    assert!(timeouts >= 20 && transactions > 20 * timeouts, "{timeouts} {transactions}");
    let samples = &asked.samples;
    let late = &samples[samples.len() * 3 / 4];
    assert!(late.load.unwrap().transactions.unwrap() < transactions, "it stood still");
}

#[test]
fn a_path_that_goes_down_ends_streams_in_a_bounded_time_with_what_was_measured() {
    for (options, patience) in [
        (json!({ "kind": "udp-stream", "payload": "100 B", "rate": "1 Mbit/s" }), 2500),
        (json!({ "kind": "packet-rate" }), 2500),
        (json!({ "kind": "tcp-stream", "streams": 3 }), 2500),
    ] {
        let mut nodes = quiet_pair();
        let wanted = workload(&options);
        prepare_both(&mut nodes, |prepare| *prepare.workload = wanted.clone(), wanted.streams);
        nodes[1].must(&Request::Start);
        nodes[0].must(&Request::Start);
        sleep(Duration::from_millis(500));
        nodes[1].take_down("right");
        sleep(Duration::from_millis(patience));
        let began = std::time::Instant::now();
        nodes[0].must(&Request::Stop);
        nodes[1].must(&Request::Stop);
        assert!(began.elapsed() < Duration::from_secs(4), "{options}: {:?}", began.elapsed());
        for node in &mut nodes {
            let report = node.collect();
            assert!(moved(&report).bytes > 0 && report.samples.len() > 50, "{options}");
        }
    }
}
