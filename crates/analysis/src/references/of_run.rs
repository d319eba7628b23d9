//! A run as a reference for later ones.

use std::collections::BTreeMap;

use serde_json::{Number, Value};
use vioperf_model::plan::Cell;
use vioperf_model::record::RunInfo;
use vioperf_model::reference::{
    AsPrinted, CpuReading, Figure, FigureKind, Machine, REFERENCE_SCHEMA_VERSION, Reference,
};
use vioperf_model::scenario::IpVersion;

use crate::columns::{self, Column};
use crate::result::{CellAnalysis, MachineUse, Metric, RunAnalysis};
use crate::wording::count;

/// What is kept of every cell beside what it is ranked by, where it has it.
const ALSO: &[&str] = &["datagrams_lost_percent", "latency_mean_us", "latency_max_us"];

/// What a run was measured on.
pub fn hardware(run: &RunInfo) -> Vec<String> {
    let host = &run.host;
    let guest = run.hypervisor.as_ref();
    let guest = guest.map(|own| format!("guest: {}", count(usize::from(own.vcpus), "virtual CPU")));
    let cores = count(usize::try_from(host.cores).unwrap_or(0), "core");
    [format!("host: {}, {cores}", host.cpu_model)].into_iter().chain(guest).collect()
}

/// With which versions.
pub fn versions(run: &RunInfo) -> Vec<String> {
    let mut versions = vec![
        format!("vioperf {}", run.vioperf_version),
        format!("host: Linux {}", run.host.kernel_release),
    ];
    if let Some(hypervisor) = &run.hypervisor {
        let emulated = if hypervisor.emulated { " (software emulation)" } else { "" };
        let version = hypervisor.qemu_version.trim_start_matches("QEMU emulator version ");
        versions.push(format!("QEMU {version}{emulated}"));
        versions.push(format!("guest: Linux {}", hypervisor.guest_kernel_release));
    }
    versions
}

/// The results of a run as figures: one for each cell and metric, every trial a repetition.
pub fn of_run(analysis: &RunAnalysis, name: &str, title: Option<&str>) -> Reference {
    let run = &analysis.run;
    let cells = run.plan.cells.iter().zip(&analysis.cells);
    let figures = cells.flat_map(|(cell, analysed)| figures(cell, analysed)).collect();
    let machine = |name: &str, role: &str, cores: Option<u32>| Machine {
        name: name.to_owned(),
        role: role.to_owned(),
        about: String::new(),
        cores,
        cores_printed: None,
    };
    Reference {
        schema_version: REFERENCE_SCHEMA_VERSION,
        name: name.to_owned(),
        title: title.unwrap_or(&analysis.question).to_owned(),
        year: run.started_at.get(..4).and_then(|year| year.parse().ok()).unwrap_or(0),
        year_is_inferred: false,
        author: None,
        url: None,
        hardware: hardware(run),
        versions: versions(run),
        notes: analysis.notice.iter().cloned().collect(),
        platforms: BTreeMap::new(),
        machines: vec![
            machine("host", "host", Some(run.host.cores)),
            machine("guest", "guest", run.hypervisor.as_ref().map(|own| u32::from(own.vcpus))),
        ],
        figures,
    }
}

fn figures(cell: &Cell, analysed: &CellAnalysis) -> Vec<Figure> {
    let headline = columns::headline_of(analysed);
    let names = [headline].into_iter().chain(ALSO.iter().copied());
    let read = names.filter_map(columns::named).filter_map(|column| {
        let metric = column.read(analysed)?;
        (!metric.values.is_empty()).then(|| figure(cell, analysed, column, metric))
    });
    let mut figures: Vec<Figure> = read.collect();
    if let Some(first) = figures.first_mut() {
        let cores = |name: &str, used: &MachineUse| CpuReading {
            machine: name.to_owned(),
            percent_of_core: used
                .cores
                .iter()
                .filter_map(|core| core.busy_percent.mean().and_then(Number::from_f64))
                .collect(),
        };
        let guest = analysed.guest.as_ref().map(|used| cores("guest", used));
        first.cpu = [cores("host", &analysed.host)].into_iter().chain(guest).collect();
        first.cpu.retain(|reading| !reading.percent_of_core.is_empty());
    }
    figures
}

fn figure(cell: &Cell, analysed: &CellAnalysis, column: &Column, metric: &Metric) -> Figure {
    let named = |id: &str| format!("{id}: {}", column.name);
    // Losses have no quotient: that of a baseline is mostly nothing.
    let divides = column.name != "datagrams_lost_percent";
    Figure {
        id: named(&cell.id.0),
        kind: FigureKind::Measurement,
        row: cell.id.0.clone(),
        series: None,
        platform: None,
        from: None,
        to: None,
        load: Some(analysed.workload.kind.name().to_owned()),
        is_baseline: analysed.is_baseline,
        setting: setting(cell, analysed),
        circumstances: BTreeMap::new(),
        metric: Some(column.name.to_owned()),
        printed_metric: column.name.to_owned(),
        unit: column.unit.to_owned(),
        values: metric.values.iter().map(|trial| Number::from_f64(trial.value)).collect(),
        mean: metric.mean().and_then(Number::from_f64),
        mean_source: Some("computed".to_owned()),
        divided_by: cell
            .baseline
            .iter()
            .filter(|_| divides)
            .map(|baseline| named(&baseline.0))
            .collect(),
        is_percent_of_baseline: false,
        repeats: None,
        cpu: Vec::new(),
        printed: AsPrinted::default(),
    }
}

/// What tells a cell from the others: its levels.
fn setting(cell: &Cell, analysed: &CellAnalysis) -> BTreeMap<String, Value> {
    let usual = ["nic", "disk", "variant", "streams", "direction", "switch", "mtu", "far_end"];
    let usual = usual.iter().filter_map(|key| Some(((*key).to_owned(), cell.value_of(key)?)));
    let ip = (analysed.ip != IpVersion::Ipv4).then(|| ("ip".to_owned(), analysed.ip.to_string()));
    let levels = cell.levels.iter().map(|level| (level.factor.clone(), level.level.clone()));
    usual.chain(ip).chain(levels).map(|(key, value)| (key, Value::from(value))).collect()
}
