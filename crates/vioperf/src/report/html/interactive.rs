//! What a page can do where scripts run: choose a metric and panels, hide levels, sort tables. Everything else is
//! there without. The numbers are those of the analysis: a script draws them and computes none.
//!
//! The page's own rule (Content-Security-Policy) names each script by its hash: nothing else on the page runs,
//! whoever wrote it there.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{Markup, PreEscaped, html};
use serde::Serialize;
use sha2::{Digest, Sha256};
use vioperf_analysis::columns;
use vioperf_analysis::result::{CellAnalysis, Metric, RunAnalysis};

use super::seen::Part;
use crate::report::text::clean;
use crate::report::values::{Workload, workloads};
use crate::report::varied::{Varied, varied};

/// A library with its licence, as its authors want it copied.
macro_rules! library {
    ($file:literal, $licence:literal) => {
        concat!("/*!\n", include_str!($licence), "*/\n", include_str!($file))
    };
}

/// Draws what a reader chooses.
const DRAWING: [&str; 3] = [
    library!("vendor/d3.min.js", "vendor/d3.LICENSE"),
    library!("vendor/plot.umd.min.js", "vendor/plot.LICENSE"),
    include_str!("script/explore.js"),
];
/// What every page can do.
const EVERYWHERE: [&str; 4] = [
    include_str!("script/values.js"),
    include_str!("script/tables.js"),
    include_str!("script/latency.js"),
    include_str!("script/links.js"),
];

/// What a page has of it.
pub struct Interactive {
    data: Option<String>,
}

/// What the scripts are given.
#[derive(Serialize)]
struct Data {
    headline: &'static str,
    metrics: Vec<MetricName>,
    factors: Vec<Factor>,
    cells: Vec<CellData>,
}

#[derive(Serialize)]
struct MetricName {
    name: &'static str,
    unit: &'static str,
    about: &'static str,
}

#[derive(Serialize)]
struct Factor {
    name: String,
    levels: Vec<String>,
}

#[derive(Serialize)]
struct CellData {
    id: String,
    path: String,
    load: String,
    anchor: String,
    kind: &'static str,
    levels: BTreeMap<String, String>,
    metrics: BTreeMap<&'static str, Numbers>,
}

/// A metric of a cell: mean, interval, and the value of every trial.
#[derive(Serialize)]
struct Numbers {
    mean: f64,
    low: Option<f64>,
    high: Option<f64>,
    values: Vec<f64>,
}

impl Numbers {
    fn of(metric: &Metric) -> Option<Self> {
        let summary = metric.summary?;
        Some(Self {
            mean: summary.mean,
            low: summary.interval_95.map(|interval| interval.low),
            high: summary.interval_95.map(|interval| interval.high),
            values: metric.values.iter().map(|trial| six_digits(trial.value)).collect(),
        })
    }
}

/// More are not seen as a dot, and would make the page heavy.
fn six_digits(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let scale = 10f64.powf(5.0 - value.abs().log10().floor());
    (value * scale).round() / scale
}

impl Interactive {
    /// Of a run; with something to choose from only where there is more than one cell with a result.
    pub fn of(analysis: &RunAnalysis) -> Self {
        let measured = analysis.cells.iter().filter(|cell| cell.headline().summary.is_some());
        let data = (measured.count() > 1).then(|| data(analysis));
        // No tag can begin in it, whatever a guest calls itself.
        let as_text =
            |data: &Data| serde_json::to_string(data).ok().map(|text| text.replace('<', "\\u003c"));
        Self { data: data.as_ref().and_then(as_text) }
    }

    /// Of a page without anything to choose from.
    pub fn none() -> Self {
        Self { data: None }
    }

    fn scripts(&self) -> impl Iterator<Item = &'static str> {
        let drawing: &[&str] = if self.data.is_some() { &DRAWING } else { &[] };
        drawing.iter().chain(&EVERYWHERE).copied()
    }

    /// Whether there is something to choose.
    pub fn has_choices(&self) -> bool {
        self.data.is_some()
    }

    /// What the page allows itself.
    pub fn policy(&self) -> String {
        let hash = |script: &str| format!(" 'sha256-{}'", STANDARD.encode(Sha256::digest(script)));
        let scripts: String = self.scripts().map(hash).collect();
        format!("default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src{scripts}")
    }

    /// Where it is drawn; hidden until a script runs.
    pub fn section(&self) -> Markup {
        html! {
            @if self.data.is_some() {
                section #explore hidden aria-labelledby="explore-head" {
                    h2 #explore-head { "Look for yourself" }
                    form {}
                    p.small aria-live="polite" {}
                    div.drawing {}
                    p.small {
                        "Filled: mean of a cell, with its 95 % interval. Ring: one trial. A press on a mean goes to its cell."
                    }
                    details {
                        summary { "The same as a table" }
                        div.scroll tabindex="0" {
                            table {
                                caption {}
                                thead {
                                    tr {
                                        @for head in ["cell", "mean", "from", "to (95 %)", "trials"] {
                                            th scope="col" { (head) }
                                        }
                                    }
                                }
                                tbody {}
                            }
                        }
                    }
                }
            }
        }
    }

    /// Data and scripts, for the end of the page: it is there before they are read.
    pub fn scripts_markup(&self) -> Markup {
        html! {
            @if let Some(data) = &self.data {
                script #page-data type="application/json" { (PreEscaped(data)) }
            }
            @for script in self.scripts() { script { (PreEscaped(script)) } }
        }
    }
}

