//! For monitoring: the text form of OpenMetrics 1.0, as Prometheus, its textfile collector and whoever reads those take
//! it. One sample a cell and metric, under the metric's own name, the unit in it; what has no value is not there.
//!
//! Samples carry no time of their own, which the textfile collector refuses; when the run began and ended are metrics.

use std::fmt::Write as _;

use jiff::Timestamp;
use vioperf_analysis::columns::{self, Column};
use vioperf_analysis::result::{CellAnalysis, Metric, RunAnalysis, Severity};
use vioperf_analysis::wording;
use vioperf_model::record::HypervisorFacts;

use super::text::clean;
use super::values;

/// Names and values, in their order.
type Labels = Vec<(&'static str, String)>;

/// Renders `analysis`.
pub fn render(analysis: &RunAnalysis) -> String {
    let mut text = String::new();
    let scenario = || ("scenario", analysis.run.scenario.name.clone());
    about_run(&mut text, analysis, &scenario);
    for column in columns::all() {
        let cells = analysis.cells.iter().filter_map(|cell| Some((cell, column.read(cell)?)));
        let measured: Vec<(Labels, &Metric)> = cells
            .filter(|(_, metric)| metric.summary.is_some())
            .map(|(cell, metric)| (labels_of(scenario(), cell), metric))
            .collect();
        metric_of(&mut text, column, &measured);
    }
    text.push_str("# EOF\n");
    text
}

/// What concerns the run as a whole, and how its trials and findings are counted.
fn about_run(
    text: &mut String,
    analysis: &RunAnalysis,
    scenario: &impl Fn() -> (&'static str, String),
) {
    let run = &analysis.run;
    let host = &run.host;
    let hypervisor = run.hypervisor.as_ref();
    let facts = vec![
        scenario(),
        ("vioperf", run.vioperf_version.clone()),
        ("host", host.name.clone()),
        ("kernel", host.kernel_release.clone()),
        ("cpu", host.cpu_model.clone()),
        ("qemu", hypervisor.map(|facts| facts.qemu_version.clone()).unwrap_or_default()),
        ("accelerator", hypervisor.map(accelerator).unwrap_or_default().to_owned()),
    ];
    family(text, "vioperf_run_facts", "What the run was measured with; always 1.");
    sample(text, "vioperf_run_facts", &facts, 1.0);
    let ended = run.ended.as_ref().map(|ended| ended.at.as_str());
    for (name, about, time) in [
        (
            "vioperf_run_started_timestamp_seconds",
            "When the run began.",
            Some(run.started_at.as_str()),
        ),
        ("vioperf_run_ended_timestamp_seconds", "When the run ended.", ended),
    ] {
        let Some(time) = time.and_then(|time| time.parse::<Timestamp>().ok()) else { continue };
        family(text, name, about);
        sample(text, name, &[scenario()], time.as_duration().as_secs_f64());
    }
    family(text, "vioperf_trials", "Trials of a cell by what became of them.");
    for cell in &analysis.cells {
        for (outcome, count) in [("completed", cell.trials.completed), ("void", cell.trials.void)] {
            let mut labels = labels_of(scenario(), cell);
            labels.push(("outcome", outcome.to_owned()));
            sample(text, "vioperf_trials", &labels, f64::from(count));
        }
    }
    family(
        text,
        "vioperf_finding_cells",
        "Cells that a finding is about; 0 where it is about the run.",
    );
    for finding in &analysis.findings {
        let severity = match finding.severity {
            Severity::Warning => "warning",
            Severity::Doubt => "doubt",
            Severity::Note => "note",
        };
        let labels = [
            scenario(),
            ("rule", finding.rule.clone()),
            ("severity", severity.to_owned()),
            ("title", finding.title.clone()),
        ];
        let cells = u32::try_from(finding.cells.len()).unwrap_or(u32::MAX);
        sample(text, "vioperf_finding_cells", &labels, f64::from(cells));
    }
}

fn accelerator(facts: &HypervisorFacts) -> &'static str {
    if facts.emulated { "tcg" } else { "kvm" }
}

/// A metric of every cell that has it: its mean, and the bounds of its 95 % interval.
fn metric_of(text: &mut String, column: &Column, measured: &[(Labels, &Metric)]) {
    let name = format!("vioperf_{}", column.name);
    let Column { about, unit, .. } = column;
    type Read = fn(&Metric) -> Option<f64>;
    let read: [(&str, &str, Read); 3] = [
        ("", "mean of the trials", Metric::mean),
        ("_low_95", "lower bound of the 95 % interval of the mean", |metric| {
            Some(metric.summary?.interval_95?.low)
        }),
        ("_high_95", "upper bound of the 95 % interval of the mean", |metric| {
            Some(metric.summary?.interval_95?.high)
        }),
    ];
    for (suffix, which, read) in read {
        let values = measured.iter().filter_map(|(labels, metric)| Some((labels, read(metric)?)));
        let values: Vec<_> = values.collect();
        if values.is_empty() {
            continue;
        }
        let name = format!("{name}{suffix}");
        family(text, &name, &format!("{about} ({unit}): {which}."));
        for (labels, value) in values {
            sample(text, &name, labels, value);
        }
    }
}

/// What tells one cell from others, of this run and of those beside it.
fn labels_of(scenario: (&'static str, String), cell: &CellAnalysis) -> Labels {
    let variant = cell.variant.as_ref().map(|variant| variant.name.clone()).unwrap_or_default();
    vec![
        scenario,
        ("cell", cell.id.0.clone()),
        ("path", cell.path.clone()),
        ("kind", cell.kind.map(values::kind).unwrap_or("baseline").to_owned()),
        ("variant", variant),
        ("levels", wording::levels(&cell.levels)),
        ("workload", cell.workload.kind.name().to_owned()),
        ("switch", cell.switch.to_string()),
        ("mtu", cell.mtu_bytes.to_string()),
        ("ip", cell.ip.to_string()),
        ("streams", cell.streams.to_string()),
        ("direction", cell.direction.to_string()),
    ]
}

fn family(text: &mut String, name: &str, help: &str) {
    let _ = writeln!(text, "# TYPE {name} gauge\n# HELP {name} {}", escaped(help));
}

fn sample(text: &mut String, name: &str, labels: &[(&'static str, String)], value: f64) {
    let given = labels.iter().filter(|(_, value)| !value.is_empty());
    let labels: Vec<String> =
        given.map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    let _ = writeln!(text, "{name}{{{}}} {value}", labels.join(","));
}

/// Line feeds, backslashes and quotes, as the form wants them in labels and help.
fn escaped(text: &str) -> String {
    clean(text).replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
