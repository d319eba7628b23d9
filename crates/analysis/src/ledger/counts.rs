//! By how much a party's counters grew over the whole load.

use vioperf_model::record::Party;
use vioperf_model::sample::{InterfaceCounters, LayerCounters};
use vioperf_model::wire::Role;

use super::framing::{Framing, times};
use crate::layers::Span;

/// A party whose counters were read before its load began and after it had ended. Numbers of packets are
/// given as the datagrams of the load that they are.
#[derive(Clone, Copy)]
pub(super) struct Counts<'a> {
    pub(super) party: &'a Party,
    span: Option<Span<'a>>,
    framing: Framing,
}

/// A queueing discipline that counts what passes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Queue {
    /// Packets that left it.
    pub(super) packets: u64,
    /// Packets that it dropped.
    pub(super) dropped: u64,
    /// Packets more than before that wait in it.
    pub(super) queued: u64,
}

impl Queue {
    /// Of a load that sent so many. What came back from a device that could not take it waits, but has
    /// been counted as gone already (`dev_requeue_skb`, net/sched/sch_generic.c).
    pub(super) fn of_load(self, sent: u64) -> Self {
        let gone = self.packets.saturating_add(self.dropped);
        Self { queued: self.queued.min(sent.saturating_sub(gone)), ..self }
    }
}

impl<'a> Counts<'a> {
    pub(super) fn of(party: &'a Party, framing: Framing) -> Self {
        Self { party, span: Span::of(party).ok(), framing }
    }

    /// When the last of them were read, on the conductor's clock.
    pub(super) fn ended_ns(&self) -> Option<i128> {
        let on_own_clock = i128::from(self.span?.last.monotonic_ns);
        Some(on_own_clock - i128::from(self.party.clock.offset_ns))
    }

    /// Of an interface, its packets as datagrams; nothing where it is not there, or a counter ran backwards.
    pub(super) fn interface(&self, name: &str) -> Option<InterfaceCounters> {
        let raw = self.raw_interface(name)?;
        let rx_packets = self.framing.of_frames(raw.rx_packets, raw.rx_bytes);
        let tx_packets = self.framing.of_frames(raw.tx_packets, raw.tx_bytes);
        let (received, sent) = (
            self.framing.per_packet(raw.rx_packets, rx_packets),
            self.framing.per_packet(raw.tx_packets, tx_packets),
        );
        Some(InterfaceCounters {
            rx_packets,
            rx_dropped: times(raw.rx_dropped, received),
            rx_errors: times(raw.rx_errors, received),
            tx_packets,
            tx_dropped: times(raw.tx_dropped, sent),
            tx_errors: times(raw.tx_errors, sent),
            ..raw
        })
    }

    /// How many datagrams a packet is that an interface sends.
    pub(super) fn per_packet_sent(&self, name: &str) -> f64 {
        self.raw_interface(name).map_or(1.0, |raw| {
            let datagrams = self.framing.of_frames(raw.tx_packets, raw.tx_bytes);
            self.framing.per_packet(raw.tx_packets, datagrams)
        })
    }

    /// That it receives.
    pub(super) fn per_packet_received(&self, name: &str) -> f64 {
        self.raw_interface(name).map_or(1.0, |raw| {
            let datagrams = self.framing.of_frames(raw.rx_packets, raw.rx_bytes);
            self.framing.per_packet(raw.rx_packets, datagrams)
        })
    }

    /// Of the kernel's, or of a port that Open vSwitch alone knows: one of a guest whose rings it polls.
    fn raw_interface(&self, name: &str) -> Option<InterfaceCounters> {
        let samples = &self.party.report.samples;
        let at = |sample: &'a vioperf_model::sample::Sample| sample.interfaces.as_ref()?.get(name);
        let of_kernel = || Some((at(samples.first()?)?, at(samples.last()?)?));
        let of_switch = || {
            let port = |layers: &'a LayerCounters| layers.open_vswitch.as_ref()?.ports.get(name);
            let [first, last] = self.span?.both("open_vswitch", port).ok()?;
            Some((first, last))
        };
        let (first, last) = of_kernel().or_else(of_switch)?;
        Some(InterfaceCounters {
            rx_bytes: last.rx_bytes.checked_sub(first.rx_bytes)?,
            rx_packets: last.rx_packets.checked_sub(first.rx_packets)?,
            rx_dropped: last.rx_dropped.checked_sub(first.rx_dropped)?,
            rx_errors: last.rx_errors.checked_sub(first.rx_errors)?,
            tx_bytes: last.tx_bytes.checked_sub(first.tx_bytes)?,
            tx_packets: last.tx_packets.checked_sub(first.tx_packets)?,
            tx_dropped: last.tx_dropped.checked_sub(first.tx_dropped)?,
            tx_errors: last.tx_errors.checked_sub(first.tx_errors)?,
        })
    }

