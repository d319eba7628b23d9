use vioperf_model::plan::Cell;
use vioperf_model::reference::Reference;

use super::{Agreement, BesideReference, beside, of_run};
use crate::analyse;
use crate::result::RunAnalysis;
use crate::testing::{Synthetic, with_flat_rate};

const BRIDGE: &str = include_str!("../../../../references/kvm-bridge-2011.json");

/// A run with three blocks in which cells have these rates.
fn run_with(rate: impl Fn(&Cell) -> f64) -> RunAnalysis {
    let run = Synthetic::calm_kvm().run;
    let mut trials = Vec::new();
    for block in 0..3 {
        for cell in &run.plan.cells {
            // A little scatter, the same for all cells of a block but for a bit.
            let own = cell.id.0.len() as f64 / 1e5;
            let scattered =
                rate(cell) * (1.0 + f64::from(block) / 500.0 + own * f64::from(block % 2));
            let sequence = u32::try_from(trials.len()).unwrap();
            trials.push(with_flat_rate(cell, block, sequence, scattered));
        }
    }
    analyse(&run, &trials)
}

/// Rates of which each model keeps such a part of the baseline's.
fn kept(virtio: f64, rtl8139: f64) -> RunAnalysis {
    run_with(|cell| match cell.nic.map(|nic| nic.name()) {
        Some("virtio") => 1e10 * virtio,
        Some("rtl8139") => 1e10 * rtl8139,
        Some(_) => 1e9,
        None => 1e10,
    })
}

fn beside_bridge(analysis: &RunAnalysis) -> BesideReference {
    beside(analysis, &Reference::parse(BRIDGE).unwrap())
}

#[test]
fn a_figure_stands_beside_the_cells_of_its_setting_alone() {
    let found = beside_bridge(&kept(0.75, 0.2));
    // Of those from another machine, with 1 and 4 streams, to the guest and (as told) from it.
    let of = |id: &str| {
        let figures = found.figures.iter().filter(|figure| figure.figure == id);
        figures.map(|figure| (figure.cell.0.as_str(), figure)).collect::<Vec<_>>()
    };
    let virtio = of("kvm-bridge-2011-003");
    assert!(virtio.iter().all(|(cell, _)| cell.starts_with("virtio/1-stream")), "{virtio:?}");
    let (_, to_guest) = virtio.iter().find(|(cell, _)| cell.ends_with("to-guest")).unwrap();
    assert!((to_guest.published_percent - 74.98).abs() < 0.01, "{to_guest:?}");
    assert!((to_guest.own_percent.mean - 75.0).abs() < 0.5);
    assert_eq!(to_guest.agreement, Agreement::Agrees);
    assert_eq!(to_guest.divided_by, "baseline");
    let repetitions: Vec<f64> =
        to_guest.published_percents.iter().map(|percent| (percent * 10.0).round() / 10.0).collect();
    assert_eq!(repetitions, [75.2, 74.7, 75.1]);
    assert_eq!(to_guest.own_percents.len(), 3);
    assert!(to_guest.otherwise.iter().all(|said| said.starts_with("socket_buffer")));
    let (_, from_guest) = virtio.iter().find(|(cell, _)| cell.ends_with("from-guest")).unwrap();
    assert!(from_guest.otherwise.contains(&"direction from-guest (there to-guest)".to_owned()));
    let (_, rtl8139) = of("kvm-bridge-2011-011")[0];
    assert_eq!(rtl8139.agreement, Agreement::Differs);
    // From the host nothing was measured here.
    assert_eq!(of("kvm-bridge-2011-009"), []);
    assert!(found.not_compared["no cell of this run has its setting"] >= 6);
    let told: u32 = found.not_compared.values().sum();
    let mut compared: Vec<&String> = found.figures.iter().map(|figure| &figure.figure).collect();
    compared.dedup();
    assert_eq!(compared.len() + usize::try_from(told).unwrap(), 17);
}

#[test]
fn a_ranking_agrees_differs_or_cannot_be_told() {
    let by_nic = |analysis: &RunAnalysis| {
        let mut found = beside_bridge(analysis).rankings;
        found.retain(|ranking| ranking.factor == "nic");
        assert_eq!(found.len(), 4, "1 and 4 streams, both ways");
        found.remove(0)
    };
    let agrees = by_nic(&kept(0.75, 0.2));
    assert_eq!(agrees.agreement, Agreement::Agrees);
    let levels: Vec<&str> = agrees.published.iter().map(|one| one.level.as_str()).collect();
    assert_eq!(levels[..2], ["virtio", "rtl8139"]);
    assert_eq!(agrees.own[0].level, "virtio");
    let differs = by_nic(&kept(0.3, 0.75));
    assert_eq!(differs.agreement, Agreement::Differs);
    let pair = &differs.reversed[0];
    assert!(pair.better_there.0.starts_with("virtio") && pair.better_here.0.starts_with("rtl8139"));
    assert!((pair.own_percent.mean - 40.0).abs() < 1.0, "{pair:?}");
    let mut emulated = kept(0.3, 0.75);
    let rule = |analysis: &RunAnalysis| {
        by_nic(analysis).reversed[0].why.iter().any(|why| why.rule == "software-emulation")
    };
    assert!(!rule(&emulated));
    emulated.run.hypervisor.as_mut().unwrap().emulated = true;
    emulated.findings = analyse(&emulated.run, &[]).findings;
    assert!(rule(&emulated), "{:?}", emulated.findings);
    // Two that are the same are held against nobody.
    let equal = by_nic(&kept(0.5, 0.5));
    assert_ne!(equal.agreement, Agreement::Differs);
    assert!(equal.not_told > 0);
    let untold = &equal.untold[0];
    assert!(untold.better_there.0.starts_with("virtio"), "{untold:?}");
    assert!(untold.other.0.starts_with("rtl8139"));
    assert!((untold.own_percent.unwrap().mean - 100.0).abs() < 1.0);
    assert!(agrees.untold.is_empty(), "{:?}", agrees.untold);
}

