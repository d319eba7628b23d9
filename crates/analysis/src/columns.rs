//! Every metric that a trial can give, in one list: its name for programs, its unit, what it means,
//! and where it is read. Tables of trials, of cells and of runs over time are made from it.

mod disk;
mod layers;
mod machines;
mod over_time;
mod packets;
mod per_packet;

use std::sync::LazyLock;

use crate::result::{
    CellAnalysis, DatagramDemand, Datagrams, LatencyAnalysis, Machine, Metric, QemuUse, RateSearch,
    TcpState, TransactionDemand,
};
use vioperf_model::record::Place;

/// A metric by its name.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// Its name, in lower case, unit included.
    pub name: &'static str,
    /// Its unit, as people write it (`bit/s`, `% of a core`).
    pub unit: &'static str,
    /// What it is.
    pub about: &'static str,
    source: Source,
}

/// Where a metric is in the analysis of a cell.
#[derive(Debug, Clone, Copy)]
enum Source {
    Cell(fn(&CellAnalysis) -> Option<&Metric>),
    /// Of a machine, where the cell has it.
    Machine(Place, for<'a> fn(Machine<'a>) -> Option<&'a Metric>),
}

impl Column {
    /// The metric; absent where the cell's load or path has no such thing.
    pub fn read<'a>(&self, cell: &'a CellAnalysis) -> Option<&'a Metric> {
        match self.source {
            Source::Cell(read) => read(cell),
            Source::Machine(place, read) => read(cell.machine(place)?),
        }
    }

    /// The machine that it is about, where it is one of those beside the host and the guest under test.
    pub fn machine(&self) -> Option<Place> {
        match self.source {
            Source::Cell(_) => None,
            Source::Machine(place, _) => Some(place),
        }
    }
}

const fn column(
    name: &'static str,
    unit: &'static str,
    about: &'static str,
    read: fn(&CellAnalysis) -> Option<&Metric>,
) -> Column {
    Column { name, unit, about, source: Source::Cell(read) }
}

const BITS: &str = "bit/s";
const PERCENT: &str = "%";
const OF_CORE: &str = "% of a core";
const DATAGRAMS: &str = "datagrams/s";
const US: &str = "µs";
const NS: &str = "ns";