    /// What an interface sends by; nothing where there is none that counts (`noqueue`). The numbers of
    /// the one at the root contain those of what is inside of it.
    pub(super) fn queue(&self, interface: &str) -> Option<Queue> {
        let counted = self.discipline(interface, "root", self.per_packet_sent(interface))?;
        (counted.packets > 0 || counted.dropped > 0 || counted.queued > 0).then_some(counted)
    }

    /// Dropped by what an interface receives by.
    pub(super) fn dropped_at_ingress(&self, interface: &str) -> u64 {
        let per_packet = self.per_packet_received(interface);
        self.discipline(interface, "ingress", per_packet).map_or(0, |counted| counted.dropped)
    }

    fn discipline(&self, interface: &str, parent: &str, per_packet: f64) -> Option<Queue> {
        let all = self.span?.qdiscs().ok()?;
        let grown =
            all.iter().find(|qdisc| qdisc.interface == interface && qdisc.parent == parent)?;
        let in_queue = |packets: u32, bytes| self.framing.of_queue(packets.into(), bytes);
        Some(Queue {
            packets: in_queue(grown.packets, grown.bytes),
            dropped: times(grown.drops.into(), per_packet),
            queued: in_queue(grown.queued_packets, grown.queued_bytes.into()),
        })
    }

    /// Whether what it receives comes by IPv6.
    pub(super) fn receives_by_ipv6(&self) -> bool {
        self.party.legs().any(|leg| match leg.role {
            Role::Receiver { bind } => bind.is_ipv6(),
            Role::Sender { peer } => peer.is_ipv6(),
            Role::Disk | Role::Observer => false,
        })
    }

    /// Of IPv4 or IPv6, by the name that nstat(8) gives that of IPv4; nothing where it is not there.
    ///
    /// Never both: what a machine says to all by IPv6 comes to itself too, past every interface.
    pub(super) fn protocol(&self, is_ipv6: bool, name: &str) -> Option<u64> {
        let of_ipv6 = match name.strip_prefix("Ip") {
            Some(rest) => format!("Ip6{rest}"),
            None => name.replacen("Udp", "Udp6", 1),
        };
        let name = if is_ipv6 { &of_ipv6 } else { name };
        self.grown("protocols", |layers| layers.protocols.as_ref()?.get(name).copied())
    }

    fn grown(&self, group: &str, read: impl Fn(&LayerCounters) -> Option<u64>) -> Option<u64> {
        let [first, last] = self.span?.both(group, read).ok()?;
        last.checked_sub(first)
    }

    /// Several together, where one that the kernel does not have counts nothing.
    pub(super) fn protocols(&self, is_ipv6: bool, names: &[&str]) -> u64 {
        let counted = names.iter().filter_map(|name| self.protocol(is_ipv6, name));
        counted.fold(0, u64::saturating_add)
    }

    /// Packets that came to IP.
    pub(super) fn came_to_internet(&self, is_ipv6: bool) -> Option<u64> {
        let packets = self.protocol(is_ipv6, "IpInReceives")?;
        let octets = if is_ipv6 { "Ip6InOctets" } else { "IpExtInOctets" };
        match self.protocol(false, octets) {
            Some(bytes) => Some(self.framing.of_internet(packets, bytes)),
            None => (!self.framing.is_joined() && !self.framing.is_pieces()).then_some(packets),
        }
    }

    /// How many datagrams a packet is behind IP, where fragments have been put together; nothing where
    /// that cannot be told.
    pub(super) fn per_packet_in_internet(&self, is_ipv6: bool) -> Option<f64> {
        if !self.framing.is_joined() {
            return Some(1.0);
        }
        let packets = self.protocol(is_ipv6, "IpInReceives")?;
        Some(self.framing.per_packet(packets, self.came_to_internet(is_ipv6)?))
    }

    /// Packets that the machine's cores dropped as their backlogs were full; what the flow limit drops is
    /// counted there too.
    pub(super) fn backlog_dropped(&self) -> Option<u64> {
        self.span?.softnet(|core| core.dropped).ok()
    }

    /// Packets that connection tracking dropped.
    pub(super) fn conntrack_dropped(&self) -> u64 {
        self.grown("conntrack", |layers| Some(layers.conntrack?.dropped)).unwrap_or(0)
    }
}
