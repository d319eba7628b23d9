//! What the rules ask of a trial: numbers that speak for or against a limit. A number that is not there
//! speaks for nothing, so that they are plain options.

use std::cell::OnceCell;

use vioperf_model::record::{Party, Place, TrialRecord};
use vioperf_model::sample::{InterfaceFacts, LoadOutcome, QdiscCounters, TcpLimits, TcpStreamInfo};
use vioperf_model::workload::Workload;

use crate::cores::{CoreReading, MachineReading};
use crate::flow::{Flow, View};
use crate::layers::Span;
use crate::ledger::{self, Ledger, LossPlace};
use crate::measure::Unit;
use crate::rates::{TrialReadings, Way, node_percent_of_core, own_interface};
use crate::result::Fact;
use crate::threads::Task;
use crate::window::percent;

/// Part of the datagrams that is lost from which the loss is what limits, and not the sender.
const LOSS_THAT_LIMITS: f64 = 0.01;
/// The same where the sender was asked for less than it can.
const LOSS_OF_PACED: f64 = 0.001;
/// From so much of the time on a CPU quota is felt, in percent.
const THROTTLED_PERCENT: f64 = 10.0;
/// Part of a loss that makes a place the cause of it.
const MOST_OF_LOSS: f64 = 0.5;

/// What to do about a quota.
pub(super) const QUOTA_ADVICE: &str = "Its control group has used up its CPU quota: raise or lift it (cpu.max, cpu.cfs_quota_us; CPUQuota= of a systemd unit; the \
     limit of a container), see `cat /sys/fs/cgroup/.../cpu.stat`.";

/// One load of a trial, that goes one way.
pub(super) struct Symptoms<'a> {
    pub(super) trial: &'a TrialRecord,
    pub(super) workload: &'a Workload,
    pub(super) sender: End<'a>,
    pub(super) receiver: End<'a>,
    /// Where its datagrams went; absent of other loads.
    pub(super) ledger: Option<Ledger>,
    parties: Vec<End<'a>>,
    readings: &'a TrialReadings,
}

impl<'a> Symptoms<'a> {
    /// `readings` are the trial's own.
    pub(super) fn of(
        trial: &'a TrialRecord,
        workload: &'a Workload,
        flow: Flow<'a>,
        readings: &'a TrialReadings,
    ) -> Self {
        let end = |view| End::new(view, readings);
        let party = |party: &Party| end(View::of_place(trial, "party", party.place));
        Self {
            trial,
            workload,
            sender: end(flow.sender),
            receiver: end(flow.receiver),
            ledger: ledger::of_trial(trial, workload).ok(),
            parties: trial.parties.iter().map(party).collect(),
            readings,
        }
    }

    /// Sender and receiver.
    pub(super) fn ends(&self) -> [&End<'a>; 2] {
        [&self.sender, &self.receiver]
    }

