//! By how much a party's counters grew over the whole load.

use vioperf_model::record::Party;
use vioperf_model::sample::{InterfaceCounters, LayerCounters};
use vioperf_model::wire::Role;

use crate::layers::Span;

/// A party whose counters were read before its load began and after it had ended.
#[derive(Clone, Copy)]
pub(super) struct Counts<'a> {
    pub(super) party: &'a Party,
    span: Option<Span<'a>>,
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

impl<'a> Counts<'a> {
    pub(super) fn of(party: &'a Party) -> Self {
        Self { party, span: Span::of(party).ok() }
    }

    /// When the last of them were read, on the conductor's clock.
    pub(super) fn ended_ns(&self) -> Option<i128> {
        let on_own_clock = i128::from(self.span?.last.monotonic_ns);
        Some(on_own_clock - i128::from(self.party.clock.offset_ns))
    }

    /// Of an interface; nothing where it is not there, or a counter ran backwards.
    pub(super) fn interface(&self, name: &str) -> Option<InterfaceCounters> {
        let samples = &self.party.report.samples;
        let at = |sample: &'a vioperf_model::sample::Sample| sample.interfaces.as_ref()?.get(name);
        let (first, last) = (at(samples.first()?)?, at(samples.last()?)?);
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
        let counted = self.discipline(interface, "root")?;
        (counted.packets > 0 || counted.dropped > 0 || counted.queued > 0).then_some(counted)
    }

    /// Dropped by what an interface receives by.
    pub(super) fn dropped_at_ingress(&self, interface: &str) -> u64 {
        self.discipline(interface, "ingress").map_or(0, |counted| counted.dropped)
    }

    fn discipline(&self, interface: &str, parent: &str) -> Option<Queue> {
        let all = self.span?.qdiscs().ok()?;
        let grown =
            all.iter().find(|qdisc| qdisc.interface == interface && qdisc.parent == parent)?;
        Some(Queue {
            packets: grown.packets.into(),
            dropped: grown.drops.into(),
            queued: grown.queued_packets.into(),
        })
    }

    /// Whether what it receives comes by IPv6.
    pub(super) fn receives_by_ipv6(&self) -> bool {
        self.party.legs().any(|leg| matches!(leg.role, Role::Receiver { bind } if bind.is_ipv6()))
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
