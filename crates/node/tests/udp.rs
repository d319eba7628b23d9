//! The loads of datagrams between two nodes over a veth pair: needs root for network namespaces.

// Helper functions stand outside #[test], where clippy.toml does not allow these by itself.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod nodes;

use std::net::IpAddr;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nodes::{
    RECEIVER_ADDRESS, connected_pair, interface, moved, on_interface, part, prepare_at,
    prepare_both, receiver, run,
};
use vioperf_model::sample::NodeReport;
use vioperf_model::units::{BitRate, ByteSize, TimeSpan};
use vioperf_model::wire::{InterfaceConfig, Prepare, Request, Response, Role, Spread};
use vioperf_model::workload::{Receivers, Workload, WorkloadKind};

/// Ethernet, IPv4 and UDP headers.
const HEADERS: u64 = 14 + 20 + 8;
/// What else may be on a link that has just come up: neighbour discovery, at most.
const OTHER_PACKETS: u64 = 30;

fn load(kind: WorkloadKind, payload: u64) -> Workload {
    let payload = Some(ByteSize::from_bytes(payload));
    Workload { payload, ..Workload::new(kind) }
}

#[test]
fn a_path_that_swallows_long_datagrams_is_told_with_the_length_that_passes() {
    let (mut nodes, _) = connected_pair();
    // A veth drops what is longer than its peer's MTU, without a word: a black hole.
    let mut narrow = interface("right", RECEIVER_ADDRESS);
    narrow.mtu = 1000;
    nodes[1].must(&Request::ConfigureInterface(narrow));
    // A frame may be 4 bytes longer than MTU and header: a VLAN tag. IPv4 and UDP take 28 bytes.
    let longest = 1000 + 4 - 28;
    prepare_both(
        &mut nodes,
        |prepare| *prepare.workload = load(WorkloadKind::UdpStream, longest),
        1,
    );
    for node in &mut nodes {
        node.must(&Request::Stop);
    }
    let [sender, receiving] = &mut nodes;
    let workload = load(WorkloadKind::UdpStream, 1300);
    let Response::Ready { port: Some(port) } =
        receiving.must(&Request::Prepare(part(receiver(), workload.clone())))
    else {
        panic!("no port");
    };
    let peer = format!("{RECEIVER_ADDRESS}:{port}").parse().unwrap();
    let message = sender.must_fail(&Request::Prepare(part(Role::Sender { peer }, workload)));
    let passes = message.split("at most ").nth(1).and_then(|rest| rest.split(' ').next());
    let passes: u64 = passes.unwrap().parse().unwrap();
    assert!(message.contains("1300 B"), "{message}");
    assert!((longest - 4..=longest).contains(&passes), "{message}");
}

fn ended_early(report: &NodeReport) -> Option<String> {
    report.load.as_ref().unwrap().ended_early.clone()
}

#[test]
fn datagrams_are_as_many_as_the_interfaces_count_however_they_are_received() {
    let (mut nodes, _) = connected_pair();
    for (streams, receivers, batch) in [
        (1, None, None),
        (4, Some(Receivers::One), Some(1)),
        (4, Some(Receivers::Shared), Some(64)),
        (5, Some(Receivers::Reuseport), Some(1024)),
    ] {
        let workload = Workload { streams, receivers, batch, ..load(WorkloadKind::PacketRate, 18) };
        let adapt = |prepare: &mut Prepare| *prepare.workload = workload.clone();
        prepare_both(&mut nodes, adapt, streams);
        let [sent, received] = run(&mut nodes, Duration::from_millis(300));
        for report in [&sent, &received] {
            let counted = moved(report);
            assert_eq!(ended_early(report), None);
            assert_eq!(counted.bytes, counted.datagrams.unwrap() * 18);
            let flows = &report.load.as_ref().unwrap().streams;
            assert_eq!(flows.len(), usize::from(streams));
            assert!(flows.iter().all(|flow| flow.bytes > 0), "{flows:?}");
            assert_eq!(flows.iter().map(|flow| flow.bytes).sum::<u64>(), counted.bytes);
            assert_eq!(report.samples[0].load.unwrap().datagrams, Some(0));
        }
        let datagrams = moved(&sent).datagrams.unwrap();
        let left = on_interface(&sent, "left");
        assert!((datagrams..datagrams + OTHER_PACKETS).contains(&left.tx_packets), "{left:?}");
        assert!(left.tx_bytes >= datagrams * (18 + HEADERS), "{left:?}");
        let outcome = received.load.as_ref().unwrap();
        assert_eq!((outcome.datagrams, outcome.foreign_datagrams), (None, Some(0)));
        let arrived = moved(&received).datagrams.unwrap() + outcome.socket_drops.unwrap();
        let right = on_interface(&received, "right");
        assert!((arrived..arrived + OTHER_PACKETS).contains(&right.rx_packets), "{right:?}");
    }
}

