//! Where the numbers come from, and how to get them again.

use vioperf_analysis::calibration::{sentence, smallest_effects};
use vioperf_analysis::result::RunAnalysis;
use vioperf_analysis::wording::count;
use vioperf_model::calibration::CalibrationCitation;
use vioperf_model::libvirt::MeasuredDomain;
use vioperf_model::record::{CorePlacement, HypervisorFacts, RunEnding, RunInfo};
use vioperf_model::scenario::Variant;

/// Facts about the run, each with its name.
pub fn facts(analysis: &RunAnalysis) -> Vec<(&'static str, String)> {
    let run = &analysis.run;
    let host = &run.host;
    let mut facts = vec![
        ("Started", run.started_at.clone()),
        ("Ended", ended(run)),
        ("vioperf", run.vioperf_version.clone()),
        ("Scenario", format!("{} ({})", run.scenario.name, run.scenario_origin)),
        ("Trials", trials(analysis)),
        ("Each trial", each_trial(run)),
        ("Seed of the order", run.plan.seed.to_string()),
        ("Host", format!("{}, kernel {}", host.os, host.kernel_release)),
        ("CPU", format!("{}, {}", host.cpu_model, count(host.cores as usize, "core"))),
        ("Memory", format!("{:.1} GiB", host.memory_bytes as f64 / f64::from(1 << 30))),
        ("Load average at start", format!("{:.2}", host.load_average_1min)),
    ];
    // Between two machines there is another one whose calibration is not known here.
    if run.scenario.testbed.server.is_none() {
        facts.extend(calibration(run.calibration.as_ref()));
    }
    if let Some(rate) = run.scenario.testbed.rate {
        facts.push(("Link", format!("held to {rate} each way (token bucket)")));
    }
    facts.extend(run.domain.iter().flat_map(domain));
    facts.extend(run.placement.as_ref().map(|cores| ("Cores", held(cores))));
    if let Some(hypervisor) = &run.hypervisor {
        let accel = if hypervisor.emulated { "software emulation (TCG)" } else { "KVM" };
        let vcpus = count(usize::from(hypervisor.vcpus), "virtual CPU");
        facts.extend([
            ("QEMU", of_each(run, |ran| format!("{} ({})", qemu_version(ran), ran.qemu_path))),
            ("Acceleration", format!("{accel}: {}", hypervisor.accel_reason)),
            ("Guest", format!("{vcpus}, {}", run.scenario.guest.memory)),
            (
                "Guest kernel",
                of_each(run, |ran| {
                    format!("{} ({})", ran.guest_kernel_release, ran.guest_kernel_origin)
                }),
            ),
        ]);
        if let Some(times) = &hypervisor.template {
            facts.push((
                "Guest's first boot",
                format!("{} ms, its snapshot {} ms", times.boot_ms, times.snapshot_ms),
            ));
        }
    }
    facts.extend(run.scenario.variants.iter().map(|own| ("Variant", variant(run, own))));
    let is_variant = |name: &str| run.scenario.variants.iter().any(|own| own.name == name);
    let of_levels = run.variant_hypervisors.iter().filter(|(name, _)| !is_variant(name));
    facts.extend(of_levels.map(|(name, ran)| {
        let vcpus = count(usize::from(ran.vcpus), "virtual CPU");
        let (qemu, kernel) = (qemu_version(ran), &ran.guest_kernel_release);
        ("Guests", format!("{name}: {vcpus}, QEMU {qemu}, kernel {kernel}"))
    }));
    // Nothing is told by what all have alike.
    let is_alike =
        run.variant_placements.values().all(|cores| Some(cores) == run.placement.as_ref());
    let of_levels =
        run.variant_placements.iter().filter(|(name, _)| !is_variant(name) && !is_alike);
    facts.extend(of_levels.map(|(name, cores)| ("Cores", format!("{name}: {}", held(cores)))));
    facts
}

/// The virtual machine at the other end, as libvirt described it when the run began.
fn each_trial(run: &RunInfo) -> String {
    let workload = &run.scenario.workload;
    let scale = run.scenario.scale.map(|scale| format!(" (the scenario's own times {scale})"));
    let scale = scale.unwrap_or_default();
    format!("{} after a warm-up of {}{scale}", workload.duration, workload.warmup)
}

