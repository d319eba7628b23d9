//! Ranks the paths by what they keep of the host's own.
//!
//! Where the host's own path is not the same for all of them (over several switches, or with several MTUs), each load is
//! divided by the fastest of its baselines, whichever path that is of: a path that keeps all of a slow one is not ahead of
//! one that keeps half of a fast one. That holds for what a person chooses. What a path meets (a link of a lower rate, a
//! busy host) its baseline has met as well, and is divided by that one.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;

use vioperf_model::nic::NicKind;
use vioperf_model::plan::{Cell, CellId, Level, Plan};
use vioperf_model::scenario::Testbed;
use vioperf_model::section::SectionName;

use crate::measure::Better;
use crate::ratio;
use crate::result::{
    CellAnalysis, Comparison, Metric, Ranked, RankedWorkload, RunAnalysis, TrialValue,
};
use crate::statistics::{summarise, summarise_ratios};
use crate::wording;

type Path<'a> = (Cow<'a, str>, NicKind, Option<String>, &'a Testbed, Vec<&'a Level>);

/// The keys of a testbed that are chosen; the others tell what a path meets.
const CHOICES: [&str; 7] = ["switch", "bridge", "interface", "mtu", "ip", "placement", "cores"];

/// The paths, best first; those that lack a workload come last, since they were not asked the same.
pub fn rank(plan: &Plan, cells: &[CellAnalysis]) -> Vec<Ranked> {
    let mut paths: Vec<(Path<'_>, Vec<&CellAnalysis>)> = Vec::new();
    for (cell, analysed) in plan.cells.iter().zip(cells) {
        let Some(kind) = cell.device_kind() else { continue };
        let of_testbed = cell.levels_of(SectionName::Testbed).collect();
        let path = (cell.path_name(), kind, cell.guest_name(), &cell.testbed, of_testbed);
        match paths.iter_mut().find(|(known, _)| *known == path) {
            Some((_, group)) => group.push(analysed),
            None => paths.push((path, vec![analysed])),
        }
    }
    let better = cells.first().map_or(Better::Higher, |cell| cell.measure().better);
    let names = Names::of(plan);
    let fastest = Fastest { plan, cells, better };
    let mut ranked: Vec<Ranked> = paths
        .iter()
        .map(|(path, group)| {
            let loads: Vec<Load<'_>> = group.iter().map(|cell| fastest.load(cell)).collect();
            ranked(plan, &names, path, &loads)
        })
        .collect();
    ranked.sort_by(|a, b| b.complete.cmp(&a.complete).then(by_score(a, b, better)));
    let best = ranked.first().map(|best| best.percent_of_baseline.clone());
    for other in ranked.iter_mut().skip(1).filter(|other| other.complete) {
        other.versus_best =
            best.as_ref().and_then(|best| compare(&other.percent_of_baseline, best));
    }
    ranked
}

impl RunAnalysis {
    /// Whether the ranking divides loads by other baselines than their own, which then has to be said.
    pub fn ranks_by_fastest_baseline(&self) -> bool {
        is_by_fastest_baseline(&self.run.plan, &self.ranking)
    }
}

/// Whether a load is divided by another baseline than its own.
pub(crate) fn is_by_fastest_baseline(plan: &Plan, ranking: &[Ranked]) -> bool {
    ranking.iter().flat_map(|ranked| &ranked.workloads).any(|load| {
        let own = plan.cell(&load.cell).and_then(|cell| cell.baseline.as_ref());
        load.divided_by.as_ref() != own
    })
}

/// A cell of a path, and what it is ranked by.
struct Load<'a> {
    cell: &'a CellAnalysis,
    divided_by: Option<CellId>,
    percent: Cow<'a, Metric>,
}

/// Finds the fastest of the host's own paths for each load.
struct Fastest<'a> {
    plan: &'a Plan,
    cells: &'a [CellAnalysis],
    better: Better,
}