#[test]
fn segmentation_counts_datagrams_and_not_packets() {
    let (mut nodes, _) = connected_pair();
    let segmented = |payload, batch| Workload {
        segmentation: true,
        batch,
        ..load(WorkloadKind::PacketRate, payload)
    };
    for (payload, batch) in [(18, None), (18, Some(3)), (1372, Some(100))] {
        let workload = segmented(payload, batch);
        prepare_both(&mut nodes, |prepare| *prepare.workload = workload.clone(), 1);
        let [sent, received] = run(&mut nodes, Duration::from_millis(200));
        assert_eq!([ended_early(&sent), ended_early(&received)], [None, None]);
        let [out, arrived] = [moved(&sent), moved(&received)];
        assert_eq!(out.bytes, out.datagrams.unwrap() * payload);
        assert_eq!(arrived.bytes, arrived.datagrams.unwrap() * payload);
        assert!(arrived.datagrams <= out.datagrams && arrived.bytes > 0);
        let packets = on_interface(&sent, "left").tx_packets;
        assert!(packets < out.datagrams.unwrap(), "{packets} packets, {out:?}");
        assert_eq!(received.load.unwrap().foreign_datagrams, Some(0));
    }
}

#[test]
fn a_paced_flow_keeps_time_and_all_of_it_arrives() {
    let (mut nodes, _) = connected_pair();
    for streams in [1, 3] {
        // 2000 datagrams a second and flow.
        let rate = Some(BitRate::from_bits_per_second(2_000 * 200 * 8));
        let workload = Workload { rate, streams, ..load(WorkloadKind::UdpStream, 200) };
        prepare_both(&mut nodes, |prepare| *prepare.workload = workload.clone(), streams);
        let [sent, received] = run(&mut nodes, Duration::from_millis(1000));
        assert_eq!([ended_early(&sent), ended_early(&received)], [None, None]);
        // Where the machine was elsewhere for long, some were due but not sent: they are counted.
        let [first, last] = [sent.samples.first(), sent.samples.last()].map(|s| s.unwrap());
        let seconds = (last.monotonic_ns - first.monotonic_ns) as f64 / 1e9;
        let not_sent = sent.load.as_ref().unwrap().not_sent.unwrap();
        let due = last.load.unwrap().datagrams.unwrap() + not_sent;
        let rate = due as f64 / seconds / f64::from(streams);
        assert!((1_850.0..2_100.0).contains(&rate), "{rate} a second");
        let outcome = received.load.as_ref().unwrap().datagrams.unwrap();
        assert_eq!(outcome.received, moved(&sent).datagrams.unwrap());
        assert_eq!(
            (outcome.lost, outcome.duplicated, outcome.reordered, outcome.late),
            (0, 0, 0, 0)
        );
        assert!((1..50_000_000).contains(&outcome.jitter_ns), "{outcome:?}");
        // Each flow's end is told beside its datagrams, perhaps more than once.
        let right = on_interface(&received, "right");
        let expected = outcome.received + u64::from(streams);
        assert!((expected..expected + OTHER_PACKETS).contains(&right.rx_packets), "{right:?}");
    }
}

#[test]
fn at_full_speed_what_is_lost_is_what_found_no_room() {
    let (mut nodes, _) = connected_pair();
    for (streams, bind) in [(1, RECEIVER_ADDRESS), (6, "fd07::2")] {
        if bind != RECEIVER_ADDRESS {
            for (node, name, address) in [(0, "left", "fd07::1"), (1, "right", bind)] {
                nodes[node].must(&Request::ConfigureInterface(interface(name, address)));
            }
        }
        let small = Some(ByteSize::from_kib(16));
        let workload =
            Workload { streams, socket_buffer: small, ..load(WorkloadKind::UdpStream, 1300) };
        let adapt = |prepare: &mut Prepare| *prepare.workload = workload.clone();
        prepare_at(&mut nodes, bind.parse().unwrap(), adapt, streams);
        let [sent, received] = run(&mut nodes, Duration::from_millis(300));
        assert_eq!([ended_early(&sent), ended_early(&received)], [None, None]);
        let load = received.load.as_ref().unwrap();
        let outcome = load.datagrams.unwrap();
        assert_eq!(outcome.received, moved(&received).datagrams.unwrap());
        assert_eq!(outcome.received + outcome.lost, moved(&sent).datagrams.unwrap());
        assert_eq!((outcome.duplicated, outcome.late), (0, 0));
        // What tells of a flow's end may find no room either.
        let told = load.socket_drops.unwrap();
        assert!((outcome.lost..outcome.lost + 200).contains(&told), "{told} {outcome:?}");
        // The kernel's own counter, over the whole load and what is told after it.
        let name = if bind == RECEIVER_ADDRESS { "UdpRcvbufErrors" } else { "Udp6RcvbufErrors" };
        let [before, after] =
            [0, 1].map(|at| received.layers[at].protocols.as_ref().unwrap()[name]);
        assert!((told..told + 200).contains(&(after - before)), "{told} {before} {after}");
    }
}