fn domain(measured: &MeasuredDomain) -> Vec<(&'static str, String)> {
    let domain = &measured.domain;
    let vcpus = count(usize::try_from(domain.vcpus).unwrap_or(usize::MAX), "virtual CPU");
    let how = match domain.hypervisor.as_str() {
        "qemu" => "software emulation (TCG)",
        "kvm" => "KVM",
        other => other,
    };
    let memory = format!("{} MiB", domain.memory_mib);
    let mut words = vec![domain.machine.clone(), vcpus, memory, how.to_owned()];
    words.extend((!domain.cpu.is_empty()).then(|| format!("CPU {}", domain.cpu)));
    let mut facts = vec![(
        "Virtual machine",
        format!("{} of {}: {}", domain.name, measured.uri, words.join(", ")),
    )];
    if !domain.pinning.is_empty() {
        facts.push(("Pinned", domain.pinning.join("; ")));
    }
    if let Some(interface) = measured.interface() {
        let mut words = vec![interface.model.clone()];
        words.extend(interface.backend.as_ref().map(|backend| format!("by {backend}")));
        words.extend(interface.queues.map(|queues| format!("{queues} queues")));
        words.extend(interface.driver.iter().map(|(name, value)| format!("{name}={value}")));
        let to = interface.source.as_deref().unwrap_or_default();
        words.push(format!("{} {to}", interface.connection).trim().to_owned());
        words.extend(interface.target.as_ref().map(|tap| format!("tap {tap}")));
        facts.push(("Its NIC", format!("{} ({})", words.join(", "), interface.mac)));
    }
    let unreadable = measured.unreadable.as_ref();
    facts.extend(unreadable.map(|reason| ("Of its hypervisor unread", reason.clone())));
    facts
}

/// Which cores were whose.
fn held(cores: &CorePlacement) -> String {
    let list = |cores: &[u16]| cores.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
    let mut held = format!("{} for the guest's virtual CPUs", list(&cores.near));
    for (whose, own) in
        [("vhost", &cores.vhost), ("I/O threads", &cores.io), ("the far end's node", &cores.nodes)]
    {
        if !own.is_empty() {
            held.push_str(&format!(", {} for {whose}", list(own)));
        }
    }
    held.push_str(&format!(", {} for everything else", list(&cores.others)));
    if cores.exclusive {
        held.push_str("; nobody else was on them (a partition of the cpuset)");
    }
    held
}

/// What a variant has otherwise, as it would stand in a scenario, and what really ran its guests.
fn variant(run: &RunInfo, variant: &Variant) -> String {
    let lines = |table: Result<String, toml::ser::Error>| {
        let text = table.unwrap_or_default();
        text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(", ")
    };
    let changes = [
        toml::to_string(&variant.guest),
        toml::to_string(&variant.testbed),
        toml::to_string(&variant.workload),
    ];
    let changes = changes.map(lines);
    let mut parts: Vec<String> = changes.into_iter().filter(|part| !part.is_empty()).collect();
    if parts.is_empty() {
        parts.push("the scenario's own".into());
    }
    if let Some(ran) = run.variant_hypervisors.get(&variant.name) {
        let (qemu, kernel) = (qemu_version(ran), &ran.guest_kernel_release);
        parts.push(format!("QEMU {qemu}, guest kernel {kernel}"));
    }
    let cores = run.variant_placements.get(&variant.name);
    parts.extend(cores.map(|cores| format!("cores {}", held(cores))));
    format!("{}: {}", variant.name, parts.join("; "))
}

fn calibration(citation: Option<&CalibrationCitation>) -> Vec<(&'static str, String)> {
    let Some(citation) = citation else {
        return vec![("Calibration", "not calibrated here: `vioperf calibrate`".into())];
    };
    let mut facts = vec![("Calibration", sentence(citation))];
    let floor = smallest_effects(&citation.noise_floor);
    facts.extend((!floor.is_empty()).then_some(("Noise floor", floor)));
    facts
}

/// What is told of whatever ran guests, the first cell's first; once where they are alike in it.
fn of_each(run: &RunInfo, tell: impl Fn(&HypervisorFacts) -> String) -> String {
    let mut told: Vec<String> = Vec::new();
    for said in run.hypervisor.iter().chain(run.variant_hypervisors.values()).map(tell) {
        if !told.contains(&said) {
            told.push(said);
        }
    }
    told.join("; ")
}

