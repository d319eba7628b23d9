//! A run as a table for other programs: one row a trial, void ones included. Every column has a
//! type, a unit and a meaning, and is listed here or, where it is a metric, in [`columns`].

mod of_disk;

use std::collections::BTreeMap;

use vioperf_model::plan::{Cell, CellId};
use vioperf_model::record::{
    GuestOrigin, HypervisorFacts, Outcome, RunEnding, RunInfo, TrialRecord,
};
use vioperf_model::units::ByteSize;
use vioperf_model::workload::Workload;

use crate::columns;
use crate::result::RunAnalysis;
use crate::wording;

/// What a column holds. A row may lack a value in any of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Characters.
    Text,
    /// A whole number.
    Integer,
    /// Any other number.
    Real,
    /// Yes or no.
    Flag,
    /// A point in time.
    Time,
}

/// A value, of the [`Kind`] of its column.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Characters.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Real(f64),
    /// Yes or no.
    Flag(bool),
    /// A point in time, as it is recorded (RFC 3339).
    Time(String),
}

/// A row: a value for every column, or none.
pub type Row = Vec<Option<Value>>;

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heading {
    /// Its name; a quantity's has its unit in it.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Its unit, where it has one.
    pub unit: Option<&'static str>,
    /// What it is.
    pub about: &'static str,
}

/// What a row needs of a trial beside its metrics.
struct TrialFacts {
    sequence: u32,
    block: u32,
    attempt: u32,
    cell: CellId,
    started_at: String,
    started_after_ms: u64,
    ended_after_ms: Option<u64>,
    measured_ms: Option<f64>,
    guest_origin: Option<GuestOrigin>,
    outcome: &'static str,
    why_not: Option<String>,
}

struct Source<T: ?Sized> {
    heading: Heading,
    read: fn(&T) -> Option<Value>,
}

const fn source<T: ?Sized>(
    name: &'static str,
    kind: Kind,
    unit: Option<&'static str>,
    about: &'static str,
    read: fn(&T) -> Option<Value>,
) -> Source<T> {
    Source { heading: Heading { name, kind, unit, about }, read }
}

#[expect(clippy::needless_pass_by_value, reason = "levels are small copies, texts come borrowed")]
fn text(value: impl ToString) -> Option<Value> {
    Some(Value::Text(value.to_string()))
}

fn integer(value: impl TryInto<i64>) -> Option<Value> {
    value.try_into().ok().map(Value::Integer)
}

const OF_RUN: &[Source<RunInfo>] = &[
    source("run_started_at", Kind::Time, None, "when the run began", |run| {
        Some(Value::Time(run.started_at.clone()))
    }),
    source("run_ending", Kind::Text, None, "how it ended; nothing where it was killed", |run| {
        run.ended.as_ref().and_then(|ended| text(ending_name(&ended.how)))
    }),
    source("sittings", Kind::Integer, None, "1, and one more each time it was resumed", |run| {
        integer(run.resumed.len() + 1)
    }),
    source("scenario", Kind::Text, None, "the scenario's name", |run| text(&run.scenario.name)),
    source("seed", Kind::Integer, None, "seed of the order", |run| integer(run.plan.seed)),
    source("vioperf_version", Kind::Text, None, "what measured", |run| text(&run.vioperf_version)),
    source("host", Kind::Text, None, "the host's name", |run| {
        Some(run.host.name.as_str()).filter(|name| !name.is_empty()).and_then(text)
    }),
    source("host_os", Kind::Text, None, "the host's distribution", |run| text(&run.host.os)),
    source("host_kernel", Kind::Text, None, "release of its kernel", |run| {
        text(&run.host.kernel_release)
    }),
    source("host_cpu", Kind::Text, None, "its CPU model", |run| text(&run.host.cpu_model)),
    source("host_cores", Kind::Integer, None, "its cores", |run| integer(run.host.cores)),
    source("host_memory_bytes", Kind::Integer, Some("B"), "its memory", |run| {
        integer(run.host.memory_bytes)
    }),
];

/// What ran the guests: of a variant its own.
const OF_HYPERVISOR: &[Source<HypervisorFacts>] = &[
    source("qemu_version", Kind::Text, None, "QEMU's version", |of| text(&of.qemu_version)),
    source("accelerator", Kind::Text, None, "KVM, or TCG: software emulation", |of| {
        text(if of.emulated { "TCG" } else { "KVM" })
    }),
    source("guest_kernel", Kind::Text, None, "release of the guest's kernel", |of| {
        text(&of.guest_kernel_release)
    }),
    source("guest_cpus", Kind::Integer, None, "virtual CPUs of a guest", |of| integer(of.vcpus)),
];

