//! A calibration for people: one table of truth, reading and error, and the noise floor.

use vioperf_analysis::calibration::failed;
use vioperf_analysis::wording::{count, rate, three_digits};
use vioperf_model::calibration::{Calibration, Check, CheckUnit, NoiseFloor, Scatter};

use super::QUIET_PERCENT_OF_CORE;
use crate::report::table::{self, Column, number, text};

const COLUMNS: [Column; 6] = [
    text("What is known"),
    number("truth"),
    number("reading"),
    number("error"),
    number("allowed"),
    text(""),
];

/// For a terminal.
pub fn terminal(calibration: &Calibration) -> String {
    let rows: Vec<Vec<String>> = calibration.checks.iter().map(row).collect();
    let (head, body) = table::lines(&COLUMNS, &rows);
    let mut lines: Vec<String> = head.into_iter().chain(body).collect();
    lines.push(String::new());
    lines.push("Noise floor: what is read where nothing changes".into());
    lines.extend(noise(&calibration.noise_floor).into_iter().map(|line| format!("  {line}")));
    if !calibration.left_out.is_empty() {
        lines.push(String::new());
        lines.push("Left out".into());
        let said = calibration.left_out.iter().map(|out| format!("  {}: {}", out.what, out.reason));
        lines.extend(said);
    }
    lines.push(String::new());
    lines.push(verdict(calibration));
    lines.join("\n") + "\n"
}

/// For a pull request.
pub fn markdown(calibration: &Calibration) -> String {
    let machine = &calibration.machine;
    let mut lines = vec![
        format!(
            "Calibrated {} with vioperf {} on {}, {}, kernel {}{}.",
            calibration.made_at,
            machine.vioperf_version,
            machine.cpu_model,
            count(machine.cores as usize, "core"),
            machine.kernel_release,
            machine.qemu_version.as_ref().map(|qemu| format!(", {qemu}")).unwrap_or_default(),
        ),
        String::new(),
        "| what is known | truth | reading | error | allowed | |".into(),
        "| --- | ---: | ---: | ---: | ---: | --- |".into(),
    ];
    let escaped = |cells: Vec<String>| cells.join(" | ").replace('\n', " ");
    let rows = calibration.checks.iter().map(|check| format!("| {} |", escaped(row(check))));
    lines.extend(rows);
    lines.push(String::new());
    lines.extend(noise(&calibration.noise_floor).into_iter().map(|line| format!("- {line}")));
    let left_out = calibration.left_out.iter();
    lines.extend(left_out.map(|out| format!("- left out: {}: {}", out.what, out.reason)));
    lines.push(String::new());
    lines.push(verdict(calibration));
    lines.join("\n") + "\n"
}

fn verdict(calibration: &Calibration) -> String {
    let wrong = failed(&calibration.checks);
    let all = count(calibration.checks.len(), "reading");
    let mut text = match wrong.len() {
        0 => format!("{all}, every one within what is allowed."),
        n => format!("{n} of {all} beyond what is allowed: {}.", wrong.join("; ")),
    };
    let idle = calibration.noise_floor.idle_busy_percent_of_core.map_or(0.0, |idle| idle.mean);
    if idle > QUIET_PERCENT_OF_CORE {
        text.push_str(&format!(
            "\nOther programs kept {idle:.0} % of a core busy meanwhile, which this machine's readings \
             suffer from: repeat it when the machine is quiet."
        ));
    }
    text
}

fn row(check: &Check) -> Vec<String> {
    let value = |value: f64| quantity(value, check.unit);
    vec![
        format!("{}: {}", check.area, check.what),
        value(check.truth),
        value(check.reading),
        error(check),
        allowed(check),
        if check.passed { "ok" } else { "WRONG" }.into(),
    ]
}

fn quantity(value: f64, unit: CheckUnit) -> String {
    match unit {
        // A digit more than elsewhere: a hundredth is what is at stake.
        CheckUnit::BitsPerSecond if value >= 1e9 => format!("{:.4} Gbit/s", value / 1e9),
        CheckUnit::BitsPerSecond => format!("{:.3} Mbit/s", value / 1e6),
        CheckUnit::Packets => format!("{value:.0}"),
        CheckUnit::Microseconds => format!("{value:.1} µs"),
        CheckUnit::PercentOfCore => format!("{value:.2} %"),
    }
}

