//! A look at the machine before a run: what goes on there while vioperf does nothing.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use vioperf_model::record::{CoreFrequency, CoreTime, MachineLook};

/// How long it takes: short against a run, long against a clock tick.
const LOOK: Duration = Duration::from_millis(600);
/// How long each sleep is whose end is watched.
const SLEEP: Duration = Duration::from_millis(2);

/// Looks at the machine whose file system begins at `root`; absent where `/proc/stat` does not tell.
pub fn look(root: &Path) -> Option<MachineLook> {
    let read = |path: &str| fs::read_to_string(root.join(path));
    let before = Counters::parse(&read("proc/stat").ok()?)?;
    let began = Instant::now();
    let mut late_ns = Vec::new();
    let mut runnable = 0;
    while began.elapsed() < LOOK {
        let slept = Instant::now();
        std::thread::sleep(SLEEP);
        let late = slept.elapsed().saturating_sub(SLEEP);
        late_ns.push(u64::try_from(late.as_nanos()).unwrap_or(u64::MAX));
        // Rarely enough that reading it is no load: it locks every core's queue.
        if late_ns.len() % 32 == 1 {
            let stat = read("proc/stat").ok().and_then(|text| Counters::parse(&text));
            // Who reads it runs, and is not meant.
            runnable = runnable.max(stat.map_or(0, |stat| stat.runnable.saturating_sub(1)));
        }
    }
    let took = began.elapsed();
    let after = Counters::parse(&read("proc/stat").ok()?)?;
    late_ns.sort_unstable();
    let loads = read("proc/loadavg").unwrap_or_default();
    let cores = before.cores.iter().zip(&after.cores);
    Some(MachineLook {
        took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        cores: cores.map(|(before, after)| after.since(before)).collect(),
        context_switches: after.context_switches.saturating_sub(before.context_switches),
        runnable_at_most: runnable,
        load_averages: loads.split(' ').take(3).filter_map(|load| load.parse().ok()).collect(),
        wake_up_late_median_ns: late_ns.get(late_ns.len() / 2).copied().unwrap_or_default(),
        wake_up_late_max_ns: late_ns.last().copied().unwrap_or_default(),
        frequencies: frequencies(root, before.cores.len()),
    })
}

/// What `/proc/stat` counts (proc_stat(5)).
struct Counters {
    /// In clock ticks.
    cores: Vec<Ticks>,
    context_switches: u64,
    runnable: u32,
}

struct Ticks {
    busy: u64,
    steal: u64,
    all: u64,
}

impl Ticks {
    fn since(&self, before: &Self) -> CoreTime {
        let all = self.all.saturating_sub(before.all).max(1) as f64;
        let percent = |now: u64, before: u64| 100.0 * now.saturating_sub(before) as f64 / all;
        CoreTime {
            busy_percent: percent(self.busy, before.busy),
            steal_percent: percent(self.steal, before.steal),
        }
    }
}

impl Counters {
    fn parse(text: &str) -> Option<Self> {
        let number = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line?.trim().parse::<u64>().ok()
        };
        let of_core = |line: &str| {
            let words = line.split_ascii_whitespace().skip(1).take(8);
            let ticks: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
            // user nice system idle iowait irq softirq steal; guests are part of user and nice.
            let [user, nice, system, idle, iowait, irq, softirq, steal] =
                ticks[..].try_into().ok()?;
            let busy = user + nice + system + irq + softirq;
            Some(Ticks { busy, steal, all: busy + idle + iowait + steal })
        };
        let lines = text.lines().take_while(|line| line.starts_with("cpu")).skip(1);
        Some(Self {
            cores: lines.map(of_core).collect::<Option<_>>()?,
            context_switches: number("ctxt ")?,
            runnable: u32::try_from(number("procs_running ")?).ok()?,
        })
    }
}

/// Of every core that tells it (Documentation/admin-guide/pm/cpufreq.rst); virtual machines mostly do not.
fn frequencies(root: &Path, cores: usize) -> Vec<CoreFrequency> {
    let of_core = |core: usize| {
        let folder = root.join(format!("sys/devices/system/cpu/cpu{core}"));
        let text = |name: &str| Some(fs::read_to_string(folder.join(name)).ok()?.trim().to_owned());
        let khz = |name: &str| text(name)?.parse().ok();
        Some(CoreFrequency {
            governor: text("cpufreq/scaling_governor")?,
            current_khz: khz("cpufreq/scaling_cur_freq"),
            least_khz: khz("cpufreq/scaling_min_freq"),
            most_khz: khz("cpufreq/scaling_max_freq"),
            throttled: khz("thermal_throttle/core_throttle_count"),
        })
    };
    (0..cores).filter_map(of_core).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn reads_a_written_machine() {
        let folder = tempfile::tempdir().unwrap();
        let stat = "cpu  1 1 1 1 1 1 1 1 0 0\ncpu0 10 0 5 80 0 0 0 5 0 0\ncpu1 0 0 0 9 0 0 0 0 0 0\n\
                    intr 3\nctxt 77\nprocs_running 4\n";
        write(folder.path(), "proc/stat", stat);
        write(folder.path(), "proc/loadavg", "0.50 0.25 0.10 4/100 99\n");
        write(folder.path(), "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
        write(folder.path(), "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "800000\n");
        let seen = look(folder.path()).unwrap();
        assert!(seen.took_ms >= 600 && seen.wake_up_late_max_ns >= seen.wake_up_late_median_ns);
        assert_eq!((seen.cores.len(), seen.runnable_at_most, seen.context_switches), (2, 3, 0));
        // Nothing moved between the two readings.
        assert_eq!(seen.cores[0].busy_percent, 0.0);
        assert_eq!(seen.load_averages, [0.5, 0.25, 0.1]);
        assert_eq!(seen.frequencies.len(), 1);
        assert_eq!(seen.frequencies[0].current_khz, Some(800_000));
        assert!(look(Path::new("/nonexistent")).is_none());
    }

    #[test]
    fn time_is_told_by_core() {
        let ticks = |busy, steal, all| Ticks { busy, steal, all };
        let seen = ticks(130, 10, 300).since(&ticks(100, 5, 200));
        assert_eq!((seen.busy_percent, seen.steal_percent), (30.0, 5.0));
    }

    #[test]
    fn looks_at_this_machine() {
        let seen = look(Path::new("/")).unwrap();
        assert!(!seen.cores.is_empty() && seen.load_averages.len() == 3, "{seen:?}");
    }
}
