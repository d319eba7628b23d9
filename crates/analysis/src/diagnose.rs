//! The rules that turn numbers into findings: one file a rule, one line a rule in [`RULES`].

mod budget;
mod clocks;
mod dips;
mod direction;
mod disagreement;
mod disturbed;
mod emulation;
mod frequency;
mod frequency_within;
mod host_cache;
mod image_format;
mod impossible_numbers;
mod impossible_times;
mod left_out;
pub(crate) mod limits;
mod limits_of_cells;
mod link_speed;
mod loads;
mod loss;
mod machine_before;
mod machine_busy;
mod never_measured;
mod not_sent;
mod outliers;
mod polling;
mod power_states;
mod processor;
mod rate_search;
mod records;
mod resumed;
mod scatter;
mod stolen;
mod throttled;
mod timeouts;
mod too_few_trials;
mod trend;
mod trend_within;
mod two_humps;
mod unsettled;
mod void;

use vioperf_model::plan::CellId;
use vioperf_model::record::RunInfo;

use crate::analyser::Gathered;
use crate::result::{CellAnalysis, Finding, Metric, Picture, PictureOrder, Severity};
use crate::wording;

/// What the rules look at.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// The run.
    pub run: &'a RunInfo,
    /// What is kept of the records.
    pub gathered: &'a Gathered,
    /// What was derived.
    pub cells: &'a [CellAnalysis],
}

/// When a rule has something to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    /// As soon as there is a trial.
    Always,
    /// When no further trial will come.
    AtTheEnd,
}

use When::{Always, AtTheEnd};

type Rule = fn(&Evidence<'_>) -> Vec<Finding>;

const RULES: &[(When, Rule)] = &[
    (Always, emulation::check),
    (AtTheEnd, budget::check),
    (Always, left_out::check),
    (Always, polling::check),
    (Always, resumed::check),
    (Always, records::check),
    (AtTheEnd, never_measured::check),
    (Always, void::check),
    (Always, loads::check),
    (AtTheEnd, too_few_trials::check),
    (AtTheEnd, unsettled::check),
    (Always, scatter::check),
    (Always, outliers::check),
    (Always, two_humps::check),
    (Always, trend::check),
    (Always, trend_within::check),
    (Always, dips::check),
    (Always, machine_before::check),
    (Always, throttled::check),
    (Always, frequency::check),
    (Always, frequency_within::check),
    (Always, machine_busy::check),
    (Always, stolen::check),
    (Always, disturbed::check),
    (Always, clocks::check),
    (Always, impossible_times::check),
    (Always, impossible_numbers::check),
    (Always, disagreement::check),
    (Always, loss::check),
    (Always, timeouts::check),
    (Always, not_sent::check),
    (Always, host_cache::check),
    (Always, image_format::check),
    (Always, rate_search::check),
    (Always, limits_of_cells::check),
    (Always, direction::check),
    (Always, power_states::check),
    (Always, processor::check),
    (Always, link_speed::check),
];

/// Everything the rules find, gravest first.
pub fn findings(evidence: &Evidence<'_>) -> Vec<Finding> {
    found_by(RULES.iter(), evidence)
}

/// The same of a run that goes on: without what is to be said only at its end.
pub fn findings_so_far(evidence: &Evidence<'_>) -> Vec<Finding> {
    found_by(RULES.iter().filter(|(when, _)| *when == Always), evidence)
}

fn found_by<'r>(
    rules: impl Iterator<Item = &'r (When, Rule)>,
    evidence: &Evidence<'_>,
) -> Vec<Finding> {
    let mut found: Vec<Finding> = rules.flat_map(|(_, rule)| rule(evidence)).collect();
    found.sort_by_key(|finding| finding.severity);
    found
}

/// A finding about cells, with what is to be said of each; nothing without cells.
fn about_cells(
    rule: &str,
    severity: Severity,
    title: &str,
    cells: &[(CellId, String)],
    advice: &str,
) -> Vec<Finding> {
    if cells.is_empty() {
        return Vec::new();
    }
    vec![Finding {
        rule: rule.into(),
        severity,
        cells: cells.iter().map(|(cell, _)| cell.clone()).collect(),
        title: title.into(),
        evidence: wording::cells(cells),
        advice: advice.into(),
        pictures: Vec::new(),
    }]
}

/// So many cells of a finding are drawn.
const MOST_PICTURES: usize = 6;

/// The same with a picture of each of the first cells.
fn with_pictures(
    rule: &str,
    severity: Severity,
    title: &str,
    seen: &[(Picture, String)],
    advice: &str,
) -> Vec<Finding> {
    let cells: Vec<(CellId, String)> =
        seen.iter().map(|(picture, said)| (picture.cell.clone(), said.clone())).collect();
    let mut found = about_cells(rule, severity, title, &cells, advice);
    for finding in &mut found {
        let pictures = seen.iter().take(MOST_PICTURES).map(|(picture, _)| picture.clone());
        finding.pictures = pictures.collect();
    }
    found
}

