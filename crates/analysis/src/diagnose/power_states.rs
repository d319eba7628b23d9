//! Cores that sleep deeply between two requests.

use vioperf_model::record::DEEPEST_IDLE_STATE;

use super::{Evidence, about_cells};
use crate::result::{Finding, Severity};
use crate::wording::three_digits;

/// Part of a median latency that it has to be to be felt.
const FELT: f64 = 0.1;
/// How busy the host's cores may be, each, in percent: one that never sleeps has no such state.
const SLEEPS_PERCENT: f64 = 80.0;

pub fn check(evidence: &Evidence<'_>) -> Vec<Finding> {
    let host = &evidence.run.host;
    let Some(state) = host.settings.get(DEEPEST_IDLE_STATE) else { return Vec::new() };
    let us =
        state.rsplit_once(", ").and_then(|(_, us)| us.strip_suffix(" µs")?.parse::<f64>().ok());
    let Some(us) = us else { return Vec::new() };
    let mut cells = Vec::new();
    for cell in evidence.cells {
        let Some(transactions) = &cell.transactions else { continue };
        let percentiles = &transactions.latency.percentiles;
        let median = percentiles.iter().find(|percentile| percentile.name == "p50");
        let Some(median) = median.and_then(|median| median.us.mean()) else { continue };
        let sleeps = cell
            .host
            .busy_percent_of_core
            .mean()
            .is_some_and(|busy| busy < SLEEPS_PERCENT * f64::from(host.cores.max(1)));
        if sleeps && us >= FELT * median {
            cells.push((cell.id.clone(), format!("median {} µs", three_digits(median))));
        }
    }
    about_cells(
        "power-states",
        Severity::Note,
        &format!("Cores sleep between requests, and take time to wake up: at the deepest {state}"),
        &cells,
        "Where latency matters, keep them awake: `cpupower idle-set -D 2`, tuned-adm profile latency-performance, or \
         processor.max_cstate=1 at the kernel's command line.",
    )
}

#[cfg(test)]
mod tests {
    use vioperf_model::workload::WorkloadKind;

    use super::*;
    use crate::analyse;
    use crate::testing::Synthetic;

    #[test]
    fn only_states_that_are_felt_are_told() {
        let told = |state: Option<&str>| {
            let mut synthetic = Synthetic::of_kind(WorkloadKind::RequestResponse);
            let settings = &mut synthetic.run.host.settings;
            settings.extend(state.map(|state| (DEEPEST_IDLE_STATE.to_owned(), state.to_owned())));
            let found = analyse(&synthetic.run, &synthetic.trials).findings;
            found.into_iter().find(|finding| finding.rule == "power-states")
        };
        assert_eq!(told(None), None);
        assert_eq!(told(Some("C1, 0 µs")), None);
        let found = told(Some("C6, 133 µs")).unwrap();
        assert!(found.title.ends_with("C6, 133 µs") && !found.cells.is_empty(), "{found:?}");
    }
}
