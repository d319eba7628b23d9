//! Trials in which something is planted.

use vioperf_model::record::{Party, Place, TrialRecord};
use vioperf_model::sample::{
    LayerCounters, LoadOutcome, LoadThread, QdiscCounters, SoftnetCore, StreamOutcome, TcpLimits,
    TcpStreamInfo,
};
use vioperf_model::wire::Role;
use vioperf_model::workload::{Workload, WorkloadKind};

use super::super::*;
use crate::ledger::{Ledger, LossPlace};
use crate::testing::Synthetic;

const SECOND_NS: u64 = 1_000_000_000;

/// A baseline's trial in which nothing is full, to be changed.
pub struct Planted {
    pub trial: TrialRecord,
    pub workload: Workload,
    pub ledger: Option<Ledger>,
}

impl Planted {
    pub fn calm(kind: WorkloadKind) -> Self {
        Self::on_path(kind, Place::Second)
    }

    /// With that near end.
    pub fn on_path(kind: WorkloadKind, near: Place) -> Self {
        let Synthetic { trials, .. } = Synthetic::calm_kvm();
        let has = |trial: &TrialRecord| trial.parties.iter().any(|party| party.place == near);
        let trial = trials.into_iter().find(has).unwrap();
        let mut planted = Self { trial, workload: Workload::new(kind), ledger: None };
        for party in &mut planted.trial.parties {
            party.report.layers = vec![layers_at(0), layers_at(3 * SECOND_NS)];
            if party.role == Role::Observer {
                continue;
            }
            party.report.load = Some(LoadOutcome {
                threads: vec![awake(30, 0)],
                streams: vec![StreamOutcome { bytes: 1, tcp: Some(calm_connection()) }],
                ..LoadOutcome::default()
            });
        }
        planted
    }

    pub fn sender(&mut self) -> &mut Party {
        let is_sender = |party: &&mut Party| matches!(party.role, Role::Sender { .. });
        self.trial.parties.iter_mut().find(is_sender).unwrap()
    }

    pub fn receiver(&mut self) -> &mut Party {
        let is_receiver = |party: &&mut Party| matches!(party.role, Role::Receiver { .. });
        self.trial.parties.iter_mut().find(is_receiver).unwrap()
    }

    pub fn connection(&mut self) -> &mut TcpStreamInfo {
        load(self.sender()).streams[0].tcp.as_mut().unwrap()
    }

    /// Ten thousand datagrams, a third of them lost there.
    pub fn loses_at(mut self, place: LossPlace) -> Self {
        let mut ledger =
            Ledger { trials: 1, sent: 10_000, received: 7_000, lost: 3_000, ..Ledger::default() };
        ledger.add_loss(place, 3_000, 3_000);
        self.ledger = Some(ledger);
        self
    }

    /// What is told, in the order of the table.
    pub fn told(&self) -> Vec<(&'static str, Sign)> {
        let flow = Flow::all(&self.trial, Purpose::Measured).remove(0);
        let readings = TrialReadings::of(&self.trial, &self.workload);
        let mut symptoms = Symptoms::of(&self.trial, &self.workload, flow, &readings);
        symptoms.ledger.clone_from(&self.ledger);
        let mut told: Vec<_> =
            RULES.iter().filter_map(|rule| Some((rule.name, (rule.check)(&symptoms)?))).collect();
        told.sort_by_key(|(_, sign)| sign.confidence);
        told
    }

    pub fn first(&self) -> Option<&'static str> {
        self.told().first().map(|(name, _)| *name)
    }
}

pub fn load(party: &mut Party) -> &mut LoadOutcome {
    party.report.load.as_mut().unwrap()
}

/// A thread's time in percent.
pub fn awake(on_cpu: u64, waiting: u64) -> LoadThread {
    let part = |percent: u64| percent * 3 * SECOND_NS / 100;
    LoadThread { lived_ns: part(100), on_cpu_ns: part(on_cpu), waiting_ns: Some(part(waiting)) }
}

pub fn calm_connection() -> TcpStreamInfo {
    TcpStreamInfo {
        rtt_us: 100,
        least_rtt_us: Some(50),
        congestion_window_segments: 500,
        send_mss_bytes: 1_448,
        path_mtu_bytes: 1_500,
        limits: Some(TcpLimits { busy_us: 3_000_000, receive_window_us: 0, send_buffer_us: 0 }),
        ..TcpStreamInfo::default()
    }
}

pub fn layers_at(monotonic_ns: u64) -> LayerCounters {
    let names =
        ["TcpRetransSegs", "TcpOutSegs", "IpFragCreates", "IpReasmReqds", "UdpRcvbufErrors"];
    LayerCounters {
        monotonic_ns,
        softnet: Some(vec![SoftnetCore::default(); 2]),
        qdiscs: Some(Vec::new()),
        protocols: Some(names.map(|name| (name.to_owned(), 0)).into()),
        ..LayerCounters::default()
    }
}

pub fn last(party: &mut Party) -> &mut LayerCounters {
    party.report.layers.last_mut().unwrap()
}

pub fn count(party: &mut Party, name: &str, value: u64) {
    last(party).protocols.as_mut().unwrap().insert(name.to_owned(), value);
}

pub fn qdisc(kind: &str) -> QdiscCounters {
    QdiscCounters {
        interface: "eth0".into(),
        kind: kind.into(),
        parent: "root".into(),
        ..QdiscCounters::default()
    }
}
