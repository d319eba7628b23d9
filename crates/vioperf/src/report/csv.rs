//! For spreadsheets and scripts: one row a cell, units in the names of the columns (RFC 4180; the
//! notice stands before as a comment). An empty field is no value.

use vioperf_analysis::columns::{all as all_metrics, named};
use vioperf_analysis::result::{CellAnalysis, EndFacts, MachineUse, Metric, RunAnalysis};
use vioperf_analysis::wording;
use vioperf_model::record::Place;

use super::columns;
use super::text::clean;
use super::values;

/// One column: its name, and its field of a row.
type Column = (&'static str, Field);

/// What stands in a row.
enum Field {
    /// The mean of the metric of the same name.
    Mean,
    /// Anything else.
    Of(fn(&CellAnalysis) -> String),
}

const COLUMNS: &[Column] = &[
    ("cell", Field::Of(|c| text(&c.id.0))),
    ("path", Field::Of(|c| text(&c.path))),
    ("variant", Field::Of(|c| text(c.variant.as_ref().map_or("", |variant| &variant.name)))),
    ("kind", Field::Of(|c| c.kind.map(values::kind).unwrap_or("baseline").into())),
    ("switch", Field::Of(|c| c.switch.to_string())),
    ("mtu_bytes", Field::Of(|c| c.mtu_bytes.to_string())),
    ("ip", Field::Of(|c| c.ip.to_string())),
    ("levels", Field::Of(|c| text(&wording::levels(&c.levels)))),
    ("streams", Field::Of(|c| c.streams.to_string())),
    ("direction", Field::Of(|c| c.direction.to_string())),
    ("trials_planned", Field::Of(|c| c.trials.planned.to_string())),
    ("trials_completed", Field::Of(|c| c.trials.completed.to_string())),
    ("trials_void", Field::Of(|c| c.trials.void.to_string())),
    ("limited_by", Field::Of(|c| text(c.limits.first().map_or("", |limit| &limit.rule)))),
    (
        "limited_by_confidence",
        Field::Of(|c| {
            c.limits.first().map(|limit| limit.confidence.to_string()).unwrap_or_default()
        }),
    ),
    ("receiver_bits_per_second_mean", Field::Of(|c| mean(&c.receiver_bits_per_second))),
    ("receiver_bits_per_second_low_95", Field::Of(|c| low(&c.receiver_bits_per_second))),
    ("receiver_bits_per_second_high_95", Field::Of(|c| high(&c.receiver_bits_per_second))),
    (
        "receiver_bits_per_second_standard_deviation",
        Field::Of(|c| float(c.receiver_bits_per_second.summary.and_then(|s| s.standard_deviation))),
    ),
    ("receiver_bits_per_second_n", Field::Of(|c| n(&c.receiver_bits_per_second))),
    (
        "receiver_bits_per_second_absent_because",
        Field::Of(|c| text(c.receiver_bits_per_second.reason().unwrap_or(""))),
    ),
    ("sender_bits_per_second_mean", Field::Of(|c| mean(&c.sender_bits_per_second))),
    ("percent_of_baseline_geometric_mean", Field::Of(|c| mean(&c.percent_of_baseline))),
    ("percent_of_baseline_low_95", Field::Of(|c| low(&c.percent_of_baseline))),
    ("percent_of_baseline_high_95", Field::Of(|c| high(&c.percent_of_baseline))),
    ("percent_of_baseline_pairs", Field::Of(|c| n(&c.percent_of_baseline))),
    ("host_busy_percent_of_core", Field::Mean),
    ("host_busy_percent_by_core", Field::Of(|c| by_core(&c.host))),
    ("guest_busy_percent_of_core", Field::Mean),
    (
        "guest_busy_percent_by_core",
        Field::Of(|c| c.guest.as_ref().map(by_core).unwrap_or_default()),
    ),
    ("qemu_vcpu_percent_of_core", Field::Mean),
    ("qemu_main_loop_percent_of_core", Field::Mean),
    ("qemu_io_percent_of_core", Field::Mean),
    ("qemu_vhost_percent_of_core", Field::Mean),
    ("qemu_other_percent_of_core", Field::Mean),
    ("qemu_waiting_percent_of_core", Field::Mean),
    ("host_us_per_kib", Field::Mean),
    ("qemu_us_per_kib", Field::Mean),
    ("guest_us_per_kib", Field::Mean),
    ("segments_retransmitted", Field::Mean),
    ("retransmitted_per_million_segments", Field::Mean),
    ("sender_bytes_per_packet", Field::Mean),
    ("tap_bytes_per_packet", Field::Mean),
    ("receiver_bytes_per_packet", Field::Mean),
    ("guest_ready_ms", Field::Mean),
    ("driver", Field::Of(|c| near_end(c, |end| end.interface.driver.clone()))),
    ("driver_version", Field::Of(|c| near_end(c, |end| end.interface.driver_version.clone()))),
    (
        "link_speed_mbit_per_s",
        Field::Of(|c| {
            near_end(c, |end| end.interface.speed_mbit_per_s.map(|speed| speed.to_string()))
        }),
    ),
    ("interface_mtu_bytes", Field::Of(|c| near_end(c, |end| Some(end.interface.mtu.to_string())))),
    ("rx_queues", Field::Of(|c| near_end(c, |end| end.interface.queues.map(|q| q.rx.to_string())))),
    ("tx_queues", Field::Of(|c| near_end(c, |end| end.interface.queues.map(|q| q.tx.to_string())))),
    ("offloads_active", Field::Of(|c| near_end(c, |end| Some(active_offloads(end))))),
    ("workload", Field::Of(|c| c.workload.kind.name().into())),
    (
        "payload_bytes",
        Field::Of(|c| {
            c.datagrams
                .as_ref()
                .map(|datagrams| datagrams.payload_bytes.to_string())
                .unwrap_or_default()
        }),
    ),
    (
        "receivers",
        Field::Of(|c| c.workload.receivers.map(|level| level.to_string()).unwrap_or_default()),
    ),
    (
        "transport",
        Field::Of(|c| c.workload.transport.map(|level| level.to_string()).unwrap_or_default()),
    ),
    ("segmentation", Field::Of(|c| c.workload.segmentation.to_string())),
    ("headline_metric", Field::Of(|c| c.headline_metric.into())),
    ("headline_mean", Field::Of(|c| mean(c.headline()))),
    ("headline_low_95", Field::Of(|c| low(c.headline()))),
    ("headline_high_95", Field::Of(|c| high(c.headline()))),
    ("headline_n", Field::Of(|c| n(c.headline()))),
    ("headline_absent_because", Field::Of(|c| text(c.headline().reason().unwrap_or("")))),
    ("host_ns_per_datagram", Field::Mean),
    ("qemu_ns_per_datagram", Field::Mean),
    ("guest_ns_per_datagram", Field::Mean),
    ("host_us_per_transaction", Field::Mean),
    ("qemu_us_per_transaction", Field::Mean),
    ("guest_us_per_transaction", Field::Mean),
];

/// Renders `analysis`.
pub fn render(analysis: &RunAnalysis) -> String {
    let mut lines = Vec::new();
    lines.extend(analysis.notice.as_ref().map(|notice| format!("# {}", clean(notice))));
    let names = COLUMNS.iter().map(|(name, _)| *name);
    let extras = columns::all().iter().map(|extra| extra.name);
    let machines = machine_columns();
    let of_machines = machines.iter().map(|(name, _)| name.as_str());
    lines.push(names.chain(extras).chain(of_machines).collect::<Vec<_>>().join(","));
    for cell in &analysis.cells {
        let fields = COLUMNS.iter().map(|(name, field)| match field {
            Field::Mean => mean_of(name, cell),
            Field::Of(read) => read(cell),
        });
        let extras = columns::all().iter().map(|extra| mean_of(extra.name, cell));
        let of_machines = machines.iter().map(|(name, place)| match place {
            None => mean_of(name, cell),
            Some(place) => cell.machine(*place).map(|m| by_core(m.cores)).unwrap_or_default(),
        });
        let fields = fields.chain(extras).chain(of_machines);
        let fields: Vec<String> = fields.map(|field| quoted(&field)).collect();
        lines.push(fields.join(","));
    }
    lines.join("\n") + "\n"
}

/// Columns of the machines beside the host and the guest: a metric of that name, or the cores of a place.
fn machine_columns() -> Vec<(String, Option<Place>)> {
    let beside = Place::MACHINES.into_iter();
    let beside = beside.filter(|place| ![Place::Host, Place::Guest].contains(place));
    let columns = beside.flat_map(|place| {
        let own = all_metrics().iter().filter(move |column| column.machine() == Some(place));
        let mut own: Vec<(String, Option<Place>)> =
            own.map(|column| (column.name.to_owned(), None)).collect();
        let by_core = format!("{}_busy_percent_by_core", place.key().replace('-', "_"));
        own.insert(own.len().min(1), (by_core, Some(place)));
        own
    });
    columns.collect()
}

/// A field, in quotes where it needs them.
pub fn quoted(field: &str) -> String {
    if field.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

/// Text that a spreadsheet would take for a formula is given an apostrophe before it.
pub fn text(text: &str) -> String {
    let cleaned = clean(text);
    let is_formula = cleaned.trim_start().starts_with(['=', '+', '-', '@']);
    if is_formula { format!("'{cleaned}") } else { cleaned }
}

fn float(value: Option<f64>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn mean(metric: &Metric) -> String {
    float(metric.mean())
}

/// The mean of a metric by its name; empty where the cell has no such thing.
fn mean_of(name: &str, cell: &CellAnalysis) -> String {
    let metric = named(name).and_then(|column| column.read(cell));
    metric.map(mean).unwrap_or_default()
}

fn low(metric: &Metric) -> String {
    float(metric.summary.and_then(|summary| summary.interval_95).map(|interval| interval.low))
}

fn high(metric: &Metric) -> String {
    float(metric.summary.and_then(|summary| summary.interval_95).map(|interval| interval.high))
}

fn n(metric: &Metric) -> String {
    metric.summary.map_or(0, |summary| summary.n).to_string()
}

/// The cores' means in their order, with semicolons between them.
fn by_core(machine: &MachineUse) -> String {
    machine.cores.iter().map(|core| mean(&core.busy_percent)).collect::<Vec<_>>().join(";")
}

/// Of the guest's interface, or of a baseline's near end.
fn near_end(cell: &CellAnalysis, read: impl Fn(&EndFacts) -> Option<String>) -> String {
    let near = cell.ends.iter().find(|end| !end.place.is_far_end_of_lab());
    text(&near.and_then(read).unwrap_or_default())
}

fn active_offloads(end: &EndFacts) -> String {
    let active = end.interface.offloads.iter().filter(|(_, active)| **active);
    active.map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(" ")
}
