//! Searches on simulated paths, of which the truth is known.

use vioperf_model::levels::Levels;
use vioperf_model::record::{Probe, SearchRecord};
use vioperf_model::units::{Ratio, TimeSpan};
use vioperf_model::workload;

use super::next::whole;
use super::{End, Proved, Search, proved};

/// A path, and who sends on it: for a rate and a time, how many are sent and how many of them lost.
struct Path<F> {
    /// Datagrams a second that the sender can send at most.
    sender: u64,
    /// The part of what is sent at a rate that is lost, in the probe of this number.
    loss: F,
}

fn searched(
    config: &workload::Search,
    path: &Path<impl Fn(f64, usize) -> f64>,
) -> (Vec<Proved>, SearchRecord) {
    let arrives = |per_second: f64, number: usize| {
        per_second * (1.0 - (path.loss)(per_second, number).clamp(0.0, 1.0))
    };
    let unpaced = arrives(path.sender as f64, 0);
    let mut search = Search::new(config, path.sender, whole(unpaced));
    while let Some(ask) = search.ask() {
        let number = search.record().probes.len();
        assert!(number < 200, "no end in sight: {:?}", search.so_far());
        let milliseconds = ask.seconds * 1e3;
        assert!((milliseconds - milliseconds.round()).abs() < 1e-6, "{milliseconds} ms");
        let due = (ask.per_second as f64 * ask.seconds).round();
        let sent = due.min(path.sender as f64 * ask.seconds);
        let received = (arrives(sent / ask.seconds, number) * ask.seconds + 1e-6).floor();
        search.note(Probe {
            asked_per_second: Some(ask.per_second),
            asked_ns: whole(ask.seconds * 1e9),
            began_after_ns: 0,
            took_ns: whole(ask.seconds * 1e9),
            sent: whole(sent.floor()),
            not_sent: whole((due - sent).floor()),
            received: whole(received),
            socket_drops: None,
        });
    }
    (proved(config, search.record()), search.record().clone())
}

fn config(width: u64) -> workload::Search {
    workload::Search { width: Ratio::from_ppm(width), ..workload::Search::default() }
}

fn lower(outcome: &Proved) -> f64 {
    outcome.bounds.lower.unwrap().per_second as f64
}

fn upper(outcome: &Proved) -> f64 {
    outcome.bounds.upper.unwrap().per_second as f64
}

/// A path that carries so many a second and loses what is more.
fn limit(limit: f64) -> impl Fn(f64, usize) -> f64 {
    move |rate, _| 1.0 - limit / rate.max(limit)
}

#[test]
fn a_deterministic_limit_is_between_the_bounds() {
    for (at, width) in
        [(14_880.0, 10_000), (1_234_567.0, 2_000), (31_000.0, 50_000), (999.0, 5_000)]
    {
        let config = config(width);
        let (found, record) = searched(&config, &Path { sender: 2_000_000, loss: limit(at) });
        if at < record.min_rate as f64 {
            assert!(found.iter().all(|outcome| matches!(outcome.end, End::LosesAtMinRate { .. })));
            continue;
        }
        let [ndr, pdr] = &found[..] else { panic!("{found:?}") };
        assert_eq!((ndr.end, pdr.end), (End::Reached, End::Reached));
        for (outcome, truth) in [(ndr, at), (pdr, at / 0.995)] {
            let (lower, upper) = (lower(outcome), upper(outcome));
            assert!(lower <= truth && truth <= upper, "{lower} {truth} {upper}");
            assert!(upper - lower <= width as f64 / 1e6 * upper);
            let throughput = outcome.bounds.lower.unwrap().throughput_per_second;
            assert!(throughput <= at && throughput >= lower * 0.995);
        }
        // Bisection at full length alone would take three times as long.
        let seconds: f64 = record.probes.iter().map(|probe| probe.asked_ns as f64 / 1e9).sum();
        assert!(seconds < 25.0, "{seconds} s in {} probes", record.probes.len());
    }
}

#[test]
fn rare_noise_does_not_move_the_bounds() {
    // Every seventh probe loses 3 % for no reason that the rate gives.
    let noisy = |rate: f64, number: usize| {
        let noise = if number % 7 == 3 { 0.03 } else { 0.0 };
        noise + limit(50_000.0)(rate, number)
    };
    let (found, _) = searched(&config(10_000), &Path { sender: 400_000, loss: noisy });
    for outcome in &found {
        assert_eq!(outcome.end, End::Reached);
        let error = lower(outcome) / 50_000.0 - 1.0;
        assert!((-0.03..=0.006).contains(&error), "{outcome:?}");
    }
}