#[test]
fn a_receiver_that_dies_ends_the_load() {
    for kind in [WorkloadKind::UdpStream, WorkloadKind::PacketRate] {
        let (mut nodes, _) = connected_pair();
        prepare_both(&mut nodes, |prepare| *prepare.workload = load(kind, 100), 2);
        let [sender, receiver] = &mut nodes;
        receiver.must(&Request::Start);
        sender.must(&Request::Start);
        sleep(Duration::from_millis(100));
        receiver.hang_up().unwrap();
        sleep(Duration::from_millis(1500));
        let began = Instant::now();
        sender.must(&Request::Stop);
        assert!(began.elapsed() < Duration::from_secs(2));
        let report = sender.collect();
        let reason = ended_early(&report).unwrap();
        assert!(reason.contains(RECEIVER_ADDRESS) && reason.contains("nobody"), "{reason}");
        assert!(moved(&report).bytes > 0);
    }
}

#[test]
fn a_path_that_vanishes_ends_the_load() {
    let (nodes, _) = connected_pair();
    let mut nodes = nodes;
    let workload = load(WorkloadKind::PacketRate, 100);
    prepare_both(&mut nodes, |prepare| *prepare.workload = workload.clone(), 2);
    let [mut sender, mut receiver] = nodes;
    receiver.must(&Request::Start);
    sender.must(&Request::Start);
    sleep(Duration::from_millis(100));
    // Its namespace takes the veth pair with it.
    drop(receiver);
    sleep(Duration::from_millis(2500));
    sender.must(&Request::Stop);
    let report = sender.collect();
    let reason = ended_early(&report).unwrap();
    assert!(reason.contains("flow") && reason.contains(RECEIVER_ADDRESS), "{reason}");
}

#[test]
fn a_sender_that_dies_leaves_what_was_measured_and_the_deadline_ends_a_lost_load() {
    let (mut nodes, _) = connected_pair();
    let workload = load(WorkloadKind::UdpStream, 1000);
    prepare_both(&mut nodes, |prepare| *prepare.workload = workload.clone(), 3);
    let [sender, receiver] = &mut nodes;
    receiver.must(&Request::Start);
    sender.must(&Request::Start);
    sleep(Duration::from_millis(100));
    sender.hang_up().unwrap();
    receiver.must(&Request::Stop);
    assert!(receiver.collect().load.unwrap().datagrams.unwrap().received > 0);

    let (mut nodes, _) = connected_pair();
    let adapt = |prepare: &mut Prepare| {
        *prepare.workload = workload.clone();
        prepare.deadline = TimeSpan::from_millis(200);
    };
    prepare_both(&mut nodes, adapt, 1);
    let [sent, received] = run(&mut nodes, Duration::from_millis(600));
    for report in [&sent, &received] {
        assert!(ended_early(report).unwrap().contains("200ms"));
        assert!(moved(report).bytes > 0);
    }
}

