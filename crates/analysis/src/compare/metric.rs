//! What can be compared: one row a metric.

use vioperf_model::suggest::nearest;
use vioperf_model::workload::WorkloadKind;

use crate::columns;
use crate::measure::{Better, Measure, Unit};
use crate::result::{CellAnalysis, Metric};
use crate::wording;

/// How two values of a metric are set against each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// As a ratio: on logarithms, told in percent. Every value has to be above zero.
    Ratio,
    /// As a difference, in the metric's own unit: what can be zero has no ratio.
    Difference,
}

/// What a value counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricUnit {
    /// So many a second.
    Rate(Unit),
    /// A unit that is written as it is.
    Plain(&'static str),
}

impl MetricUnit {
    /// Short, without a prefix (`bit/s`, `/s`, `µs`).
    pub fn name(self) -> &'static str {
        match self {
            Self::Rate(Unit::Bits) => "bit/s",
            Self::Rate(Unit::Datagrams) => "datagrams/s",
            Self::Rate(Unit::Transactions) => "transactions/s",
            Self::Rate(Unit::Operations) => "operations/s",
            Self::Plain(unit) => unit,
        }
    }

    /// The unit that suits such a value, and by how much to divide.
    pub fn scale(self, value: f64) -> (&'static str, f64) {
        match self {
            Self::Rate(unit) => unit.scale(value),
            Self::Plain(unit) => (unit, 1.0),
        }
    }

    /// A value with its unit (`862 Mbit/s`, `98.1 µs`).
    pub fn text(self, value: f64) -> String {
        let (unit, factor) = self.scale(value);
        format!("{} {unit}", wording::three_digits(value / factor))
    }
}

/// A metric that runs can be compared by.
#[derive(Debug)]
pub struct ComparedMetric {
    /// Its place in a cell of `report --format json`.
    pub name: &'static str,
    /// Its name in the head of a table or in a sentence.
    pub title: &'static str,
    /// What it counts.
    pub unit: MetricUnit,
    /// Which value is the good one.
    pub better: Better,
    /// How its values are set against each other.
    pub scale: Scale,
    /// The smallest difference that matters unless the user says otherwise: of a ratio 0.03 for 3 %, of
    /// a difference in the metric's unit.
    pub smallest_difference: f64,
    /// The [`columns`] entry that it is read by.
    column: &'static str,
}

impl ComparedMetric {
    /// The metric of a cell that has it; a baseline has nothing that only a guest's path has.
    pub fn read<'a>(&self, cell: &'a CellAnalysis) -> Option<&'a Metric> {
        const OF_GUESTS: [&str; 2] = ["percent_of_baseline", "guest_ready_ms"];
        if cell.is_baseline && OF_GUESTS.contains(&self.column) {
            return None;
        }
        // Latency is one column for transactions and for a disk's operations.
        let is_of_another_load = (self.name.starts_with("transactions.")
            && cell.transactions.is_none())
            || (self.name.starts_with("disk.") && cell.disk.is_none());
        if is_of_another_load {
            return None;
        }
        columns::named(self.column).and_then(|column| column.read(cell))
    }

    /// Whether it counts all that the host's cores do, whatever does it.
    pub fn is_of_whole_host(&self) -> bool {
        self.name == "host.busy_percent_of_core" || self.name.contains("service_demand.host")
    }
}

/// Which value is the good one of a metric of [`columns`]; absent of metrics that runs are not compared by.
pub fn better_of_column(name: &str) -> Option<Better> {
    METRICS.iter().find(|metric| metric.column == name).map(|metric| metric.better)
}

/// What a metric of [`columns`] is called in a head or a sentence; absent of metrics that runs are not compared by.
pub fn title_of_column(name: &str) -> Option<&'static str> {
    METRICS.iter().find(|metric| metric.column == name).map(|metric| metric.title)
}

/// The default of the smallest ratio that matters.
pub const SMALLEST_RATIO: f64 = 0.03;