const OWN: &[Column] = &[
    column("receiver_bits_per_second", BITS, "payload that arrived", |c| {
        Some(&c.receiver_bits_per_second)
    }),
    column("sender_bits_per_second", BITS, "payload that the sender's kernel took", |c| {
        Some(&c.sender_bits_per_second)
    }),
    column(
        "to_guest_bits_per_second",
        BITS,
        "of both ways, payload that arrived at the guest",
        |c| Some(&c.both_ways.as_ref()?.to_guest_bits_per_second),
    ),
    column("from_guest_bits_per_second", BITS, "of both ways, payload from the guest", |c| {
        Some(&c.both_ways.as_ref()?.from_guest_bits_per_second)
    }),
    column("background_bits_per_second", BITS, "payload of the background, as it arrived", |c| {
        c.background_bits_per_second.as_ref()
    }),
    column(
        "percent_of_baseline",
        PERCENT,
        "the headline metric in percent of the baseline's of the same block",
        |c| Some(&c.percent_of_baseline),
    ),
    column("host_busy_percent_of_core", OF_CORE, "busy time of all the host's cores", |c| {
        Some(&c.host.busy_percent_of_core)
    }),
    column("guest_busy_percent_of_core", OF_CORE, "busy time of all the guest's cores", |c| {
        Some(&c.guest.as_ref()?.busy_percent_of_core)
    }),
    column("qemu_percent_of_core", OF_CORE, "CPU time of all QEMU's threads", |c| {
        qemu(c, |q| &q.total_percent_of_core)
    }),
    column("qemu_vcpu_percent_of_core", OF_CORE, "CPU time of QEMU's virtual CPUs", |c| {
        qemu(c, |q| &q.vcpu_percent_of_core)
    }),
    column("qemu_main_loop_percent_of_core", OF_CORE, "CPU time of QEMU's main loop", |c| {
        qemu(c, |q| &q.main_loop_percent_of_core)
    }),
    column("qemu_io_percent_of_core", OF_CORE, "CPU time of QEMU's I/O threads", |c| {
        qemu(c, |q| &q.io_percent_of_core)
    }),
    column("qemu_vhost_percent_of_core", OF_CORE, "CPU time of the kernel's vhost workers", |c| {
        qemu(c, |q| &q.vhost_percent_of_core)
    }),
    column("qemu_other_percent_of_core", OF_CORE, "CPU time of QEMU's other threads", |c| {
        qemu(c, |q| &q.other_percent_of_core)
    }),
    column(
        "qemu_waiting_percent_of_core",
        OF_CORE,
        "time that QEMU's threads were runnable but waited for a core",
        |c| qemu(c, |q| &q.waiting_percent_of_core),
    ),
    column("host_us_per_kib", "µs/KiB", "busy time of the host per KiB received", |c| {
        Some(&c.service_demand.host_us_per_kib)
    }),
    column("qemu_us_per_kib", "µs/KiB", "QEMU's CPU time per KiB received", |c| {
        Some(&c.service_demand.qemu_us_per_kib)
    }),
    column("guest_us_per_kib", "µs/KiB", "busy time of the guest per KiB received", |c| {
        Some(&c.service_demand.guest_us_per_kib)
    }),
    column("host_ns_per_datagram", NS, "busy time of the host per datagram received", |c| {
        datagram_demand(c, |d| &d.host_ns)
    }),
    column("qemu_ns_per_datagram", NS, "QEMU's CPU time per datagram received", |c| {
        datagram_demand(c, |d| &d.qemu_ns)
    }),
    column("guest_ns_per_datagram", NS, "busy time of the guest per datagram received", |c| {
        datagram_demand(c, |d| &d.guest_ns)
    }),
    column("host_us_per_transaction", US, "busy time of the host per transaction", |c| {
        transaction_demand(c, |d| &d.host_us)
    }),
    column("qemu_us_per_transaction", US, "QEMU's CPU time per transaction", |c| {
        transaction_demand(c, |d| &d.qemu_us)
    }),
    column("guest_us_per_transaction", US, "busy time of the guest per transaction", |c| {
        transaction_demand(c, |d| &d.guest_us)
    }),
    column("segments_retransmitted", "segments", "TCP segments sent again in the window", |c| {
        Some(&c.retransmissions.segments)
    }),
    column(
        "retransmitted_per_million_segments",
        "segments per million",
        "TCP segments sent again per million sent",
        |c| Some(&c.retransmissions.per_million_segments_sent),
    ),
    column("tcp_rtt_us", US, "smoothed round-trip time, mean of the connections", |c| {
        tcp(c, |tcp| &tcp.rtt_us)
    }),
    column("tcp_rtt_variation_us", US, "its variation, mean of the connections", |c| {
        tcp(c, |tcp| &tcp.rtt_variation_us)
    }),
    column("tcp_congestion_window_bytes", "B", "congestion window, mean of the connections", |c| {
        tcp(c, |tcp| &tcp.congestion_window_bytes)
    }),
    column("tcp_send_mss_bytes", "B", "maximum segment size towards the receiver", |c| {
        tcp(c, |tcp| &tcp.send_mss_bytes)
    }),
    column("sender_bytes_per_packet", "B", "bytes per packet at the sender's interface", |c| {
        Some(&c.bytes_per_packet.sender)
    }),
    column("tap_bytes_per_packet", "B", "bytes per packet at the guest's tap", |c| {
        Some(&c.bytes_per_packet.tap)
    }),
    column("receiver_bytes_per_packet", "B", "bytes per packet at the receiver's interface", |c| {
        Some(&c.bytes_per_packet.receiver)
    }),
    column("datagrams_received_per_second", DATAGRAMS, "that the receiver was given", |c| {
        datagrams(c, |d| &d.received_per_second)
    }),
    column("datagrams_sent_per_second", DATAGRAMS, "that the sender's kernel took", |c| {
        datagrams(c, |d| &d.sent_per_second)
    }),
    column("datagrams_lost_percent", PERCENT, "of the datagrams sent", |c| {
        datagrams(c, |d| &d.lost_percent)
    }),
    column(
        "receiver_socket_drops",
        "datagrams",
        "that the receiver's sockets had no room for",
        |c| datagrams(c, |d| &d.socket_drops),
    ),
    column("datagrams_duplicated", "datagrams", "that arrived again", |c| {
        datagrams(c, |d| &d.duplicated)
    }),
    column("datagrams_reordered", "datagrams", "that arrived after a later one (RFC 4737)", |c| {
        datagrams(c, |d| &d.reordered)
    }),
    column("jitter_us", US, "smoothed variation of the transit time (RFC 3550)", |c| {
        datagrams(c, |d| &d.jitter_us)
    }),
    column(
        "percent_of_wire_rate",
        PERCENT,
        "datagrams received, of what a wire can carry of the rate that the link is held to, else of the speed that the card claims",
        |c| datagrams(c, |d| &d.percent_of_wire_rate),
    ),
    column(
        "search_lower_bound_per_second",
        DATAGRAMS,
        "highest rate proved to keep the goal that allows most loss",
        |c| search(c, |s| Some(&s.lower_bound_per_second)),
    ),
    column(
        "search_upper_bound_per_second",
        DATAGRAMS,
        "lowest rate proved to break that goal",
        |c| search(c, |s| Some(&s.most_allowed()?.upper_bound_per_second)),
    ),
    column("search_throughput_per_second", DATAGRAMS, "what arrives at that lower bound", |c| {
        search(c, |s| Some(&s.most_allowed()?.throughput_per_second))
    }),
    column(
        "search_ndr_lower_bound_per_second",
        DATAGRAMS,
        "highest rate proved to lose nothing",
        |c| search(c, |s| Some(&s.non_drop()?.lower_bound_per_second)),
    ),
    column(
        "search_ndr_upper_bound_per_second",
        DATAGRAMS,
        "lowest rate proved to lose something",
        |c| search(c, |s| Some(&s.non_drop()?.upper_bound_per_second)),
    ),
    column("search_max_rate_per_second", DATAGRAMS, "highest rate that was tried", |c| {
        search(c, |s| Some(&s.max_rate_per_second))
    }),
    column(
        "search_percent_of_wire_rate",
        PERCENT,
        "that lower bound, of what a wire can carry of the rate that the link is held to, else of the speed that the card claims",
        |c| search(c, |s| Some(&s.percent_of_wire_rate)),
    ),
    column("transactions_per_second", "transactions/s", "responses received", |c| {
        Some(&c.transactions.as_ref()?.per_second)
    }),
    column(
        "latency_p50_us",
        US,
        "median of a trial's transactions, or operations of a disk",
        |c| percentile(c, "p50"),
    ),
    column("latency_p90_us", US, "90 % took no longer", |c| percentile(c, "p90")),
    column("latency_p99_us", US, "99 % took no longer", |c| percentile(c, "p99")),
    column("latency_p99_9_us", US, "99.9 % took no longer", |c| percentile(c, "p99.9")),
    column("latency_p99_99_us", US, "99.99 % took no longer", |c| percentile(c, "p99.99")),
    column("latency_mean_us", US, "mean of them", |c| latency(c, |l| Some(&l.mean_us))),
    column("latency_max_us", US, "the longest of a trial", |c| latency(c, |l| Some(&l.max_us))),
    column("added_p50_us", US, "p50 less the baseline's of the same block", |c| added(c, "p50")),
    column("added_p99_us", US, "p99 less the baseline's of the same block", |c| added(c, "p99")),
    column("added_mean_us", US, "mean less the baseline's of the same block", |c| {
        latency(c, |l| Some(&l.added_mean_us))
    }),
    column("timeouts", "requests", "that were not answered in time", |c| {
        Some(&c.transactions.as_ref()?.timeouts)
    }),
    column("guest_ready_ms", "ms", "from starting QEMU until the guest's NIC had a carrier", |c| {
        Some(&c.guest_ready_ms)
    }),
    column(
        "clock_error_percent_of_window",
        PERCENT,
        "by how much the parties' clocks may differ",
        |c| Some(&c.clock_error_percent_of_window),
    ),
    column(
        "unexplained_host_busy_percent_of_core",
        OF_CORE,
        "busy time of the host beside the watched processes and interrupts",
        |c| Some(&c.unexplained_host_busy_percent_of_core),
    ),
];

