use std::collections::BTreeMap;

use vioperf_model::sample::{
    InterruptLine, Interrupts, Sample, SoftInterrupts, StallTimes, ThreadSwitches,
};

use super::*;
use crate::testing::party_with_samples;

fn core(core: u32, dropped: u32) -> SoftnetCore {
    SoftnetCore { core, dropped, backlog: Some(9), ..SoftnetCore::default() }
}

fn thread(tid: i32, voluntary: u64) -> ThreadSwitches {
    ThreadSwitches {
        process: "qemu".into(),
        tid,
        name: "worker".into(),
        voluntary,
        nonvoluntary: 1,
        cores: None,
    }
}

/// Two seconds of a host.
fn trial() -> TrialRecord {
    let before = LayerCounters {
        monotonic_ns: 1_000_000_000,
        softnet: Some(vec![core(0, u32::MAX), core(1, 5)]),
        soft_interrupts: Some(vec![SoftInterrupts { core: 0, net_rx: 100, net_tx: 10 }]),
        protocols: Some(BTreeMap::from([("UdpRcvbufErrors".into(), 7), ("UdpNoPorts".into(), 1)])),
        pressure: Some(BTreeMap::from([("cpu".into(), StallTimes { some_us: 1, full_us: None })])),
        switches: Some(vec![thread(4, 10), thread(5, 10)]),
        ..LayerCounters::default()
    };
    let after = LayerCounters {
        monotonic_ns: 3_000_000_000,
        softnet: Some(vec![core(0, 2), core(1, 5)]),
        soft_interrupts: Some(vec![SoftInterrupts { core: 0, net_rx: 300, net_tx: 10 }]),
        protocols: Some(BTreeMap::from([("UdpRcvbufErrors".into(), 17), ("UdpNoPorts".into(), 0)])),
        pressure: Some(BTreeMap::from([(
            "cpu".into(),
            StallTimes { some_us: 500_001, full_us: None },
        )])),
        switches: Some(vec![thread(4, 30), thread(5, 50), thread(6, 1000)]),
        ..LayerCounters::default()
    };
    let mut trial = crate::testing::Synthetic::calm_kvm().trials.remove(0);
    let mut host = party_with_samples(Vec::new());
    host.report.layers = vec![before, after];
    host.place = Place::Host;
    host.report.sampler_cpu_ns = 50_000_000;
    host.report.layers_cpu_ns = 30_000_000;
    host.report.absent.insert("layers.conntrack".into(), "no such file".into());
    trial.parties = vec![host];
    trial
}

#[test]
fn counters_grow_from_before_the_load_until_after_it() {
    let trial = trial();
    let reading = LayerReading::of(&trial, &[]);
    assert_eq!(reading.host.softnet_dropped, Ok(3.0), "32 bits wrap");
    assert_eq!(reading.host.receive_soft_interrupts_per_second, Ok(100.0));
    assert_eq!(reading.host.send_soft_interrupts_per_second, Ok(0.0));
    assert_eq!(reading.host.cpu_stalled_percent, Ok(25.0));
    assert_eq!(reading.host.sampler_percent_of_core, Ok(1.0));
    assert!(reading.guest.softnet_dropped.is_err());
    let span = Span::of_place(&trial, "host", Place::Host).unwrap();
    assert_eq!(span.protocols(&["UdpRcvbufErrors", "Udp6RcvbufErrors"]), Ok(10.0));
    assert!(span.protocols(&["UdpNoPorts"]).unwrap_err().contains("backwards"));
    assert!(span.protocols(&["TcpInSegs"]).is_err(), "absent is not zero");
}

fn discipline(handle: &str, parent: &str, drops: u32) -> QdiscCounters {
    QdiscCounters {
        interface: "eth0".into(),
        kind: "fq_codel".into(),
        handle: handle.into(),
        parent: parent.into(),
        drops,
        ..QdiscCounters::default()
    }
}

fn guest_at(
    second: u64,
    interrupts: u64,
    drops: u32,
    dropped: u64,
    packets: u64,
) -> (LayerCounters, Sample) {
    let devices = [("rx0_packets", packets), ("rx0_drops", 3)]
        .into_iter()
        .filter(|(_, value)| *value > 0)
        .map(|(name, value)| (name.to_owned(), value));
    let layers = LayerCounters {
        monotonic_ns: second * 1_000_000_000,
        interrupts: Some(Interrupts {
            cores: vec![0, 1],
            total: vec![2 * interrupts, 0],
            lines: vec![InterruptLine {
                name: "virtio1-input.0".into(),
                counts: vec![interrupts, 0],
            }],
        }),
        devices: Some(BTreeMap::from([("eth0".to_owned(), devices.collect())])),
        // What those inside dropped is in what the outer one did.
        qdiscs: Some(vec![discipline("8001:", "root", drops), discipline("0:", "8001:1", drops)]),
        ..LayerCounters::default()
    };
    let counters = InterfaceCounters { rx_dropped: dropped, ..InterfaceCounters::default() };
    let interfaces = Some(BTreeMap::from([("eth0".to_owned(), counters)]));
    (layers, Sample { interfaces, ..Sample::default() })
}