#[test]
fn what_cannot_be_had_is_named() {
    let (mut nodes, _) = connected_pair();
    let [sender, receiving] = &mut nodes;
    let peer = format!("{RECEIVER_ADDRESS}:9").parse().unwrap();
    let stream = || load(WorkloadKind::UdpStream, 100);
    let message = sender.must_fail(&Request::Prepare(part(Role::Sender { peer }, stream())));
    assert!(message.contains("10.7.0.2:9 answers for flow 1 of 1"), "{message}");

    let whole = Workload::new(WorkloadKind::UdpStream);
    let message = sender.must_fail(&Request::Prepare(part(Role::Sender { peer }, whole)));
    assert!(message.contains("MTU") && message.contains("1372"), "{message}");

    let rate = |workload: Workload| Workload {
        kind: WorkloadKind::PacketRate,
        payload: workload.payload.or(Some(ByteSize::from_bytes(18))),
        ..workload
    };
    let none = ByteSize::from_bytes(0);
    for (workload, word) in [
        (Workload { streams: 0, ..stream() }, "streams"),
        (Workload { payload: Some(none), ..stream() }, "payload"),
        (load(WorkloadKind::UdpStream, 31), "32 B to 65507 B"),
        (load(WorkloadKind::PacketRate, 65_508), "payload"),
        (rate(Workload { batch: Some(0), ..stream() }), "batch"),
        (rate(Workload { batch: Some(1025), ..stream() }), "batch"),
        (Workload { rate: Some(BitRate::from_bits_per_second(0)), ..stream() }, "rate"),
        (Workload { socket_buffer: Some(ByteSize::from_mib(1 << 20)), ..stream() }, "SO_RCVBUF"),
    ] {
        let message = receiving.must_fail(&Request::Prepare(part(receiver(), workload)));
        assert!(message.contains(word), "{word}: {message}");
    }
    let elsewhere = Role::Receiver { bind: "192.0.2.1".parse().unwrap() };
    let message = receiving.must_fail(&Request::Prepare(part(elsewhere, stream())));
    assert!(message.contains("192.0.2.1"), "{message}");

    receiving.must(&Request::Prepare(part(receiver(), stream())));
    let message = receiving.must_fail(&Request::Start);
    assert!(message.contains("0 of 1 flows"), "{message}");
}

#[test]
fn flows_are_spread_over_addresses_and_ports_however_they_are_received() {
    let (mut nodes, _) = connected_pair();
    let addresses = |end: u8| -> Vec<IpAddr> {
        (0..2).map(|number| IpAddr::from([10, 7, 0, end + 10 * number])).collect()
    };
    let (sources, destinations) = (addresses(1), addresses(2));
    for (node, name, addresses) in [(0, "left", &sources), (1, "right", &destinations)] {
        let config = InterfaceConfig {
            settings: Default::default(),
            ports: None,
            further_addresses: addresses[1..].to_vec(),
            routes: vec![],
            ..interface(name, &addresses[0].to_string())
        };
        nodes[node].must(&Request::ConfigureInterface(config));
    }
    let spread = Spread { sources, destinations, ..Spread::default() };
    for (kind, receivers) in [
        (WorkloadKind::PacketRate, Some(Receivers::One)),
        (WorkloadKind::PacketRate, Some(Receivers::Shared)),
        (WorkloadKind::PacketRate, Some(Receivers::Reuseport)),
        (WorkloadKind::UdpStream, None),
    ] {
        let datagrams = kind == WorkloadKind::PacketRate;
        let workload = Workload {
            streams: 12,
            receivers,
            source_addresses: Some(2),
            destination_addresses: Some(2),
            destination_ports: Some(3),
            datagrams_per_second: datagrams.then_some(12_000),
            rate: (!datagrams).then_some(BitRate::from_bits_per_second(1_000 * 100 * 8)),
            ..load(kind, 100)
        };
        let adapt = |prepare: &mut Prepare| {
            *prepare.workload = workload.clone();
            prepare.spread = spread.clone();
        };
        prepare_both(&mut nodes, adapt, 12);
        let places = nodes[1].inside(bound_places);
        let [sent, received] = run(&mut nodes, Duration::from_millis(300));
        assert_eq!([ended_early(&sent), ended_early(&received)], [None, None]);
        assert_eq!(places, 6, "{kind:?} {receivers:?}");
        assert_eq!(moved(&received).datagrams, moved(&sent).datagrams);
        let flows = &received.load.as_ref().unwrap().streams;
        assert!(flows.iter().all(|flow| flow.bytes > 0), "{flows:?}");
    }
    let workload =
        Workload { source_addresses: Some(2), streams: 2, ..load(WorkloadKind::PacketRate, 100) };
    let peer = format!("{RECEIVER_ADDRESS}:9").parse().unwrap();
    let message = nodes[0].must_fail(&Request::Prepare(part(Role::Sender { peer }, workload)));
    assert!(
        message.contains("source_addresses") && message.contains("destination_ports"),
        "{message}"
    );
}

/// Addresses and ports at which somebody listens by UDP in the network namespace of the thread.
fn bound_places() -> usize {
    let table = std::fs::read_to_string("/proc/thread-self/net/udp").unwrap();
    let places = table.lines().skip(1).filter_map(|line| line.split_ascii_whitespace().nth(1));
    places.collect::<std::collections::BTreeSet<&str>>().len()
}