/// A picture of a cell.
fn picture(cell: &CellAnalysis, by: PictureOrder, values: Vec<f64>, marked: Vec<usize>) -> Picture {
    let unit = cell.measure().unit;
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let range = format!("{} to {}", unit.short(least), unit.short(most));
    Picture { cell: cell.id.clone(), by, values, marked, range }
}

/// The headline metric of the cell's trials, in the order of the run.
fn trials_of(cell: &CellAnalysis) -> Vec<f64> {
    cell.headline().values.iter().map(|trial| trial.value).collect()
}

/// A finding about the run as a whole.
fn about_run(rule: &str, severity: Severity, title: &str, evidence: &str, advice: &str) -> Finding {
    Finding {
        rule: rule.into(),
        severity,
        cells: Vec::new(),
        title: title.into(),
        evidence: evidence.into(),
        advice: advice.into(),
        pictures: Vec::new(),
    }
}

/// The cells whose `metric` has a mean above `threshold`, the largest first, with the mean as text.
fn above(
    cells: &[CellAnalysis],
    threshold: f64,
    metric: impl Fn(&CellAnalysis) -> Option<&Metric>,
) -> Vec<(CellId, String)> {
    let mut over: Vec<(f64, &CellId)> = cells
        .iter()
        .filter_map(|cell| Some((metric(cell)?.mean()?, &cell.id)))
        .filter(|(mean, _)| *mean > threshold)
        .collect();
    over.sort_by(|a, b| b.0.total_cmp(&a.0));
    over.into_iter().map(|(mean, id)| (id.clone(), wording::percent(mean))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyse;
    use crate::testing::{Synthetic, with_flat_rate};
    use vioperf_model::record::{
        CoreFrequency, CoreTime, MachineLook, Outcome, Place, RunEnd, RunEnding, SearchRecord,
        TrialRecord,
    };
    use vioperf_model::workload::WorkloadKind;

    fn rules(run: &RunInfo, trials: &[TrialRecord]) -> Vec<String> {
        analyse(run, trials).findings.into_iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn a_calm_run_has_nothing_but_notes() {
        let Synthetic { run, trials } = Synthetic::calm_kvm();
        let analysis = analyse(&run, &trials);
        let grave = analysis.findings.iter().find(|f| f.severity != Severity::Note);
        assert_eq!(grave, None);
    }

    #[test]
    fn each_rule_finds_what_it_is_for() {
        let has = |rule: &str, change: &dyn Fn(&mut Synthetic)| {
            let mut synthetic = Synthetic::calm_kvm();
            assert!(!rules(&synthetic.run, &synthetic.trials).contains(&rule.to_owned()), "{rule}");
            change(&mut synthetic);
            let found = rules(&synthetic.run, &synthetic.trials);
            assert!(found.contains(&rule.to_owned()), "{rule} is not in {found:?}");
        };
        has("software-emulation", &|s| s.run.hypervisor.as_mut().unwrap().emulated = true);
        has("ended-early", &|s| {
            let how = RunEnding::Interrupted { signal: "SIGINT".into() };
            s.run.ended = Some(RunEnd { at: "2026-01-01T00:00:00Z".into(), how });
        });
        has("not-ended", &|s| s.run.ended = None);
        has("left-out", &|s| {
            s.run.left_out.push(vioperf_model::record::LeftOut {
                what: "nic igb".into(),
                reason: "QEMU lacks it".into(),
            });
        });
        has("unknown-cell", &|s| s.trials[0].cell = CellId("e1001/5-streams".into()));
        has("never-measured", &|s| {
            let gone = s.trials[0].cell.clone();
            s.trials.retain(|trial| trial.cell != gone);
        });
        has("void-trials", &|s| {
            let reason = "the guest hung".into();
            s.trials[0].outcome =
                Outcome::Void { reason, console_tail: vec![], never_ready: false };
        });
        has("too-few-trials", &|s| s.trials.retain(|trial| trial.block == 0));
        has("machine-busy-at-start", &|s| s.run.host.load_average_1min = 7.0);
        has("clocks-poorly-related", &|s| {
            s.trials[0].parties[0].clock.error_ns = 1_000_000_000;
        });
        has("load-ended-early", &|s| {
            let load = s.trials[0].parties[0].report.load.get_or_insert_default();
            load.ended_early = Some("connection reset".into());
        });
        let look = |busy_percent: f64, governor: &str| MachineLook {
            cores: vec![CoreTime { busy_percent, ..CoreTime::default() }; 2],
            frequencies: vec![CoreFrequency {
                governor: governor.into(),
                least_khz: Some(800_000),
                most_khz: Some(3_000_000),
                ..CoreFrequency::default()
            }],
            ..MachineLook::default()
        };
        has("machine-not-idle-before", &|s| {
            s.run.machine_before = Some(look(20.0, "performance"));
        });
        has("frequency-scales", &|s| s.run.machine_before = Some(look(1.0, "powersave")));
        let mut quiet = Synthetic::calm_kvm();
        quiet.run.machine_before = Some(look(1.0, "performance"));
        let found = rules(&quiet.run, &quiet.trials);
        assert!(!found.contains(&"machine-not-idle-before".to_owned()), "{found:?}");
        assert!(!found.contains(&"frequency-scales".to_owned()), "{found:?}");
        has("requests-not-sent", &|s| {
            let load = s.trials[0].parties[0].report.load.get_or_insert_default();
            load.not_sent = Some(7);
        });
        let mut paced = Synthetic::of_kind(WorkloadKind::PacketRate);
        let load = paced.trials[0].parties[0].report.load.as_mut().unwrap();
        load.not_sent = Some(1_000_000);
        assert!(rules(&paced.run, &paced.trials).contains(&"datagrams-not-sent".to_owned()));
        let mut cached = Synthetic::of_kind(WorkloadKind::Disk);
        let refused = |run: &Synthetic| rules(&run.run, &run.trials);
        assert!(!refused(&cached).contains(&"host-cache-in-path".to_owned()));
        for party in &mut cached.trials[0].parties {
            if let Some(disk) = party.report.load.as_mut().and_then(|load| load.disk.as_mut()) {
                disk.direct = false;
            }
        }
        assert!(refused(&cached).contains(&"host-cache-in-path".to_owned()));
        let mut searched = Synthetic::of_kind(WorkloadKind::RateSearch);
        let cell = searched.trials[0].cell.clone();
        for (rule, change) in [
            (
                "path-loses-at-low-rate",
                (|search| {
                    for probe in &mut search.probes {
                        probe.asked_per_second = Some(search.min_rate);
                        probe.received = 0;
                    }
                }) as fn(&mut SearchRecord),
            ),
            ("sender-was-the-limit", |search| search.max_rate = 0),
            ("search-out-of-time", |search| search.probes.truncate(1)),
        ] {
            let of_cell = |trial: &&mut TrialRecord| trial.cell == cell;
            let before = searched.trials.clone();
            for trial in searched.trials.iter_mut().filter(of_cell) {
                let search = trial.search.as_mut().unwrap();
                change(search);
                if search.max_rate == 0 {
                    search.probes.retain(|probe| probe.received == probe.sent);
                }
            }
            let found = analyse(&searched.run, &searched.trials).findings;
            let found = found.iter().find(|finding| finding.rule == rule);
            assert_eq!(found.map(|f| f.cells.clone()), Some(vec![cell.clone()]), "{rule}");
            searched.trials = before;
        }
        has("link-speed-not-a-limit", &|s| {
            for trial in &mut s.trials {
                for party in &mut trial.parties {
                    if let (Place::Guest, Some(facts)) = (party.place, &mut party.interface) {
                        facts.speed_mbit_per_s = Some(10);
                    }
                }
            }
        });
        has("wide-interval", &|s| {
            let (run, block) = (s.run.clone(), 1);
            let cell = run.plan.cells[0].clone();
            s.trials.retain(|trial| trial.cell != cell.id || trial.block != block);
            s.trials.push(with_flat_rate(&cell, block, 9_999, 1e6));
        });
        has("sender-receiver-disagree", &|s| {
            for party in &mut s.trials[0].parties {
                if let vioperf_model::wire::Role::Sender { .. } = party.role {
                    for load in party.report.samples.iter_mut().filter_map(|s| s.load.as_mut()) {
                        load.bytes *= 2;
                    }
                }
            }
        });
        has("vcpu-full", &|s| {
            for_every_sample(s, Place::Guest, |at, sample| {
                for core in sample.cores.iter_mut().flatten() {
                    core.system = at * 100;
                }
            });
        });
        has("main-loop-full", &|s| {
            for_every_sample(s, Place::Host, |at, sample| {
                for thread in sample.threads.iter_mut().flatten() {
                    thread.on_cpu_ns = at * 1_000_000_000;
                }
            });
        });
        has("time-stolen", &|s| {
            for_every_sample(s, Place::Host, |at, sample| {
                for core in sample.cores.iter_mut().flatten() {
                    core.steal = at * 10;
                }
            });
        });
        has("machine-busy", &|s| {
            for_every_sample(s, Place::Host, |at, sample| {
                for core in sample.cores.iter_mut().flatten() {
                    core.system = at * 100;
                }
            });
        });
    }

    fn for_every_sample(
        synthetic: &mut Synthetic,
        place: Place,
        change: impl Fn(u64, &mut vioperf_model::sample::Sample),
    ) {
        for trial in &mut synthetic.trials {
            for party in trial.parties.iter_mut().filter(|party| party.place == place) {
                for (sample, at) in party.report.samples.iter_mut().zip(0..) {
                    change(at, sample);
                }
            }
        }
    }
}
