//! The load tcp-stream between two nodes over a veth pair: needs root for network namespaces.

// Helper functions stand outside #[test], where clippy.toml does not allow these by itself.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod nodes;

use std::thread::sleep;
use std::time::{Duration, Instant};

use nodes::{
    Node, RECEIVER_ADDRESS, connected_pair, interface, part, prepare_at, prepare_both, receiver,
    run, workload,
};
use vioperf_model::sample::NodeReport;
use vioperf_model::units::{ByteSize, TimeSpan};
use vioperf_model::wire::{InterfaceSelector, Prepare, Request, Role, WatchedProcess};
use vioperf_node::Ending;

fn bytes_of_streams(report: &NodeReport) -> u64 {
    report.load.as_ref().unwrap().streams.iter().map(|stream| stream.bytes).sum()
}

#[test]
fn what_arrives_is_what_streams_and_interface_count() {
    let (mut nodes, facts) = connected_pair();
    assert!(facts.iter().all(|facts| facts.carrier && facts.mtu == 1400), "{facts:?}");
    assert_eq!(facts[0].driver.as_deref(), Some("veth"));
    assert!(facts[0].queues.is_some() && facts[0].offloads["rx-checksum"], "{facts:?}");
    for streams in [1, 4, 16] {
        prepare_both(&mut nodes, |_| {}, streams);
        let [sent, received] = run(&mut nodes, Duration::from_millis(300));
        for report in [&sent, &received] {
            let load = report.load.as_ref().unwrap();
            assert_eq!(load.ended_early, None);
            assert_eq!(load.streams.len(), usize::from(streams));
            assert!(load.streams.iter().all(|stream| stream.bytes > 0), "{load:?}");
            assert!(load.streams.iter().all(|stream| stream.tcp.unwrap().send_mss_bytes > 1000));
            // What not every machine has: connection tracking, pressure stall information…
            let expected = |group: &String| group.starts_with("layers.");
            assert!(report.absent.keys().all(expected), "{:?}", report.absent);
            assert!(report.node_cpu_ns > report.sampler_cpu_ns && report.sampler_cpu_ns > 0);
            let last = report.samples.last().unwrap();
            assert_eq!(last.load.unwrap().bytes, bytes_of_streams(report));
            assert_eq!(report.samples[0].load.unwrap().bytes, 0);
        }
        let payload = bytes_of_streams(&received);
        assert!(payload <= bytes_of_streams(&sent));
        let [first, last] = [&received.samples[0], received.samples.last().unwrap()];
        let on_wire = last.interfaces.as_ref().unwrap()["right"].rx_bytes
            - first.interfaces.as_ref().unwrap()["right"].rx_bytes;
        // Headers come on top, and what lay unread in socket buffers at the end.
        assert!(on_wire >= payload, "{on_wire} < {payload}");
        let buffered = u64::from(streams) * (8 << 20);
        assert!(on_wire < payload / 10 * 11 + buffered, "{on_wire} {payload}");
        assert!(last.tcp.unwrap().segments_received > first.tcp.unwrap().segments_received);
    }
}

#[test]
fn ipv6_fixed_buffers_and_small_messages_work_too() {
    let (mut nodes, _) = connected_pair();
    for (node, name, address) in [(0, "left", "fd07::1"), (1, "right", "fd07::2")] {
        nodes[node].must(&Request::ConfigureInterface(interface(name, address)));
    }
    let adapt = |prepare: &mut Prepare| {
        prepare.workload.message_size = Some(ByteSize::from_bytes(100));
        prepare.workload.socket_buffer = Some(ByteSize::from_kib(64));
    };
    prepare_at(&mut nodes, "fd07::2".parse().unwrap(), adapt, 2);
    let [sent, received] = run(&mut nodes, Duration::from_millis(100));
    let moved = sent.samples.last().unwrap().load.unwrap();
    assert!(moved.bytes <= moved.calls * 100, "{moved:?}");
    assert!(bytes_of_streams(&received) > 0);
    assert_eq!(received.load.unwrap().ended_early, None);
}

