//! The notice, the answer in one sentence, and the advice. Nothing is said that the intervals do
//! not bear.

use vioperf_model::nic::NicKind;
use vioperf_model::record::{Outcome, RunInfo, TrialRecord};
use vioperf_model::workload::Direction;

use crate::measure::{Measure, Unit};
use crate::rates::headline;
use crate::result::{CellAnalysis, Ranked, RankedWorkload, Summary};
use crate::wording::{capitalised, count, direction, load_any_way, percent, three_digits};

/// What has to be said before any number.
pub fn notice(run: &RunInfo) -> Option<String> {
    let hypervisor = run.hypervisor.as_ref().filter(|hypervisor| hypervisor.emulated)?;
    Some(format!(
        "Software emulation (TCG), not KVM: the ratios below are not those under KVM. Reason: {}",
        hypervisor.accel_reason
    ))
}

/// What was measured between two machines, and how far the trials came that were [cut short](cut_short).
pub fn between_machines(cells: &[CellAnalysis], cut_short: Vec<String>) -> Vec<String> {
    let sentence = |cell: &CellAnalysis| {
        let measure = cell.measure();
        let (server, rate) = (&cell.path, cell.headline().mean());
        let Some(rate) = rate.map(|rate| measure.unit.text(rate)) else {
            return format!("Nothing was measured between this machine and {server}.");
        };
        let lost = cell.datagrams.as_ref().and_then(|datagrams| datagrams.lost_percent.mean());
        let lost = lost.map_or_else(String::new, |lost| format!(", {} were lost", percent(lost)));
        let latency = |name| {
            let us = cell.transactions.as_ref()?.latency.percentile(name)?.us.mean()?;
            Some(format!(", {name} {} µs", three_digits(us)))
        };
        let latency: String = ["p50", "p99"].into_iter().filter_map(latency).collect();
        let sentence = match (measure.unit, cell.direction) {
            (_, Direction::Both) => {
                format!("{rate} arrived at this machine and {server} together.")
            }
            (Unit::Transactions, Direction::ToGuest) => {
                format!("{server} answered {rate} that were asked here{latency}.")
            }
            (Unit::Transactions, Direction::FromGuest) => {
                format!("This machine answered {rate} that {server} asked{latency}.")
            }
            (_, Direction::ToGuest) => format!("{rate} arrived at {server}{lost}."),
            (_, Direction::FromGuest) => format!("{rate} arrived here from {server}{lost}."),
        };
        // Of several loads each is named before its number.
        if cells.len() > 1 {
            format!("{}: {sentence}", capitalised(&load_any_way(&cell.workload)))
        } else {
            sentence
        }
    };
    cells.iter().map(sentence).chain(cut_short).collect()
}

/// How far a trial came that does not count.
pub fn cut_short(run: &RunInfo, trial: &TrialRecord) -> Option<String> {
    let Outcome::Void { reason, .. } = &trial.outcome else { return None };
    let timeline = trial.timeline.as_ref()?;
    let ns = timeline.measured_until_ns.saturating_sub(timeline.measured_from_ns);
    let workload = &run.plan.cell(&trial.cell)?.workload;
    let measure = Measure::of(workload.kind);
    let rate = match headline(trial, workload) {
        Ok(rate) => measure.unit.text(rate),
        Err(reason) => format!("no rate ({reason})"),
    };
    let reason = reason.trim_end_matches('.');
    Some(format!("It ended after {:.1} s: {reason}; until then {rate}.", ns as f64 / 1e9))
}

/// The answer, the advice first.
pub fn sentences(run: &RunInfo, ranking: &[Ranked]) -> Vec<String> {
    let measured: Vec<&Ranked> =
        ranking.iter().filter(|ranked| ranked.percent_of_baseline.summary.is_some()).collect();
    let Some(best) = measured.first() else {
        return vec![
            "No path has both a trial and a baseline in the same block: there is nothing \
                     to compare yet."
                .into(),
        ];
    };
    let emulated = run.hypervisor.as_ref().is_some_and(|hypervisor| hypervisor.emulated);
    let measure = Measure::of(run.scenario.workload.kind);
    if measured.iter().all(|ranked| ranked.percent_of_baseline.values.len() < 2) {
        return of_one_block(measure, &measured, emulated);
    }
    let leaders: Vec<&Ranked> = std::iter::once(*best)
        .chain(measured.iter().skip(1).copied().filter(|ranked| may_equal_best(ranked)))
        .collect();
    let mut sentences = vec![answer(measure, &measured, &leaders)];
    sentences.extend(by_workload(best));
    sentences.extend(added_latency(&measured));
    sentences.push(advice(&leaders, emulated));
    sentences.extend(emulated.then(under_emulation));
    sentences
}

/// Without scatter nothing can be told apart: what was seen is told, and nothing advised.
fn of_one_block(measure: &Measure, measured: &[&Ranked], emulated: bool) -> Vec<String> {
    let seen: Vec<String> =
        measured.iter().map(|ranked| format!("{} {}", ranked.path, mean(ranked))).collect();
    let mut sentences = vec![
        format!(
            "Seen once, and so with unknown scatter: of the host's own {} {} {}.",
            measure.kept,
            if seen.len() == 1 { "this was kept:" } else { "these were kept:" },
            list(&seen)
        ),
        "Measure at least 3 blocks before choosing by these numbers (--blocks 3).".into(),
    ];
    sentences.extend(added_latency(measured));
    sentences.extend(emulated.then(under_emulation));
    sentences
}

fn under_emulation() -> String {
    "The guest's own instructions were emulated: under KVM the percentages are others, and the \
     order can be too."
        .into()
}

