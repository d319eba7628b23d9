//! The notice, the answer in one sentence, and the advice. Nothing is said that the intervals do
//! not bear.

use vioperf_model::nic::NicKind;
use vioperf_model::record::{Outcome, RunInfo, TrialRecord};
use vioperf_model::workload::{Direction, WorkloadKind};

use crate::compare::result::{ComparedRow, Verdict};
use crate::compare::words::with_interval;
use crate::measure::{Measure, Unit};
use crate::ranking::is_by_fastest_baseline;
use crate::rates::headline;
use crate::result::{CellAnalysis, Ranked, RankedWorkload, RunAnalysis, Summary};
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
            let us = cell.latency()?.percentile(name)?.us.mean()?;
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

/// So many rows of a comparison are named.
const NAMED_ROWS: usize = 3;

/// What is said of a lab whose plan has no guest: what its variants say of each other, by the metric
/// that paths are ranked by. `None` where there is a guest.
pub fn without_guest(analysis: &RunAnalysis) -> Option<Vec<String>> {
    let RunAnalysis { run, cells, variants, .. } = analysis;
    if run.scenario.testbed.server.is_some() || run.plan.cells.iter().any(|cell| cell.has_guest()) {
        return None;
    }
    let Some(comparison) = variants else {
        let alone = "No NIC is among the factors: this is the host's own path, and nothing is set beside it.";
        return Some(vec![alone.into()]);
    };
    let metric = cells.first()?.headline_metric;
    let rows: Vec<&ComparedRow> =
        comparison.rows.iter().filter(|row| row.metric == metric).collect();
    let mut said: Vec<String> =
        rows.iter().take(NAMED_ROWS).map(|row| beside_first(row, rows.len() > 1)).collect();
    if rows.len() > NAMED_ROWS {
        said.push(format!("and {} more", rows.len() - NAMED_ROWS));
    }
    Some(vec![format!(
        "{} against {}, on the host's own path: {}.",
        comparison.b.name,
        comparison.a.name,
        said.join("; ")
    )])
}

/// A row of the comparison (`throughput +4.2 % (+3.1 to +5.3), better`).
fn beside_first(row: &ComparedRow, is_one_of_many: bool) -> String {
    let of = if is_one_of_many { format!("{} ", row.name()) } else { String::new() };
    let difference = row.difference.map(|difference| with_interval(&difference, row.unit));
    let verdict = match row.verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::Negligible => "less than matters",
        Verdict::NoDifference => "no difference as large as matters",
        Verdict::Unclear => "unclear",
        Verdict::TooFewBlocks => "too few blocks to say more",
        Verdict::NotComparable => "not comparable",
    };
    let seen: Vec<&str> = difference.as_deref().into_iter().chain([verdict]).collect();
    format!("{of}{} {}", row.title, seen.join(", "))
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
    let emulated = is_emulated(run);
    let measure = Measure::of(run.scenario.workload.kind);
    if measured.iter().all(|ranked| ranked.percent_of_baseline.values.len() < 2) {
        return of_one_block(run, ranking, measure, &measured);
    }
    let leaders: Vec<&Ranked> = std::iter::once(*best)
        .chain(measured.iter().skip(1).copied().filter(|ranked| may_equal_best(ranked)))
        .collect();
    let mut sentences = vec![answer(measure, &measured, &leaders)];
    sentences.extend(is_by_fastest_baseline(&run.plan, ranking).then(by_fastest_baseline));
    sentences.extend(by_workload(best));
    sentences.extend(added_latency(&measured));
    sentences.extend(advice(run, &measured, &leaders));
    sentences.extend(emulated.then(under_emulation));
    sentences
}

/// Without scatter nothing can be told apart: what was seen is told, and nothing advised.
fn of_one_block(
    run: &RunInfo,
    ranking: &[Ranked],
    measure: &Measure,
    measured: &[&Ranked],
) -> Vec<String> {
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
    sentences.extend(is_by_fastest_baseline(&run.plan, ranking).then(by_fastest_baseline));
    sentences.extend(added_latency(measured));
    sentences.extend(is_emulated(run).then(under_emulation));
    sentences
}

fn is_emulated(run: &RunInfo) -> bool {
    run.hypervisor.as_ref().is_some_and(|hypervisor| hypervisor.emulated)
}