impl<'a> Fastest<'a> {
    fn load(&self, cell: &'a CellAnalysis) -> Load<'a> {
        let own = self.plan.cell(&cell.id).and_then(|planned| planned.baseline.as_ref());
        let fastest =
            own.and_then(|own| self.baseline(own)).filter(|fastest| Some(&fastest.id) != own);
        Load {
            cell,
            divided_by: fastest.map(|fastest| fastest.id.clone()).or_else(|| own.cloned()),
            percent: match fastest {
                Some(fastest) => Cow::Owned(percent_of(cell.headline(), fastest.headline())),
                None => Cow::Borrowed(&cell.percent_of_baseline),
            },
        }
    }

    /// The fastest of the baselines that differ from that one in nothing but choices.
    fn baseline(&self, own: &CellId) -> Option<&'a CellAnalysis> {
        let order = |a: &f64, b: &f64| match self.better {
            Better::Higher => a.total_cmp(b),
            Better::Lower => b.total_cmp(a),
        };
        let met = self.plan.cell(own)?.without(&CHOICES);
        let same = self.plan.cells.iter().zip(self.cells).filter(|(planned, _)| {
            planned.is_baseline() && (planned.id == *own || planned.without(&CHOICES) == met)
        });
        let measured = same.filter_map(|(_, other)| Some((other, other.headline().mean()?)));
        measured.max_by(|(_, a), (_, b)| order(a, b)).map(|(other, _)| other)
    }
}

/// `mine` in percent of the other, without trials in which nothing arrived.
fn percent_of(mine: &Metric, other: &Metric) -> Metric {
    let mut values = ratio::in_blocks(mine, other);
    let all = values.len();
    values.retain(|trial| trial.value > 0.0 && trial.value.is_finite());
    let empty = u32::try_from(all - values.len()).unwrap_or(u32::MAX);
    let absent = (empty > 0).then(|| ("nothing arrived".to_owned(), empty));
    let ratios: Vec<f64> = values.iter().map(|value| value.value).collect();
    Metric { summary: summarise_ratios(&ratios), values, absent: absent.into_iter().collect() }
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

fn ranked(plan: &Plan, names: &Names, path: &Path<'_>, loads: &[Load<'_>]) -> Ranked {
    let (models, kind, guest, testbed, of_testbed) = path;
    let first = loads.first().and_then(|load| plan.cell(&load.cell.id));
    // A variant that changes the load alone is measured as a path, and is nothing that one sets up.
    let chosen = match names.variants_change_paths {
        true => guest.clone(),
        false => first.and_then(Cell::guest_levels),
    };
    let with = |guest: Option<&str>, is_wanted: fn(&Level) -> bool| {
        let wanted = of_testbed.iter().filter(|level| is_wanted(level));
        let begin = names.of_path(models, guest, testbed);
        wanted.fold(begin, |name, level| format!("{name}, {}", level.name))
    };
    Ranked {
        path: with(guest.as_deref(), |_| true),
        choice: with(chosen.as_deref(), is_choice),
        nic: models.clone().into_owned(),
        kind: *kind,
        percent_of_baseline: score(loads),
        workloads: loads.iter().map(workload).collect(),
        complete: loads.iter().all(|load| load.percent.summary.is_some()),
        versus_best: None,
    }
}

/// What differs among the paths, and so has to be in their names.
struct Names {
    switch: bool,
    mtu: bool,
    ip: bool,
    variants_change_paths: bool,
}

impl Names {
    fn of(plan: &Plan) -> Self {
        let varies = |differs: fn(&Cell, &Cell) -> bool| {
            let first = plan.cells.first();
            first.is_some_and(|first| plan.cells.iter().any(|cell| differs(cell, first)))
        };
        let mut of_first_variant = BTreeMap::new();
        Self {
            switch: varies(|a, b| a.testbed.switch != b.testbed.switch),
            mtu: varies(|a, b| a.testbed.mtu != b.testbed.mtu),
            ip: varies(|a, b| a.testbed.ip != b.testbed.ip),
            variants_change_paths: plan.cells.iter().any(|cell| {
                let first = *of_first_variant.entry(cell.id_of_all_variants()).or_insert(cell);
                (&cell.testbed, &cell.guest) != (&first.testbed, &first.guest)
            }),
        }
    }