#[test]
fn a_path_that_loses_at_the_lowest_rate_is_refused_and_its_loss_told() {
    // One in a hundred, at every rate.
    let lossy = |rate: f64, number: usize| 0.01_f64.max(limit(60_000.0)(rate, number));
    let goals = [0, 5_000, 50_000].map(Ratio::from_ppm).to_vec();
    let config = workload::Search { loss_goals: Levels::from(goals), ..config(20_000) };
    let (found, record) = searched(&config, &Path { sender: 300_000, loss: lossy });
    let [ndr, pdr, tolerant] = &found[..] else { panic!("{found:?}") };
    for outcome in [ndr, pdr] {
        let End::LosesAtMinRate { loss_ratio } = outcome.end else { panic!("{outcome:?}") };
        assert!((loss_ratio - 0.01).abs() < 1e-3);
        assert_eq!(outcome.bounds.lower, None);
    }
    assert_eq!(tolerant.end, End::Reached);
    let truth = 60_000.0 / 0.95;
    assert!(lower(tolerant) <= truth && truth <= upper(tolerant), "{tolerant:?}");
    // What cannot be found is not looked for at every rate.
    assert!(record.probes.len() < 40, "{}", record.probes.len());
}

#[test]
fn where_nothing_is_lost_the_sender_is_the_limit_and_it_is_said() {
    let (found, record) = searched(&config(10_000), &Path { sender: 70_000, loss: |_, _| 0.0 });
    assert!(found.iter().all(|outcome| outcome.end == End::MaxRate && lower(outcome) == 70_000.0));
    assert!(record.probes.len() < 12);
    // More is asked for than the sender can.
    let config = workload::Search { max_rate: Some(100_000), ..config(10_000) };
    let (found, _) = searched(&config, &Path { sender: 70_000, loss: |_, _| 0.0 });
    for outcome in &found {
        assert_eq!(outcome.end, End::SenderIsTheLimit);
        // Leaving out one in a hundred is still sending at that rate.
        assert!((69_000.0..=70_710.0).contains(&lower(outcome)), "{outcome:?}");
    }
}

#[test]
fn a_hole_below_what_is_good_bounds_it() {
    // A path that loses between 20 000 and 25 000 a second, and then again from 60 000.
    let hole = |rate: f64, number: usize| {
        if (20_000.0..25_000.0).contains(&rate) { 0.2 } else { limit(60_000.0)(rate, number) }
    };
    let (found, record) = searched(&config(10_000), &Path { sender: 90_000, loss: hole });
    let hit =
        |probe: &Probe| probe.asked_per_second.is_some_and(|rate| (20_000..25_000).contains(&rate));
    let sees_hole = record.probes.iter().any(hit);
    for outcome in &found {
        assert_eq!(outcome.end, End::Reached);
        assert_eq!(lower(outcome) < 20_000.0, sees_hole, "{outcome:?}");
    }
    // A path that, once overloaded, loses for the next two probes whatever they are: no wrong bound
    // that is good, only a lower one.
    let overloaded = std::cell::Cell::new(0_usize);
    let sulking = |rate: f64, number: usize| {
        let loss = limit(40_000.0)(rate, number);
        if loss > 0.05 {
            overloaded.set(number + 2);
            return loss;
        }
        if number > 0 && number <= overloaded.get() { 0.1 } else { loss }
    };
    let (found, _) = searched(&config(10_000), &Path { sender: 90_000, loss: sulking });
    for outcome in &found {
        assert!(outcome.bounds.lower.is_none_or(|lower| lower.per_second <= 40_201), "{outcome:?}");
    }
}

#[test]
fn any_path_is_searched_in_bounded_time() {
    // Losses as they come, from Knuth's MMIX generator.
    for seed in 1..200_u64 {
        let loss = |rate: f64, number: usize| {
            let mixed = (seed * 7_919 + number as u64)
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let chance = (mixed >> 33) as f64 / f64::from(1 << 31);
            if chance < rate / 100_000.0 { chance / 10.0 } else { 0.0 }
        };
        let (found, _) = searched(&config(10_000), &Path { sender: 100_000, loss });
        for outcome in &found {
            assert_ne!(outcome.end, End::OutOfTime, "seed {seed}: {outcome:?}");
        }
    }
}

#[test]
fn without_shorter_probes_there_is_one_stage_and_full_length_decides() {
    let config = workload::Search {
        first_probe_duration: TimeSpan::from_millis(1_000),
        probe_time: TimeSpan::from_millis(1_000),
        exceed_ratio: Ratio::from_ppm(0),
        ..config(10_000)
    };
    let (found, record) = searched(&config, &Path { sender: 80_000, loss: limit(33_333.0) });
    assert!(record.probes.iter().all(|probe| probe.asked_ns == 1_000_000_000));
    assert!(found.iter().all(|outcome| outcome.end == End::Reached));
}
