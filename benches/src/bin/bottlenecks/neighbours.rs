//! Whether others use the machine while nothing is tried.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

/// Over so long it is looked.
const LOOK: Duration = Duration::from_millis(250);
/// Part of all cores' time from which a machine is not quiet.
const BUSY: f64 = 0.2;

/// Whether others keep the cores busy now: `/proc/stat` (proc_stat(5)). Not where it cannot be read.
pub fn are_busy() -> bool {
    let before = times();
    sleep(LOOK);
    let (Some([idle, all]), Some([idle_now, all_now])) = (before, times()) else { return false };
    let passed = all_now.saturating_sub(all);
    passed > 0 && 1.0 - idle_now.saturating_sub(idle) as f64 / passed as f64 >= BUSY
}

/// The same of a kept run, from what vioperf saw before it began.
pub fn were_busy(report: &Value) -> bool {
    let Some(cores) = report["run"]["machine_before"]["cores"].as_array() else { return false };
    let busy: f64 = cores.iter().filter_map(|core| core["busy_percent"].as_f64()).sum();
    busy >= BUSY * 100.0 * cores.len() as f64
}

/// Ticks of all cores: idle, and all.
fn times() -> Option<[u64; 2]> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    let ticks = text.lines().next()?.split_ascii_whitespace().skip(1).take(8);
    let ticks: Vec<u64> = ticks.map_while(|word| word.parse().ok()).collect();
    // The fourth is idle, the fifth idle with I/O outstanding.
    Some([ticks.get(3)? + ticks.get(4)?, ticks.iter().sum()])
}
