//! What has to hold of any run.

use proptest::prelude::*;
use proptest::sample::Index;
use vioperf_model::plan::CellId;
use vioperf_model::record::{Outcome, RunInfo, TrialRecord};
use vioperf_model::sample::{DatagramOutcome, LatencyHistogram};
use vioperf_model::workload::WorkloadKind;

use crate::analyse;
use crate::result::Severity;
use crate::testing::{Synthetic, with_flat_rate};

/// Whether every float of `value` was finite: serde_json writes the others as null, so a null may
/// only stand where a field is optional. Checked by looking at the text of summaries.
fn assert_sound(run: &RunInfo, trials: &[TrialRecord]) {
    let analysis = analyse(run, trials);
    for cell in &analysis.cells {
        let metrics = [
            &cell.receiver_bits_per_second,
            &cell.sender_bits_per_second,
            &cell.percent_of_baseline,
            &cell.host.busy_percent_of_core,
            &cell.service_demand.host_us_per_kib,
            &cell.service_demand.guest_us_per_kib,
            &cell.retransmissions.per_million_segments_sent,
            &cell.bytes_per_packet.tap,
            cell.headline(),
        ];
        for metric in metrics {
            assert!(metric.summary.is_none_or(|summary| summary.mean.is_finite()));
            assert!(metric.values.iter().all(|trial| trial.value.is_finite()));
            assert!(!metric.values.is_empty() || !metric.absent.is_empty(), "{metric:?}");
        }
    }
    serde_json::to_string(&analysis).unwrap();
}

#[test]
fn the_numbers_of_a_known_run_come_out() {
    let Synthetic { run, trials } = Synthetic::calm_kvm();
    let analysis = analyse(&run, &trials);
    let cell = analysis.cells.iter().find(|cell| cell.id.0 == "virtio/1-stream/to-guest").unwrap();
    let near = |got: Option<f64>, want: f64, slack: f64| {
        let got = got.unwrap();
        assert!((got - want).abs() <= want * slack, "{got} is not {want}");
    };
    near(cell.receiver_bits_per_second.mean(), 25e9, 0.01);
    near(cell.percent_of_baseline.mean(), 100.0 * 25.0 / 36.0, 0.02);
    assert_eq!(cell.percent_of_baseline.summary.unwrap().n, 3);
    let qemu = cell.qemu.as_ref().unwrap();
    near(qemu.vcpu_percent_of_core.mean(), 50.0, 1e-6);
    near(qemu.total_percent_of_core.mean(), 90.0, 1e-6);
    near(cell.guest.as_ref().unwrap().busy_percent_of_core.mean(), 60.0, 0.03);
    // 60 % of a core for 25 Gbit/s: 0.6e6 µs for 25e9 / 8 / 1024 KiB.
    near(cell.service_demand.guest_us_per_kib.mean(), 0.6e6 / (25e9 / 8.0 / 1024.0), 0.04);
    near(cell.bytes_per_packet.sender.mean(), 60_000.0, 1e-3);
    near(cell.bytes_per_packet.tap.mean(), 30_000.0, 1e-3);
    near(cell.bytes_per_packet.receiver.mean(), 1_500.0, 1e-3);
    near(cell.retransmissions.segments.mean(), 20.0, 1e-9);
    assert_eq!(analysis.ranking[0].path, "virtio");
    assert!(analysis.headline[0].starts_with("virtio keeps 69."), "{:?}", analysis.headline);
    assert_eq!(analysis.notice, None);
}

#[test]
fn what_cannot_be_told_apart_is_said_to_be_so() {
    let Synthetic { run, trials } = Synthetic::tcg();
    let analysis = analyse(&run, &trials);
    let headline = analysis.headline.join(" ");
    assert!(headline.contains("cannot be told apart"), "{headline}");
    assert!(headline.contains("under KVM"), "{headline}");
    assert!(analysis.notice.unwrap().starts_with("Software emulation"));
    let void = analysis.findings.iter().find(|f| f.rule == "void-trials").unwrap();
    assert_eq!((void.severity, void.cells.len()), (Severity::Warning, 1));
}