#[test]
fn devices_queues_and_interrupts_are_told() {
    let mut trial = trial();
    let ends = [guest_at(1, 0, u32::MAX, 5, 0), guest_at(3, 100, 9, 12, 40)];
    let (layers, samples): (Vec<_>, Vec<_>) = ends.into_iter().unzip();
    let mut guest = party_with_samples(samples);
    guest.report.layers = layers;
    guest.place = Place::Guest;
    trial.parties.push(guest);
    let span = Span::of_place(&trial, "guest", Place::Guest).unwrap();
    assert_eq!(span.dropped_by_qdiscs(), Ok(10.0), "32 bits wrap");
    assert_eq!(span.dropped_by_interfaces(), Ok(7.0));
    let reading = LayerReading::of(&trial, &[]);
    assert_eq!(reading.guest.interrupts_per_second, Ok(100.0));
    assert_eq!(reading.guest.network_interrupts_per_second, Ok(50.0));
    assert!(reading.host.network_interrupts_per_second.is_err());
    let mut totals = CounterTotals::default();
    totals.add(&trial);
    let gathered = totals.gather();
    let guest = gathered.iter().find(|place| place.place == Place::Guest).unwrap();
    let find = |layer: &str, of: &str, counter: &str| {
        let mut moved = guest.moved.iter();
        let is_it = |moved: &&crate::result::MovedCounter| {
            (moved.layer.as_str(), moved.of.as_str(), moved.counter.as_str())
                == (layer, of, counter)
        };
        moved.find(is_it).map(|moved| moved.mean)
    };
    // It stood at 0 before, and so was not listed.
    assert_eq!(find("devices", "eth0", "rx0_packets"), Some(40.0));
    assert_eq!(find("queues", "eth0 rx-0", "packets"), Some(40.0));
    assert_eq!(find("queues", "eth0 rx-0", "dropped"), None, "it stood still");
    assert_eq!(find("interrupts", "core 0", "virtio1-input.0"), Some(100.0));
    assert_eq!(find("qdiscs", "eth0 fq_codel 8001: root", "dropped"), Some(10.0));
}

#[test]
fn a_table_has_what_moved_and_says_what_is_absent() {
    let mut totals = CounterTotals::default();
    totals.add(&trial());
    totals.add(&trial());
    let gathered = totals.gather();
    let [host] = gathered.as_slice() else { panic!("{gathered:?}") };
    assert_eq!((host.place, host.trials, host.mean_seconds), (Place::Host, 2, 2.0));
    let find = |of: &str, counter: &str| {
        let mut moved = host.moved.iter();
        moved.find(|moved| moved.of == of && moved.counter == counter).map(|moved| moved.mean)
    };
    assert_eq!(find("core 0", "dropped"), Some(3.0));
    assert_eq!(find("core 0", "backlog at the end"), Some(9.0), "a level");
    assert_eq!(find("core 1", "dropped"), None, "it stood still");
    assert!(host.unmoved > 0);
    assert_eq!(find("", "UdpRcvbufErrors"), Some(10.0));
    // Threads of one name are told together, and one that was not there before not at all.
    assert_eq!(find("qemu: worker", "voluntary"), Some(60.0));
    assert_eq!(host.absent["conntrack: no such file"], 2);
    assert_eq!(host.absent["protocols : ran backwards"], 2);
}

#[test]
fn the_machines_counters_are_told_once() {
    let mut trial = trial();
    let mut peer = trial.parties[0].clone();
    peer.place = Place::Peer;
    trial.parties.push(peer);
    let mut totals = CounterTotals::default();
    totals.add(&trial);
    let [peer, host] = &totals.gather()[..] else { panic!() };
    let layers = |place: &crate::result::PlaceCounters| -> Vec<String> {
        place.moved.iter().map(|moved| moved.layer.clone()).collect()
    };
    assert!(layers(host).contains(&"softnet".to_owned()));
    assert!(!layers(peer).contains(&"softnet".to_owned()));
    assert!(layers(peer).contains(&"protocols".to_owned()));
}

#[test]
fn a_record_without_them_says_so() {
    let mut trial = trial();
    trial.parties[0].report.layers.truncate(1);
    let reason = Span::of_place(&trial, "host", Place::Host).err().unwrap();
    assert!(reason.contains("only once"), "{reason}");
    let mut totals = CounterTotals::default();
    totals.add(&trial);
    assert_eq!(totals.gather()[0].absent.len(), 1);
}
