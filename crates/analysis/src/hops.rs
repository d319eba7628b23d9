//! Packets along the path of a load that goes one way as fast as it can, hop by hop: where they are cut, and where merged.

use vioperf_model::record::{Party, Place, TrialRecord};
use vioperf_model::sample::{InterfaceCounters, Sample, TcpCounters};
use vioperf_model::workload::{Direction, Workload, WorkloadKind};

use crate::cell::CellTrials;
use crate::flow::{Flow, View};
use crate::measure::Unit;
use crate::ports::port_of;
use crate::rates::TrialReadings;
use crate::result::{Hop, HopPlace, PathHops};
use crate::window::{Absent, Reading};

/// One way of one trial.
#[derive(Debug, Clone)]
pub struct FlowHops {
    direction: Direction,
    segments_retransmitted: Reading,
    hops: Vec<HopReading>,
}

#[derive(Debug, Clone)]
struct HopReading {
    place: HopPlace,
    packets_per_second: Reading,
    bytes_per_packet: Reading,
}

#[derive(Clone, Copy)]
enum Way {
    Out,
    In,
}

/// Whether such a load's packets are told hop by hop.
fn is_of(kind: WorkloadKind) -> bool {
    matches!(kind, WorkloadKind::TcpStream | WorkloadKind::UdpStream | WorkloadKind::PacketRate)
}

/// Every way of a trial; none where the load is one of requests, or of many rates.
pub(crate) fn of_flows(
    trial: &TrialRecord,
    workload: &Workload,
    flows: &[Flow<'_>],
) -> Vec<FlowHops> {
    if !is_of(workload.kind) {
        return Vec::new();
    }
    let has_tcp = workload.kind == WorkloadKind::TcpStream;
    flows.iter().map(|flow| of_flow(trial, flow, has_tcp)).collect()
}

fn of_flow(trial: &TrialRecord, flow: &Flow<'_>, has_tcp: bool) -> FlowHops {
    let Flow { sender, receiver, .. } = flow;
    let host = View::of_place(trial, "host", Place::Host);
    // A port that Open vSwitch alone knows is counted at the ends of the load, not sample by sample.
    let has = |host: &Party, port: &str| {
        let interfaces = host.report.samples.last().and_then(|last| last.interfaces.as_ref());
        interfaces.is_none_or(|interfaces| interfaces.contains_key(port))
    };
    let port = |end: &View<'_>| {
        let host = host.party?;
        port_of(trial, host, end.party?.place).filter(|port| has(host, port))
    };
    let own = |end: &View<'_>| Some(end.party?.interface.as_ref()?.name.clone());
    let mut hops = Vec::new();
    if has_tcp {
        hops.push(in_tcp(HopPlace::SenderTcp, sender, |tcp| tcp.segments_sent));
    }
    let mut at_interface = |place, view: &View<'_>, name: Option<&str>, way| {
        hops.extend(name.map(|name| on_interface(place, view, name, way)));
    };
    at_interface(HopPlace::SenderInterface, sender, own(sender).as_deref(), Way::Out);
    at_interface(HopPlace::SwitchIn, &host, port(sender), Way::In);
    at_interface(HopPlace::SwitchOut, &host, port(receiver), Way::Out);
    at_interface(HopPlace::ReceiverInterface, receiver, own(receiver).as_deref(), Way::In);
    if has_tcp {
        hops.push(in_tcp(HopPlace::ReceiverTcp, receiver, |tcp| tcp.segments_received));
    }
    FlowHops {
        direction: flow.direction,
        segments_retransmitted: tcp_grown(sender, |tcp| tcp.segments_retransmitted),
        hops,
    }
}

fn tcp_grown(view: &View<'_>, read: fn(&TcpCounters) -> u64) -> Reading {
    let window = view.window()?;
    Ok(window.increase("tcp", |sample| sample.tcp.as_ref().map(read))? as f64)
}

/// In a party's TCP: bytes are those of the load's payload.
fn in_tcp(place: HopPlace, view: &View<'_>, read: fn(&TcpCounters) -> u64) -> HopReading {
    let packets = tcp_grown(view, read);
    let seconds = view.window().map(|window| window.seconds);
    let bytes = view.rate(Unit::Bits).and_then(|bits| Ok(bits / 8.0 * seconds.clone()?));
    HopReading::of(place, &packets, &bytes, &seconds)
}

fn on_interface(place: HopPlace, view: &View<'_>, name: &str, way: Way) -> HopReading {
    let grown = |read: fn(&InterfaceCounters) -> u64| -> Reading {
        let counters = |sample: &Sample| sample.interfaces.as_ref()?.get(name).map(read);
        Ok(view.window()?.increase("interfaces", counters)? as f64)
    };
    let [packets, bytes] = match way {
        Way::Out => [grown(|counters| counters.tx_packets), grown(|counters| counters.tx_bytes)],
        Way::In => [grown(|counters| counters.rx_packets), grown(|counters| counters.rx_bytes)],
    };
    HopReading::of(place, &packets, &bytes, &view.window().map(|window| window.seconds))
}