    fn of_path(&self, models: &str, guest: Option<&str>, testbed: &Testbed) -> String {
        let mut name = models.to_owned();
        if let Some(guest) = guest {
            name.push_str(&format!(" {}", guest.replace('/', " ")));
        }
        if self.switch {
            name.push_str(&format!(" on {}", testbed.switch));
        }
        if self.mtu {
            name.push_str(&format!(", MTU {}", testbed.mtu));
        }
        if self.ip {
            name.push_str(&format!(", {}", testbed.ip));
        }
        name
    }
}

/// Whether the key that is varied is chosen.
fn is_choice(level: &Level) -> bool {
    let key = level.factor.split('.').nth(1);
    key.is_some_and(|key| CHOICES.contains(&key))
}

fn workload(load: &Load<'_>) -> RankedWorkload {
    let cell = load.cell;
    let added = |name| cell.latency()?.percentile(name)?.added_us.summary;
    RankedWorkload {
        cell: cell.id.clone(),
        streams: cell.streams,
        direction: cell.direction,
        title: wording::load(&cell.workload),
        percent_of_baseline: load.percent.summary,
        divided_by: load.divided_by.clone(),
        added_p50_us: added("p50"),
        added_p99_us: added("p99"),
    }
}

/// Geometric mean over the workloads. Its scatter is that of the blocks: each block that has every
/// workload gives one value. Where no block has them all, what there is is averaged without an
/// interval.
fn score(loads: &[Load<'_>]) -> Metric {
    let measured: Vec<&Metric> = loads
        .iter()
        .map(|load| &*load.percent)
        .filter(|percent| percent.summary.is_some())
        .collect();
    let mut blocks: BTreeMap<u32, Vec<TrialValue>> = BTreeMap::new();
    for percent in &measured {
        let mut seen = None;
        for value in &percent.values {
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
        let means: Vec<f64> = measured.iter().filter_map(|percent| percent.mean()).collect();
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
    let percent = ratio::percent_of(mine, best)?;
    let told_apart = percent.interval_95.map(|_| ratio::side(&percent).is_some());
    Some(Comparison { percent, told_apart })
}

#[cfg(test)]
mod tests {
    use vioperf_model::scenario_file;

    use super::*;
    use crate::analyse;
    use crate::testing::{Synthetic, with_flat_rate};

    /// A run of these factors, with the rates that a cell is given: of the host's own path, and of the guest's.
    fn of_factors(factors: &str, rates: impl Fn(&Cell) -> [f64; 2]) -> RunAnalysis {
        let Synthetic { mut run, .. } = Synthetic::calm_kvm();
        let text = format!(
            "name = \"a\"\nquestion = \"?\"\n[workload]\nkind = \"tcp-stream\"\n[factors]\n{factors}\n"
        );
        run.scenario = scenario_file::parse("a", &text, &[]).unwrap();
        run.plan = Plan::new(&run.scenario, 1);
        let mut trials = Vec::new();
        for (block, cells) in (0..).zip(&run.plan.blocks) {
            for cell in cells.iter().map(|index| &run.plan.cells[*index]) {
                let [own, guest] = rates(cell);
                let rate = if cell.is_baseline() { own } else { guest };
                let scatter = 1.0 + 0.01 * f64::from(block % 3);
                let sequence = u32::try_from(trials.len()).unwrap();
                trials.push(with_flat_rate(cell, block, sequence, rate * scatter));
            }
        }
        analyse(&run, &trials)
    }

    #[test]
    fn a_path_that_keeps_all_of_a_slow_baseline_is_not_ahead_of_a_faster_one() {
        let factors = "nic = \"virtio\"\nswitch = [\"bridge\", \"openvswitch\"]";
        let analysis = of_factors(factors, |cell| match cell.testbed.switch.to_string().as_str() {
            "bridge" => [10e9, 5e9],
            _ => [2e9, 1.9e9],
        });
        let order: Vec<&str> = analysis.ranking.iter().map(|r| r.path.as_str()).collect();
        assert_eq!(order, ["virtio on bridge", "virtio on openvswitch"]);
        let percent = |at: usize| analysis.ranking[at].percent_of_baseline.mean().unwrap();
        assert!((percent(0) - 50.0).abs() < 0.1 && (percent(1) - 19.0).abs() < 0.1);
        let workload = &analysis.ranking[1].workloads[0];
        assert!(workload.divided_by.as_ref().unwrap().0.contains("bridge"), "{workload:?}");
        let own = analysis.cells.iter().find(|cell| cell.id == workload.cell).unwrap();
        assert!((own.percent_of_baseline.mean().unwrap() - 95.0).abs() < 0.1);
        assert!(analysis.ranks_by_fastest_baseline());
        assert!(
            analysis.headline.join(" ").contains("divided by the fastest"),
            "{:?}",
            analysis.headline
        );
    }

    #[test]
    fn what_a_path_meets_is_no_choice_and_its_baseline_has_met_it_too() {
        let factors = "nic = [\"e1000\", \"virtio\"]\ntestbed.rate = [\"1 Gbit/s\", \"10 Gbit/s\"]";
        let analysis = of_factors(factors, |cell| {
            let link = cell.testbed.rate.unwrap().as_bits_per_second() as f64;
            let is_virtio = cell.nic.is_some_and(|nic| nic.name() == "virtio");
            [link, link * if is_virtio { 0.9 } else { 0.5 }]
        });
        assert!(!analysis.ranks_by_fastest_baseline());
        let percents: Vec<f64> = analysis
            .ranking
            .iter()
            .map(|r| r.percent_of_baseline.mean().unwrap().round())
            .collect();
        assert_eq!(percents, [90.0, 90.0, 50.0, 50.0]);
        let choices: Vec<&str> = analysis.ranking.iter().map(|r| r.choice.as_str()).collect();
        assert_eq!(choices, ["virtio", "virtio", "e1000", "e1000"]);
        let said = analysis.headline.join(" ");
        assert!(said.contains("Use virtio:"), "{said}");

        let alone = of_factors("nic = \"virtio\"\nneighbour = [\"none\", \"busy\"]", |cell| {
            let is_busy = cell.testbed.neighbour != vioperf_model::scenario::Neighbour::None;
            [10e9, if is_busy { 4e9 } else { 8e9 }]
        });
        assert_eq!(alone.ranking.len(), 2);
        let said = alone.headline.join(" ");
        assert!(!said.contains("Use "), "a neighbour is nothing that one chooses: {said}");
    }

    #[test]
    fn a_variant_of_the_load_alone_is_nothing_that_one_sets_up() {
        let variants = |first: &str, second: &str| {
            let text = format!(
                "nic = \"virtio\"\n[[variants]]\nname = \"a\"\n{first}\n[[variants]]\nname = \"b\"\n{second}"
            );
            let is_slow =
                |cell: &Cell| cell.workload.streams == 4 || cell.variant_name() == Some("b");
            of_factors(&text, |cell| [10e9, if is_slow(cell) { 2e9 } else { 8e9 }])
        };
        let of_load = variants("", "workload = { streams = 4 }");
        let choices: Vec<&str> = of_load.ranking.iter().map(|r| r.choice.as_str()).collect();
        assert_eq!(choices, ["virtio", "virtio"]);
        let said = of_load.headline.join(" ");
        assert!(said.contains("virtio a") && !said.contains("Use "), "{said}");

        let of_guest = variants("", "guest = { vcpus = 2 }");
        let said = of_guest.headline.join(" ");
        assert!(said.contains("Use virtio a"), "{said}");
    }

    #[test]
    fn of_one_baseline_there_is_nothing_to_say() {
        let Synthetic { run, trials } = Synthetic::calm_kvm();
        let analysis = analyse(&run, &trials);
        assert!(!analysis.ranks_by_fastest_baseline());
        let own = |load: &RankedWorkload| {
            let cell = analysis.cells.iter().find(|cell| cell.id == load.cell).unwrap();
            assert_eq!(load.percent_of_baseline, cell.percent_of_baseline.summary);
        };
        analysis.ranking.iter().flat_map(|ranked| &ranked.workloads).for_each(own);
    }
}
