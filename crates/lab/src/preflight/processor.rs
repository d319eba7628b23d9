//! What makes a processor's speed change under a measurement.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::{Check, read_line};

const CPU: &str = "sys/devices/system/cpu";

/// Who chooses the cores' frequency.
#[must_use]
pub fn frequency_governor(root: &Path) -> Check {
    const NAME: &str = "CPU governor";
    let governors: BTreeSet<String> = fs::read_dir(root.join(CPU))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| read_line(&entry.path().join("cpufreq/scaling_governor")))
        .collect();
    if governors.is_empty() {
        return Check::ok(NAME, "not visible here (usual in a virtual machine)");
    }
    let found = governors.iter().cloned().collect::<Vec<_>>().join(", ");
    if governors.len() == 1 && governors.contains("performance") {
        return Check::ok(NAME, found);
    }
    let advice = "the cores change their speed with the load: `sudo cpupower frequency-set -g performance` \
                  while measuring";
    Check::warn(NAME, found, advice)
}

/// Frequencies that hold only until the chip is warm.
#[must_use]
pub fn turbo(root: &Path) -> Check {
    const NAME: &str = "CPU turbo";
    let cpu = root.join(CPU);
    let (on, switch_off) = match (
        read_line(&cpu.join("intel_pstate/no_turbo")).as_deref(),
        read_line(&cpu.join("cpufreq/boost")).as_deref(),
    ) {
        (Some("0"), _) => (true, "echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo"),
        (Some(_), _) | (None, Some("0")) => (false, ""),
        (None, Some(_)) => (true, "echo 0 | sudo tee /sys/devices/system/cpu/cpufreq/boost"),
        (None, None) => return Check::ok(NAME, "not visible here (usual in a virtual machine)"),
    };
    if on {
        let advice = format!(
            "the speed depends on how warm the chip is: `{switch_off}` for steadier numbers"
        );
        return Check::warn(NAME, "on", advice);
    }
    Check::ok(NAME, "off")
}

/// Two threads on one core share its execution units: a plain statement, both ways are in use.
#[must_use]
pub fn simultaneous_multithreading(root: &Path) -> Check {
    const NAME: &str = "SMT";
    match read_line(&root.join(CPU).join("smt/active")).as_deref() {
        Some("1") => Check::ok(NAME, "on: two threads share each core"),
        Some(_) => Check::ok(NAME, "off, or the processor has none"),
        None => Check::ok(NAME, "not visible here"),
    }
}

/// What the kernel does against the processor's flaws; it costs most where guests exit often. A
/// plain statement: it is part of what is measured.
#[must_use]
pub fn mitigations(root: &Path) -> Check {
    const NAME: &str = "mitigations";
    let (mut mitigated, mut vulnerable) = (0_u32, Vec::new());
    for entry in
        fs::read_dir(root.join(CPU).join("vulnerabilities")).into_iter().flatten().flatten()
    {
        let state = read_line(&entry.path()).unwrap_or_default();
        if state.starts_with("Mitigation") || state.starts_with("KVM: Mitigation") {
            mitigated += 1;
        } else if state.contains("ulnerable") {
            vulnerable.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    vulnerable.sort();
    let mut found = match (mitigated, vulnerable.is_empty()) {
        (0, true) => "none needed, or not visible".to_owned(),
        (count, true) => format!("{count} in force"),
        (count, false) => format!("{count} in force; vulnerable: {}", vulnerable.join(", ")),
    };
    let line = read_line(&root.join("proc/cmdline")).unwrap_or_default();
    if line.split_ascii_whitespace().any(|word| word == "mitigations=off") {
        found.push_str("; switched off on the kernel's command line");
    }
    Check::ok(NAME, found)
}

#[cfg(test)]
mod tests {
    use super::super::{Status, machine_with};
    use super::*;

    #[test]
    fn a_governor_that_saves_power_is_a_warning() {
        let path = "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
        let check = frequency_governor(machine_with(&[(path, "powersave\n")]).path());
        assert_eq!((check.status, check.found.as_str()), (Status::Warn, "powersave"));
        let check = frequency_governor(machine_with(&[(path, "performance\n")]).path());
        assert_eq!(check.status, Status::Ok);
        let check = frequency_governor(machine_with(&[]).path());
        assert_eq!(check.status, Status::Ok);
        assert!(check.found.contains("not visible"));
    }

    #[test]
    fn turbo_is_read_from_either_driver() {
        let intel = "sys/devices/system/cpu/intel_pstate/no_turbo";
        let other = "sys/devices/system/cpu/cpufreq/boost";
        for (path, text, status) in [
            (intel, "0\n", Status::Warn),
            (intel, "1\n", Status::Ok),
            (other, "1\n", Status::Warn),
            (other, "0\n", Status::Ok),
        ] {
            assert_eq!(turbo(machine_with(&[(path, text)]).path()).status, status, "{path} {text}");
        }
    }

    #[test]
    fn mitigations_are_counted_and_the_vulnerable_named() {
        let at = |name: &str| format!("sys/devices/system/cpu/vulnerabilities/{name}");
        let (a, b, c) = (at("meltdown"), at("mds"), at("l1tf"));
        let root = machine_with(&[
            (&a, "Mitigation: PTI\n"),
            (&b, "Vulnerable: Clear CPU buffers attempted\n"),
            (&c, "Not affected\n"),
            ("proc/cmdline", "root=/dev/sda mitigations=off\n"),
        ]);
        let found = mitigations(root.path()).found;
        assert!(found.starts_with("1 in force; vulnerable: mds"), "{found}");
        assert!(found.ends_with("command line"), "{found}");
    }
}