#[test]
fn a_peer_that_dies_in_mid_load_ends_it_early_and_what_was_measured_is_kept() {
    let (mut nodes, _) = connected_pair();
    prepare_both(&mut nodes, |_| {}, 4);
    let [sender, receiver] = &mut nodes;
    receiver.must(&Request::Start);
    sender.must(&Request::Start);
    sleep(Duration::from_millis(200));
    assert_eq!(sender.hang_up().unwrap(), Ending::ChannelClosed);
    sleep(Duration::from_millis(100));
    receiver.must(&Request::Stop);
    let report = receiver.collect();
    let reason = report.load.as_ref().unwrap().ended_early.clone().unwrap();
    assert!(reason.contains("stream") && reason.contains("10.7.0.1"), "{reason}");
    assert!(bytes_of_streams(&report) > 0 && report.samples.len() > 5);
}

#[test]
fn a_receiver_that_dies_is_told_by_the_sender() {
    let (mut nodes, _) = connected_pair();
    prepare_both(&mut nodes, |_| {}, 1);
    let [sender, receiver] = &mut nodes;
    receiver.must(&Request::Start);
    sender.must(&Request::Start);
    sleep(Duration::from_millis(100));
    receiver.hang_up().unwrap();
    sleep(Duration::from_millis(100));
    sender.must(&Request::Stop);
    let reason = sender.collect().load.unwrap().ended_early.unwrap();
    assert!(reason.contains(RECEIVER_ADDRESS), "{reason}");
}

#[test]
fn the_deadline_ends_a_load_whose_conductor_is_lost() {
    let (mut nodes, _) = connected_pair();
    let soon = TimeSpan::from_millis(200);
    prepare_both(&mut nodes, |prepare| prepare.deadline = soon, 2);
    let [sent, received] = run(&mut nodes, Duration::from_millis(600));
    let reasons =
        [&sent, &received].map(|report| report.load.as_ref().unwrap().ended_early.clone());
    assert!(reasons.iter().flatten().any(|reason| reason.contains("200ms")), "{reasons:?}");
    assert!(reasons.iter().all(Option::is_some), "{reasons:?}");
    // Nothing moved any more in the last 200 ms.
    let samples = &received.samples;
    let end = samples.last().unwrap();
    let earlier = samples.iter().find(|s| s.monotonic_ns + 200_000_000 > end.monotonic_ns).unwrap();
    assert_eq!(earlier.load, end.load);
    assert!(end.load.unwrap().bytes > 0);
}

#[test]
fn requests_out_of_order_say_what_to_do() {
    let (mut nodes, _) = connected_pair();
    let [sender, receiving] = &mut nodes;
    for (request, advice) in [
        (Request::Start, "Prepare"),
        (Request::Stop, "Prepare"),
        (Request::Collect { from_sample: 0 }, "Prepare"),
        (Request::SetWallClock { unix_ns: 0 }, "guest"),
        (Request::LoadModules { names: vec!["virtio_net".into()], options: [].into() }, "modprobe"),
        (
            Request::Impair { interface: InterfaceSelector::Name("lo".into()), impairment: None },
            "use tc",
        ),
        (Request::Hello { version: 0 }, "version"),
    ] {
        let message = sender.must_fail(&request);
        assert!(message.contains(advice), "{request:?}: {message}");
    }
    let prepare = Request::Prepare(part(receiver(), workload(1)));
    receiving.must(&prepare);
    let message = receiving.must_fail(&Request::Start);
    assert!(message.contains("0 of 1 connections"), "{message}");

    let observe = Request::Prepare(part(Role::Observer, workload(1)));
    sender.must(&observe);
    sender.must(&Request::Start);
    assert!(sender.must_fail(&Request::Start).contains("running"));
    assert!(sender.must_fail(&observe).contains("Stop"));
    assert!(sender.must_fail(&Request::Collect { from_sample: 0 }).contains("Stop"));
    sender.must(&Request::Stop);
    assert!(sender.must_fail(&Request::Stop).contains("already"));
    assert_eq!(sender.collect().load, None);
    sender.must(&Request::Shutdown);
    assert_eq!(sender.hang_up().unwrap(), Ending::Shutdown);
}