fn data(analysis: &RunAnalysis) -> Data {
    let workloads = workloads(analysis);
    let varied = varied(&analysis.run);
    let cells: Vec<CellData> =
        analysis.cells.iter().map(|cell| cell_data(cell, &workloads, &varied)).collect();
    let has = |name| cells.iter().any(|cell| cell.metrics.contains_key(name));
    let metrics = columns::all().iter().filter(|column| has(column.name));
    Data {
        headline: analysis.cells.first().map_or("", columns::headline_of),
        metrics: metrics
            .map(|column| MetricName { name: column.name, unit: column.unit, about: column.about })
            .collect(),
        factors: factors(&cells),
        cells,
    }
}

/// What differs between cells, each with its levels in the order of the plan.
fn factors(cells: &[CellData]) -> Vec<Factor> {
    let mut factors: Vec<Factor> = Vec::new();
    for (name, level) in cells.iter().flat_map(|cell| &cell.levels) {
        match factors.iter_mut().find(|factor| factor.name == *name) {
            Some(factor) if factor.levels.contains(level) => {}
            Some(factor) => factor.levels.push(level.clone()),
            None => factors.push(Factor { name: name.clone(), levels: vec![level.clone()] }),
        }
    }
    factors.retain(|factor| factor.levels.len() > 1);
    factors
}

fn cell_data(cell: &CellAnalysis, workloads: &[Workload<'_>], varied: &[Varied]) -> CellData {
    let of = workloads.iter().find(|load| load.cells.iter().any(|other| other.id == cell.id));
    let load = of.map_or_else(String::new, |load| clean(&load.title));
    let path = clean(&cell.path);
    let level = |factor: &Varied| Some((factor.name.clone(), factor.level(&cell.id)?.to_owned()));
    let levels = varied.iter().filter_map(level);
    let own = [("load".to_owned(), load.clone()), ("path".to_owned(), path.clone())];
    let numbers = |column: &columns::Column| Some((column.name, Numbers::of(column.read(cell)?)?));
    CellData {
        id: clean(&cell.id.0),
        anchor: Part::Result.anchor(&cell.id),
        kind: match cell.kind {
            None => "baseline",
            Some(kind) => crate::report::values::kind(kind),
        },
        levels: levels.chain(own).collect(),
        metrics: columns::all().iter().filter_map(numbers).collect(),
        load,
        path,
    }
}

#[cfg(test)]
mod tests {
    use vioperf_analysis::analyse;
    use vioperf_analysis::testing::Synthetic;

    use super::*;

    fn interactive(synthetic: &Synthetic) -> Interactive {
        Interactive::of(&analyse(&synthetic.run, &synthetic.trials))
    }

    #[test]
    fn the_page_runs_its_own_scripts_and_no_other() {
        let page = interactive(&Synthetic::tcg());
        let policy = page.policy();
        assert_eq!(policy.matches("'sha256-").count(), page.scripts().count());
        assert!(!policy.contains("script-src 'unsafe"), "{policy}");
        let markup = page.scripts_markup().into_string();
        assert_eq!(markup.matches("</script").count(), page.scripts().count() + 1);
        assert!(
            page.scripts().all(|script| !script.contains("</script") && !script.contains("<!--"))
        );
        for licence in ["Copyright 2010-2023 Mike Bostock", "Copyright 2020-2025 Observable"] {
            assert!(markup.contains(licence), "{licence}");
        }
    }

    #[test]
    fn the_numbers_are_the_analysis_own_and_no_tag_begins_in_them() {
        let mut synthetic = Synthetic::calm_kvm();
        synthetic.run.plan.cells[1].id.0 = "</script><script>alert(1)".into();
        let analysis = analyse(&synthetic.run, &synthetic.trials);
        let text = Interactive::of(&analysis).data.unwrap();
        assert!(!text.contains('<') && text.contains("\\u003c/script"), "{text}");
        let data: serde_json::Value = serde_json::from_str(&text).unwrap();
        for (cell, told) in analysis.cells.iter().zip(data["cells"].as_array().unwrap()) {
            let told = told["metrics"]["percent_of_baseline"]["mean"].as_f64();
            let mean = cell.percent_of_baseline.mean();
            assert_eq!(told.is_some(), mean.is_some(), "{}", cell.id);
            // Not to the last bit: that is lost where numbers are read.
            let apart = told.zip(mean).map_or(0.0, |(told, mean)| (told / mean - 1.0).abs());
            assert!(apart < 1e-12, "{}: {told:?} {mean:?}", cell.id);
        }
        assert_eq!(data["headline"], "receiver_bits_per_second");
        assert_eq!(six_digits(123_456_789.0), 123_457_000.0);
    }

    #[test]
    fn a_run_of_nothing_has_nothing_to_choose_from() {
        let Synthetic { run, .. } = Synthetic::tcg();
        let page = Interactive::of(&analyse(&run, &[]));
        assert!(page.section().into_string().is_empty());
        assert!(
            !page.policy().contains("unsafe-eval") && page.scripts().count() == EVERYWHERE.len()
        );
    }
}