use Better::{Higher, Lower};
use MetricUnit::{Plain, Rate};

const fn ratio(
    name: &'static str,
    column: &'static str,
    title: &'static str,
    unit: MetricUnit,
    better: Better,
) -> ComparedMetric {
    let (scale, smallest_difference) = (Scale::Ratio, SMALLEST_RATIO);
    ComparedMetric { name, title, unit, better, scale, smallest_difference, column }
}

const fn difference(
    name: &'static str,
    column: &'static str,
    title: &'static str,
    unit: &'static str,
    smallest_difference: f64,
) -> ComparedMetric {
    let (unit, better, scale) = (Plain(unit), Lower, Scale::Difference);
    ComparedMetric { name, title, unit, better, scale, smallest_difference, column }
}

macro_rules! percentile {
    ($name:literal, $column:literal) => {
        percentile!("transactions", $name, $column)
    };
    ($of:literal, $name:literal, $column:literal) => {
        ratio(
            concat!($of, ".latency.", $name),
            $column,
            concat!("latency ", $name),
            Plain("µs"),
            Lower,
        )
    };
}

/// Every metric that can be compared.
pub static METRICS: &[ComparedMetric] = &[
    ratio(
        "receiver_bits_per_second",
        "receiver_bits_per_second",
        "throughput",
        Rate(Unit::Bits),
        Higher,
    ),
    ratio(
        "both_ways.to_guest_bits_per_second",
        "to_guest_bits_per_second",
        "throughput to the guest",
        Rate(Unit::Bits),
        Higher,
    ),
    ratio(
        "both_ways.from_guest_bits_per_second",
        "from_guest_bits_per_second",
        "throughput from the guest",
        Rate(Unit::Bits),
        Higher,
    ),
    ratio(
        "background_bits_per_second",
        "background_bits_per_second",
        "background throughput",
        Rate(Unit::Bits),
        Higher,
    ),
    ratio(
        "datagrams.received_per_second",
        "datagrams_received_per_second",
        "datagrams received",
        Rate(Unit::Datagrams),
        Higher,
    ),
    difference("datagrams.lost_percent", "datagrams_lost_percent", "loss", "% points", 0.5),
    ratio("datagrams.jitter_us", "jitter_us", "jitter", Plain("µs"), Lower),
    ratio(
        "rate_search.lower_bound_per_second",
        "search_lower_bound_per_second",
        "datagrams within goal",
        Rate(Unit::Datagrams),
        Higher,
    ),
    ratio(
        "transactions.per_second",
        "transactions_per_second",
        "transactions",
        Rate(Unit::Transactions),
        Higher,
    ),
    ratio(
        "disk.operations_per_second",
        "disk_operations_per_second",
        "disk operations",
        Rate(Unit::Operations),
        Higher,
    ),
    ratio("disk.latency.mean_us", "latency_mean_us", "mean response", Plain("µs"), Lower),
    percentile!("disk", "p50", "latency_p50_us"),
    percentile!("disk", "p90", "latency_p90_us"),
    percentile!("disk", "p99", "latency_p99_us"),
    percentile!("disk", "p99.9", "latency_p99_9_us"),
    percentile!("disk", "p99.99", "latency_p99_99_us"),
    difference("transactions.timeouts", "timeouts", "timeouts", "in a trial", 1.0),
    ratio("transactions.latency.mean_us", "latency_mean_us", "mean latency", Plain("µs"), Lower),
    percentile!("p50", "latency_p50_us"),
    percentile!("p90", "latency_p90_us"),
    percentile!("p99", "latency_p99_us"),
    percentile!("p99.9", "latency_p99_9_us"),
    percentile!("p99.99", "latency_p99_99_us"),
    ratio("percent_of_baseline", "percent_of_baseline", "part of the baseline", Plain("%"), Higher),
    ratio("service_demand.host_us_per_kib", "host_us_per_kib", "host CPU", Plain("µs/KiB"), Lower),
    ratio(
        "service_demand.qemu_us_per_kib",
        "qemu_us_per_kib",
        "QEMU's CPU",
        Plain("µs/KiB"),
        Lower,
    ),
    ratio(
        "service_demand.guest_us_per_kib",
        "guest_us_per_kib",
        "guest CPU",
        Plain("µs/KiB"),
        Lower,
    ),
    ratio(
        "datagrams.service_demand.host_ns",
        "host_ns_per_datagram",
        "host CPU",
        Plain("ns each"),
        Lower,
    ),
    ratio(
        "datagrams.service_demand.qemu_ns",
        "qemu_ns_per_datagram",
        "QEMU's CPU",
        Plain("ns each"),
        Lower,
    ),
    ratio(
        "datagrams.service_demand.guest_ns",
        "guest_ns_per_datagram",
        "guest CPU",
        Plain("ns each"),
        Lower,
    ),
    ratio(
        "transactions.service_demand.host_us",
        "host_us_per_transaction",
        "host CPU",
        Plain("µs each"),
        Lower,
    ),
    ratio(
        "transactions.service_demand.qemu_us",
        "qemu_us_per_transaction",
        "QEMU's CPU",
        Plain("µs each"),
        Lower,
    ),
    ratio(
        "transactions.service_demand.guest_us",
        "guest_us_per_transaction",
        "guest CPU",
        Plain("µs each"),
        Lower,
    ),
    ratio(
        "disk.service_demand.host_us",
        "host_us_per_operation",
        "host CPU",
        Plain("µs each"),
        Lower,
    ),
    ratio(
        "disk.service_demand.qemu_us",
        "qemu_us_per_operation",
        "QEMU's CPU",
        Plain("µs each"),
        Lower,
    ),
    ratio(
        "disk.service_demand.guest_us",
        "guest_us_per_operation",
        "guest CPU",
        Plain("µs each"),
        Lower,
    ),
    ratio(
        "host.busy_percent_of_core",
        "host_busy_percent_of_core",
        "host CPU, all",
        Plain("% of a core"),
        Lower,
    ),
    ratio(
        "guest.busy_percent_of_core",
        "guest_busy_percent_of_core",
        "guest CPU, all",
        Plain("% of a core"),
        Lower,
    ),
    ratio(
        "qemu.total_percent_of_core",
        "qemu_percent_of_core",
        "QEMU's CPU, all",
        Plain("% of a core"),
        Lower,
    ),
    difference(
        "retransmissions.per_million_segments_sent",
        "retransmitted_per_million_segments",
        "sent again",
        "of a million",
        1_000.0,
    ),
    ratio("tcp.rtt_us", "tcp_rtt_us", "round-trip time", Plain("µs"), Lower),
    ratio("guest_ready_ms", "guest_ready_ms", "guest ready", Plain("ms"), Lower),
];

