//! What a workload asks of its sockets, against what the kernel and the path say: needs root for
//! network namespaces.

// Helper functions stand outside #[test], where clippy.toml does not allow these by itself.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod nodes;

use std::collections::BTreeSet;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::socket::{
    AddressFamily, SockFlag, SockProtocol, SockType, recv, setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};
use nodes::{
    Node, RECEIVER_ADDRESS, connected_pair, interface, part, prepare_at, prepare_both, receiver,
    run,
};
use serde_json::{Value, json};
use vioperf_model::sample::{LoadOutcome, NodeReport};
use vioperf_model::wire::{Prepare, Request, Role};
use vioperf_model::workload::Workload;

fn load(options: &Value) -> Workload {
    serde_json::from_value(options.clone()).unwrap()
}

fn prepare(nodes: &mut [Node; 2], options: &Value) {
    let workload = load(options);
    prepare_both(nodes, |prepare: &mut Prepare| *prepare.workload = workload.clone(), 1);
}

fn outcome(report: &NodeReport) -> &LoadOutcome {
    report.load.as_ref().unwrap()
}

fn bytes(report: &NodeReport) -> u64 {
    outcome(report).streams.iter().map(|stream| stream.bytes).sum()
}

/// Runs it, with time between the ends for what is still in buffers.
fn run_to_the_last_byte(nodes: &mut [Node; 2], time: Duration) -> [NodeReport; 2] {
    let [sender, receiver] = nodes;
    receiver.must(&Request::Start);
    sender.must(&Request::Start);
    sleep(time);
    sender.must(&Request::Stop);
    let began = Instant::now();
    let silent = |receiver: &Node| receiver.inside(segments_received);
    while began.elapsed() < Duration::from_secs(5) {
        let before = silent(receiver);
        sleep(Duration::from_millis(200));
        if silent(receiver) == before {
            break;
        }
    }
    receiver.must(&Request::Stop);
    [sender.collect(), receiver.collect()]
}

/// Packets that the namespace's interface has received.
fn segments_received() -> String {
    let text = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let line = text.lines().find(|line| line.trim_start().starts_with("right:")).unwrap();
    line.split_whitespace().nth(2).unwrap().to_owned()
}

#[test]
fn every_byte_arrives_however_it_is_sent_and_received() {
    let (mut nodes, _) = connected_pair();
    for send in ["copy", "zerocopy", "sendfile", "splice"] {
        for (receive, streams) in [("copy", 1), ("discard", 1), ("discard", 5)] {
            let options = json!({ "kind": "tcp-stream", "send": send, "receive": receive,
                "streams": streams, "message_size": "100 KiB" });
            prepare(&mut nodes, &options);
            let [sent, received] = run_to_the_last_byte(&mut nodes, Duration::from_millis(200));
            assert!(bytes(&sent) > 1 << 20, "{options}: {}", bytes(&sent));
            assert_eq!(bytes(&sent), bytes(&received), "{options}");
            for report in [&sent, &received] {
                assert_eq!(outcome(report).ended_early, None, "{options}");
            }
            let Some(zerocopy) = outcome(&sent).zerocopy else {
                assert_ne!(send, "zerocopy", "nothing is known of it");
                continue;
            };
            // The last ones were still under way when it was told to stop.
            assert_eq!(send, "zerocopy");
            let under_way = zerocopy.sent - zerocopy.completed;
            assert!(under_way <= 64 * streams, "{zerocopy:?}");
            // Both ends are on this machine: the kernel copies what it delivers to itself.
            assert!(zerocopy.copied > 0 && zerocopy.copied <= zerocopy.completed, "{zerocopy:?}");
        }
    }
}

#[test]
fn segments_are_as_small_as_asked_and_the_path_is_told() {
    let (mut nodes, _) = connected_pair();
    for kind in ["tcp-stream", "request-response"] {
        for mss in [500, 1000] {
            prepare(&mut nodes, &json!({ "kind": kind, "mss": mss }));
            for report in run(&mut nodes, Duration::from_millis(100)) {
                let tcp = outcome(&report).streams[0].tcp.unwrap();
                // Time stamps take 12 bytes of each.
                assert_eq!(tcp.send_mss_bytes, mss - 12, "{kind}");
                assert_eq!(tcp.path_mtu_bytes, 1400);
            }
        }
    }
    // The interfaces' MTU is 1400.
    let message = refusal(&mut nodes, &json!({ "kind": "tcp-stream", "mss": 1400 }));
    assert!(message.contains("mss cannot be 1400") && message.contains("1360"), "{message}");
}

