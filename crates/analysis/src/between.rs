//! What is read of the two ends of a path between two machines.

use vioperf_model::record::{Place, TrialRecord};

use crate::cell::CellTrials;
use crate::cores::MachineReading;
use crate::flow::{Flow, View};
use crate::rates::{TrialReadings, node_percent_of_core, seconds_per_unit};
use crate::result::{BetweenMachines, HypervisorUse, MachineEnd, TcpState};
use crate::window::Reading;

/// One trial's view of both ends.
#[derive(Debug, Clone)]
pub struct BetweenReading {
    client: EndReading,
    server: EndReading,
    /// Whether the hypervisor of an end was watched.
    has_hypervisor: bool,
}

#[derive(Debug, Clone)]
struct EndReading {
    machine: MachineReading,
    cpu_seconds_per_unit: Reading,
    node_percent_of_core: Reading,
}

impl BetweenReading {
    /// Of a trial between two machines; nothing of a lab's.
    pub fn of(trial: &TrialRecord, headline: &Reading) -> Option<Self> {
        let is_between = trial.parties.iter().any(|party| party.place == Place::Server);
        is_between.then(|| Self {
            client: EndReading::of(trial, Place::Client, "client", headline),
            server: EndReading::of(trial, Place::Server, "server", headline),
            has_hypervisor: trial.parties.iter().any(|party| party.place == Place::Host),
        })
    }
}

impl EndReading {
    fn of(trial: &TrialRecord, place: Place, who: &'static str, headline: &Reading) -> Self {
        let view = View::of_place(trial, who, place);
        let machine = MachineReading::of(view.window());
        let node = view.party.and_then(node_percent_of_core);
        Self {
            cpu_seconds_per_unit: seconds_per_unit(&machine.busy_percent_of_core, headline),
            node_percent_of_core: node.ok_or_else(|| format!("{who}: not in the record").into()),
            machine,
        }
    }
}

/// Gathers both ends; `payload` is whether the load is measured by its bytes.
pub fn gather(trials: &CellTrials) -> BetweenMachines {
    let is_watched = |readings: &TrialReadings| {
        readings.between.as_ref().is_some_and(|between| between.has_hypervisor)
    };
    BetweenMachines {
        client: gather_end(trials, |between| &between.client),
        server: gather_end(trials, |between| &between.server),
        hypervisor: trials.completed.iter().any(is_watched).then(|| HypervisorUse {
            machine: trials.machine_of(|readings| Some(&readings.host)),
            cpu_seconds_per_unit: trials.metric(|readings| &readings.cpu_seconds_per_unit[0]),
            qemu: trials.qemu(),
        }),
    }
}

fn gather_end(trials: &CellTrials, of: fn(&BetweenReading) -> &EndReading) -> MachineEnd {
    let metric = |read: fn(&EndReading) -> &Reading| {
        trials.metric_of(move |readings: &TrialReadings| match &readings.between {
            Some(between) => read(of(between)).clone(),
            None => Err("neither end is in the record".into()),
        })
    };
    MachineEnd {
        machine: trials.machine_of(|readings| Some(&of(readings.between.as_ref()?).machine)),
        cpu_seconds_per_unit: metric(|end| &end.cpu_seconds_per_unit),
        node_percent_of_core: metric(|end| &end.node_percent_of_core),
    }
}

/// What TCP said of the sender's connections at their end, in one trial.
#[derive(Debug, Clone)]
pub struct TcpReading {
    rtt_us: Reading,
    rtt_variation_us: Reading,
    congestion_window_bytes: Reading,
    send_mss_bytes: Reading,
    retransmissions: Reading,
}

impl TcpReading {
    /// Reads the connections of all senders.
    pub(crate) fn of(flows: &[Flow<'_>]) -> Self {
        let loads = flows.iter().filter_map(|flow| flow.sender.outcome());
        let streams: Vec<_> =
            loads.flat_map(|load| &load.streams).filter_map(|stream| stream.tcp).collect();
        let sum = |read: fn(&vioperf_model::sample::TcpStreamInfo) -> f64| -> Reading {
            match streams.len() {
                0 => Err("no connection tells of its TCP".into()),
                _ => Ok(streams.iter().map(read).sum()),
            }
        };
        let mean = |read| sum(read).map(|sum| sum / streams.len() as f64);
        Self {
            rtt_us: mean(|tcp| f64::from(tcp.rtt_us)),
            rtt_variation_us: mean(|tcp| f64::from(tcp.rtt_variation_us)),
            congestion_window_bytes: mean(|tcp| {
                f64::from(tcp.congestion_window_segments) * f64::from(tcp.send_mss_bytes)
            }),
            send_mss_bytes: mean(|tcp| f64::from(tcp.send_mss_bytes)),
            retransmissions: sum(|tcp| f64::from(tcp.retransmissions)),
        }
    }
}

/// Gathers what TCP said.
pub fn gather_tcp(trials: &CellTrials) -> TcpState {
    let metric = |read: fn(&TcpReading) -> &Reading| trials.metric(move |r| read(&r.tcp));
    TcpState {
        rtt_us: metric(|tcp| &tcp.rtt_us),
        rtt_variation_us: metric(|tcp| &tcp.rtt_variation_us),
        congestion_window_bytes: metric(|tcp| &tcp.congestion_window_bytes),
        send_mss_bytes: metric(|tcp| &tcp.send_mss_bytes),
        retransmissions: metric(|tcp| &tcp.retransmissions),
    }
}
