use vioperf_model::plan::Cell;
use vioperf_model::record::{Leg, Place};
use vioperf_model::sample::{
    Exchanged, InterfaceCounters, LayerCounters, LoadCounters, LoadOutcome, QdiscCounters, Sample,
    SoftnetCore,
};
use vioperf_model::workload::{Direction, WorkloadKind};

use super::counts::Queue;
use super::settle::Step;
use super::*;
use crate::testing::Synthetic;

fn lost(sent: u64, lost: u64) -> Ledger {
    Ledger { sent, lost, received: sent - lost, ..Ledger::default() }
}

fn losses(ledger: &Ledger) -> Vec<(LossPlace, u64, u64)> {
    ledger.losses.iter().map(|loss| (loss.place, loss.datagrams, loss.counted)).collect()
}

#[test]
fn a_counter_of_drops_tells_and_the_rest_is_the_difference() {
    let mut ledger = lost(1000, 400);
    let steps = [
        Step {
            dropped: vec![(LossPlace::SenderQdisc, 100)],
            passed: Some(900),
            else_at: Some(LossPlace::SenderSocket),
            ..Step::default()
        },
        Step { passed: Some(850), else_at: Some(LossPlace::Switch), ..Step::default() },
        Step { dropped: vec![(LossPlace::TapQueue, 50)], ..Step::default() },
        Step {
            at_most: vec![(LossPlace::ReceiverInterface, 500)],
            passed: Some(600),
            else_at: Some(LossPlace::TooLate),
            ..Step::default()
        },
    ];
    settle(&mut ledger, &steps);
    let expected = [
        (LossPlace::SenderQdisc, 100, 100),
        (LossPlace::Switch, 50, 0),
        (LossPlace::TapQueue, 50, 50),
        (LossPlace::ReceiverInterface, 200, 200),
    ];
    assert_eq!(losses(&ledger), expected);
    assert_eq!((ledger.unaccounted, ledger.placed_share()), (0, 1.0));
    assert_eq!(ledger.share_of_loss(LossPlace::ReceiverInterface), 0.5);
    assert_eq!(ledger.largest_loss().unwrap().place, LossPlace::ReceiverInterface);
}

#[test]
fn packets_of_others_are_no_losses() {
    // Seven words are sent after the load, two of ARP never come to IP: nothing of it is lost.
    let mut ledger = lost(1000, 10);
    let steps = [
        Step { passed: Some(1007), else_at: Some(LossPlace::SenderSocket), ..Step::default() },
        Step { passed: Some(997), else_at: Some(LossPlace::Switch), ..Step::default() },
        Step { passed: Some(995), else_at: Some(LossPlace::ReceiverFilter), ..Step::default() },
    ];
    settle(&mut ledger, &steps);
    assert_eq!(losses(&ledger), [(LossPlace::Switch, 10, 0)]);
    assert_eq!(ledger.unaccounted, 0);
}

#[test]
fn words_that_are_dropped_with_the_load_are_not_its_losses() {
    let mut ledger = lost(1000, 600);
    let steps = [
        Step { passed: Some(1003), else_at: Some(LossPlace::SenderSocket), ..Step::default() },
        Step { dropped: vec![(LossPlace::TapQueue, 602)], passed: Some(401), ..Step::default() },
    ];
    settle(&mut ledger, &steps);
    assert_eq!(losses(&ledger), [(LossPlace::TapQueue, 600, 600)]);
    assert_eq!(ledger.unaccounted, 0);
    // But not more of them than there were.
    let mut ledger = lost(1000, 590);
    settle(&mut ledger, &steps);
    assert_eq!((ledger.lost_at(LossPlace::TapQueue), ledger.unaccounted), (599, -9));
}