#[test]
fn what_cannot_be_had_is_named() {
    let (mut nodes, _) = connected_pair();
    let sender = &mut nodes[0];
    let mut ask = |prepare| sender.must_fail(&Request::Prepare(prepare));
    let peer = format!("{RECEIVER_ADDRESS}:9").parse().unwrap();
    let message = ask(part(Role::Sender { peer }, workload(3)));
    assert!(message.contains("stream 1 of 3 to 10.7.0.2:9"), "{message}");

    let elsewhere = Role::Receiver { bind: "192.0.2.1".parse().unwrap() };
    assert!(ask(part(elsewhere, workload(1))).contains("192.0.2.1"));

    let mut huge = workload(1);
    huge.socket_buffer = Some(ByteSize::from_mib(1024));
    let message = ask(part(receiver(), huge.clone()));
    assert!(message.contains("SO_RCVBUF") && message.contains("net.core.rmem_max"), "{message}");
    huge.socket_buffer = None;
    huge.message_size = Some(ByteSize::from_mib(1 << 20));
    assert!(ask(part(receiver(), huge)).contains("message-size"));
    assert!(ask(part(receiver(), workload(0))).contains("streams"));

    let mut gone = part(Role::Observer, workload(1));
    gone.processes = vec![WatchedProcess { label: "qemu".into(), pid: i32::MAX }];
    assert!(ask(gone).contains("qemu"));
    let mut often = part(Role::Observer, workload(1));
    often.sample_interval = TimeSpan::from_millis(0);
    assert!(ask(often).contains("too often"));
}

#[test]
fn interfaces_that_cannot_be_configured_are_named() {
    let (mut nodes, _) = connected_pair();
    let sender = &mut nodes[0];
    let mut ask = |config| sender.must_fail(&Request::ConfigureInterface(config));
    let mut config = interface("left", "10.7.0.1");
    config.mtu = 1_000_000;
    let message = ask(config.clone());
    assert!(message.contains("left") && message.contains("1000000"), "{message}");
    config.mtu = 1500;
    config.prefix_length = 33;
    assert!(ask(config.clone()).contains("32 bits"));
    config.prefix_length = 24;
    config.timeout = TimeSpan::from_millis(30);
    for selector in [
        InterfaceSelector::Name("none-such".into()),
        InterfaceSelector::Mac("02:00:00:00:00:77".into()),
    ] {
        config.interface = selector;
        let message = ask(config.clone());
        assert!(message.contains("30ms") && message.contains("left"), "{message}");
    }
    config.interface = InterfaceSelector::Mac("not a mac".into());
    assert!(ask(config).contains("not a mac"));
}

#[test]
fn many_samples_come_in_pages_with_the_threads_of_watched_processes() {
    let mut node = Node::start();
    let mut prepare = part(Role::Observer, workload(1));
    prepare.sample_interval = TimeSpan::from_millis(1);
    let pid = i32::try_from(std::process::id()).unwrap();
    prepare.processes = vec![WatchedProcess { label: "self".into(), pid }];
    node.must(&Request::Prepare(prepare));
    node.must(&Request::Start);
    sleep(Duration::from_millis(1500));
    node.must(&Request::Stop);
    let report = node.collect();
    assert!(report.samples.len() > 200, "{} samples", report.samples.len());
    assert!(report.samples.is_sorted_by_key(|sample| sample.monotonic_ns));
    let threads = report.samples[0].threads.as_ref().unwrap();
    assert!(threads.iter().any(|thread| thread.tid == pid && thread.process == "self"));
}

#[test]
fn a_node_that_waits_for_connections_ends_with_its_channel() {
    let mut node = Node::start();
    let role = Role::Receiver { bind: "127.0.0.1".parse().unwrap() };
    node.must(&Request::Prepare(part(role, workload(1))));
    let began = Instant::now();
    assert_eq!(node.hang_up().unwrap(), Ending::ChannelClosed);
    assert!(began.elapsed() < Duration::from_secs(2), "the accepting thread was waited for");
}