/// The version without the words that QEMU prints before it.
fn qemu_version(hypervisor: &HypervisorFacts) -> &str {
    let version = hypervisor.qemu_version.as_str();
    version.strip_prefix("QEMU emulator version ").unwrap_or(version)
}

fn ended(run: &RunInfo) -> String {
    match &run.ended {
        None => "no end is recorded".into(),
        Some(end) => {
            let how = match &end.how {
                RunEnding::Completed => "every block measured".into(),
                RunEnding::Settled => "every cell settled".into(),
                RunEnding::BudgetUsed => "time budget used".into(),
                RunEnding::Interrupted { signal } => format!("interrupted by {signal}"),
                RunEnding::Failed { message } => format!("failed: {message}"),
            };
            format!("{} ({how})", end.at)
        }
    }
}

fn trials(analysis: &RunAnalysis) -> String {
    let completed: usize = analysis.cells.iter().map(|cell| cell.trials.completed as usize).sum();
    let blocks = analysis.cells.iter().map(|cell| cell.trials.planned).max().unwrap_or(0);
    let blocks = count(blocks as usize, "block");
    let cells = count(analysis.cells.len(), "cell");
    let void = count(analysis.void_trials.len(), "void trial");
    let disturbed: usize = analysis.cells.iter().map(|cell| cell.trials.disturbed as usize).sum();
    let again = match disturbed {
        0 => String::new(),
        disturbed => format!(", {disturbed} disturbed and measured again"),
    };
    let planned: usize = analysis.cells.iter().map(|cell| cell.trials.planned as usize).sum();
    format!("{completed} of {planned} planned ({cells} in {blocks}), {void}{again}")
}

/// The command that measures the same in the same order; absent when the command line is not
/// recorded.
pub fn repeat_command(run: &RunInfo) -> Option<String> {
    if run.command_line.is_empty() {
        return None;
    }
    let mut words: Vec<String> = Vec::new();
    let mut given = run.command_line.iter();
    while let Some(word) = given.next() {
        // The directory is taken: the repeated run needs another.
        if word == "--out" {
            given.next();
        } else if !word.starts_with("--out=") {
            words.push(quoted(word));
        }
    }
    // Between two machines there is no order to repeat.
    if run.scenario.repeat.seed.is_none() && run.scenario.testbed.server.is_none() {
        words.push(format!("--seed {}", run.plan.seed));
    }
    Some(words.join(" "))
}

/// `word` as a POSIX shell reads it back.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use vioperf_analysis::testing::Synthetic;

    use super::*;

    #[test]
    fn every_qemu_of_a_run_is_told_once() {
        let Synthetic { run, trials } = Synthetic::tcg();
        let mut analysis = vioperf_analysis::analyse(&run, &trials);
        let ran = analysis.run.hypervisor.clone().unwrap();
        let other = HypervisorFacts {
            qemu_version: "QEMU emulator version 7.2.22".into(),
            qemu_path: "/opt/qemu".into(),
            ..ran.clone()
        };
        analysis.run.variant_hypervisors =
            [("a", ran.clone()), ("b", other)].map(|(name, ran)| (name.to_owned(), ran)).into();
        let facts = facts(&analysis);
        let told = |of: &str| facts.iter().find(|(name, _)| *name == of).unwrap().1.clone();
        assert_eq!(
            told("QEMU"),
            format!("{} ({}); 7.2.22 (/opt/qemu)", qemu_version(&ran), ran.qemu_path)
        );
        assert!(!told("Guest kernel").contains("; "));
    }

    #[test]
    fn the_command_repeats_the_drawn_seed_and_survives_a_shell() {
        let mut run = Synthetic::tcg().run;
        run.command_line.extend(["it's", "--out", "a b", "--out=c"].map(String::from));
        let command = repeat_command(&run).unwrap();
        let expected = r"vioperf run nic-models --set workload.duration=2s 'it'\''s' --seed 42";
        assert_eq!(command, expected);
        run.scenario.repeat.seed = Some(42);
        assert!(!repeat_command(&run).unwrap().contains("--seed"));
    }
}
