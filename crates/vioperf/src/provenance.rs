//! What a run was measured on.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use vioperf_model::record::{DEEPEST_IDLE_STATE, FREE_HUGE_PAGES, HostFacts};

/// Settings that move numbers: what each is called, and its file.
const SETTINGS: &[(&str, &str)] = &[
    ("cpu governor", "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
    ("cpu driver", "sys/devices/system/cpu/cpu0/cpufreq/scaling_driver"),
    ("turbo off (intel_pstate)", "sys/devices/system/cpu/intel_pstate/no_turbo"),
    ("boost (acpi)", "sys/devices/system/cpu/cpufreq/boost"),
    ("smt", "sys/devices/system/cpu/smt/control"),
    ("clocksource", "sys/devices/system/clocksource/clocksource0/current_clocksource"),
    ("transparent huge pages", "sys/kernel/mm/transparent_hugepage/enabled"),
    (FREE_HUGE_PAGES, "sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages"),
    ("tcp congestion control", "proc/sys/net/ipv4/tcp_congestion_control"),
    ("tcp_rmem", "proc/sys/net/ipv4/tcp_rmem"),
    ("tcp_wmem", "proc/sys/net/ipv4/tcp_wmem"),
];

const MITIGATIONS: &str = "sys/devices/system/cpu/vulnerabilities";

/// Reads the facts of the host whose file system begins at `root`.
pub fn host_facts(root: &Path) -> HostFacts {
    let read = |path: &str| fs::read_to_string(root.join(path));
    let text = |path: &str| read(path).unwrap_or_default();
    let cpuinfo = text("proc/cpuinfo");
    let mut settings: BTreeMap<String, String> = SETTINGS
        .iter()
        .map(|(name, path)| {
            let value = match read(path) {
                Ok(value) => value.trim().to_owned(),
                Err(error) => format!("not visible ({error})"),
            };
            ((*name).to_owned(), value)
        })
        .collect();
    for entry in fs::read_dir(root.join(MITIGATIONS)).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let value = text(&format!("{MITIGATIONS}/{name}"));
        settings.insert(format!("mitigation {name}"), value.trim().to_owned());
    }
    settings.extend(deepest_idle_state(root).map(|state| (DEEPEST_IDLE_STATE.to_owned(), state)));
    HostFacts {
        name: text("proc/sys/kernel/hostname").trim().to_owned(),
        os: os_name(&text("etc/os-release")),
        kernel_release: text("proc/sys/kernel/osrelease").trim().to_owned(),
        cpu_model: field(&cpuinfo, "model name", ':').unwrap_or("unknown").to_owned(),
        cores: u32::try_from(cpuinfo.lines().filter(|line| line.starts_with("processor")).count())
            .unwrap_or(u32::MAX),
        memory_bytes: memory_bytes(&text("proc/meminfo")),
        load_average_1min: text("proc/loadavg")
            .split(' ')
            .next()
            .and_then(|load| load.parse().ok())
            .unwrap_or_default(),
        settings,
    }
}

/// The idle state that core 0 takes longest to come back from, of those that are not switched off
/// (Documentation/admin-guide/pm/cpuidle.rst): `C6, 133 µs`.
fn deepest_idle_state(root: &Path) -> Option<String> {
    let states = fs::read_dir(root.join("sys/devices/system/cpu/cpu0/cpuidle")).ok()?;
    let read = |state: &Path, file: &str| {
        let text = fs::read_to_string(state.join(file)).ok()?;
        Some(text.trim().to_owned())
    };
    let states = states.flatten().map(|state| state.path());
    let used = states.filter(|state| read(state, "disable").as_deref() != Some("1"));
    let latencies =
        used.filter_map(|state| Some((read(&state, "latency")?.parse::<u64>().ok()?, state)));
    let (us, state) = latencies.max_by_key(|(us, _)| *us)?;
    Some(format!("{}, {us} µs", read(&state, "name")?))
}

fn field<'a>(text: &'a str, name: &str, separator: char) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(separator)?;
        (key.trim() == name).then(|| value.trim())
    })
}

fn os_name(os_release: &str) -> String {
    let name = field(os_release, "PRETTY_NAME", '=').unwrap_or("unknown");
    name.trim_matches('"').to_owned()
}

fn memory_bytes(meminfo: &str) -> u64 {
    let kib =
        field(meminfo, "MemTotal", ':').and_then(|value| value.split(' ').next()?.parse().ok());
    kib.map_or(0, |kib: u64| kib.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_written_host_and_says_what_is_not_visible() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("etc/os-release", "NAME=x\nPRETTY_NAME=\"An OS 12\"\n");
        write("proc/cpuinfo", "processor\t: 0\nmodel name\t: A CPU\n\nprocessor\t: 1\n");
        write("proc/meminfo", "MemTotal:       1024 kB\nMemFree: 1 kB\n");
        write("proc/loadavg", "0.25 0.10 0.05 1/100 1234\n");
        write("sys/devices/system/cpu/vulnerabilities/meltdown", "Not affected\n");
        let idle = "sys/devices/system/cpu/cpu0/cpuidle";
        for (state, name, us, disabled) in [
            ("state0", "POLL", "0", "0"),
            ("state1", "C1", "2", "0"),
            ("state2", "C6", "133", "0"),
            ("state3", "C8", "400", "1"),
        ] {
            write(&format!("{idle}/{state}/name"), &format!("{name}\n"));
            write(&format!("{idle}/{state}/latency"), &format!("{us}\n"));
            write(&format!("{idle}/{state}/disable"), &format!("{disabled}\n"));
        }
        let facts = host_facts(folder.path());
        assert_eq!(facts.settings[DEEPEST_IDLE_STATE], "C6, 133 µs");
        assert_eq!((facts.os.as_str(), facts.cpu_model.as_str()), ("An OS 12", "A CPU"));
        assert_eq!((facts.cores, facts.memory_bytes), (2, 1 << 20));
        assert_eq!(facts.settings["mitigation meltdown"], "Not affected");
        assert!(facts.settings["smt"].starts_with("not visible"));
    }
}
