//! Each rule on a trial in which what it is for was planted, and none on a calm one.

use std::collections::BTreeMap;

use vioperf_model::record::{Place, TrialRecord};
use vioperf_model::sample::{
    AccessListCounters, Coalescing, CoreTicks, FilterHook, LatencyHistogram, PacketFilter,
    QdiscCounters, QueueCounts, QuotaCounters, SoftnetCore, TcpLimits,
};
use vioperf_model::units::BitRate;
use vioperf_model::wire::Role;
use vioperf_model::workload::{Receivers, Workload, WorkloadKind};

mod planted;

use self::planted::{Planted, awake, count, last, load, qdisc};
use super::*;
use crate::ledger::{Ledger, LossPlace};

#[test]
fn nothing_limits_a_calm_trial() {
    for kind in [WorkloadKind::TcpStream, WorkloadKind::RequestResponse] {
        for near in [Place::Second, Place::Guest] {
            assert_eq!(Planted::on_path(kind, near).first(), None, "{kind:?} {near:?}");
        }
    }
}

#[test]
fn a_shaper_is_told_by_what_it_holds_back_and_a_policer_by_what_it_drops() {
    let mut planted = Planted::calm(WorkloadKind::TcpStream);
    let held =
        QdiscCounters { overlimits: 5_000, bytes: 3_750_000, packets: 2_500, ..qdisc("tbf") };
    last(planted.sender()).qdiscs = Some(vec![held.clone()]);
    let told = planted.told();
    assert_eq!(told[0].0, "shaper");
    let said: Vec<&str> = told[0].1.evidence.iter().map(|fact| fact.value.as_str()).collect();
    assert!(said[0] == "5000" && said[1].contains("10.0 Mbit/s"), "{said:?}");
    // One that does not hold back limits nothing.
    last(planted.sender()).qdiscs = Some(vec![QdiscCounters { overlimits: 3, ..held }]);
    assert_eq!(planted.first(), None);
    let policed =
        QdiscCounters { drops: 500, packets: 10_000, parent: "ingress".into(), ..qdisc("ingress") };
    last(planted.receiver()).qdiscs = Some(vec![policed]);
    assert_eq!(planted.first(), Some("shaper"));
}

#[test]
fn a_queue_that_nobody_sees_is_told_by_the_round_trip_while_nobody_is_busy() {
    let mut planted = Planted::calm(WorkloadKind::TcpStream);
    planted.connection().rtt_us = 20_000;
    assert_eq!(planted.first(), Some("shaper"));
    load(planted.receiver()).threads = vec![awake(95, 0)];
    assert_ne!(planted.first(), Some("shaper"));
}

#[test]
fn where_datagrams_are_lost_says_what_limits() {
    for (place, rule) in [
        (LossPlace::ReceiverSocket, "receiver-bound"),
        (LossPlace::ReceiverFilter, "firewall"),
        (LossPlace::Conntrack, "firewall"),
        (LossPlace::ReceiverInterface, "ring-full"),
        (LossPlace::TapQueue, "ring-full"),
        (LossPlace::HostBacklog, "softnet-backlog-full"),
        (LossPlace::Network, "shaper"),
    ] {
        let mut planted = Planted::calm(WorkloadKind::UdpStream).loses_at(place);
        // The cores' own counter of the backlog; where nothing was lost there it stands still.
        if place == LossPlace::HostBacklog {
            last(planted.receiver()).softnet.as_mut().unwrap()[1].dropped = 3_000;
        }
        assert_eq!(planted.first(), Some(rule), "{place:?}");
    }
}

