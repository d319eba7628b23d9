//! For spreadsheets and scripts: one row a cell, units in the names of the columns (RFC 4180; the
//! notice stands before as a comment). An empty field is no value.

use vioperf_analysis::result::{
    CellAnalysis, DatagramDemand, EndFacts, MachineUse, Metric, QemuUse, RunAnalysis,
    TransactionDemand,
};
use vioperf_model::record::Place;

use super::columns;
use super::text::clean;
use super::values;

/// One column: its name, and its field of a row.
type Column = (&'static str, fn(&CellAnalysis) -> String);

const COLUMNS: &[Column] = &[
    ("cell", |c| text(&c.id.0)),
    ("path", |c| text(&c.path)),
    ("kind", |c| c.kind.map(values::kind).unwrap_or("baseline").into()),
    ("switch", |c| c.switch.to_string()),
    ("mtu_bytes", |c| c.mtu_bytes.to_string()),
    ("ip", |c| c.ip.to_string()),
    ("streams", |c| c.streams.to_string()),
    ("direction", |c| c.direction.to_string()),
    ("trials_planned", |c| c.trials.planned.to_string()),
    ("trials_completed", |c| c.trials.completed.to_string()),
    ("trials_void", |c| c.trials.void.to_string()),
    ("receiver_bits_per_second_mean", |c| mean(&c.receiver_bits_per_second)),
    ("receiver_bits_per_second_low_95", |c| low(&c.receiver_bits_per_second)),
    ("receiver_bits_per_second_high_95", |c| high(&c.receiver_bits_per_second)),
    ("receiver_bits_per_second_standard_deviation", |c| {
        float(c.receiver_bits_per_second.summary.and_then(|s| s.standard_deviation))
    }),
    ("receiver_bits_per_second_n", |c| n(&c.receiver_bits_per_second)),
    ("receiver_bits_per_second_absent_because", |c| {
        text(c.receiver_bits_per_second.reason().unwrap_or(""))
    }),
    ("sender_bits_per_second_mean", |c| mean(&c.sender_bits_per_second)),
    ("percent_of_baseline_geometric_mean", |c| mean(&c.percent_of_baseline)),
    ("percent_of_baseline_low_95", |c| low(&c.percent_of_baseline)),
    ("percent_of_baseline_high_95", |c| high(&c.percent_of_baseline)),
    ("percent_of_baseline_pairs", |c| n(&c.percent_of_baseline)),
    ("host_busy_percent_of_core", |c| mean(&c.host.busy_percent_of_core)),
    ("host_busy_percent_by_core", |c| by_core(&c.host)),
    ("guest_busy_percent_of_core", |c| {
        c.guest.as_ref().map(|guest| mean(&guest.busy_percent_of_core)).unwrap_or_default()
    }),
    ("guest_busy_percent_by_core", |c| c.guest.as_ref().map(by_core).unwrap_or_default()),
    ("qemu_vcpu_percent_of_core", |c| qemu(c, |q| &q.vcpu_percent_of_core)),
    ("qemu_main_loop_percent_of_core", |c| qemu(c, |q| &q.main_loop_percent_of_core)),
    ("qemu_io_percent_of_core", |c| qemu(c, |q| &q.io_percent_of_core)),
    ("qemu_vhost_percent_of_core", |c| qemu(c, |q| &q.vhost_percent_of_core)),
    ("qemu_other_percent_of_core", |c| qemu(c, |q| &q.other_percent_of_core)),
    ("qemu_waiting_percent_of_core", |c| qemu(c, |q| &q.waiting_percent_of_core)),
    ("host_us_per_kib", |c| mean(&c.service_demand.host_us_per_kib)),
    ("qemu_us_per_kib", |c| mean(&c.service_demand.qemu_us_per_kib)),
    ("guest_us_per_kib", |c| mean(&c.service_demand.guest_us_per_kib)),
    ("segments_retransmitted", |c| mean(&c.retransmissions.segments)),
    ("retransmitted_per_million_segments", |c| mean(&c.retransmissions.per_million_segments_sent)),
    ("sender_bytes_per_packet", |c| mean(&c.bytes_per_packet.sender)),
    ("tap_bytes_per_packet", |c| mean(&c.bytes_per_packet.tap)),
    ("receiver_bytes_per_packet", |c| mean(&c.bytes_per_packet.receiver)),
    ("guest_ready_ms", |c| mean(&c.guest_ready_ms)),
    ("driver", |c| near_end(c, |end| end.interface.driver.clone())),
    ("driver_version", |c| near_end(c, |end| end.interface.driver_version.clone())),
    ("link_speed_mbit_per_s", |c| {
        near_end(c, |end| end.interface.speed_mbit_per_s.map(|speed| speed.to_string()))
    }),
    ("interface_mtu_bytes", |c| near_end(c, |end| Some(end.interface.mtu.to_string()))),
    ("rx_queues", |c| near_end(c, |end| end.interface.queues.map(|q| q.rx.to_string()))),
    ("tx_queues", |c| near_end(c, |end| end.interface.queues.map(|q| q.tx.to_string()))),
    ("offloads_active", |c| near_end(c, |end| Some(active_offloads(end)))),
    ("workload", |c| c.workload.kind.name().into()),
    ("payload_bytes", |c| {
        c.datagrams
            .as_ref()
            .map(|datagrams| datagrams.payload_bytes.to_string())
            .unwrap_or_default()
    }),
    ("receivers", |c| c.workload.receivers.map(|level| level.to_string()).unwrap_or_default()),
    ("transport", |c| c.workload.transport.map(|level| level.to_string()).unwrap_or_default()),
    ("segmentation", |c| c.workload.segmentation.to_string()),
    ("headline_metric", |c| c.headline_metric.into()),
    ("headline_mean", |c| mean(c.headline())),
    ("headline_low_95", |c| low(c.headline())),
    ("headline_high_95", |c| high(c.headline())),
    ("headline_n", |c| n(c.headline())),
    ("headline_absent_because", |c| text(c.headline().reason().unwrap_or(""))),
    ("host_ns_per_datagram", |c| of_datagrams(c, |demand| &demand.host_ns)),
    ("qemu_ns_per_datagram", |c| of_datagrams(c, |demand| &demand.qemu_ns)),
    ("guest_ns_per_datagram", |c| of_datagrams(c, |demand| &demand.guest_ns)),
    ("host_us_per_transaction", |c| of_transactions(c, |demand| &demand.host_us)),
    ("qemu_us_per_transaction", |c| of_transactions(c, |demand| &demand.qemu_us)),
    ("guest_us_per_transaction", |c| of_transactions(c, |demand| &demand.guest_us)),
];

/// Renders `analysis`.
pub fn render(analysis: &RunAnalysis) -> String {
    let mut lines = Vec::new();
    lines.extend(analysis.notice.as_ref().map(|notice| format!("# {}", clean(notice))));
    let names = COLUMNS.iter().map(|(name, _)| *name);
    let names: Vec<&str> = names.chain(columns::all().iter().map(|extra| extra.name)).collect();
    lines.push(names.join(","));
    for cell in &analysis.cells {
        let fields = COLUMNS.iter().map(|(_, field)| field(cell));
        let extras = columns::all().iter().map(|extra| (extra.metric)(cell).map(mean));
        let extras = extras.map(Option::unwrap_or_default);
        let fields: Vec<String> = fields.chain(extras).map(|field| quoted(&field)).collect();
        lines.push(fields.join(","));
    }
    lines.join("\n") + "\n"
}

fn quoted(field: &str) -> String {
    if field.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

/// Text that a spreadsheet would take for a formula is given an apostrophe before it.
fn text(text: &str) -> String {
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

fn qemu(cell: &CellAnalysis, read: fn(&QemuUse) -> &Metric) -> String {
    cell.qemu.as_ref().map(|qemu| mean(read(qemu))).unwrap_or_default()
}

fn of_datagrams(cell: &CellAnalysis, read: fn(&DatagramDemand) -> &Metric) -> String {
    cell.datagrams.as_ref().map(|of| mean(read(&of.service_demand))).unwrap_or_default()
}

fn of_transactions(cell: &CellAnalysis, read: fn(&TransactionDemand) -> &Metric) -> String {
    cell.transactions.as_ref().map(|of| mean(read(&of.service_demand))).unwrap_or_default()
}

/// Of the guest's interface, or of a baseline's near end.
fn near_end(cell: &CellAnalysis, read: impl Fn(&EndFacts) -> Option<String>) -> String {
    let near = cell.ends.iter().find(|end| end.place != Place::Peer);
    text(&near.and_then(read).unwrap_or_default())
}

fn active_offloads(end: &EndFacts) -> String {
    let active = end.interface.offloads.iter().filter(|(_, active)| **active);
    active.map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(" ")
}