#[test]
fn what_is_counted_twice_or_not_at_all_is_shown() {
    let step = |dropped| Step {
        dropped: vec![(LossPlace::Port, dropped)],
        passed: None,
        ..Step::default()
    };
    let mut twice = lost(1000, 100);
    settle(&mut twice, &[step(60), step(60)]);
    assert_eq!((losses(&twice), twice.unaccounted), (vec![(LossPlace::Port, 120, 120)], -20));
    assert!((twice.placed_share() - 0.8).abs() < 1e-12);
    let mut never = lost(1000, 100);
    settle(&mut never, &[step(60)]);
    assert_eq!((never.lost_at(LossPlace::Port), never.unaccounted), (60, 40));
    twice.add(&never);
    assert_eq!((twice.lost, twice.lost_at(LossPlace::Port), twice.unaccounted), (200, 180, 20));
}

#[test]
fn places_are_listed_in_the_order_of_the_path() {
    assert!(LossPlace::ALL.is_sorted());
    let mut titles: Vec<&str> = LossPlace::ALL.iter().map(|place| place.title()).collect();
    titles.sort_unstable();
    titles.dedup();
    assert_eq!(titles.len(), LossPlace::ALL.len());
}

/// Two readings of a layer's counters: nothing, and then what is given.
fn layers(
    qdisc: Option<(&str, u32, u32)>,
    backlog_dropped: u32,
    protocols: &[(&str, u64)],
) -> Vec<LayerCounters> {
    let at = |times: u32| LayerCounters {
        monotonic_ns: u64::from(times + 1) * 1_000_000_000,
        softnet: Some(vec![SoftnetCore {
            dropped: times * backlog_dropped,
            ..SoftnetCore::default()
        }]),
        qdiscs: Some(
            qdisc
                .map(|(interface, packets, drops)| QdiscCounters {
                    interface: interface.into(),
                    kind: "pfifo_fast".into(),
                    parent: "root".into(),
                    packets: times * packets,
                    drops: times * drops,
                    ..QdiscCounters::default()
                })
                .into_iter()
                .collect(),
        ),
        protocols: Some(
            protocols
                .iter()
                .map(|(name, count)| ((*name).into(), u64::from(times) * count))
                .collect(),
        ),
        ..LayerCounters::default()
    };
    vec![at(0), at(1)]
}

/// Two samples: nothing, and then what is given.
fn samples(datagrams: Option<u64>, interfaces: &[(&str, [u64; 4])]) -> Vec<Sample> {
    let at = |times: u64| Sample {
        load: datagrams.map(|datagrams| LoadCounters {
            datagrams: Some(times * datagrams),
            ..LoadCounters::default()
        }),
        interfaces: Some(
            interfaces
                .iter()
                .map(|(name, [rx, rx_dropped, tx, tx_dropped])| {
                    let counters = InterfaceCounters {
                        rx_packets: times * rx,
                        rx_dropped: times * rx_dropped,
                        tx_packets: times * tx,
                        tx_dropped: times * tx_dropped,
                        ..InterfaceCounters::default()
                    };
                    ((*name).to_owned(), counters)
                })
                .collect(),
        ),
        ..Sample::default()
    };
    vec![at(0), at(1)]
}

/// 10 000 datagrams to a guest and three words behind them: 100 are lost to a backlog on the way to the
/// bridge, 400 there, 2000 in the tap's queue, 50 in the card, 30 by a filter, 20 in the socket.
fn to_a_guest() -> (TrialRecord, Workload) {
    let run = Synthetic::of_kind(WorkloadKind::PacketRate);
    let is_meant =
        |cell: &&Cell| cell.nic.is_some() && cell.workload.direction == Direction::ToGuest;
    let cell = run.run.plan.cells.iter().find(is_meant).unwrap();
    let mut trial = run.trials.iter().find(|trial| trial.cell == cell.id).unwrap().clone();
    for party in &mut trial.parties {
        let name = party.interface.as_ref().map_or("", |facts| facts.name.as_str());
        let (samples, layers) = match party.place {
            Place::Peer => (
                samples(Some(10_000), &[(name, [0, 0, 9_903, 100])]),
                layers(None, 0, &[("UdpOutDatagrams", 9_903)]),
            ),
            Place::Host => (
                samples(None, &[("peer", [9_903, 0, 0, 0]), ("tap3", [0, 0, 7_503, 2_000])]),
                layers(Some(("tap3", 9_503, 0)), 100, &[]),
            ),
            _ => {
                let protocols = [
                    ("IpInReceives", 7_453),
                    ("IpInDelivers", 7_423),
                    ("UdpRcvbufErrors", 20),
                    ("UdpInErrors", 20),
                    ("UdpInDatagrams", 7_403),
                ];
                (samples(Some(7_400), &[(name, [7_453, 50, 0, 0])]), layers(None, 0, &protocols))
            }
        };
        party.report.samples = samples;
        party.report.layers = layers;
        if let Some(load) = &mut party.report.load {
            load.datagrams = None;
        }
    }
    (trial, cell.workload.clone())
}