#[test]
fn rules_that_take_the_time_of_packets_are_told() {
    let with = |rules: u32, packets: u64| {
        let mut planted = Planted::calm(WorkloadKind::PacketRate);
        let place = |family: &str, hook: &str, rules| FilterHook {
            family: family.into(),
            hook: hook.into(),
            chains: 1,
            rules,
        };
        planted.receiver().report.packet_filter = Some(Box::new(PacketFilter {
            hooks: vec![place("inet", "input", rules), place("ip6", "prerouting", 90_000)],
            ..PacketFilter::default()
        }));
        for (name, packets) in [("IpInReceives", packets), ("IpOutRequests", 0)] {
            count(planted.receiver(), name, packets);
            let first = planted.receiver().report.layers.first_mut().unwrap();
            first.protocols.as_mut().unwrap().insert(name.to_owned(), 0);
        }
        planted
    };
    // In 3 s: 10 000 packets a second against 5 000 rules of 10 ns.
    let mut planted = with(5_000, 30_000);
    load(planted.sender()).threads = vec![awake(97, 0)];
    let told = planted.told();
    assert_eq!((told[0].0, told[0].1.confidence), ("firewall-rules", Confidence::Certain));
    let said: Vec<&str> = told[0].1.evidence.iter().map(|fact| fact.value.as_str()).collect();
    assert_eq!(said[..3], ["5000", "10000/s", "about 51.5 %"]);
    // Asked for so much, and everybody sleeps.
    let mut planted = with(5_000, 30_000);
    planted.workload.datagrams_per_second = Some(10_000);
    assert_ne!(planted.first(), Some("firewall-rules"));
    for (rules, packets) in [(5_000, 3_000), (40, 3_000_000)] {
        assert_eq!(with(rules, packets).first(), None, "{rules} {packets}");
    }
    let mut planted = with(0, 30_000);
    let filter = planted.receiver().report.packet_filter.as_mut().unwrap();
    filter.iptables_rules = [("ip filter".to_owned(), 5_000), ("ip6 filter".to_owned(), 1)].into();
    assert_eq!(planted.told()[0].1.confidence, Confidence::Possible);
}

/// Beside the ends of a path, a guest that forwards.
fn with_forwarder(planted: &mut Planted, rules: u32, packets: u64) {
    let mut forwarder = planted.receiver().clone();
    forwarder.place = Place::Forwarder;
    forwarder.role = Role::Observer;
    forwarder.report.load = None;
    let hook = FilterHook { family: "bridge".into(), hook: "forward".into(), chains: 1, rules };
    forwarder.report.packet_filter =
        Some(Box::new(PacketFilter { hooks: vec![hook], ..PacketFilter::default() }));
    for (layers, entered) in forwarder.report.layers.iter_mut().zip([7, 7 + packets]) {
        layers.access_list = Some(AccessListCounters { entered, passed: entered });
    }
    planted.trial.parties.push(forwarder);
}

#[test]
fn rules_in_a_guest_that_forwards_are_told_of_it() {
    // In 3 s: 10 000 packets a second against 5 000 rules of 10 ns.
    let mut planted = Planted::on_path(WorkloadKind::PacketRate, Place::Guest);
    with_forwarder(&mut planted, 5_000, 30_000);
    let told = planted.told();
    let (_, sign) = told.iter().find(|(name, _)| *name == "firewall-rules").unwrap();
    assert!(sign.evidence.iter().all(|fact| fact.place == "forwarding guest"));
    let said: Vec<&str> = sign.evidence.iter().map(|fact| fact.value.as_str()).collect();
    assert_eq!(said, ["5000", "10000/s", "about 50.0 %"]);
    let mut planted = Planted::on_path(WorkloadKind::PacketRate, Place::Guest);
    with_forwarder(&mut planted, 5_000, 3_000);
    assert!(!planted.told().iter().any(|(name, _)| *name == "firewall-rules"));
}

