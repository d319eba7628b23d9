//! Every counter of the layers by a name: what a table of them is made from.

use std::collections::BTreeMap;

use vioperf_model::sample::{LayerCounters, QdiscCounters};

use super::queues::of_queue;

/// Which counter.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    pub(super) layer: &'static str,
    pub(super) of: String,
    pub(super) counter: String,
}

/// What a reading of it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Count {
    /// It grows.
    Grows(u64),
    /// It grows in 32 bits, which wrap.
    Wraps(u32),
    /// It goes up and down.
    Level(u64),
}

impl Count {
    /// What it came to since an earlier reading; nothing where it ran backwards.
    pub(super) fn since(self, before: Self) -> Option<u64> {
        match (before, self) {
            (Self::Grows(before), Self::Grows(now)) => now.checked_sub(before),
            (Self::Wraps(before), Self::Wraps(now)) => Some(now.wrapping_sub(before).into()),
            (_, Self::Level(now)) => Some(now),
            _ => None,
        }
    }
}

/// Layers that are the whole machine's, whatever the network namespace.
pub(super) const OF_MACHINE: [&str; 5] =
    ["softnet", "soft-interrupts", "interrupts", "pressure", "hardware"];

/// By name, and by what tells those of one name apart: threads may be called the same.
pub(super) type Named = BTreeMap<(Name, i32), Count>;