/// Short names of what suits each kind of load.
const SHORT_NAMES: [&str; 3] = ["headline", "cpu", "p99"];

/// Which metric a user asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// What each cell's load is measured by.
    Headline,
    /// The host's CPU time per unit of work.
    Cpu,
    /// The 99th percentile of latency, of loads that have one.
    P99,
    /// The one of that place in [`METRICS`].
    Named(usize),
}

impl Wanted {
    /// What is compared when nobody asks for anything.
    pub const DEFAULT: [Self; 3] = [Self::Headline, Self::Cpu, Self::P99];

    /// Reads a name: one of [`METRICS`], `headline`, `cpu` or `p99`; hyphens count as underscores.
    ///
    /// # Errors
    /// What to write instead.
    pub fn parse(name: &str) -> Result<Self, String> {
        match name {
            "headline" => return Ok(Self::Headline),
            "cpu" => return Ok(Self::Cpu),
            "p99" => return Ok(Self::P99),
            _ => {}
        }
        let written = name.replace('-', "_");
        let known = METRICS.iter().position(|metric| metric.name == written);
        known.map(Self::Named).ok_or_else(|| {
            let names = || METRICS.iter().map(|metric| metric.name).chain(SHORT_NAMES);
            match nearest(&written, names()) {
                Some(near) => format!("`{name}` is no metric; did you mean `{near}`?"),
                None => {
                    let all = names().collect::<Vec<_>>().join(", ");
                    format!("`{name}` is no metric; there are {all}")
                }
            }
        })
    }