#[test]
fn a_guest_that_forwards_and_has_no_time_left_is_told() {
    let mut planted = Planted::on_path(WorkloadKind::TcpStream, Place::Guest);
    with_forwarder(&mut planted, 0, 0);
    assert_eq!(planted.first(), None);
    let forwarder = planted.trial.parties.last_mut().unwrap();
    for (sample, n) in forwarder.report.samples.iter_mut().zip(0..) {
        sample.cores =
            Some(vec![CoreTicks { softirq: 10 * n, idle: n / 5, ..CoreTicks::default() }]);
    }
    let told = planted.told();
    assert_eq!(told[0].0, "vcpu-full");
    assert_eq!(told[0].1.evidence[0].place, "forwarding guest");
}

#[test]
fn a_small_loss_on_the_way_is_no_shapers() {
    let mut planted = Planted::calm(WorkloadKind::UdpStream);
    let mut ledger =
        Ledger { trials: 1, sent: 10_000, received: 9_800, lost: 200, ..Ledger::default() };
    ledger.add_loss(LossPlace::Network, 200, 0);
    planted.ledger = Some(ledger);
    assert_eq!(planted.first(), Some("loss-in-path"));
    // Unplaced is lost on the way too.
    planted.ledger = Some(Ledger {
        trials: 1,
        sent: 10_000,
        received: 9_800,
        lost: 200,
        unaccounted: 200,
        ..Ledger::default()
    });
    assert_eq!(planted.first(), Some("loss-in-path"));
}

#[test]
fn one_socket_for_several_threads_is_told_before_the_receiver() {
    let mut planted = Planted::calm(WorkloadKind::PacketRate).loses_at(LossPlace::ReceiverSocket);
    planted.workload.receivers = Some(Receivers::Shared);
    assert_eq!(planted.first(), Some("receiver-bound"));
    load(planted.receiver()).threads = vec![awake(50, 0); 2];
    assert_eq!(planted.first(), Some("receive-lock-contention"));
}

#[test]
fn what_was_asked_for_and_arrived_is_no_bottleneck() {
    let mut planted = Planted::calm(WorkloadKind::TcpStream);
    planted.workload.rate = Some(BitRate::from_bits_per_second(1_000_000));
    let told = planted.told();
    assert_eq!((told[0].0, told[0].1.confidence), ("rate-asked", Confidence::Certain));
    planted.workload.rate = Some(BitRate::from_bits_per_second(1_000_000_000_000));
    assert_eq!(planted.first(), None);
}

#[test]
fn fragments_are_told_where_each_datagram_is_some() {
    let mut planted = Planted::calm(WorkloadKind::UdpStream);
    for sample in &mut planted.sender().report.samples {
        sample.load.as_mut().unwrap().datagrams = Some(sample.monotonic_ns / 1_000_000);
    }
    count(planted.sender(), "IpFragCreates", 3);
    assert_eq!(planted.first(), None);
    count(planted.sender(), "IpFragCreates", 60_000);
    assert_eq!(planted.first(), Some("fragmentation"));
}

#[test]
fn a_window_is_told_from_a_reader_by_the_paths_delay() {
    let mut planted = Planted::calm(WorkloadKind::TcpStream);
    let waits = TcpLimits { busy_us: 3_000_000, receive_window_us: 2_500_000, send_buffer_us: 0 };
    planted.connection().limits = Some(waits);
    // The reader sleeps, and the path has no delay to speak of.
    assert_eq!(planted.first(), Some("receiver-bound"));
    // As much as fits the buffers is under way: 36 Gbit/s for 10 ms are 45 MB.
    planted.connection().least_rtt_us = Some(10_000);
    planted.connection().rtt_us = 10_500;
    let buffers =
        vioperf_model::sample::SocketBuffers { send_bytes: 90 << 20, receive_bytes: 90 << 20 };
    load(planted.sender()).socket_buffers = Some(buffers);
    load(planted.receiver()).socket_buffers = Some(buffers);
    assert_eq!(planted.first(), Some("window-small"));
}

