//! Memory, and what else runs.

use std::fs;
use std::path::Path;

use super::{Check, read_line};

/// What kernel, initramfs, snapshot and QEMU take beside the guest's memory, in MiB: measured some
/// 63 + 5 + 70 + 100, rounded up.
const BESIDE_GUEST_MIB: u64 = 300;

/// Part of the cores that may be busy with something else.
const QUIET_LOAD_PER_CORE: f64 = 0.25;

/// Enough memory for one guest.
#[must_use]
pub fn memory(root: &Path, guest_memory_mib: u64) -> Check {
    const NAME: &str = "memory";
    let needed = guest_memory_mib.saturating_add(BESIDE_GUEST_MIB);
    match available_mib(root) {
        None => Check::ok(NAME, "how much is free is not visible"),
        Some(free) if free < needed => Check::fail(
            NAME,
            format!("{free} MiB are free, a guest needs {needed} MiB"),
            "end other programs, or lower guest.memory in the scenario",
        ),
        Some(free) => Check::ok(NAME, format!("{free} MiB are free")),
    }
}

/// Whether there is memory for one more guest beside those that are there; where it cannot be seen there
/// is.
#[must_use]
pub fn has_memory_for_guest(root: &Path, guest_memory_mib: u64) -> bool {
    let needed = guest_memory_mib.saturating_add(BESIDE_GUEST_MIB);
    available_mib(root).is_none_or(|free| free >= needed)
}

fn available_mib(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let available = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = available.split_ascii_whitespace().next()?.parse().ok()?;
    Some(kib >> 10)
}

/// Other work on the machine takes time away from the measurement.
#[must_use]
pub fn load(root: &Path) -> Check {
    const NAME: &str = "load";
    let text = read_line(&root.join("proc/loadavg")).unwrap_or_default();
    let Some(load) = text.split_ascii_whitespace().next().and_then(|one| one.parse::<f64>().ok())
    else {
        return Check::ok(NAME, "the load is not visible");
    };
    let cores = cores(root);
    let found = format!("{load:.2} over the last minute, on {cores} cores");
    if load > QUIET_LOAD_PER_CORE * f64::from(cores) {
        let advice = "something else is running: wait for it or stop it, else the numbers scatter";
        return Check::warn(NAME, found, advice);
    }
    Check::ok(NAME, found)
}

fn cores(root: &Path) -> u32 {
    let text = fs::read_to_string(root.join("proc/cpuinfo")).unwrap_or_default();
    let count = text.lines().filter(|line| line.starts_with("processor")).count();
    u32::try_from(count).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::super::{Status, machine_with};
    use super::*;

    #[test]
    fn too_little_memory_fails_and_says_how_much_is_needed() {
        let root = machine_with(&[("proc/meminfo", "MemTotal: 1 kB\nMemAvailable:  524288 kB\n")]);
        assert_eq!(memory(root.path(), 100).status, Status::Ok);
        let check = memory(root.path(), 256);
        assert_eq!(check.status, Status::Fail);
        assert!(check.found.contains("512 MiB are free, a guest needs 556 MiB"), "{}", check.found);
    }

    #[test]
    fn a_busy_machine_is_a_warning() {
        let two = "processor\t: 0\nprocessor\t: 1\n";
        let with = |load: &str| {
            let root = machine_with(&[("proc/loadavg", load), ("proc/cpuinfo", two)]);
            super::load(root.path()).status
        };
        assert_eq!(with("0.30 0.1 0.1 1/99 1\n"), Status::Ok);
        assert_eq!(with("1.70 0.1 0.1 1/99 1\n"), Status::Warn);
        assert_eq!(with("nonsense"), Status::Ok);
    }
}