    /// Every machine that packets pass or that works for them: an end each, and the host.
    pub(super) fn parties(&self) -> impl Iterator<Item = &End<'a>> {
        self.parties.iter()
    }

    /// The observer of the switch and of QEMU.
    pub(super) fn host(&self) -> Option<&End<'a>> {
        self.parties.iter().find(|end| end.place() == Some(Place::Host))
    }

    /// The guest, whichever end it is.
    pub(super) fn guest(&self) -> Option<&End<'a>> {
        self.ends().into_iter().find(|end| end.place() == Some(Place::Guest))
    }

    /// CPU time of QEMU's threads of that kind in percent of one core.
    pub(super) fn qemu_percent(&self, task: Task) -> Option<f64> {
        self.readings.qemu.task(task).ok()
    }

    /// For how long QEMU's threads waited for a CPU, all together, in percent of the window.
    pub(super) fn qemu_waiting_percent(&self) -> Option<f64> {
        self.readings.qemu.waiting_percent_of_core.clone().ok()
    }

    /// Payload that arrived, in bit/s.
    pub(super) fn bits_per_second(&self) -> Option<f64> {
        self.receiver.view.rate(Unit::Bits).ok()
    }

    /// Busy time of the machine that an end is on which no node and no watched thread used, in percent of
    /// one core; interrupts aside.
    pub(super) fn foreign_percent(&self, end: &End<'a>) -> Option<f64> {
        let busy = end.machine().charged_percent_of_core.clone().ok()?;
        let mine = end.view.party?;
        let is_here = |party: &&Party| {
            party.place == mine.place
                || (mine.identity.boot_id.is_some()
                    && party.identity.boot_id == mine.identity.boot_id)
        };
        let nodes = self.trial.parties.iter().filter(is_here).filter_map(node_percent_of_core);
        let nodes: f64 = nodes.sum();
        let is_host =
            self.host().is_some_and(|host| host.view.party.is_some_and(|host| is_here(&host)));
        let qemu = self.readings.qemu.total().ok().filter(|_| is_host).unwrap_or(0.0);
        Some((busy - nodes - qemu).max(0.0))
    }
}

impl Symptoms<'_> {
    /// The part of the datagrams sent that was lost, from 0 to 1; absent of other loads.
    pub(super) fn lost_share(&self) -> Option<f64> {
        if let Some(ledger) = &self.ledger {
            return Some(ledger.lost_share());
        }
        if !self.workload.kind.is_of_datagrams() {
            return None;
        }
        let [sent, received] = self.ends().map(End::datagrams);
        let sent = sent.filter(|sent| *sent > 0.0)?;
        Some((1.0 - received? / sent).max(0.0))
    }

    /// Whether so many datagrams are lost that the loss is what limits. A load at a rate that was asked
    /// for is meant to arrive; one at full speed finds the place where it loses.
    pub(super) fn loses(&self) -> bool {
        let least = if self.is_paced() { LOSS_OF_PACED } else { LOSS_THAT_LIMITS };
        self.lost_share().is_some_and(|lost| lost >= least)
    }

    /// Whether the load was asked to be no faster than a rate.
    pub(super) fn is_paced(&self) -> bool {
        let Workload { rate, datagrams_per_second, requests_per_second, pacing, .. } =
            self.workload;
        rate.is_some()
            || pacing.is_some()
            || datagrams_per_second.or(*requests_per_second).is_some()
    }

    /// What was lost at these places, where that is most of a loss that limits.
    pub(super) fn mostly_lost_at(&self, places: &[LossPlace]) -> Option<Vec<Fact>> {
        let ledger = self.ledger.as_ref().filter(|_| self.loses())?;
        let share: f64 = places.iter().map(|place| ledger.share_of_loss(*place)).sum();
        if share < MOST_OF_LOSS {
            return None;
        }
        let here = ledger.losses.iter().filter(|loss| places.contains(&loss.place));
        let told = here.map(|loss| {
            self.receiver.counter(
                format!("datagrams lost: {}", loss.place.title()),
                format!("{} of {} lost, {} sent", loss.datagrams, ledger.lost, ledger.sent),
            )
        });
        Some(told.collect())
    }

    /// Segments that TCP sent again, and how many it sent.
    pub(super) fn sent_again(&self) -> Option<[f64; 2]> {
        let read = |name: &str| self.sender.grown(&[name]);
        Some([read("TcpRetransSegs")?, read("TcpOutSegs")?])
    }

    /// The busiest thread of either end.
    pub(super) fn busiest_thread(&self) -> Option<f64> {
        let threads = self.ends().into_iter().filter_map(|end| Some(end.threads()?.awake()));
        threads.max_by(f64::total_cmp)
    }

    /// The part of the time with data under way in which the receivers' windows kept the senders from
    /// sending, from 0 to 1.
    pub(super) fn receive_window_limits(&self) -> Option<f64> {
        self.waited_for(|limits| limits.receive_window_us)
    }

    /// The same of the senders' own buffers.
    pub(super) fn send_buffer_limits(&self) -> Option<f64> {
        self.waited_for(|limits| limits.send_buffer_us)
    }

    fn waited_for(&self, read: fn(&TcpLimits) -> u64) -> Option<f64> {
        let (mut waited, mut busy) = (0_u64, 0_u64);
        for limits in self.sender.connections().filter_map(|connection| connection.limits) {
            waited = waited.saturating_add(read(&limits));
            busy = busy.saturating_add(limits.busy_us);
        }
        (busy > 0).then(|| waited as f64 / busy as f64)
    }

    /// The least round-trip time that any connection has seen, in seconds.
    pub(super) fn least_rtt_seconds(&self) -> Option<f64> {
        let times = self.sender.connections().filter_map(|connection| connection.least_rtt_us);
        times.min().map(|us| f64::from(us) / 1e6)
    }

    /// Whether the rate is about what a window as large as the buffers gives over the path's own delay:
    /// then the window is the limit and not who reads.
    pub(super) fn window_fits_delay(&self) -> bool {
        let buffer = || {
            let receive = self.receiver.outcome()?.socket_buffers?.receive_bytes;
            let send = self.sender.outcome()?.socket_buffers?.send_bytes;
            Some(receive.min(send) as f64)
        };
        let under_way = || {
            let streams = f64::from(self.workload.streams.max(1));
            Some(self.bits_per_second()? / 8.0 / streams * self.least_rtt_seconds()?)
        };
        match (buffer(), under_way()) {
            // Half of a buffer and less is for payload; a window below that is far from any delay's.
            (Some(buffer), Some(under_way)) => under_way >= buffer / 8.0,
            _ => false,
        }
    }
}