#[test]
fn segments_sent_again_are_congestion_only_while_nobody_is_busy() {
    let mut planted = Planted::calm(WorkloadKind::TcpStream);
    count(planted.sender(), "TcpOutSegs", 100_000);
    count(planted.sender(), "TcpRetransSegs", 1_000);
    let told = planted.told();
    assert_eq!((told[0].0, told[0].1.confidence), ("congestion-by-loss", Confidence::Certain));
    load(planted.sender()).threads = vec![awake(97, 0)];
    assert_eq!(planted.first(), Some("sender-bound"));
}

#[test]
fn a_small_mtu_and_missing_offloads_are_told() {
    let mut planted = Planted::calm(WorkloadKind::TcpStream);
    planted.connection().path_mtu_bytes = 1_280;
    let confidence = |planted: &mut Planted| {
        let told = planted.told().into_iter().find(|(name, _)| *name == "mtu-small")?;
        Some(told.1.confidence)
    };
    assert_eq!(confidence(&mut planted), Some(Confidence::Likely), "nobody is short of time");
    load(planted.sender()).threads = vec![awake(96, 0)];
    assert_eq!(confidence(&mut planted), Some(Confidence::Certain));
    planted.connection().path_mtu_bytes = 1_500;
    assert_eq!(confidence(&mut planted), None);
    planted.sender().interface.as_mut().unwrap().mtu = 9_000;
    assert_eq!(confidence(&mut planted), Some(Confidence::Certain), "a hop on the way is smaller");
    let mut planted = Planted::calm(WorkloadKind::TcpStream);
    let facts = planted.sender().interface.as_mut().unwrap();
    facts.offloads = [("tx-tcp-segmentation", false), ("tx-generic-segmentation", false)]
        .map(|(name, active)| (name.to_owned(), active))
        .into();
    let name = facts.name.clone();
    assert_eq!(planted.first(), None, "long packets leave all the same");
    for (sample, at) in planted.sender().report.samples.iter_mut().zip(1..) {
        let counters = sample.interfaces.as_mut().unwrap().get_mut(&name).unwrap();
        (counters.tx_bytes, counters.tx_packets) = (1_514 * at * 1_000, at * 1_000);
    }
    assert_eq!(planted.first(), Some("offload-off"));
    planted.sender().interface.as_mut().unwrap().driver = Some("pcnet32".into());
    assert_eq!(planted.told()[0].1.confidence, Confidence::Possible, "the card has none");
}

#[test]
fn packets_that_are_not_merged_are_told() {
    let mut planted = Planted::calm(WorkloadKind::TcpStream);
    let facts = planted.receiver().interface.as_mut().unwrap();
    facts.offloads = [("rx-gro".to_owned(), false)].into();
    let name = facts.name.clone();
    let arrive = |planted: &mut Planted, bytes: u64| {
        for (sample, at) in planted.receiver().report.samples.iter_mut().zip(1..) {
            let counters = sample.interfaces.as_mut().unwrap().get_mut(&name).unwrap();
            (counters.rx_bytes, counters.rx_packets) = (bytes * at * 1_000, at * 1_000);
        }
    };
    arrive(&mut planted, 30_000);
    assert_eq!(planted.first(), None, "they are long all the same");
    arrive(&mut planted, 1_514);
    let told = &planted.told()[0];
    assert_eq!((told.0, told.1.confidence), ("offload-off", Confidence::Likely));
    planted.receiver().interface.as_mut().unwrap().offloads = [("rx-gro".to_owned(), true)].into();
    assert_eq!(planted.first(), None);
}

#[test]
fn threads_that_never_sleep_are_told_of_either_end() {
    let mut planted = Planted::calm(WorkloadKind::TcpStream);
    load(planted.sender()).threads = vec![awake(20, 0), awake(96, 2)];
    assert_eq!(planted.first(), Some("sender-bound"));
    let mut planted = Planted::calm(WorkloadKind::TcpStream);
    load(planted.receiver()).threads = vec![awake(20, 70)];
    assert_eq!(planted.first(), Some("receiver-bound"));
}