const OF_TRIAL: &[Source<TrialFacts>] = &[
    source("sequence", Kind::Integer, None, "place in the run, from 0", |t| integer(t.sequence)),
    source("block", Kind::Integer, None, "the block, from 0", |t| integer(t.block)),
    source("attempt", Kind::Integer, None, "the attempt at this cell, from 1", |t| {
        integer(t.attempt)
    }),
    source("cell", Kind::Text, None, "the cell's name", |t| text(&t.cell)),
    source(
        "outcome",
        Kind::Text,
        None,
        "completed; else it does not count: disturbed, void",
        |t| text(t.outcome),
    ),
    source("void_reason", Kind::Text, None, "why it does not count", |t| {
        t.why_not.as_ref().and_then(text)
    }),
    source("started_at", Kind::Time, None, "when the trial began", |t| {
        Some(Value::Time(t.started_at.clone()))
    }),
    source("started_after_ms", Kind::Integer, Some("ms"), "the same, since the run began", |t| {
        integer(t.started_after_ms)
    }),
    source(
        "ended_after_ms",
        Kind::Integer,
        Some("ms"),
        "when it ended, since the run began",
        |t| integer(t.ended_after_ms?),
    ),
    source("measured_ms", Kind::Real, Some("ms"), "how long it was measured", |t| {
        t.measured_ms.map(Value::Real)
    }),
    source("guest_origin", Kind::Text, None, "restored, booted or reused", |t| {
        text(match t.guest_origin? {
            GuestOrigin::Restored => "restored",
            GuestOrigin::Booted => "booted",
            GuestOrigin::Reused => "reused",
        })
    }),
];

const OF_CELL: &[Source<Cell>] = &[
    source("path", Kind::Text, None, "models of NIC and disk, server, or baseline", |c| {
        text(&*c.path_name())
    }),
    source("variant", Kind::Text, None, "which of the variants, where there are some", |c| {
        c.variant_name().and_then(text)
    }),
    source("is_baseline", Kind::Flag, None, "whether no guest is in the path", |c| {
        Some(Value::Flag(c.is_baseline()))
    }),
    source("nic", Kind::Text, None, "NIC model of the guest", |c| c.nic.and_then(text)),
    source("disk", Kind::Text, None, "disk model of the guest", |c| c.disk.and_then(text)),
    source("server", Kind::Text, None, "the machine at the other end", |c| {
        c.testbed.server.as_ref().and_then(text)
    }),
    source("switch", Kind::Text, None, "the lab's switch", |c| {
        if c.testbed.server.is_none() { text(c.testbed.switch) } else { None }
    }),
    source("mtu_bytes", Kind::Integer, Some("B"), "MTU of the path", |c| integer(c.testbed.mtu)),
    source(
        "link_bits_per_second",
        Kind::Integer,
        Some("bit/s"),
        "rate that the link is held to",
        |c| integer(c.testbed.rate?.as_bits_per_second()),
    ),
    source("ip", Kind::Text, None, "ipv4 or ipv6", |c| text(c.testbed.ip)),
    source("levels", Kind::Text, None, "levels of what is varied beside these columns", |c| {
        (!c.levels.is_empty()).then(|| wording::levels(&c.levels)).and_then(text)
    }),
    source("workload", Kind::Text, None, "kind of load", |c| text(c.workload.kind.name())),
    source("direction", Kind::Text, None, "which way the payload goes", |c| {
        text(c.workload.direction)
    }),
    source("streams", Kind::Integer, None, "parallel connections", |c| integer(c.workload.streams)),
    source("payload_bytes", Kind::Integer, Some("B"), "UDP payload of a datagram", |c| {
        has_payload(&c.workload).then(|| c.workload.payload_bytes()).and_then(integer)
    }),
    source("transport", Kind::Text, None, "what carries requests", |c| {
        c.workload.transport.and_then(text)
    }),
    source(
        "request_bytes",
        Kind::Integer,
        Some("B"),
        "size of a request, where it was given",
        |c| c.workload.request_size.map(ByteSize::as_bytes).and_then(integer),
    ),
    source("response_bytes", Kind::Integer, Some("B"), "size of a response, likewise", |c| {
        c.workload.response_size.map(ByteSize::as_bytes).and_then(integer)
    }),
    source("receivers", Kind::Text, None, "how receivers share a port", |c| {
        c.workload.receivers.and_then(text)
    }),
    source("background", Kind::Text, None, "what else was on the path", |c| {
        c.workload.background.and_then(text)
    }),
    source("segmentation", Kind::Flag, None, "whether many datagrams pass the stack as one", |c| {
        Some(Value::Flag(c.workload.segmentation))
    }),
];