/// One machine's part in the trial.
pub(super) struct End<'a> {
    view: View<'a>,
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

/// By how much the counters of a queueing discipline grew.
#[derive(Debug, Clone)]
pub(super) struct QdiscGrowth {
    pub(super) interface: String,
    pub(super) kind: String,
    pub(super) bytes: u64,
    pub(super) packets: u32,
    pub(super) drops: u32,
    pub(super) overlimits: u32,
}

impl<'a> End<'a> {
    fn new(view: View<'a>, readings: &'a TrialReadings) -> Self {
        let known = match view.party.map(|party| party.place) {
            Some(Place::Guest) => Some(&readings.guest),
            Some(Place::Peer | Place::Second | Place::Host) => Some(&readings.host),
            Some(Place::Client | Place::Server) | None => None,
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

    pub(super) fn outcome(&self) -> Option<&'a LoadOutcome> {
        self.view.outcome()
    }

    /// The interface under test.
    pub(super) fn interface(&self) -> Option<&'a InterfaceFacts> {
        self.view.party?.interface.as_ref()
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
        self.span()?.softnet(|core| core.dropped).ok()
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
    pub(super) fn qdiscs(&self) -> Vec<QdiscGrowth> {
        let Some(span) = self.span() else { return Vec::new() };
        let Ok([first, last]) = span.both("qdiscs", |layers| layers.qdiscs.as_ref()) else {
            return Vec::new();
        };
        let grown = |now: &QdiscCounters| {
            let is_it = |before: &&QdiscCounters| {
                (&before.interface, &before.kind, &before.handle, &before.parent)
                    == (&now.interface, &now.kind, &now.handle, &now.parent)
            };
            let before = first.iter().find(is_it).cloned().unwrap_or_default();
            QdiscGrowth {
                interface: now.interface.clone(),
                kind: now.kind.clone(),
                bytes: now.bytes.saturating_sub(before.bytes),
                packets: now.packets.wrapping_sub(before.packets),
                drops: now.drops.wrapping_sub(before.drops),
                overlimits: now.overlimits.wrapping_sub(before.overlimits),
            }
        };
        last.iter().map(grown).collect()
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
