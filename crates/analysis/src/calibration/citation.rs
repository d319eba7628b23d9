//! What a report says of a calibration.

use std::fmt::Write as _;

use vioperf_model::calibration::{
    Area, Calibration, CalibrationCitation, Check, CheckUnit, NoiseFloor,
};

use crate::wording::three_digits;

/// What a run keeps of the calibration that it was measured under.
pub fn cite(calibration: &Calibration) -> CalibrationCitation {
    let mut worst: Vec<Check> = Vec::new();
    for check in &calibration.checks {
        match worst.iter_mut().find(|other| other.area == check.area) {
            Some(other) if misses(check) > misses(other) => *other = check.clone(),
            Some(_) => {}
            None => worst.push(check.clone()),
        }
    }
    // Every trial's reading stays in the calibration itself.
    worst.iter_mut().for_each(|check| check.trials.clear());
    CalibrationCitation {
        made_at: calibration.made_at.clone(),
        quick: calibration.quick,
        checks: calibration.checks.len(),
        worst,
        failed: failed(&calibration.checks),
        noise_floor: calibration.noise_floor.clone(),
    }
}

/// What did not read right.
pub fn failed(checks: &[Check]) -> Vec<String> {
    let name = |check: &Check| format!("{} {}", check.area, check.what);
    checks.iter().filter(|check| !check.passed).map(name).collect()
}

/// How far a reading is from the truth, as a part of what is allowed to that side; an exact one is
/// nothing, where nothing is allowed any error is beyond all.
fn misses(check: &Check) -> f64 {
    let error = check.error();
    let room = if error < 0.0 {
        check.truth - check.allowed_low
    } else {
        check.allowed_high - check.truth
    };
    if error == 0.0 { 0.0 } else { error.abs() / room.max(0.0) }
}

/// One sentence (`calibrated on 2026-11-22: rate within 0.31 %, counts exact, …`).
pub fn sentence(citation: &CalibrationCitation) -> String {
    let day = citation.made_at.split('T').next().unwrap_or_default();
    let how = if citation.quick { ", the quick way" } else { "" };
    let mut text = format!("calibrated here on {day}{how}: ");
    let parts: Vec<String> = citation.worst.iter().map(part).collect();
    text.push_str(&parts.join(", "));
    if !citation.failed.is_empty() {
        // Writing to a string does not fail.
        let _ = write!(text, "; read wrong: {}", citation.failed.join(", "));
    }
    text
}

/// What a comparison can show at all on this machine (`5 trials against 5 show 2.1 % of TCP payload`).
pub fn smallest_effects(floor: &NoiseFloor) -> String {
    let effects = [
        ("TCP payload", floor.throughput),
        ("latency p50", floor.latency_p50_us),
        ("latency p99", floor.latency_p99_us),
    ];
    let said = effects.into_iter().filter_map(|(name, scatter)| {
        let scatter = scatter?;
        let percent = scatter.percent(scatter.smallest_effect_of_5)?;
        Some(format!("{} % of {name}", three_digits(percent)))
    });
    let said: Vec<String> = said.collect();
    if said.is_empty() {
        return String::new();
    }
    format!("on the host's own path 5 trials against 5 show {} and more", said.join(", "))
}

fn part(check: &Check) -> String {
    let error = check.error().abs();
    let amount = match (check.area, check.unit) {
        (_, _) if error == 0.0 => return format!("{} exact", check.area),
        (Area::Loss, _) if check.passed => return "loss within its interval".into(),
        (Area::Rate, _) => {
            format!("{} %", three_digits(check.error_percent().unwrap_or(0.0).abs()))
        }
        (_, CheckUnit::Microseconds) => format!("{} µs", three_digits(error)),
        (_, CheckUnit::PercentOfCore) => format!("{} % of a core", three_digits(error)),
        (_, CheckUnit::Packets) => format!("{error:.0} packets"),
        (_, CheckUnit::BitsPerSecond) => crate::wording::rate(error),
    };
    format!("{} within {amount}", check.area)
}

#[cfg(test)]
mod tests {
    use vioperf_model::calibration::{CALIBRATION_SCHEMA_VERSION, CalibratedMachine, NoiseFloor};

    use super::super::{Allowed, check};
    use super::*;

    fn calibration() -> Calibration {
        let of = |area, unit, truth, reading, allowed| {
            check(area, "x", unit, truth, &[reading], allowed).unwrap()
        };
        let rate = |reading| {
            let allowed = Allowed::within_percent(100e6, 1.0);
            of(Area::Rate, CheckUnit::BitsPerSecond, 100e6, reading, allowed)
        };
        let exactly = Allowed::exactly(4000.0);
        let checks = vec![
            rate(100.1e6),
            rate(99.5e6),
            of(Area::Counts, CheckUnit::Packets, 4000.0, 4000.0, exactly),
            of(Area::Loss, CheckUnit::Packets, 200.0, 210.0, Allowed::between((160.0, 240.0))),
            of(Area::Delay, CheckUnit::Microseconds, 1000.0, 1012.0, Allowed::within(1000.0, 50.0)),
            of(Area::Cpu, CheckUnit::PercentOfCore, 30.0, 33.0, Allowed::within(30.0, 2.0)),
        ];
        Calibration {
            schema_version: CALIBRATION_SCHEMA_VERSION,
            made_at: "2026-11-22T04:00:00.000Z".into(),
            quick: false,
            machine: CalibratedMachine {
                vioperf_version: "1".into(),
                kernel_release: "6".into(),
                cpu_model: "A CPU".into(),
                cores: 2,
                qemu_version: None,
                emulated: None,
            },
            checks,
            left_out: Vec::new(),
            noise_floor: NoiseFloor::default(),
        }
    }

    #[test]
    fn the_worst_of_each_area_is_cited_and_what_failed_is_named() {
        let citation = cite(&calibration());
        assert_eq!((citation.checks, citation.worst.len()), (6, 5));
        assert_eq!(
            sentence(&citation),
            "calibrated here on 2026-11-22: rate within 0.500 %, counts exact, loss within its \
             interval, delay within 12.0 µs, cpu within 3.00 % of a core; read wrong: cpu x"
        );
    }

    #[test]
    fn a_count_that_is_wrong_is_worse_than_any_rate_within_its_bounds() {
        let exactly = Allowed::exactly(10.0);
        let off = check(Area::Counts, "x", CheckUnit::Packets, 10.0, &[9.0], exactly).unwrap();
        assert!(misses(&off).is_infinite() && !off.passed);
    }
}