fn has_payload(load: &Workload) -> bool {
    load.kind.is_of_datagrams()
}

/// How a run ended, for programs.
pub fn ending_name(ending: &RunEnding) -> &'static str {
    match ending {
        RunEnding::Completed => "completed",
        RunEnding::Settled => "settled",
        RunEnding::BudgetUsed => "budget-used",
        RunEnding::Interrupted { .. } => "interrupted",
        RunEnding::Failed { .. } => "failed",
    }
}

const RUN_ID: Heading = Heading {
    name: "run_id",
    kind: Kind::Text,
    unit: None,
    about: "tells runs apart; the same wherever the run is stored",
};

const HEADLINE_METRIC: Heading = Heading {
    name: "headline_metric",
    kind: Kind::Text,
    unit: None,
    about: "the column that the cell is ranked by",
};

/// The columns, in the order of a row's values.
pub fn headings() -> Vec<Heading> {
    let of_metrics = columns::all().iter().map(|column| Heading {
        name: column.name,
        kind: Kind::Real,
        unit: Some(column.unit),
        about: column.about,
    });
    [RUN_ID]
        .into_iter()
        .chain(OF_RUN.iter().map(|source| source.heading))
        .chain(OF_HYPERVISOR.iter().map(|source| source.heading))
        .chain(OF_TRIAL.iter().map(|source| source.heading))
        .chain(OF_CELL.iter().map(|source| source.heading))
        .chain(of_disk::SOURCES.iter().map(|source| source.heading))
        .chain([HEADLINE_METRIC])
        .chain(of_metrics)
        .collect()
}

/// The rows of a run, whose records come one at a time.
pub struct Rows {
    trials: Vec<TrialFacts>,
}

impl Rows {
    /// Before any record.
    pub fn new() -> Self {
        Self { trials: Vec::new() }
    }

    /// Takes a record.
    pub fn add(&mut self, trial: &TrialRecord) {
        let ns = trial.timeline.map(|t| t.measured_until_ns.saturating_sub(t.measured_from_ns));
        let (outcome, why_not) = match &trial.outcome {
            Outcome::Completed => ("completed", None),
            Outcome::Disturbed => ("disturbed", Some("others used the physical cores".to_owned())),
            Outcome::Void { reason, .. } => ("void", Some(reason.clone())),
        };
        self.trials.push(TrialFacts {
            sequence: trial.sequence,
            block: trial.block,
            attempt: trial.attempt,
            cell: trial.cell.clone(),
            started_at: trial.started_at.clone(),
            started_after_ms: trial.started_after_ms,
            ended_after_ms: trial.ended_after_ms,
            measured_ms: ns.map(|ns| ns as f64 / 1e6),
            guest_origin: trial.guest.as_ref().map(|guest| guest.origin),
            outcome,
            why_not,
        });
    }

    /// The rows, in the order of the records; `analysis` is that of the same records.
    pub fn finish(self, run_id: &str, analysis: &RunAnalysis) -> Vec<Row> {
        let of_run: Row = OF_RUN.iter().map(|source| (source.read)(&analysis.run)).collect();
        let of_metrics = metrics_by_trial(analysis);
        let headline: BTreeMap<&CellId, &'static str> =
            analysis.cells.iter().map(|cell| (&cell.id, columns::headline_of(cell))).collect();
        let row = |trial: &TrialFacts| {
            let mut row = vec![text(run_id)];
            row.extend_from_slice(&of_run);
            let cell = analysis.run.plan.cell(&trial.cell);
            let hypervisor = analysis.run.hypervisor_of(cell);
            row.extend(OF_HYPERVISOR.iter().map(|source| hypervisor.and_then(source.read)));
            row.extend(OF_TRIAL.iter().map(|source| (source.read)(trial)));
            row.extend(OF_CELL.iter().map(|source| cell.and_then(source.read)));
            row.extend(of_disk::SOURCES.iter().map(|source| cell.and_then(source.read)));
            row.push(headline.get(&trial.cell).and_then(text));
            let metrics = of_metrics.get(&(&trial.cell, trial.sequence));
            let counts = trial.why_not.is_none();
            let value = |at| metrics.filter(|_| counts).and_then(|metrics| metrics[at]);
            row.extend((0..columns::all().len()).map(|at| value(at).map(Value::Real)));
            row
        };
        self.trials.iter().map(row).collect()
    }
}

impl Default for Rows {
    fn default() -> Self {
        Self::new()
    }
}

