//! Something else ran on the machine.

use super::{Evidence, about_cells, about_run, above};
use crate::result::{Finding, Severity};

/// Load average per core at the start from which the machine counts as busy.
const BUSY_LOAD_PER_CORE: f64 = 0.5;

/// Busy time that the watched threads do not explain, per core of the host, in percent. The
/// kernel's own threads and the conductor stay below on a calm host.
const UNEXPLAINED_PERCENT_PER_CORE: f64 = 20.0;

pub fn check(evidence: &Evidence<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let host = &evidence.run.host;
    let cores = f64::from(host.cores.max(1));
    if host.load_average_1min > BUSY_LOAD_PER_CORE * cores {
        found.push(about_run(
            "machine-busy-at-start",
            Severity::Doubt,
            "The machine was busy when the run began",
            &format!("load average {:.2} on {cores} cores", host.load_average_1min),
            "End what else is running and measure again.",
        ));
    }
    let cells = above(evidence.cells, UNEXPLAINED_PERCENT_PER_CORE * cores, |cell| {
        Some(&cell.unexplained_host_busy_percent_of_core)
    });
    found.extend(about_cells(
        "machine-busy",
        Severity::Doubt,
        "The host's cores were busier than the test explains",
        &cells,
        "In percent of one core. Another program took this time: look with top while the run goes \
         on, end it and measure again.",
    ));
    found
}