#[test]
fn one_block_is_told_but_not_advised_by() {
    let Synthetic { run, mut trials } = Synthetic::calm_kvm();
    trials.retain(|trial| trial.block == 0);
    let headline = analyse(&run, &trials).headline.join(" ");
    assert!(headline.starts_with("Seen once"), "{headline}");
    assert!(headline.contains("virtio 6") && !headline.contains("Use "), "{headline}");
}

#[test]
fn a_run_without_trials_says_that_there_is_nothing() {
    let Synthetic { run, .. } = Synthetic::calm_kvm();
    let analysis = analyse(&run, &[]);
    assert!(analysis.headline[0].contains("nothing to compare"));
    assert!(analysis.findings.iter().any(|finding| finding.rule == "never-measured"));
    assert_sound(&run, &[]);
}

#[test]
fn a_baseline_beside_itself_is_100_percent() {
    let Synthetic { run, .. } = Synthetic::calm_kvm();
    let (cell, base) = run
        .plan
        .cells
        .iter()
        .find_map(|cell| Some((cell, run.plan.cell(cell.baseline.as_ref()?)?)))
        .unwrap();
    let trials: Vec<TrialRecord> = (0..3)
        .flat_map(|block| {
            let rate = 1e9 * f64::from(block + 1);
            [
                with_flat_rate(cell, block, 2 * block, rate),
                with_flat_rate(base, block, 2 * block + 1, rate),
            ]
        })
        .collect();
    let analysis = analyse(&run, &trials);
    let found = analysis.cells.iter().find(|found| found.id == cell.id).unwrap();
    let summary = found.percent_of_baseline.summary.unwrap();
    assert!((summary.mean - 100.0).abs() < 1e-6);
    assert!(summary.half_width().unwrap() < 1e-6);
}

#[test]
fn a_pair_needs_one_block() {
    let Synthetic { run, mut trials } = Synthetic::calm_kvm();
    trials.retain(|trial| trial.cell.0.starts_with("baseline") == (trial.block == 0));
    let analysis = analyse(&run, &trials);
    let cell = analysis.cells.iter().find(|cell| !cell.is_baseline).unwrap();
    assert_eq!(cell.percent_of_baseline.reason(), Some("no baseline in the same block"));
    assert!(cell.receiver_bits_per_second.summary.is_some());
}