/// The sender's words for a load that the receiver could prepare.
fn refusal(nodes: &mut [Node; 2], options: &Value) -> String {
    use vioperf_model::wire::Response;
    let [sender, receiving] = nodes;
    let ask = Request::Prepare(part(receiver(), load(options)));
    let Response::Ready { port: Some(port) } = receiving.must(&ask) else { panic!("no port") };
    let peer = format!("{RECEIVER_ADDRESS}:{port}").parse().unwrap();
    let message = sender.must_fail(&Request::Prepare(part(Role::Sender { peer }, load(options))));
    receiving.must(&Request::Stop);
    message
}

#[test]
fn buffers_are_as_large_as_asked_and_recorded() {
    let (mut nodes, _) = connected_pair();
    for options in [
        json!({ "kind": "tcp-stream" }),
        json!({ "kind": "request-response", "transport": "tcp" }),
        json!({ "kind": "request-response", "transport": "udp" }),
        json!({ "kind": "udp-stream", "rate": "1 Mbit/s", "payload": "99 B" }),
        json!({ "kind": "packet-rate" }),
    ] {
        // More than sysctl net.core.rmem_max allows without privileges.
        for asked in [100 << 10, 9 << 20] {
            let mut options = options.clone();
            options["socket_buffer"] = json!(format!("{asked} B"));
            prepare(&mut nodes, &options);
            for report in run(&mut nodes, Duration::from_millis(50)) {
                let given = outcome(&report).socket_buffers.unwrap();
                // The kernel doubles it for its own bookkeeping (socket(7)).
                assert_eq!(given.send_bytes, 2 * asked, "{options}");
                assert_eq!(given.receive_bytes, 2 * asked, "{options}");
            }
        }
    }
}

/// The DSCP of every IP packet that an interface sees while something goes on.
fn code_points(stop: &AtomicBool) -> BTreeSet<u8> {
    // Both ways and all protocols; the addresses of the link layer are left out.
    let all = SockProtocol::EthAll;
    let packets =
        socket(AddressFamily::Packet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, all).unwrap();
    setsockopt(&packets, sockopt::ReceiveTimeout, &TimeVal::milliseconds(50)).unwrap();
    let mut seen = BTreeSet::new();
    let mut packet = [0; 64];
    let end = Instant::now() + Duration::from_secs(10);
    while !stop.load(Ordering::Relaxed) && Instant::now() < end {
        let Ok(length) =
            recv(packets.as_raw_fd(), &mut packet, nix::sys::socket::MsgFlags::empty())
        else {
            continue;
        };
        match (packet[0] >> 4, packet[6]) {
            (4, _) if length >= 20 => drop(seen.insert(packet[1] >> 2)),
            // All but neighbour discovery, which is the kernel's.
            (6, protocol) if length >= 40 && protocol != 58 => {
                seen.insert((packet[0] << 4 | packet[1] >> 4) >> 2);
            }
            _ => {}
        }
    }
    seen
}

/// The code points that the receiver's interface sees of a load.
fn code_points_of(nodes: &mut [Node; 2], workload: &Workload, address: &str) -> BTreeSet<u8> {
    let namespace = nodes[1].namespace_file();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watching = scope.spawn(|| nodes::inside(&namespace, || code_points(&stop)));
        sleep(Duration::from_millis(20));
        let adapt = |prepare: &mut Prepare| *prepare.workload = workload.clone();
        prepare_at(nodes, address.parse().unwrap(), adapt, 1);
        run(nodes, Duration::from_millis(100));
        stop.store(true, Ordering::Relaxed);
        watching.join().unwrap()
    })
}

#[test]
fn every_packet_of_every_load_has_its_code_point() {
    let (mut nodes, _) = connected_pair();
    for address in [RECEIVER_ADDRESS, "fd07::2"] {
        if address == "fd07::2" {
            for (node, name, own) in [(0, "left", "fd07::1"), (1, "right", "fd07::2")] {
                nodes[node].must(&Request::ConfigureInterface(interface(name, own)));
            }
        }
        for options in [
            json!({ "kind": "tcp-stream" }),
            json!({ "kind": "udp-stream", "rate": "1 Mbit/s", "payload": "99 B" }),
            json!({ "kind": "packet-rate" }),
            json!({ "kind": "request-response", "transport": "tcp" }),
            json!({ "kind": "request-response", "transport": "udp" }),
            json!({ "kind": "connect-rate" }),
        ] {
            let workload = Workload { dscp: Some(46), ..load(&options) };
            let seen = code_points_of(&mut nodes, &workload, address);
            assert!(seen.contains(&46), "{options}: {seen:?}");
            // Resets and the last segments of closed connections are the kernel's, without a socket.
            let others: Vec<&u8> = seen.iter().filter(|seen| ![46, 0].contains(*seen)).collect();
            assert!(others.is_empty(), "{options}: {seen:?}");
            let unmarked = load(&options);
            assert_eq!(code_points_of(&mut nodes, &unmarked, address), [0].into(), "{options}");
        }
    }
}

