//! One machine's part in a trial, as the rules ask for it.

use std::cell::OnceCell;

use vioperf_model::record::Place;
use vioperf_model::sample::{
    InterfaceFacts, LoadOutcome, PacketFilter, QdiscCounters, TcpStreamInfo,
};
use vioperf_model::wire::Role;

use crate::cores::{CoreReading, MachineReading};
use crate::flow::View;
use crate::layers::Span;
use crate::measure::Unit;
use crate::parties::PartyReading;
use crate::rates::{TrialReadings, Way, own_interface};
use crate::result::Fact;
use crate::window::percent;

/// From so much of the time on a CPU quota is felt, in percent.
const THROTTLED_PERCENT: f64 = 10.0;

/// What to do about a quota.
pub(super) const QUOTA_ADVICE: &str = "Its control group has used up its CPU quota: raise or lift it (cpu.max, cpu.cfs_quota_us; CPUQuota= of a systemd unit; the \
     limit of a container), see `cat /sys/fs/cgroup/.../cpu.stat`.";

/// One machine's part in the trial.
pub(super) struct End<'a> {
    pub(super) view: View<'a>,
    /// In a lab its cores are the host's or the guest's, and have been read.
    known: Option<&'a MachineReading>,
    /// Else they are read when a rule asks for them.
    own: OnceCell<MachineReading>,
}

/// What the threads of a load did with their time, in percent of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct ThreadUse {
    pub(super) threads: usize,
    /// Of the busiest thread, on a CPU.
    pub(super) on_cpu: f64,
    /// Of the same thread, able to run but waiting for a CPU.
    pub(super) waiting: f64,
}

impl ThreadUse {
    /// What is left, it slept.
    pub(super) fn awake(&self) -> f64 {
        self.on_cpu + self.waiting
    }
}

impl<'a> End<'a> {
    pub(super) fn new(view: View<'a>, readings: &'a TrialReadings) -> Self {
        let known = match view.party.map(|party| party.place) {
            Some(Place::Guest) => Some(&readings.guest),
            Some(Place::Peer | Place::HostEnd | Place::Second | Place::Host) => {
                Some(&readings.host)
            }
            Some(Place::Client | Place::Server) | None => None,
            Some(place @ (Place::FarGuest | Place::Forwarder | Place::Neighbour)) => {
                readings.other(place).map(PartyReading::machine)
            }
        };
        Self { view, known, own: OnceCell::new() }
    }

    pub(super) fn place(&self) -> Option<Place> {
        self.view.party.map(|party| party.place)
    }

    /// As the report calls it.
    pub(super) fn name(&self) -> String {
        self.place().map_or_else(|| "an end".to_owned(), |place| place.to_string())
    }

    /// Whether its machine is known to be no guest.
    pub(super) fn is_bare_machine(&self) -> bool {
        let told = self.view.party.and_then(|party| party.identity.is_virtual);
        self.place().is_none_or(|place| !place.is_in_guest()) && told == Some(false)
    }