impl HopReading {
    fn of(
        place: HopPlace,
        packets: &Reading,
        bytes: &Reading,
        seconds: &Result<f64, Absent>,
    ) -> Self {
        let ratio = |of: &Reading, per: &Reading| -> Reading {
            let per = *per.as_ref().map_err(Clone::clone)?;
            let of = *of.as_ref().map_err(Clone::clone)?;
            if per > 0.0 { Ok(of / per) } else { Err("no packet was counted".into()) }
        };
        Self {
            place,
            packets_per_second: ratio(packets, seconds),
            bytes_per_packet: ratio(bytes, packets),
        }
    }
}

/// Gathers the trials of a cell.
pub(crate) fn gather(trials: &CellTrials, workload: &Workload) -> Vec<PathHops> {
    if !is_of(workload.kind) {
        return Vec::new();
    }
    let way = |direction: &Direction| {
        let of_trial = |readings: &TrialReadings| -> Option<usize> {
            readings.hops.iter().position(|hops| hops.direction == *direction)
        };
        let seen = |place: &HopPlace| {
            trials.completed.iter().any(|readings| {
                let hops = of_trial(readings).and_then(|at| readings.hops.get(at));
                hops.is_some_and(|hops| hops.hops.iter().any(|hop| hop.place == *place))
            })
        };
        let metric = |read: &dyn Fn(&FlowHops) -> Option<Reading>| {
            trials.metric_of(|readings| {
                let hops = of_trial(readings).and_then(|at| readings.hops.get(at));
                hops.and_then(read).unwrap_or_else(|| Err("not in the record".into()))
            })
        };
        let hop = |place: HopPlace| {
            let read = |of: fn(&HopReading) -> &Reading| {
                metric(&move |hops: &FlowHops| {
                    let hop = hops.hops.iter().find(|hop| hop.place == place)?;
                    Some(of(hop).clone())
                })
            };
            Hop {
                place,
                packets_per_second: read(|hop| &hop.packets_per_second),
                bytes_per_packet: read(|hop| &hop.bytes_per_packet),
            }
        };
        PathHops {
            direction: *direction,
            segments_retransmitted: metric(&|hops| Some(hops.segments_retransmitted.clone())),
            hops: HopPlace::ALL.into_iter().filter(seen).map(hop).collect(),
        }
    };
    let ways: Vec<PathHops> = workload.direction.ways().iter().map(way).collect();
    // A cell without a trial that counts has seen nothing.
    if ways.iter().all(|way| way.hops.is_empty()) { Vec::new() } else { ways }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyse;
    use crate::testing::Synthetic;

    #[test]
    fn bytes_per_packet_are_told_where_packets_are_cut_and_merged() {
        let run = Synthetic::calm_kvm();
        let analysis = analyse(&run.run, &run.trials);
        let cell = analysis.cells.iter().find(|cell| cell.id.0 == "virtio/1-stream/to-guest");
        let [way] = &cell.unwrap().hops[..] else { panic!("one way") };
        assert_eq!(way.direction, Direction::ToGuest);
        let bytes = |place| way.at(place).map(|hop| hop.bytes_per_packet.mean().unwrap().round());
        assert_eq!(bytes(HopPlace::SenderTcp), Some(1448.0));
        assert_eq!(bytes(HopPlace::SenderInterface), Some(60_000.0));
        assert_eq!(bytes(HopPlace::SwitchIn), None, "the synthetic host has a tap alone");
        assert_eq!(bytes(HopPlace::SwitchOut), Some(30_000.0));
        assert_eq!(bytes(HopPlace::ReceiverInterface), Some(1_500.0));
        assert_eq!(way.segments_retransmitted.mean(), Some(20.0));
        assert!(analysis.cells.iter().all(|cell| cell.hops.len() == 1));
    }

    #[test]
    fn loads_of_requests_have_none_and_datagrams_none_in_tcp() {
        let run = Synthetic::of_kind(WorkloadKind::RequestResponse);
        assert!(analyse(&run.run, &run.trials).cells.iter().all(|cell| cell.hops.is_empty()));
        for kind in [WorkloadKind::UdpStream, WorkloadKind::PacketRate] {
            let run = Synthetic::of_kind(kind);
            for cell in analyse(&run.run, &run.trials).cells {
                let [way] = &cell.hops[..] else { panic!("one way") };
                assert!(way.at(HopPlace::SenderTcp).is_none() && !way.hops.is_empty(), "{way:?}");
            }
        }
    }
}