fn error(check: &Check) -> String {
    match (check.unit, check.error_percent()) {
        (CheckUnit::BitsPerSecond, Some(percent)) => format!("{percent:+.2} %"),
        (CheckUnit::Packets, _) => format!("{:+.0}", check.error()),
        (CheckUnit::Microseconds, _) => format!("{:+.1} µs", check.error()),
        _ => format!("{:+.2} %", check.error()),
    }
}

fn allowed(check: &Check) -> String {
    let room = check.allowed_high - check.truth;
    match check.unit {
        CheckUnit::BitsPerSecond => format!("± {} %", three_digits(100.0 * room / check.truth)),
        CheckUnit::Packets if room == 0.0 && check.allowed_low == check.truth => "exact".into(),
        CheckUnit::Packets => format!("{:.0} to {:.0}", check.allowed_low, check.allowed_high),
        CheckUnit::Microseconds => format!("± {room:.1} µs"),
        CheckUnit::PercentOfCore => format!("± {room:.1} %"),
    }
}

/// The noise floor, one line each.
pub fn noise(floor: &NoiseFloor) -> Vec<String> {
    let mut lines = Vec::new();
    let mut tell = |name: &str, scatter: Option<Scatter>, say: &dyn Fn(f64) -> String| {
        let Some(scatter) = scatter else { return };
        let percent = |value: f64| {
            scatter.percent(value).map_or_else(|| "-".into(), |p| format!("{} %", three_digits(p)))
        };
        lines.push(format!(
            "{name}: {}, standard deviation {} ({}); 5 trials against 5 show {} and more",
            say(scatter.mean),
            say(scatter.standard_deviation),
            percent(scatter.standard_deviation),
            percent(scatter.smallest_effect_of_5),
        ));
    };
    let us = |value: f64| format!("{} µs", three_digits(value));
    let of_core = |value: f64| format!("{} % of a core", three_digits(value));
    tell("TCP payload", floor.throughput, &rate);
    tell("latency p50", floor.latency_p50_us, &us);
    tell("latency p99", floor.latency_p99_us, &us);
    tell("busy while idle", floor.idle_busy_percent_of_core, &of_core);
    if let Some(stolen) = floor.stolen_percent_of_core {
        lines.push(format!("stolen by a hypervisor: {}", of_core(stolen)));
    }
    if let (Some(p50), Some(p99)) = (floor.wake_up_p50_us, floor.wake_up_p99_us) {
        lines.push(format!("a thread wakes up late by {} (p50), {} (p99)", us(p50), us(p99)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use vioperf_analysis::calibration::{Allowed, check};
    use vioperf_model::calibration::{Area, CALIBRATION_SCHEMA_VERSION, CalibratedMachine};

    use super::*;

    fn calibration(reading: f64) -> Calibration {
        let allowed = Allowed::within_percent(100e6, 1.0);
        let unit = CheckUnit::BitsPerSecond;
        Calibration {
            schema_version: CALIBRATION_SCHEMA_VERSION,
            made_at: "2026-01-02T03:04:05Z".into(),
            quick: true,
            machine: CalibratedMachine {
                vioperf_version: "1".into(),
                kernel_release: "6.1".into(),
                cpu_model: "A CPU".into(),
                cores: 2,
                qemu_version: None,
                emulated: None,
            },
            checks: check(Area::Rate, "tcp", unit, 100e6, &[reading], allowed)
                .into_iter()
                .collect(),
            left_out: Vec::new(),
            noise_floor: NoiseFloor::default(),
        }
    }

    #[test]
    fn a_reading_that_is_wrong_is_shouted() {
        let right = terminal(&calibration(100.2e6));
        assert!(right.contains("+0.20 %") && right.contains("± 1.00 %"), "{right}");
        assert!(right.contains("every one within"), "{right}");
        let wrong = calibration(98.0e6);
        for shown in [terminal(&wrong), markdown(&wrong)] {
            assert!(shown.contains("WRONG") && shown.contains("rate tcp"), "{shown}");
        }
    }
}