    pub(super) fn outcome(&self) -> Option<&'a LoadOutcome> {
        self.view.outcome()
    }

    /// The interface under test.
    pub(super) fn interface(&self) -> Option<&'a InterfaceFacts> {
        self.view.party?.interface.as_ref()
    }

    /// Its part in the load.
    pub(super) fn role(&self) -> Option<Role> {
        self.view.role()
    }

    /// Rules that packets are held against there.
    pub(super) fn packet_filter(&self) -> Option<&'a PacketFilter> {
        self.view.party?.report.packet_filter.as_deref()
    }

    /// Connections that were tracked when the load had ended.
    pub(super) fn tracked_connections(&self) -> Option<u64> {
        Some(self.view.party?.report.layers.last()?.conntrack?.entries)
    }

    /// How fast its load moved, as it counted itself.
    pub(super) fn rate(&self, unit: Unit) -> Option<f64> {
        self.view.rate(unit).ok()
    }

    pub(super) fn machine(&self) -> &MachineReading {
        self.known
            .unwrap_or_else(|| self.own.get_or_init(|| MachineReading::of(self.view.window())))
    }

    /// Its cores with how busy each was, in percent.
    pub(super) fn cores(&self) -> Vec<(&CoreReading, f64)> {
        let cores = self.machine().cores.iter().flatten();
        cores.filter_map(|core| Some((core, *core.busy_percent.as_ref().ok()?))).collect()
    }

    /// Bytes of a packet at the interface under test, sent or received.
    pub(super) fn bytes_per_packet(&self, sent: bool) -> Option<f64> {
        let way = if sent { Way::Sent } else { Way::Received };
        own_interface(&self.view, way).ok()
    }

    /// By how much the counters of the interface's receive queues grew: queue and packets.
    pub(super) fn receive_queues(&self) -> Vec<(String, f64)> {
        let (Some(span), Some(facts)) = (self.span(), self.interface()) else { return Vec::new() };
        span.receive_queues(&facts.name)
    }

    /// Datagrams that its load moved from beginning to end.
    pub(super) fn datagrams(&self) -> Option<f64> {
        self.view.datagrams().map(|datagrams| datagrams as f64)
    }

    /// Seconds that the window lasted.
    pub(super) fn window_seconds(&self) -> Option<f64> {
        self.view.window().ok().map(|window| window.seconds)
    }

    fn span(&self) -> Option<Span<'a>> {
        Span::of(self.view.party?).ok()
    }

    /// Seconds between the two readings of the layers: a little more than the load lasted.
    pub(super) fn seconds(&self) -> Option<f64> {
        self.span().map(|span| span.seconds)
    }

    /// By how much counters of IP, UDP and TCP grew, together.
    pub(super) fn grown(&self, names: &[&str]) -> Option<f64> {
        self.span()?.protocols(names).ok()
    }

    /// Packets that came to the access list of a lab there.
    pub(super) fn held_against_list(&self) -> Option<f64> {
        self.span()?.grown("access_list", |layers| Some(layers.access_list?.entered)).ok()
    }

    /// For how long a CPU quota made the node stand still, where that is felt.
    pub(super) fn throttled(&self) -> Option<Fact> {
        let span = self.span()?;
        let us = span.grown("quota", |layers| Some(layers.quota?.throttled_us)).ok()?;
        let share = percent(us / 1e6, span.seconds);
        let value = format!("{:.0} ms, {}", us / 1e3, crate::wording::percent(share));
        (share >= THROTTLED_PERCENT)
            .then(|| self.counter("stood still for its CPU quota (throttled_usec)", value))
    }

    /// Packets that cores of its machine dropped as their backlog was full.
    pub(super) fn backlog_drops(&self) -> Option<f64> {
        self.span()?.softnet(|core| core.dropped).ok().map(|dropped| dropped as f64)
    }

    /// The busiest thread of its load.
    pub(super) fn threads(&self) -> Option<ThreadUse> {
        let threads = &self.outcome()?.threads;
        let busiest = threads.iter().max_by_key(|thread| thread.on_cpu_ns)?;
        let part = |ns: u64| percent(ns as f64, busiest.lived_ns.max(1) as f64);
        Some(ThreadUse {
            threads: threads.len(),
            on_cpu: part(busiest.on_cpu_ns),
            waiting: part(busiest.waiting_ns.unwrap_or(0)),
        })
    }

    /// What TCP said of its connections at the end.
    pub(super) fn connections(&self) -> impl Iterator<Item = &'a TcpStreamInfo> {
        self.outcome().into_iter().flat_map(|load| &load.streams).filter_map(|s| s.tcp.as_ref())
    }

    /// What queueing disciplines did meanwhile, those that the kernel gave by itself included.
    pub(super) fn qdiscs(&self) -> Vec<QdiscCounters> {
        self.span().and_then(|span| span.qdiscs().ok()).unwrap_or_default()
    }

    /// A counter of this machine that grew over the whole load.
    pub(super) fn counter(&self, what: impl Into<String>, value: impl Into<String>) -> Fact {
        Fact { seconds: self.seconds(), ..self.setting(what, value) }
    }

    /// A share of the window's time.
    pub(super) fn share(&self, what: impl Into<String>, percent: f64) -> Fact {
        let value = crate::wording::percent(percent);
        Fact { seconds: self.window_seconds(), ..self.setting(what, value) }
    }

    /// What is so, and not counted.
    pub(super) fn setting(&self, what: impl Into<String>, value: impl Into<String>) -> Fact {
        Fact { place: self.name(), what: what.into(), value: value.into(), seconds: None }
    }
}