/// Whether the blocks leave it open that the path is as good as the best.
fn may_equal_best(ranked: &Ranked) -> bool {
    ranked.versus_best.as_ref().is_some_and(|versus| versus.told_apart != Some(true))
}

fn answer(measure: &Measure, measured: &[&Ranked], leaders: &[&Ranked]) -> String {
    let best = measured[0];
    let mut text = match leaders {
        [_, _, ..] => {
            let blocks = best.percent_of_baseline.values.len();
            format!(
                "{} cannot be told apart by {}: they keep {} of the host's own {}",
                list(&leaders.iter().map(|ranked| ranked.path.as_str()).collect::<Vec<_>>()),
                count(blocks, "block"),
                list(&leaders.iter().map(|ranked| mean(ranked)).collect::<Vec<_>>()),
                measure.kept,
            )
        }
        _ => {
            let interval = best.percent_of_baseline.summary.as_ref().and_then(interval);
            format!(
                "{} keeps {}{} of the host's own {}",
                best.path,
                mean(best),
                interval.map(|text| format!(" ({text})")).unwrap_or_default(),
                measure.kept,
            )
        }
    };
    if let [_, .., worst] = measured
        && !leaders.iter().any(|leader| leader.path == worst.path)
    {
        text.push_str(&format!(
            "; {}, the last of {}, {}",
            worst.path,
            measured.len(),
            mean(worst)
        ));
    }
    text.push('.');
    text
}

/// So many workloads that need more words than a direction and streams are named one by one.
const NAMED_WORKLOADS: usize = 3;

/// The best path's percentages, where there is more than one workload.
fn by_workload(best: &Ranked) -> Option<String> {
    let measured = best.workloads.iter().filter_map(|w| Some((w, w.percent_of_baseline?.mean)));
    let mut measured: Vec<(&RankedWorkload, f64)> = measured.collect();
    let workloads = measured.len();
    if workloads < 2 {
        return None;
    }
    let said = |(workload, mean): &(&RankedWorkload, f64)| {
        format!("{} {}", percent(*mean), with_load(workload))
    };
    let needs_words = measured.iter().any(|(workload, _)| !is_plain(workload));
    if needs_words && workloads > NAMED_WORKLOADS {
        measured.sort_by(|a, b| a.1.total_cmp(&b.1));
        let (least, most) = (said(measured.first()?), said(measured.last()?));
        return Some(format!(
            "{}: from {least} to {most}; the geometric mean of {workloads} workloads ranks it.",
            best.path
        ));
    }
    let parts: Vec<String> = measured.iter().map(said).collect();
    Some(format!(
        "{}: {}; the geometric mean of these {workloads} ranks it.",
        best.path,
        list(&parts)
    ))
}

/// Whether direction and streams are all there is to say of it.
fn is_plain(workload: &RankedWorkload) -> bool {
    let streams = count(usize::from(workload.streams), "stream");
    workload.title == format!("{}, {streams}", direction(workload.direction))
}

/// `towards the guest with 4 streams`, or, where more than that is varied, the whole of it.
fn with_load(workload: &RankedWorkload) -> String {
    let towards = direction(workload.direction);
    let streams = count(usize::from(workload.streams), "stream");
    if is_plain(workload) {
        format!("{towards} with {streams}")
    } else {
        format!("({})", workload.title)
    }
}

/// What the paths add to the latency of the first load that has one: a person chooses by it.
fn added_latency(measured: &[&Ranked]) -> Option<String> {
    let first = measured.first()?.workloads.iter().find(|w| w.added_p50_us.is_some())?;
    let added = |ranked: &&Ranked| {
        let workload = ranked.workloads.iter().find(|w| w.title == first.title)?;
        let p99 = workload
            .added_p99_us
            .map_or_else(String::new, |p99| format!(" and {} µs to p99", three_digits(p99.mean)));
        let p50 = three_digits(workload.added_p50_us?.mean);
        Some(format!("{} adds {p50} µs to p50{p99}", ranked.path))
    };
    let paths: Vec<String> = measured.iter().filter_map(added).collect();
    Some(format!("Latency ({}): {}.", first.title, paths.join("; ")))
}

fn advice(leaders: &[&Ranked], emulated: bool) -> String {
    let paravirtual = leaders.iter().find(|ranked| ranked.kind == NicKind::Paravirtual);
    let here = if emulated { " on a host that emulates its guests" } else { "" };
    match (paravirtual, leaders) {
        (Some(choice), [_]) => format!(
            "Use {}{here}: it is paravirtual, made for virtual machines, and the fastest measured.",
            choice.path
        ),
        (Some(choice), _) => format!(
            "Use {}{here}: it is paravirtual, made for virtual machines, and nothing measured is \
             surely faster.",
            choice.path
        ),
        (None, leaders) => format!(
            "{} {here_or_not} an emulated card; measure a paravirtual one (virtio, vmxnet3) too \
             before settling on it.",
            leaders.first().map_or("The first", |ranked| ranked.path.as_str()),
            here_or_not =
                if emulated { "was the fastest here, and is" } else { "is the fastest, but" },
        ),
    }
}

fn mean(ranked: &Ranked) -> String {
    ranked.percent_of_baseline.mean().map_or_else(|| "an unknown part".into(), percent)
}

/// `95 % interval 70.1 to 72.3 %`.
fn interval(summary: &Summary) -> Option<String> {
    let interval = summary.interval_95?;
    let low = crate::wording::three_digits(interval.low);
    Some(format!("95 % interval {low} to {}", percent(interval.high)))
}

/// `a`, `a and b`, `a, b and c`.
fn list<T: AsRef<str>>(items: &[T]) -> String {
    let items: Vec<&str> = items.iter().map(AsRef::as_ref).collect();
    match items.as_slice() {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}
