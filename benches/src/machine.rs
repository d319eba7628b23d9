//! What the machine is, and what it did meanwhile.

use std::fs;

/// Time of all cores together since boot, in seconds: the first line of /proc/stat (proc_stat(5)).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CoreTime {
    /// Neither idle nor stolen.
    pub busy: f64,
    /// Wanted to run but the hypervisor ran something else.
    pub stolen: f64,
    /// Everything.
    pub whole: f64,
}

impl CoreTime {
    pub fn now() -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        Self::read(stat.lines().next().unwrap_or_default())
    }

    fn read(line: &str) -> Self {
        // USER_HZ is 100 on every architecture that Linux runs on today.
        let ticks: Vec<f64> =
            line.split_whitespace().skip(1).map_while(|word| word.parse().ok()).collect();
        let at = |index: usize| ticks.get(index).copied().unwrap_or(0.0) / 100.0;
        // user nice system idle iowait irq softirq steal; guest time is contained in user.
        let busy = [0, 1, 2, 5, 6].map(at).iter().sum::<f64>();
        let (idle, stolen) = (at(3) + at(4), at(7));
        Self { busy, stolen, whole: busy + idle + stolen }
    }

    pub fn since(self, earlier: Self) -> Self {
        Self {
            busy: self.busy - earlier.busy,
            stolen: self.stolen - earlier.stolen,
            whole: self.whole - earlier.whole,
        }
    }
}

/// The machine, in words.
pub struct Machine {
    pub cpu_model: String,
    pub cores: usize,
    pub kernel: String,
    pub memory_gib: f64,
    pub system: String,
}

impl Machine {
    pub fn look() -> Self {
        let file = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let value = |text: &str, key: &str, separator: char| {
            text.lines()
                .find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix(separator))
                .map_or_else(
                    || "unknown".to_owned(),
                    |value| value.trim().trim_matches('"').to_owned(),
                )
        };
        let cpus = file("/proc/cpuinfo");
        let memory = value(&file("/proc/meminfo"), "MemTotal", ':');
        let kib: f64 =
            memory.split_whitespace().next().and_then(|kib| kib.parse().ok()).unwrap_or(0.0);
        Self {
            cpu_model: value(&cpus, "model name", ':'),
            cores: cpus.lines().filter(|line| line.starts_with("processor")).count(),
            kernel: file("/proc/sys/kernel/osrelease").trim().to_owned(),
            memory_gib: kib / 1_048_576.0,
            system: value(&file("/etc/os-release"), "PRETTY_NAME", '='),
        }
    }
}

/// The load average of the last minute.
pub fn load_average() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().unwrap_or("unknown").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_and_idle_time_are_not_busy() {
        let time = CoreTime::read("cpu  1000 200 3000 50000 600 0 400 700 0 0");
        assert_eq!(time, CoreTime { busy: 46.0, stolen: 7.0, whole: 559.0 });
    }
}