/// Damages one thing in one trial.
fn damage(trial: &mut TrialRecord, what: u8, party: &Index, value: u64) {
    let number = party.index(trial.parties.len().max(1));
    let Some(party) = trial.parties.get_mut(number) else { return };
    let samples = &mut party.report.samples;
    match what {
        0 => samples.clear(),
        1 => samples.reverse(),
        2 => samples.iter_mut().for_each(|sample| sample.monotonic_ns = value),
        3 => samples.iter_mut().filter_map(|s| s.load.as_mut()).for_each(|l| l.bytes = value),
        4 => samples.iter_mut().for_each(|sample| sample.cores = Some(Vec::new())),
        5 => samples.iter_mut().for_each(|sample| sample.threads = Some(Vec::new())),
        6 => party.report.ticks_per_second = 0,
        7 => party.clock.offset_ns = i64::MIN,
        8 => party.clock.error_ns = u64::MAX,
        9 => party.report.node_cpu_ns = u64::MAX,
        10 => trial.timeline = None,
        11 => {
            if let Some(timeline) = &mut trial.timeline {
                (timeline.measured_from_ns, timeline.measured_until_ns) = (value, 0);
            }
        }
        12 => trial.cell = CellId(format!("unknown-{value}")),
        13 => (trial.block, trial.sequence) = (u32::MAX, u32::MAX),
        14 => {
            trial.outcome =
                Outcome::Void { reason: String::new(), console_tail: vec![], never_ready: false }
        }
        15 => {
            if let Some(last) = samples.last_mut() {
                last.monotonic_ns = u64::MAX;
            }
        }
        16 => {
            for (sample, at) in samples.iter_mut().zip(0u64..) {
                for core in sample.cores.iter_mut().flatten() {
                    (core.core, core.user, core.guest) = (7, u64::MAX - at, u64::MAX);
                }
            }
        }
        17 => {
            for load in samples.iter_mut().filter_map(|sample| sample.load.as_mut()) {
                (load.datagrams, load.transactions) = (Some(value), None);
            }
        }
        18 => {
            let load = party.report.load.get_or_insert_default();
            (load.timeouts, load.socket_drops) = (Some(value), Some(u64::MAX));
            load.datagrams = Some(DatagramOutcome {
                received: value,
                lost: u64::MAX,
                jitter_ns: u64::MAX,
                ..DatagramOutcome::default()
            });
            load.latency = Some(LatencyHistogram {
                buckets: vec![[u64::MAX, value], [value, u64::MAX], [0, 0]],
                minimum_ns: u64::MAX,
                maximum_ns: value,
                sum_ns: u64::MAX,
            });
        }
        _ => {
            trial.parties.remove(number);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn damaged_records_never_panic(
        damages in prop::collection::vec((any::<Index>(), 0u8..20, any::<Index>(), any::<u64>()), 1..60),
        kind in any::<Index>(),
    ) {
        let kinds = [WorkloadKind::TcpStream, WorkloadKind::UdpStream, WorkloadKind::PacketRate,
            WorkloadKind::RequestResponse, WorkloadKind::RateSearch];
        let Synthetic { run, mut trials } = Synthetic::of_kind(*kind.get(&kinds));
        for (trial, what, party, value) in &damages {
            let number = trial.index(trials.len());
            damage(&mut trials[number], *what, party, *value);
        }
        assert_sound(&run, &trials);
    }

    #[test]
    fn almost_a_record_never_panics(edits in vioperf_model::testing::edits(), of_run: bool) {
        let Synthetic { mut run, trials } = Synthetic::tcg();
        let mut read = Vec::new();
        if of_run {
            let text = serde_json::to_vec(&run).unwrap();
            let damaged = vioperf_model::testing::mutated(&text, &edits);
            if let Ok(damaged) = serde_json::from_slice(&damaged) {
                run = damaged;
            }
        }
        for trial in &trials {
            let text = serde_json::to_vec(trial).unwrap();
            let damaged = vioperf_model::testing::mutated(&text, &edits);
            read.extend(serde_json::from_slice::<TrialRecord>(&damaged).ok());
        }
        analyse(&run, &read);
    }

    #[test]
    fn the_order_of_trials_does_not_matter(rotate in any::<Index>()) {
        let Synthetic { run, trials } = Synthetic::tcg();
        let mut turned = trials.clone();
        turned.rotate_left(rotate.index(trials.len()));
        turned.reverse();
        prop_assert_eq!(analyse(&run, &turned), analyse(&run, &trials));
    }

    #[test]
    fn twice_the_bytes_are_twice_the_throughput(factor in 1u64..1000) {
        let Synthetic { run, trials } = Synthetic::calm_kvm();
        let mut scaled = trials.clone();
        for sample in scaled.iter_mut().flat_map(|t| &mut t.parties).flat_map(|p| &mut p.report.samples) {
            if let Some(load) = &mut sample.load {
                load.bytes *= factor;
            }
        }
        let (before, after) = (analyse(&run, &trials), analyse(&run, &scaled));
        for (before, after) in before.cells.iter().zip(&after.cells) {
            let want = before.receiver_bits_per_second.mean().unwrap() * factor as f64;
            let got = after.receiver_bits_per_second.mean().unwrap();
            prop_assert!((got / want - 1.0).abs() < 1e-9);
            let percents = (before.percent_of_baseline.mean(), after.percent_of_baseline.mean());
            if let (Some(before), Some(after)) = percents {
                prop_assert!((after / before - 1.0).abs() < 1e-9);
            }
        }
    }
}