#[test]
fn a_trial_is_followed_from_socket_to_socket() {
    let (trial, workload) = to_a_guest();
    let ledger = of_trial(&trial, &workload).unwrap();
    let expected = [
        (LossPlace::HostBacklog, 100, 100),
        (LossPlace::Switch, 400, 0),
        (LossPlace::TapQueue, 2_000, 2_000),
        (LossPlace::ReceiverInterface, 50, 50),
        (LossPlace::ReceiverFilter, 30, 0),
        (LossPlace::ReceiverSocket, 20, 20),
    ];
    assert_eq!(losses(&ledger), expected);
    assert_eq!((ledger.sent, ledger.received, ledger.unaccounted), (10_000, 7_400, 0));
    assert_eq!(ledger.trials, 1);
}

#[test]
fn what_has_no_ledger_says_why() {
    let (trial, workload) = to_a_guest();
    let of = |trial: &TrialRecord, workload: &Workload| of_trial(trial, workload).unwrap_err();
    let tcp = Workload { kind: WorkloadKind::TcpStream, ..workload.clone() };
    assert!(of(&trial, &tcp).contains("not one of datagrams"));
    let mut without = trial.clone();
    without.parties.iter_mut().for_each(|party| party.report.layers.clear());
    assert!(of(&without, &workload).contains("layers"));
    let mut without = trial;
    without.parties.retain(|party| party.place != Place::Guest);
    assert!(of(&without, &workload).contains("receiver"));
}

/// What is sent as 64 in one, and so to the tap, which cuts it; the guest gets single ones and joins them.
#[test]
fn joined_datagrams_are_counted_by_their_bytes() {
    let (mut trial, workload) = to_a_guest();
    let workload = Workload { segmentation: true, ..workload };
    let payload = workload.payload_bytes();
    let [joined, single] = [42 + 64 * payload, 42 + payload];
    for party in &mut trial.parties {
        let name = party.interface.as_ref().map_or("", |facts| facts.name.clone().leak());
        let is_host = party.place == Place::Host;
        if let Some(load) = &mut party.report.load {
            load.datagrams = None;
        }
        let report = &mut party.report;
        // 1000 packets of 64: 10 are lost to a backlog, 5 in the switch; of the single ones 49 984 in the
        // tap's queue, 64 by a filter as one packet, 128 in the socket as two.
        if is_host {
            report.samples =
                samples(None, &[("peer", [990, 0, 0, 0]), ("tap3", [0, 0, 13_056, 49_984])]);
            report.layers = layers(Some(("tap3", 63_040, 0)), 10, &[]);
            let bytes = |sample: &mut Sample, interface: &str, rx, tx| {
                let counters = sample.interfaces.as_mut().unwrap().get_mut(interface).unwrap();
                (counters.rx_bytes, counters.tx_bytes) = (rx, tx);
            };
            bytes(&mut report.samples[1], "peer", 990 * joined, 0);
            bytes(&mut report.samples[1], "tap3", 0, 13_056 * single);
            report.layers[1].qdiscs.as_mut().unwrap()[0].bytes = 63_040 * single;
        } else if party.place == Place::Peer {
            report.samples = samples(Some(64_000), &[(name, [0, 0, 990, 10])]);
            let counters = report.samples[1].interfaces.as_mut().unwrap().get_mut(name).unwrap();
            counters.tx_bytes = 990 * joined;
            report.layers = layers(None, 0, &[]);
        } else {
            let protocols = [
                ("IpInReceives", 204),
                ("IpExtInOctets", 13_056 * payload + 204 * 28),
                ("IpInDelivers", 203),
                ("UdpRcvbufErrors", 2),
                ("UdpInErrors", 2),
            ];
            report.samples = samples(Some(12_864), &[(name, [13_056, 0, 0, 0])]);
            let counters = report.samples[1].interfaces.as_mut().unwrap().get_mut(name).unwrap();
            counters.rx_bytes = 13_056 * single;
            report.layers = layers(None, 0, &protocols);
        }
    }
    let ledger = of_trial(&trial, &workload).unwrap();
    let expected = [
        (LossPlace::HostBacklog, 640, 640),
        (LossPlace::Switch, 320, 0),
        (LossPlace::TapQueue, 49_984, 49_984),
        (LossPlace::ReceiverFilter, 64, 0),
        (LossPlace::ReceiverSocket, 128, 128),
    ];
    assert_eq!((losses(&ledger), ledger.unaccounted), (expected.to_vec(), 0), "{ledger:#?}");
}