#[test]
fn a_backlog_is_told_where_veth_counts_its_drops_too() {
    let drops = |planted: &mut Planted, dropped: u32| {
        let core = |dropped| Some(vec![SoftnetCore { dropped, ..SoftnetCore::default() }]);
        for party in &mut planted.trial.parties {
            party.report.layers[0].softnet = core(0);
            party.report.layers[1].softnet = core(dropped);
        }
    };
    let mut planted = Planted::calm(WorkloadKind::PacketRate).loses_at(LossPlace::SenderInterface);
    drops(&mut planted, 100);
    assert_eq!(planted.first(), Some("ring-full"));
    drops(&mut planted, 2_999);
    assert_eq!(planted.first(), Some("softnet-backlog-full"));
}

#[test]
fn a_neighbour_is_told_by_time_that_nobody_of_ours_used() {
    let mut planted = Planted::calm(WorkloadKind::TcpStream);
    for party in &mut planted.trial.parties {
        for (sample, at) in party.report.samples.iter_mut().zip(0..) {
            for core in sample.cores.iter_mut().flatten() {
                *core = CoreTicks { core: core.core, user: at * 10, ..CoreTicks::default() };
            }
        }
    }
    load(planted.sender()).threads = vec![awake(40, 0)];
    assert!(planted.told().iter().all(|(name, _)| *name != "noisy-neighbour"), "nobody waits");
    load(planted.sender()).threads = vec![awake(40, 50)];
    let told = planted.told();
    assert_eq!((told[0].0, told[0].1.confidence), ("noisy-neighbour", Confidence::Certain));
}

#[test]
fn a_quota_is_no_neighbour() {
    let mut planted = Planted::calm(WorkloadKind::TcpStream);
    load(planted.receiver()).threads = vec![awake(15, 75)];
    planted.receiver().report.layers[0].quota = Some(QuotaCounters::default());
    let throttled = QuotaCounters { throttled_periods: 20, throttled_us: 2_000_000 };
    last(planted.receiver()).quota = Some(throttled);
    let told = planted.told();
    assert_eq!((told[0].0, told[0].1.confidence), ("receiver-bound", Confidence::Certain));
    assert!(told[0].1.evidence[0].value.contains("2000 ms"), "{told:?}");
    load(planted.sender()).threads = vec![awake(15, 80)];
    planted.sender().report.layers[0].quota = Some(QuotaCounters::default());
    last(planted.sender()).quota = Some(throttled);
    assert!(
        planted
            .told()
            .iter()
            .any(|(name, sign)| *name == "sender-bound" && sign.confidence == Confidence::Certain)
    );
}

#[test]
fn one_queue_of_several_and_one_core_of_several_are_told() {
    let mut planted = Planted::calm(WorkloadKind::TcpStream);
    planted.workload.streams = 4;
    let receiver = planted.receiver();
    let facts = receiver.interface.as_mut().unwrap();
    facts.queues = Some(QueueCounts { rx: 2, tx: 2 });
    let name = facts.name.clone();
    let counted = |packets: [u64; 2]| {
        let queues = [("rx_queue_0_packets", packets[0]), ("rx_queue_1_packets", packets[1])];
        let queues: BTreeMap<String, u64> = queues.map(|(n, v)| (n.to_owned(), v)).into();
        Some(BTreeMap::from([(name.clone(), queues)]))
    };
    receiver.report.layers[0].devices = counted([0, 0]);
    receiver.report.layers[1].devices = counted([100_000, 100_000]);
    let spread = planted.first();
    planted.receiver().report.layers[1].devices = counted([500, 199_500]);
    assert_eq!((spread, planted.first()), (None, Some("one-receive-queue")));
    let mut planted = Planted::calm(WorkloadKind::TcpStream);
    for party in &mut planted.trial.parties {
        for (sample, at) in party.report.samples.iter_mut().zip(0..) {
            for core in sample.cores.iter_mut().flatten() {
                let softirq = if core.core == 0 { at * 9 } else { 0 };
                *core = CoreTicks {
                    core: core.core,
                    softirq,
                    idle: at * 10 - softirq,
                    ..CoreTicks::default()
                };
            }
        }
    }
    assert_eq!(planted.first(), Some("interrupts-on-one-core"));
}