static ALL: LazyLock<Vec<Column>> = LazyLock::new(|| {
    [
        OWN,
        layers::COLUMNS,
        over_time::COLUMNS,
        disk::COLUMNS,
        packets::COLUMNS,
        per_packet::COLUMNS,
        machines::columns().as_slice(),
    ]
    .concat()
});

/// Every metric, in the order of tables.
pub fn all() -> &'static [Column] {
    &ALL
}

/// The metric of that name.
pub fn named(name: &str) -> Option<&'static Column> {
    ALL.iter().find(|column| column.name == name)
}

/// The metric that cells of such a load are ranked by.
pub fn headline_of(cell: &CellAnalysis) -> &'static str {
    let headline: *const Metric = cell.headline();
    let found = ALL
        .iter()
        .find(|column| column.read(cell).is_some_and(|metric| std::ptr::eq(metric, headline)));
    found.map_or("receiver_bits_per_second", |column| column.name)
}

fn qemu(cell: &CellAnalysis, read: fn(&QemuUse) -> &Metric) -> Option<&Metric> {
    cell.qemu.as_ref().map(read)
}

fn datagrams(cell: &CellAnalysis, read: fn(&Datagrams) -> &Metric) -> Option<&Metric> {
    cell.datagrams.as_ref().map(read)
}