/// Bytes received per second, without the first half second, in which a paced connection sends its first
/// window.
fn received_rate(nodes: &mut [Node; 2], options: &Value) -> f64 {
    prepare(nodes, options);
    let [_, received] = run(nodes, Duration::from_millis(1500));
    assert_eq!(outcome(&received).ended_early, None, "{options}");
    let samples = &received.samples;
    let from_ns = samples[0].monotonic_ns + 500_000_000;
    let begin = samples.iter().find(|sample| sample.monotonic_ns >= from_ns).unwrap();
    let end = samples.last().unwrap();
    let moved = end.load.unwrap().bytes - begin.load.unwrap().bytes;
    moved as f64 / ((end.monotonic_ns - begin.monotonic_ns) as f64 / 1e9)
}

#[test]
fn a_stream_keeps_its_rate_by_the_clock_and_by_the_kernel() {
    let (mut nodes, _) = connected_pair();
    for options in [
        json!({ "rate": "80 Mbit/s" }),
        json!({ "rate": "80 Mbit/s", "burst": 4, "message_size": "10 KB" }),
        json!({ "rate": "16 Mbit/s", "streams": 5, "send": "splice" }),
        json!({ "rate": "80 Mbit/s", "send": "zerocopy", "receive": "discard" }),
        json!({ "pacing": "80 Mbit/s" }),
    ] {
        let mut options = options;
        options["kind"] = json!("tcp-stream");
        options["message_size"] = options.get("message_size").cloned().unwrap_or(json!("64 KiB"));
        // What a machine is too busy to send in time is never sent: one quiet attempt is enough. No attempt
        // may be too fast. A message more or less in a second is 0.7 %, pacing counts headers too.
        let rates: Vec<f64> = (0..5)
            .map(|_| received_rate(&mut nodes, &options) / 10e6)
            .inspect(|rate| assert!(*rate < 1.05, "{options}: {rate}"))
            .take_while(|rate| *rate < 0.95)
            .collect();
        assert!(rates.len() < 5, "{options}: {rates:?} of what was asked for");
    }
}

/// The congestion control of every connection, as the kernel tells of it (`ss -ti`).
fn congestion_controls(node: &Node) -> String {
    node.inside(|| {
        let ss = std::process::Command::new("ss").args(["-tinH"]).output().unwrap();
        String::from_utf8(ss.stdout).unwrap()
    })
}

#[test]
fn congestion_control_is_what_was_asked_for_at_both_ends() {
    let (mut nodes, _) = connected_pair();
    for kind in ["tcp-stream", "request-response"] {
        prepare(&mut nodes, &json!({ "kind": kind, "congestion_control": "reno", "streams": 2 }));
        let [sender, receiving] = &mut nodes;
        receiving.must(&Request::Start);
        sender.must(&Request::Start);
        for node in [&*sender, &*receiving] {
            let told = congestion_controls(node);
            assert_eq!(told.matches(" reno ").count(), 2, "{told}");
        }
        sender.must(&Request::Stop);
        receiving.must(&Request::Stop);
    }
}

#[test]
fn what_the_kernel_refuses_is_named() {
    let (mut nodes, _) = connected_pair();
    for (options, named) in [
        (json!({ "kind": "tcp-stream", "congestion_control": "nosuch" }), "TCP_CONGESTION"),
        (json!({ "kind": "connect-rate", "congestion_control": "nosuch" }), "nosuch"),
        (json!({ "kind": "tcp-stream", "mss": 40_000 }), "TCP_MAXSEG (mss) = 40000"),
        (json!({ "kind": "packet-rate", "receiver_cpus": [4000] }), "receiver_cpus = 4000"),
        (json!({ "kind": "request-response", "receiver_cpus": 1000 }), "receiver_cpus"),
        (json!({ "kind": "tcp-stream", "threads": 0 }), "threads"),
    ] {
        let message = nodes[1].must_fail(&Request::Prepare(part(receiver(), load(&options))));
        assert!(message.contains(named), "{options}: {message}");
    }
    let message = refusal(&mut nodes, &json!({ "kind": "udp-stream", "sender_cpus": [0, 999] }));
    assert!(message.contains("sender_cpus = 999"), "{message}");
}