/// All that was read.
pub(super) fn named(layers: &LayerCounters) -> Named {
    let mut all = Named::new();
    let mut add = |layer, of: &str, counter: &str, count| {
        let name = Name { layer, of: of.to_owned(), counter: counter.to_owned() };
        all.insert((name, 0), count);
    };
    for core in layers.softnet.iter().flatten() {
        let of = format!("core {}", core.core);
        add("softnet", &of, "processed", Count::Wraps(core.processed));
        add("softnet", &of, "dropped", Count::Wraps(core.dropped));
        add("softnet", &of, "time_squeeze", Count::Wraps(core.time_squeeze));
        add("softnet", &of, "received_rps", Count::Wraps(core.received_rps));
        add("softnet", &of, "flow_limit", Count::Wraps(core.flow_limit));
        if let Some(backlog) = core.backlog {
            add("softnet", &of, "backlog at the end", Count::Level(backlog.into()));
        }
    }
    for core in layers.soft_interrupts.iter().flatten() {
        let of = format!("core {}", core.core);
        add("soft-interrupts", &of, "NET_RX", Count::Grows(core.net_rx));
        add("soft-interrupts", &of, "NET_TX", Count::Grows(core.net_tx));
    }
    if let Some(interrupts) = &layers.interrupts {
        for (core, count) in interrupts.cores.iter().zip(&interrupts.total) {
            add("interrupts", &format!("core {core}"), "all", Count::Grows(*count));
        }
        for line in &interrupts.lines {
            for (core, count) in interrupts.cores.iter().zip(&line.counts) {
                add("interrupts", &format!("core {core}"), &line.name, Count::Grows(*count));
            }
        }
    }
    for discipline in layers.qdiscs.iter().flatten() {
        let QdiscCounters { interface, kind, handle, parent, .. } = discipline;
        let of = format!("{interface} {kind} {handle} {parent}");
        add("qdiscs", &of, "bytes", Count::Grows(discipline.bytes));
        add("qdiscs", &of, "packets", Count::Wraps(discipline.packets));
        add("qdiscs", &of, "dropped", Count::Wraps(discipline.drops));
        add("qdiscs", &of, "overlimits", Count::Wraps(discipline.overlimits));
        add("qdiscs", &of, "requeues", Count::Wraps(discipline.requeues));
        add("qdiscs", &of, "packets at the end", Count::Level(discipline.queued_packets.into()));
        add("qdiscs", &of, "bytes at the end", Count::Level(discipline.queued_bytes.into()));
    }
    for (name, value) in layers.protocols.iter().flatten() {
        add("protocols", "", name, Count::Grows(*value));
    }
    if let Some(conntrack) = &layers.conntrack {
        add("conntrack", "", "entries at the end", Count::Level(conntrack.entries));
        add("conntrack", "", "invalid", Count::Grows(conntrack.invalid));
        add("conntrack", "", "insert_failed", Count::Grows(conntrack.insert_failed));
        add("conntrack", "", "drop", Count::Grows(conntrack.dropped));
        add("conntrack", "", "early_drop", Count::Grows(conntrack.early_dropped));
    }
    if let Some(quota) = &layers.quota {
        add("quota", "", "throttled_us", Count::Grows(quota.throttled_us));
    }
    if let Some(switch) = &layers.open_vswitch {
        add("open-vswitch", "", "hit", Count::Grows(switch.hits));
        add("open-vswitch", "", "missed", Count::Grows(switch.misses));
        add("open-vswitch", "", "lost", Count::Grows(switch.lost));
        for (port, counters) in &switch.ports {
            add("open-vswitch", port, "rx_packets", Count::Grows(counters.rx_packets));
            add("open-vswitch", port, "rx_bytes", Count::Grows(counters.rx_bytes));
            add("open-vswitch", port, "rx_dropped", Count::Grows(counters.rx_dropped));
            add("open-vswitch", port, "rx_errors", Count::Grows(counters.rx_errors));
            add("open-vswitch", port, "tx_packets", Count::Grows(counters.tx_packets));
            add("open-vswitch", port, "tx_bytes", Count::Grows(counters.tx_bytes));
            add("open-vswitch", port, "tx_dropped", Count::Grows(counters.tx_dropped));
            add("open-vswitch", port, "tx_errors", Count::Grows(counters.tx_errors));
        }
    }
    if let Some(hardware) = &layers.hardware {
        add("hardware", "", "cycles", Count::Grows(hardware.cycles));
        add("hardware", "", "instructions", Count::Grows(hardware.instructions));
        add("hardware", "", "cache_misses", Count::Grows(hardware.cache_misses));
    }
    for (name, value) in layers.kvm.iter().flatten() {
        add("kvm", "", name, Count::Grows(*value));
    }
    for (resource, stalls) in layers.pressure.iter().flatten() {
        add("pressure", resource, "some_us", Count::Grows(stalls.some_us));
        if let Some(full_us) = stalls.full_us {
            add("pressure", resource, "full_us", Count::Grows(full_us));
        }
    }
    add_devices(&mut all, layers);
    for thread in layers.switches.iter().flatten() {
        let counters = [("voluntary", thread.voluntary), ("nonvoluntary", thread.nonvoluntary)];
        for (counter, value) in counters {
            let of = format!("{}: {}", thread.process, thread.name);
            let name = Name { layer: "switches", of, counter: counter.to_owned() };
            all.insert((name, thread.tid), Count::Grows(value));
        }
    }
    all
}

/// What drivers count, as they call it, and what is of a queue in one form too.
fn add_devices(all: &mut Named, layers: &LayerCounters) {
    for (interface, counters) in layers.devices.iter().flatten() {
        for (counter, value) in counters {
            let of = interface.clone();
            let name = Name { layer: "devices", of, counter: counter.clone() };
            all.insert((name, 0), Count::Grows(*value));
            let Some(queue) = of_queue(counter) else { continue };
            let of = format!("{interface} {}", queue.queue);
            let name = Name { layer: "queues", of, counter: queue.counter.to_owned() };
            // Several of the driver's are one: packets to one address, to several and to all.
            if let Count::Grows(sum) = all.entry((name, 0)).or_insert(Count::Grows(0)) {
                *sum = sum.saturating_add(*value);
            }
        }
    }
}

/// Whether a counter that is not there stands at 0.
pub(super) fn is_zero_where_missing(layer: &str) -> bool {
    ["devices", "queues"].contains(&layer)
}
