//! By how much the counters of every layer grew while the load of a trial ran.

mod names;
mod per_packet;
mod queues;
mod totals;

use std::collections::BTreeMap;

use vioperf_model::record::{Party, Place, TrialRecord};
use vioperf_model::sample::{
    InterfaceCounters, LayerCounters, QdiscCounters, SoftInterrupts, SoftnetCore,
};

use crate::cell::CellTrials;
use crate::flow::{Flow, View};
use crate::rates::total;
use crate::result::{Layers, MachineLayers, PathLayers, SocketLayers};
use crate::window::{Absent, Reading, percent};

pub(crate) use per_packet::ExitReading;
use per_packet::ProcessorReading;
pub use totals::CounterTotals;

/// A party's counters before the load began and after it had ended.
#[derive(Clone, Copy)]
pub(crate) struct Span<'a> {
    pub(crate) party: &'a Party,
    first: &'a LayerCounters,
    pub(crate) last: &'a LayerCounters,
    /// Between the two, above zero.
    pub(crate) seconds: f64,
}

impl<'a> Span<'a> {
    pub(crate) fn of(party: &'a Party) -> Result<Self, Absent> {
        let (first, last) = match party.report.layers.as_slice() {
            [] => return Err("counters of layers: not in the record".into()),
            [first, .., last] => (first, last),
            [_] => return Err("counters of layers: read only once".into()),
        };
        match last.monotonic_ns.checked_sub(first.monotonic_ns) {
            None | Some(0) => Err("counters of layers: read in no time".into()),
            Some(span) => Ok(Self { party, first, last, seconds: span as f64 / 1e9 }),
        }
    }

    pub(crate) fn of_place(
        trial: &'a TrialRecord,
        who: &str,
        place: Place,
    ) -> Result<Self, Absent> {
        let party = trial.parties.iter().find(|party| party.place == place);
        Self::of(party.ok_or_else(|| format!("{who}: not in the record"))?)
    }

    fn of_view(view: &View<'a>, who: &str) -> Result<Self, Absent> {
        Self::of(view.party.ok_or_else(|| format!("{who}: not in the record"))?)
    }

    /// By how much a counter of `group` grew.
    pub(crate) fn grown(
        &self,
        group: &str,
        read: impl Fn(&LayerCounters) -> Option<u64>,
    ) -> Reading {
        let [first, last] = self.both(group, read)?;
        let grown = last.checked_sub(first).ok_or_else(|| format!("{group}: ran backwards"))?;
        Ok(grown as f64)
    }