#[test]
fn what_a_request_waits_for_is_told() {
    let latency = |us: u64| LatencyHistogram {
        buckets: vec![[us * 1_100, 1_000]],
        minimum_ns: us * 1_000,
        maximum_ns: us * 1_100,
        sum_ns: us * 1_050 * 1_000,
    };
    let mut planted = Planted::calm(WorkloadKind::RequestResponse);
    load(planted.sender()).latency = Some(latency(4_000));
    assert_eq!(planted.first(), Some("path-delay"));
    load(planted.sender()).latency = Some(latency(60));
    assert_eq!(planted.first(), None);
    let put_off = Coalescing { rx_us: 50, ..Coalescing::default() };
    planted.receiver().interface.as_mut().unwrap().coalescing = Some(put_off);
    assert_eq!(planted.first(), Some("interrupt-moderation"));
}

#[test]
fn a_full_wire_is_told_of_cards_that_have_one() {
    let mut planted = Planted::calm(WorkloadKind::TcpStream);
    let arrived = {
        let flow = Flow::all(&planted.trial, Purpose::Measured).remove(0);
        let readings = TrialReadings::of(&planted.trial, &planted.workload);
        let symptoms = Symptoms::of(&planted.trial, &planted.workload, flow, &readings);
        symptoms.bits_per_second().unwrap()
    };
    let fills = |mbit: &u32| f64::from(*mbit) * 1e6 * 0.94 >= arrived;
    let speed = (1..1_000_000).find(fills).unwrap();
    for end in [Place::Peer, Place::Second] {
        let facts = planted.trial.parties.iter_mut().find(|party| party.place == end);
        let facts = facts.unwrap().interface.as_mut().unwrap();
        facts.speed_mbit_per_s = Some(speed);
    }
    assert_eq!(planted.first(), None, "a veth's speed is a label");
    planted.receiver().interface.as_mut().unwrap().driver = Some("ixgbe".into());
    assert_eq!(planted.first(), Some("wire-rate"));
    // What hypervisors emulate is a card all the same where there is no hypervisor.
    for driver in ["igb", "e1000e"] {
        planted.receiver().interface.as_mut().unwrap().driver = Some(driver.into());
        assert_eq!(planted.first(), Some("wire-rate"), "{driver}");
        for is_virtual in [Some(true), None] {
            planted.receiver().identity.is_virtual = is_virtual;
            assert_eq!(planted.first(), None, "{driver}: its speed may be a label");
        }
        planted.receiver().identity.is_virtual = Some(false);
    }
    planted.receiver().place = Place::Guest;
    assert_eq!(planted.first(), None, "in a guest a card is emulated");
}

#[test]
fn a_cell_is_limited_by_what_most_of_its_trials_show() {
    let workload = Workload::new(WorkloadKind::TcpStream);
    let calm = Planted::calm(WorkloadKind::TcpStream).trial;
    let mut planted = Planted::calm(WorkloadKind::TcpStream);
    load(planted.sender()).threads = vec![awake(97, 0)];
    let of = |trials: &[&TrialRecord]| {
        let mut signs = Signs::default();
        for trial in trials {
            signs.add(trial, &workload, &TrialReadings::of(trial, &workload));
        }
        signs.limits()
    };
    let most = of(&[&planted.trial, &calm, &planted.trial]);
    assert_eq!(
        (most[0].rule.as_str(), most[0].trials_seen, most[0].trials),
        ("sender-bound", 2, 3)
    );
    assert_eq!(of(&[&planted.trial, &calm]), []);
}
