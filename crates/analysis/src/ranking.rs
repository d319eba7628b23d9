//! Ranks the paths by what they keep of the host's own.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;

use vioperf_model::nic::NicKind;
use vioperf_model::plan::{Cell, Plan};
use vioperf_model::scenario::Testbed;
use vioperf_model::section::SectionName;

use crate::measure::Better;
use crate::result::{CellAnalysis, Comparison, Metric, Ranked, RankedWorkload, TrialValue};
use crate::statistics::{summarise, summarise_ratios};
use crate::wording;

type Path<'a> = (Cow<'a, str>, NicKind, Option<String>, &'a Testbed, Vec<&'a str>);

/// The paths, best first; those that lack a workload come last, since they were not asked the same.
pub fn rank(plan: &Plan, cells: &[CellAnalysis]) -> Vec<Ranked> {
    let mut paths: Vec<(Path<'_>, Vec<&CellAnalysis>)> = Vec::new();
    for (cell, analysed) in plan.cells.iter().zip(cells) {
        let Some(kind) = cell.device_kind() else { continue };
        let of_testbed = cell.levels_of(SectionName::Testbed).map(|level| level.name.as_str());
        let path = (cell.path_name(), kind, cell.guest_name(), &cell.testbed, of_testbed.collect());
        match paths.iter_mut().find(|(known, _)| *known == path) {
            Some((_, group)) => group.push(analysed),
            None => paths.push((path, vec![analysed])),
        }
    }
    let mut ranked: Vec<Ranked> =
        paths.iter().map(|(path, group)| ranked(plan, path, group)).collect();
    let better = cells.first().map_or(Better::Higher, |cell| cell.measure().better);
    ranked.sort_by(|a, b| b.complete.cmp(&a.complete).then(by_score(a, b, better)));
    let best = ranked.first().map(|best| best.percent_of_baseline.clone());
    for other in ranked.iter_mut().skip(1).filter(|other| other.complete) {
        other.versus_best =
            best.as_ref().and_then(|best| compare(&other.percent_of_baseline, best));
    }
    ranked
}

/// The better first, and last what has no score.
fn by_score(a: &Ranked, b: &Ranked, better: Better) -> Ordering {
    let score = |ranked: &Ranked| ranked.percent_of_baseline.mean();
    match (score(a), score(b)) {
        (Some(a), Some(b)) if better == Better::Higher => b.total_cmp(&a),
        (Some(a), Some(b)) => a.total_cmp(&b),
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}

fn ranked(plan: &Plan, path: &Path<'_>, group: &[&CellAnalysis]) -> Ranked {
    let (models, kind, guest, testbed, of_testbed) = path;
    let varies = |differs: fn(&Cell, &Cell) -> bool| {
        plan.cells.first().is_some_and(|first| plan.cells.iter().any(|cell| differs(cell, first)))
    };
    let mut name = models.clone().into_owned();
    if let Some(guest) = guest {
        name.push_str(&format!(" {}", guest.replace('/', " ")));
    }
    if varies(|a, b| a.testbed.switch != b.testbed.switch) {
        name.push_str(&format!(" on {}", testbed.switch));
    }
    if varies(|a, b| a.testbed.mtu != b.testbed.mtu) {
        name.push_str(&format!(", MTU {}", testbed.mtu));
    }
    if varies(|a, b| a.testbed.ip != b.testbed.ip) {
        name.push_str(&format!(", {}", testbed.ip));
    }
    for level in of_testbed {
        name.push_str(&format!(", {level}"));
    }
    Ranked {
        path: name,
        nic: models.clone().into_owned(),
        kind: *kind,
        percent_of_baseline: score(group),
        workloads: group.iter().map(|cell| workload(cell)).collect(),
        complete: group.iter().all(|cell| cell.percent_of_baseline.summary.is_some()),
        versus_best: None,
    }
}

fn workload(cell: &CellAnalysis) -> RankedWorkload {
    let added = |name| cell.latency()?.percentile(name)?.added_us.summary;
    RankedWorkload {
        cell: cell.id.clone(),
        streams: cell.streams,
        direction: cell.direction,
        title: wording::load(&cell.workload),
        percent_of_baseline: cell.percent_of_baseline.summary,
        added_p50_us: added("p50"),
        added_p99_us: added("p99"),
    }
}

/// Geometric mean over the workloads. Its scatter is that of the blocks: each block that has every
/// workload gives one value. Where no block has them all, what there is is averaged without an
/// interval.
fn score(group: &[&CellAnalysis]) -> Metric {
    let measured: Vec<&CellAnalysis> =
        group.iter().copied().filter(|cell| cell.percent_of_baseline.summary.is_some()).collect();
    let mut blocks: BTreeMap<u32, Vec<TrialValue>> = BTreeMap::new();
    for cell in &measured {
        let mut seen = None;
        for value in &cell.percent_of_baseline.values {
            // Trials are in the order of blocks: a second one of the same block does not count.
            if seen.replace(value.block) != Some(value.block) {
                blocks.entry(value.block).or_default().push(*value);
            }
        }
    }
    let whole = blocks.into_iter().filter(|(_, values)| values.len() == measured.len());
    let values: Vec<TrialValue> = whole.filter_map(|(block, v)| block_score(block, &v)).collect();
    let mut metric = Metric::default();
    if values.is_empty() {
        let means: Vec<f64> =
            measured.iter().filter_map(|cell| cell.percent_of_baseline.mean()).collect();
        metric.summary = summarise_ratios(&means).map(|mut summary| {
            (summary.n, summary.interval_95) = (0, None);
            summary
        });
        metric.absent.insert("no block has every workload".into(), 0);
        return metric;
    }
    metric.summary = summarise_ratios(&values.iter().map(|v| v.value).collect::<Vec<_>>());
    metric.values = values;
    metric
}

fn block_score(block: u32, values: &[TrialValue]) -> Option<TrialValue> {
    let logs: Vec<f64> = values.iter().map(|value| value.value.ln()).collect();
    let mean = summarise(&logs)?.mean.exp();
    let sequence = values.first()?.sequence;
    Some(TrialValue { sequence, block, value: mean })
}

/// `mine` in percent of `best`, block by block.
fn compare(mine: &Metric, best: &Metric) -> Option<Comparison> {
    let of_best: BTreeMap<u32, f64> = best.values.iter().map(|v| (v.block, v.value)).collect();
    let ratio = |value: &TrialValue| Some(100.0 * value.value / of_best.get(&value.block)?);
    let ratios: Vec<f64> = mine.values.iter().filter_map(ratio).collect();
    let percent = summarise_ratios(&ratios)?;
    let told_apart = percent.interval_95.map(|i| i.high < 100.0 || i.low > 100.0);
    Some(Comparison { percent, told_apart })
}