fn by_fastest_baseline() -> String {
    "The host's own path is not the same for all of these: each is divided by the fastest with the same load.".into()
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

/// Which to use; nothing where there is one alone, and no other kind to try.
fn advice(run: &RunInfo, measured: &[&Ranked], leaders: &[&Ranked]) -> Option<String> {
    let emulated = is_emulated(run);
    let (device, paravirtual_ones) = match run.scenario.workload.kind {
        WorkloadKind::Disk => ("disk", "virtio-blk, virtio-scsi"),
        _ => ("card", "virtio, vmxnet3"),
    };
    let is_one_choice = measured.iter().all(|ranked| ranked.choice == measured[0].choice);
    let is_one_leader = leaders.iter().all(|ranked| ranked.choice == leaders[0].choice);
    let paravirtual = leaders.iter().find(|ranked| ranked.kind == NicKind::Paravirtual);
    let here = if emulated { " on a host that emulates its guests" } else { "" };
    Some(match paravirtual {
        Some(_) if is_one_choice => return None,
        Some(ranked) if is_one_leader => format!(
            "Use {}{here}: it is paravirtual, made for virtual machines, and the fastest measured.",
            ranked.choice
        ),
        Some(ranked) => format!(
            "Use {}{here}: it is paravirtual, made for virtual machines, and nothing measured is \
             surely faster.",
            ranked.choice
        ),
        None => format!(
            "{} {here_or_not} an emulated {device}; measure a paravirtual one ({paravirtual_ones}) too \
             before settling on it.",
            leaders.first().map_or("The first", |ranked| ranked.choice.as_str()),
            here_or_not =
                if emulated { "was the fastest here, and is" } else { "is the fastest, but" },
        ),
    })
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

#[cfg(test)]
mod tests {
    use vioperf_model::plan::Plan;
    use vioperf_model::scenario::{Changes, Variant};

    use crate::analyse;
    use crate::testing::{Synthetic, with_flat_rate};

    /// Opens the report of a run without a guest, each of whose variants has a link rate of its own.
    fn opening(variants: &[(&str, u32)], blocks: u32) -> Vec<String> {
        let Synthetic { mut run, .. } = Synthetic::calm_kvm();
        let variant = |(name, rate): &(&str, u32)| Variant {
            name: (*name).into(),
            testbed: Changes::of("rate", format!("{rate} bit/s")).unwrap(),
            guest: Changes::default(),
            workload: Changes::default(),
        };
        run.scenario.variants = variants.iter().map(variant).collect();
        run.scenario.factors.nic = Default::default();
        run.scenario.repeat.blocks = blocks;
        run.plan = Plan::new(&run.scenario, 1);
        let mut trials = Vec::new();
        for (block, cells) in (0..).zip(&run.plan.blocks) {
            for cell in cells.iter().map(|index| &run.plan.cells[*index]) {
                let name = cell.variant_name().unwrap_or_default();
                let rate = variants
                    .iter()
                    .find(|(known, _)| *known == name)
                    .map_or(1e8, |of| f64::from(of.1));
                let sequence = u32::try_from(trials.len()).unwrap();
                trials.push(with_flat_rate(
                    cell,
                    block,
                    sequence,
                    rate + f64::from(block % 3) * 1e5,
                ));
            }
        }
        analyse(&run, &trials).headline
    }

    #[test]
    fn without_a_guest_the_variants_open_the_report() {
        let said = opening(&[("slow", 100_000_000), ("fast", 200_000_000)], 10).join(" ");
        assert!(said.starts_with("fast against slow, on the host's own path: "), "{said}");
        let first = "baseline/1-stream/to-guest throughput +99.9 % (+100 to +100), better; ";
        assert!(said.contains(first) && said.ends_with("; and 1 more."), "{said}");
        let few = opening(&[("slow", 100_000_000), ("fast", 200_000_000)], 2).join(" ");
        assert!(few.contains("too few blocks"), "{few}");
    }

    #[test]
    fn without_a_guest_and_variants_it_is_said_what_this_is() {
        let said = opening(&[], 3).join(" ");
        assert!(said.contains("No NIC is among the factors"), "{said}");
    }
}