    /// Whether that is one that it asks for, of some load.
    pub fn covers(self, metric: &ComparedMetric) -> bool {
        match self {
            Self::Headline => {
                WorkloadKind::ALL.iter().any(|kind| Measure::of(*kind).metric == metric.name)
            }
            Self::Cpu => metric.name.contains("service_demand.host"),
            Self::P99 => metric.name == "transactions.latency.p99",
            Self::Named(at) => METRICS.get(at).is_some_and(|named| named.name == metric.name),
        }
    }

    /// The metric of that cell, if its load has it.
    pub fn of(self, cell: &CellAnalysis) -> Option<&'static ComparedMetric> {
        let found = match self {
            Self::Headline => by_name(cell.measure().metric)?,
            Self::Cpu => {
                let [host, ..] = (cell.measure().demand)(cell)?;
                let of = |metric: &&ComparedMetric| {
                    metric.read(cell).is_some_and(|read| std::ptr::eq(read, host))
                };
                METRICS.iter().find(of)?
            }
            Self::P99 => by_name("transactions.latency.p99")?,
            Self::Named(at) => METRICS.get(at)?,
        };
        found.read(cell).map(|_| found)
    }
}

/// The metric of that name.
pub fn by_name(name: &str) -> Option<&'static ComparedMetric> {
    METRICS.iter().find(|metric| metric.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::analyse;
    use crate::testing::Synthetic;

    #[test]
    fn names_are_unique_and_read_back() {
        let names: BTreeSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), METRICS.len());
        assert!(METRICS.iter().all(|metric| columns::named(metric.column).is_some()));
        for (at, metric) in METRICS.iter().enumerate() {
            assert_eq!(Wanted::parse(metric.name), Ok(Wanted::Named(at)));
        }
        assert_eq!(
            Wanted::parse("percent-of-baseline").unwrap(),
            Wanted::parse("percent_of_baseline").unwrap()
        );
        let message = Wanted::parse("transactions.latency.p9").unwrap_err();
        assert!(message.contains("did you mean `transactions.latency.p9"), "{message}");
        assert!(Wanted::parse("bananas").unwrap_err().contains("percent_of_baseline"));
    }

    /// The table names a place in the JSON report, and reads what stands there.
    #[test]
    fn every_name_is_a_place_in_the_report() {
        let mut found = BTreeSet::new();
        for kind in WorkloadKind::ALL {
            let synthetic = Synthetic::of_kind(kind);
            let analysis = analyse(&synthetic.run, &synthetic.trials);
            for cell in &analysis.cells {
                assert!(Wanted::Headline.of(cell).is_some(), "{}", cell.id);
                assert!(Wanted::Cpu.of(cell).is_some(), "{}", cell.id);
                let json = serde_json::to_value(cell).unwrap();
                for metric in METRICS {
                    let Some(read) = metric.read(cell) else { continue };
                    if metric.name.contains(".latency.p") {
                        continue;
                    }
                    let pointer = format!("/{}", metric.name.replace('.', "/"));
                    let there = json.pointer(&pointer).unwrap_or_else(|| panic!("no {pointer}"));
                    assert_eq!(*there, serde_json::to_value(read).unwrap(), "{pointer}");
                    found.insert(metric.name);
                }
            }
        }
        assert!(found.len() > METRICS.len() - 15, "{found:?}");
    }
}