    pub(crate) fn both<T>(
        &self,
        group: &str,
        read: impl Fn(&'a LayerCounters) -> Option<T>,
    ) -> Result<[T; 2], Absent> {
        let read = |layers| read(layers).ok_or_else(|| self.reason(group));
        Ok([read(self.first)?, read(self.last)?])
    }

    fn reason(&self, group: &str) -> Absent {
        match self.party.report.absent.get(&format!("layers.{group}")) {
            Some(reason) => format!("{group}: {reason}").into(),
            None => format!("{group}: not in the record").into(),
        }
    }

    /// Of several counters of IP, UDP and TCP together; those that this kernel lacks count nothing.
    pub(crate) fn protocols(&self, names: &[&str]) -> Reading {
        self.grown("protocols", |layers| {
            let protocols = layers.protocols.as_ref()?;
            let mut present = names.iter().filter_map(|name| protocols.get(*name)).peekable();
            present.peek()?;
            Some(present.fold(0, |sum, value| sum.saturating_add(*value)))
        })
    }

    /// The kernel counts in 32 bits here, which wrap.
    pub(crate) fn softnet(&self, read: fn(&SoftnetCore) -> u32) -> Result<u64, Absent> {
        let [first, last] = self.both("softnet", |layers| layers.softnet.as_ref())?;
        let of_core = |core: &SoftnetCore| {
            let before = first.iter().find(|before| before.core == core.core);
            read(core).wrapping_sub(before.map_or(0, read))
        };
        Ok(last.iter().map(|core| u64::from(of_core(core))).fold(0, u64::saturating_add))
    }

    /// Every queueing discipline, with what its counters grew by: those that the kernel gave by itself
    /// included, and what waited in it before left out. The kernel counts in 32 bits, which wrap.
    pub(crate) fn qdiscs(&self) -> Result<Vec<QdiscCounters>, Absent> {
        let [first, last] = self.both("qdiscs", |layers| layers.qdiscs.as_ref())?;
        let grown = |now: &QdiscCounters| {
            let is_it = |before: &&QdiscCounters| {
                (&before.interface, &before.kind, &before.handle, &before.parent)
                    == (&now.interface, &now.kind, &now.handle, &now.parent)
            };
            let before = first.iter().find(is_it).cloned().unwrap_or_default();
            QdiscCounters {
                bytes: now.bytes.saturating_sub(before.bytes),
                packets: now.packets.wrapping_sub(before.packets),
                drops: now.drops.wrapping_sub(before.drops),
                overlimits: now.overlimits.wrapping_sub(before.overlimits),
                requeues: now.requeues.wrapping_sub(before.requeues),
                queued_packets: now.queued_packets.saturating_sub(before.queued_packets),
                queued_bytes: now.queued_bytes.saturating_sub(before.queued_bytes),
                ..now.clone()
            }
        };
        Ok(last.iter().map(grown).collect())
    }

    /// By all queueing disciplines that stand at an interface: theirs contain what those inside of them
    /// dropped.
    fn dropped_by_qdiscs(&self) -> Reading {
        let all = self.qdiscs()?;
        let outer = all.iter().filter(|qdisc| ["root", "ingress"].contains(&qdisc.parent.as_str()));
        Ok(outer.map(|qdisc| f64::from(qdisc.drops)).sum())
    }

    /// By all interfaces, those that came meanwhile aside.
    fn dropped_by_interfaces(&self) -> Reading {
        let samples = &self.party.report.samples;
        let [first, last] = [samples.first(), samples.last()].map(|s| s?.interfaces.as_ref());
        let (Some(first), Some(last)) = (first, last) else {
            return Err("interfaces: not in the samples".into());
        };
        let mut sum = 0.0;
        for (name, now) in last {
            let Some(before) = first.get(name) else { continue };
            let dropped = |at: &InterfaceCounters| at.rx_dropped.saturating_add(at.tx_dropped);
            let grown = dropped(now).checked_sub(dropped(before));
            sum += grown.ok_or_else(|| format!("{name}: a counter ran backwards"))? as f64;
        }
        Ok(sum)
    }

    /// Packets that each receive queue of an interface took, where its driver tells.
    pub(crate) fn receive_queues(&self, interface: &str) -> Vec<(String, f64)> {
        let Ok([first, last]) = self.both("devices", |layers| layers.devices.as_ref()) else {
            return Vec::new();
        };
        let Some(last) = last.get(interface) else { return Vec::new() };
        let mut grown: BTreeMap<String, f64> = BTreeMap::new();
        for (name, now) in last {
            let queue = queues::of_queue(name);
            let Some(queue) =
                queue.filter(|q| q.counter == "packets" && q.queue.starts_with("rx-"))
            else {
                continue;
            };
            // What stands at 0 is left out.
            let before = first.get(interface).and_then(|before| before.get(name)).copied();
            *grown.entry(queue.queue).or_default() +=
                now.saturating_sub(before.unwrap_or(0)) as f64;
        }
        grown.into_iter().collect()
    }

    /// Interrupts of network devices a second.
    fn network_interrupts(&self) -> Reading {
        let lines = |layers: &LayerCounters| {
            let lines = &layers.interrupts.as_ref()?.lines;
            let counts = lines.iter().flat_map(|line| &line.counts).copied();
            (!lines.is_empty()).then(|| counts.fold(0, u64::saturating_add))
        };
        let none = |_| Absent::from("no network device interrupts here");
        Ok(self.grown("interrupts", lines).map_err(none)? / self.seconds)
    }

    /// Context switches of the threads of a process; those that ended meanwhile are not counted.
    fn switches(&self, process: &str) -> Reading {
        let [first, last] = self.both("switches", |layers| layers.switches.as_ref())?;
        let of_thread = |tid| {
            let thread = first.iter().find(|thread| thread.tid == tid && thread.process == process);
            thread.map_or(0, |thread| thread.voluntary.saturating_add(thread.nonvoluntary))
        };
        let switches = last.iter().filter(|thread| thread.process == process).map(|thread| {
            let all = thread.voluntary.saturating_add(thread.nonvoluntary);
            all.saturating_sub(of_thread(thread.tid)) as f64
        });
        Ok(switches.sum())
    }
}

/// One trial's view of the layers.
#[derive(Debug, Clone)]
pub struct LayerReading {
    host: MachineReading,
    guest: MachineReading,
    receiver_udp_buffer_errors: Reading,
    receiver_udp_no_port: Reading,
    sender_udp_buffer_errors: Reading,
    sender_tcp_timeouts: Reading,
    receiver_tcp_dropped: Reading,
    sender_qdisc_dropped: Reading,
    sender_interface_dropped: Reading,
    switch_qdisc_dropped: Reading,
    switch_interface_dropped: Reading,
    receiver_interface_dropped: Reading,
    qemu_switches_per_second: Reading,
    /// What made virtual CPUs leave the guest.
    pub(crate) exits: ExitReading,
}

#[derive(Debug, Clone)]
struct MachineReading {
    softnet_dropped: Reading,
    softnet_squeezed: Reading,
    receive_soft_interrupts_per_second: Reading,
    send_soft_interrupts_per_second: Reading,
    interrupts_per_second: Reading,
    network_interrupts_per_second: Reading,
    cpu_stalled_percent: Reading,
    processors: ProcessorReading,
    sampler_percent_of_core: Reading,
}

impl LayerReading {
    /// Of the machines, and of the ends of what is measured.
    pub(crate) fn of(trial: &TrialRecord, flows: &[Flow<'_>]) -> Self {
        let of_senders = |read: &dyn Fn(&Span<'_>) -> Reading| {
            total(flows, |flow| read(&Span::of_view(&flow.sender, "sender")?))
        };
        let of_receivers = |read: &dyn Fn(&Span<'_>) -> Reading| {
            total(flows, |flow| read(&Span::of_view(&flow.receiver, "receiver")?))
        };
        let at_sender = |names: &[&str]| of_senders(&|span| span.protocols(names));
        let at_receiver = |names: &[&str]| of_receivers(&|span| span.protocols(names));
        let switch = || Span::of_place(trial, "host", Place::Host);
        let qemu = || {
            let span = Span::of_place(trial, "host", Place::Host)?;
            Ok(span.switches("qemu")? / span.seconds)
        };
        let on_host = [Place::Host, Place::Peer, Place::HostEnd, Place::Second];
        Self {
            host: MachineReading::of(trial, "host", Place::Host, &on_host),
            guest: MachineReading::of(trial, "guest", Place::Guest, &[Place::Guest]),
            receiver_udp_buffer_errors: at_receiver(&["UdpRcvbufErrors", "Udp6RcvbufErrors"]),
            receiver_udp_no_port: at_receiver(&["UdpNoPorts", "Udp6NoPorts"]),
            sender_udp_buffer_errors: at_sender(&["UdpSndbufErrors", "Udp6SndbufErrors"]),
            sender_tcp_timeouts: at_sender(&["TcpExtTCPTimeouts"]),
            receiver_tcp_dropped: at_receiver(&[
                "TcpExtTCPBacklogDrop",
                "TcpExtTCPRcvQDrop",
                "TcpExtTCPOFODrop",
                "TcpExtTCPZeroWindowDrop",
            ]),
            sender_qdisc_dropped: of_senders(&|span| span.dropped_by_qdiscs()),
            sender_interface_dropped: of_senders(&|span| span.dropped_by_interfaces()),
            switch_qdisc_dropped: switch().and_then(|span| span.dropped_by_qdiscs()),
            switch_interface_dropped: switch().and_then(|span| span.dropped_by_interfaces()),
            receiver_interface_dropped: of_receivers(&|span| span.dropped_by_interfaces()),
            qemu_switches_per_second: qemu(),
            exits: ExitReading::of(trial),
        }
    }
}

impl MachineReading {
    fn of(trial: &TrialRecord, who: &str, place: Place, nodes: &[Place]) -> Self {
        let span = || Span::of_place(trial, who, place);
        let softnet = |read| Ok(span()?.softnet(read)? as f64);
        let soft_interrupts = |read: fn(&SoftInterrupts) -> u64| {
            let span = span()?;
            let grown = span.grown("soft_interrupts", |layers| {
                Some(layers.soft_interrupts.as_ref()?.iter().map(read).fold(0, u64::saturating_add))
            });
            Ok(grown? / span.seconds)
        };
        let interrupts = || {
            let span = span()?;
            let grown = span.grown("interrupts", |layers| {
                let total = &layers.interrupts.as_ref()?.total;
                Some(total.iter().copied().fold(0, u64::saturating_add))
            });
            Ok(grown? / span.seconds)
        };
        let stalled = || {
            let span = span()?;
            let us = span.grown("pressure", |l| Some(l.pressure.as_ref()?.get("cpu")?.some_us))?;
            Ok(percent(us / 1e6, span.seconds))
        };
        Self {
            softnet_dropped: softnet(|core| core.dropped),
            softnet_squeezed: softnet(|core| core.time_squeeze),
            receive_soft_interrupts_per_second: soft_interrupts(|core| core.net_rx),
            send_soft_interrupts_per_second: soft_interrupts(|core| core.net_tx),
            interrupts_per_second: interrupts(),
            network_interrupts_per_second: span().and_then(|span| span.network_interrupts()),
            cpu_stalled_percent: stalled(),
            processors: ProcessorReading::of(trial, who, place),
            sampler_percent_of_core: sampler(trial, who, nodes),
        }
    }
}

/// Of all nodes there together, while something moved: the counters of layers are read when nothing does.
fn sampler(trial: &TrialRecord, who: &str, nodes: &[Place]) -> Reading {
    let nodes = trial.parties.iter().filter(|party| nodes.contains(&party.place));
    let shares = nodes.map(|party| {
        let cpu_ns = party.report.sampler_cpu_ns;
        if cpu_ns == 0 {
            return Err("what sampling cost is not in the record".into());
        }
        let cpu_ns = cpu_ns.saturating_sub(party.report.layers_cpu_ns);
        Ok(percent(cpu_ns as f64 / 1e9, Span::of(party)?.seconds))
    });
    let shares: Vec<f64> = shares.collect::<Result<_, Absent>>()?;
    if shares.is_empty() {
        return Err(format!("{who}: not in the record").into());
    }
    Ok(shares.iter().sum())
}

/// Gathers what was read of the layers.
pub fn gather(trials: &CellTrials, has_guest: bool) -> Layers {
    let metric = |read: fn(&LayerReading) -> &Reading| trials.metric(move |r| read(&r.layers));
    Layers {
        host: gather_machine(trials, |layers| &layers.host),
        guest: has_guest.then(|| gather_machine(trials, |layers| &layers.guest)),
        path: PathLayers {
            sender_qdisc_dropped: metric(|l| &l.sender_qdisc_dropped),
            sender_interface_dropped: metric(|l| &l.sender_interface_dropped),
            switch_qdisc_dropped: metric(|l| &l.switch_qdisc_dropped),
            switch_interface_dropped: metric(|l| &l.switch_interface_dropped),
            receiver_interface_dropped: metric(|l| &l.receiver_interface_dropped),
        },
        sockets: SocketLayers {
            receiver_udp_buffer_errors: metric(|l| &l.receiver_udp_buffer_errors),
            receiver_udp_no_port: metric(|l| &l.receiver_udp_no_port),
            sender_udp_buffer_errors: metric(|l| &l.sender_udp_buffer_errors),
            sender_tcp_timeouts: metric(|l| &l.sender_tcp_timeouts),
            receiver_tcp_dropped: metric(|l| &l.receiver_tcp_dropped),
        },
        qemu_switches_per_second: has_guest.then(|| metric(|l| &l.qemu_switches_per_second)),
        exits_per_packet: has_guest.then(|| ExitReading::gather(trials)),
    }
}

fn gather_machine(trials: &CellTrials, of: fn(&LayerReading) -> &MachineReading) -> MachineLayers {
    let metric =
        |read: fn(&MachineReading) -> &Reading| trials.metric(move |r| read(of(&r.layers)));
    MachineLayers {
        softnet_dropped: metric(|m| &m.softnet_dropped),
        softnet_squeezed: metric(|m| &m.softnet_squeezed),
        receive_soft_interrupts_per_second: metric(|m| &m.receive_soft_interrupts_per_second),
        send_soft_interrupts_per_second: metric(|m| &m.send_soft_interrupts_per_second),
        interrupts_per_second: metric(|m| &m.interrupts_per_second),
        network_interrupts_per_second: metric(|m| &m.network_interrupts_per_second),
        cpu_stalled_percent: metric(|m| &m.cpu_stalled_percent),
        processors: ProcessorReading::gather(trials, move |r| &of(&r.layers).processors),
        sampler_percent_of_core: metric(|m| &m.sampler_percent_of_core),
    }
}

#[cfg(test)]
mod tests;