/// The value of every metric, by the trial that it is of.
fn metrics_by_trial(analysis: &RunAnalysis) -> BTreeMap<(&CellId, u32), Vec<Option<f64>>> {
    let mut found: BTreeMap<(&CellId, u32), Vec<Option<f64>>> = BTreeMap::new();
    for cell in &analysis.cells {
        for (at, column) in columns::all().iter().enumerate() {
            for trial in column.read(cell).iter().flat_map(|metric| &metric.values) {
                let values = found
                    .entry((&cell.id, trial.sequence))
                    .or_insert_with(|| vec![None; columns::all().len()]);
                values[at] = Some(trial.value);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use vioperf_model::workload::WorkloadKind;

    use super::*;
    use crate::analyse;
    use crate::testing::Synthetic;

    fn table(kind: WorkloadKind) -> (RunAnalysis, Vec<Row>) {
        let Synthetic { run, trials } = Synthetic::of_kind(kind);
        let mut rows = Rows::new();
        trials.iter().for_each(|trial| rows.add(trial));
        let analysis = analyse(&run, &trials);
        let rows = rows.finish("x", &analysis);
        (analysis, rows)
    }

    #[test]
    fn every_name_is_used_once() {
        let names: std::collections::BTreeSet<&str> = headings().iter().map(|h| h.name).collect();
        assert_eq!(names.len(), headings().len());
    }

    fn kind_of(value: &Value) -> Kind {
        match value {
            Value::Text(_) => Kind::Text,
            Value::Integer(_) => Kind::Integer,
            Value::Real(_) => Kind::Real,
            Value::Flag(_) => Kind::Flag,
            Value::Time(_) => Kind::Time,
        }
    }

    #[test]
    fn every_row_has_every_column_in_its_type() {
        for kind in WorkloadKind::ALL {
            let headings = headings();
            for row in table(kind).1 {
                assert_eq!(row.len(), headings.len());
                for (value, heading) in row.iter().zip(&headings) {
                    assert!(
                        value.as_ref().is_none_or(|v| kind_of(v) == heading.kind),
                        "{heading:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_values_of_the_rows_are_those_of_the_report() {
        let headings = headings();
        let at = |name: &str| headings.iter().position(|h| h.name == name).unwrap();
        for kind in WorkloadKind::ALL {
            let (analysis, rows) = table(kind);
            for cell in &analysis.cells {
                let column = at(columns::headline_of(cell));
                let mine = |row: &&Row| row[at("cell")] == text(&cell.id);
                let values: Vec<f64> = rows
                    .iter()
                    .filter(mine)
                    .filter_map(|row| match row[column] {
                        Some(Value::Real(value)) => Some(value),
                        _ => None,
                    })
                    .collect();
                let mean = values.iter().sum::<f64>() / values.len() as f64;
                let reported = cell.headline().mean().unwrap();
                assert!((mean / reported - 1.0).abs() < 1e-12, "{} {mean} {reported}", cell.id);
            }
        }
    }

    #[test]
    fn a_void_trial_has_a_row_with_its_reason_and_no_metric() {
        let Synthetic { run, trials } = Synthetic::tcg();
        let mut rows = Rows::new();
        trials.iter().for_each(|trial| rows.add(trial));
        let rows = rows.finish("x", &analyse(&run, &trials));
        assert_eq!(rows.len(), trials.len());
        let headings = headings();
        let at = |name: &str| headings.iter().position(|h| h.name == name).unwrap();
        let void: Vec<&Row> = rows.iter().filter(|row| row[at("void_reason")].is_some()).collect();
        assert!(!void.is_empty());
        for row in void {
            assert_eq!(row[at("outcome")], text("void"));
            let metrics = at("receiver_bits_per_second")..;
            assert!(row[metrics].iter().all(Option::is_none));
        }
    }

    #[test]
    fn a_disturbed_trial_is_told_from_a_void_one_and_has_no_metric_either() {
        let Synthetic { run, mut trials } = Synthetic::calm_kvm();
        trials[0].outcome = Outcome::Disturbed;
        let mut rows = Rows::new();
        trials.iter().for_each(|trial| rows.add(trial));
        let rows = rows.finish("x", &analyse(&run, &trials));
        let headings = headings();
        let at = |name: &str| headings.iter().position(|h| h.name == name).unwrap();
        assert_eq!(rows[0][at("outcome")], text("disturbed"));
        assert!(rows[0][at("void_reason")].is_some() && rows[1][at("void_reason")].is_none());
        let metrics = at("receiver_bits_per_second")..;
        assert!(rows[0][metrics].iter().all(Option::is_none));
    }
}