#[test]
fn a_run_kept_as_a_reference_agrees_with_itself() {
    let analysis = kept(0.75, 0.2);
    let mine = of_run(&analysis, "mine", None);
    let again = Reference::parse(&serde_json::to_string(&mine).unwrap()).unwrap();
    assert_eq!(again, mine);
    let found = beside(&analysis, &mine);
    let guests = analysis.cells.iter().filter(|cell| !cell.is_baseline).count();
    assert_eq!(found.figures.len(), guests);
    assert!(found.figures.iter().all(|figure| figure.agreement == Agreement::Agrees));
    assert!(found.rankings.iter().all(|ranking| ranking.reversed.is_empty()));
    assert!(found.rankings.iter().any(|ranking| ranking.factor == "nic"));
    assert!(found.impossible.is_empty());
}

#[test]
fn what_cannot_be_is_neither_compared_nor_ranked() {
    let mut reference = Reference::parse(BRIDGE).unwrap();
    let wrong = reference.figures.iter_mut().find(|figure| figure.id.ends_with("-003")).unwrap();
    wrong.values[1] = serde_json::Number::from_f64(-392.87);
    let found = beside(&kept(0.75, 0.2), &reference);
    assert!(found.figures.iter().all(|figure| figure.figure != "kvm-bridge-2011-003"));
    assert_eq!(found.not_compared["a time of zero, or a number below it, that cannot be"], 1);
    let mut ranked = found.rankings.iter().flat_map(|ranking| &ranking.published);
    assert!(ranked.all(|figure| figure.figure != "kvm-bridge-2011-003"));
}

#[test]
fn two_figures_of_one_cell_are_not_ranked_against_each_other() {
    let mut reference = Reference::parse(BRIDGE).unwrap();
    let mut again = reference.figure("kvm-bridge-2011-003").unwrap().clone();
    again.id = "again".into();
    again.values = vec![Some(100.into())];
    reference.figures.push(again);
    for ranking in beside(&kept(0.75, 0.2), &reference).rankings {
        let pairs = ranking.reversed.iter().map(|pair| (&pair.better_there, &pair.better_here));
        let untold = ranking.untold.iter().map(|pair| (&pair.better_there, &pair.other));
        assert!(pairs.chain(untold).all(|(one, other)| one != other), "{ranking:?}");
    }
}

#[test]
fn a_figure_of_another_metric_is_divided_by_it_in_the_same_cell() {
    let mut reference = Reference::parse(BRIDGE).unwrap();
    let id = "kvm-bridge-2011-003";
    let mut peak = reference.figure(id).unwrap().clone();
    peak.id = "peak".into();
    peak.metric = Some("peak_bits_per_second".into());
    peak.divided_by = vec![id.into()];
    peak.values = vec![Some(750.into())];
    reference.figures.push(peak);
    let found = beside(&kept(0.75, 0.2), &reference);
    let peaks: Vec<_> = found.figures.iter().filter(|figure| figure.figure == "peak").collect();
    assert!(!peaks.is_empty());
    for peak in peaks {
        assert_eq!(peak.divided_by, "its receiver_bits_per_second");
        assert!((peak.published_percent - 109.3).abs() < 0.1, "{peak:?}");
        // A rate that never moves has the peak that its mean is.
        assert!((peak.own_percent.mean - 100.0).abs() < 2.0, "{peak:?}");
    }
}

#[test]
fn groups_of_a_factor_are_told_apart_by_what_this_run_varies_beside() {
    let found = beside_bridge(&kept(0.75, 0.2));
    let by_nic = found.rankings.iter().filter(|ranking| ranking.factor == "nic");
    let common: Vec<&str> = by_nic.map(|ranking| ranking.common.as_str()).collect();
    let distinct: std::collections::BTreeSet<&&str> = common.iter().collect();
    assert_eq!(distinct.len(), common.len(), "{common:?}");
    assert!(common.iter().any(|common| common.contains("direction from-guest")), "{common:?}");
}