fn datagram_demand(cell: &CellAnalysis, read: fn(&DatagramDemand) -> &Metric) -> Option<&Metric> {
    cell.datagrams.as_ref().map(|datagrams| read(&datagrams.service_demand))
}

fn transaction_demand(
    cell: &CellAnalysis,
    read: fn(&TransactionDemand) -> &Metric,
) -> Option<&Metric> {
    cell.transactions.as_ref().map(|transactions| read(&transactions.service_demand))
}

fn tcp(cell: &CellAnalysis, read: fn(&TcpState) -> &Metric) -> Option<&Metric> {
    cell.tcp.as_ref().map(read)
}

fn search(cell: &CellAnalysis, read: fn(&RateSearch) -> Option<&Metric>) -> Option<&Metric> {
    cell.rate_search.as_ref().and_then(read)
}

fn latency(cell: &CellAnalysis, read: fn(&LatencyAnalysis) -> Option<&Metric>) -> Option<&Metric> {
    cell.latency().and_then(read)
}

fn percentile<'a>(cell: &'a CellAnalysis, name: &str) -> Option<&'a Metric> {
    Some(&cell.latency()?.percentile(name)?.us)
}

fn added<'a>(cell: &'a CellAnalysis, name: &str) -> Option<&'a Metric> {
    Some(&cell.latency()?.percentile(name)?.added_us)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::analyse;
    use crate::testing::Synthetic;
    use vioperf_model::workload::WorkloadKind;

    #[test]
    fn names_are_unique_and_of_one_form() {
        let names: BTreeSet<&str> = ALL.iter().map(|column| column.name).collect();
        assert_eq!(names.len(), ALL.len());
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        assert!(names.iter().all(|name| name.chars().all(plain)), "{names:?}");
    }

    #[test]
    fn every_place_of_the_ledger_has_its_column() {
        for place in crate::ledger::LossPlace::ALL {
            let name = serde_json::to_value(place).unwrap();
            let name = format!("lost_at_{}", name.as_str().unwrap().replace('-', "_"));
            assert!(named(&name).is_some(), "{name}");
        }
    }

    #[test]
    fn what_every_kind_is_ranked_by_is_among_them() {
        for kind in WorkloadKind::ALL {
            let run = Synthetic::of_kind(kind);
            for cell in analyse(&run.run, &run.trials).cells {
                let column = named(headline_of(&cell)).unwrap();
                assert!(std::ptr::eq(column.read(&cell).unwrap(), cell.headline()), "{kind:?}");
            }
        }
    }
}