#[test]
fn what_a_device_gave_back_to_its_queue_is_not_counted_twice() {
    let queue = Queue { packets: 900, dropped: 50, queued: 80 };
    assert_eq!(queue.of_load(1000), Queue { queued: 50, ..queue });
    assert_eq!(queue.of_load(2000), queue);
    assert_eq!(queue.of_load(900).queued, 0);
}

/// Requests to a guest beside streams: counters of interfaces and queues are of both.
fn requests_beside_streams(background: Option<Background>) -> (TrialRecord, Workload) {
    let (mut trial, workload) = to_a_guest();
    let workload = Workload {
        kind: WorkloadKind::RequestResponse,
        transport: Some(Transport::Udp),
        background,
        ..workload
    };
    for party in &mut trial.parties {
        let role = party.role;
        let exchanged = |sent, received| LoadOutcome {
            exchanged: Some(Exchanged { sent, received }),
            socket_drops: Some(if sent < 1000 { 20 } else { 0 }),
            ..LoadOutcome::default()
        };
        // 1000 requests: 80 are lost on the way, 20 in the socket; all responses arrive.
        match role {
            Role::Sender { .. } => party.report.load = Some(exchanged(1000, 900)),
            Role::Receiver { .. } => {
                party.report.load = Some(exchanged(900, 900));
                let protocols = party.report.layers[1].protocols.as_mut().unwrap();
                protocols.insert("UdpInDatagrams".into(), 900);
            }
            Role::Disk | Role::Observer => {}
        }
        if background.is_some() && !matches!(role, Role::Observer) {
            party.further_legs.push(Leg { purpose: Purpose::Background, role });
        }
    }
    (trial, workload)
}

#[test]
fn what_streams_share_with_requests_is_placed_where_one_place_drops() {
    let (mut trial, workload) = requests_beside_streams(Some(Background::TcpStream));
    let told = of_trial(&trial, &workload).unwrap();
    // Three places drop packets of either: the 80 have none.
    assert_eq!(losses(&told), [(LossPlace::ReceiverSocket, 20, 20)]);
    assert_eq!((told.sent, told.received, told.unaccounted), (1900, 1800, 80));
    assert_eq!(told.responses.as_ref().unwrap().lost, 0);
    for party in &mut trial.parties {
        for sample in party.report.samples.iter_mut().skip(1) {
            for (name, counters) in sample.interfaces.as_mut().unwrap() {
                if !name.starts_with("tap") {
                    (counters.tx_dropped, counters.rx_dropped) = (0, 0);
                }
            }
        }
    }
    let told = of_trial(&trial, &workload).unwrap();
    let expected = [(LossPlace::TapQueue, 80, 0), (LossPlace::ReceiverSocket, 20, 20)];
    assert_eq!((losses(&told), told.unaccounted), (expected.to_vec(), 0));
    // Beside datagrams of somebody else UDP's counters are of both, those of sockets are not.
    let workload = Workload { background: Some(Background::UdpStream), ..workload };
    let told = of_trial(&trial, &workload).unwrap();
    assert_eq!((losses(&told), told.unaccounted), (expected.to_vec(), 0));
}
