//! What tells runs apart, wherever they are stored.

use sha2::{Digest, Sha256};
use vioperf_model::record::RunInfo;

/// Twelve hexadecimal digits from what is settled when a run begins: it is the same when the run has
/// ended, was resumed, or lies in another directory.
pub fn run_id(run: &RunInfo) -> String {
    let mut digest = Sha256::new();
    let cells = run.plan.cells.iter().map(|cell| cell.id.0.as_str());
    let parts = [run.started_at.as_str(), &run.scenario.name, &run.host.cpu_model];
    for part in parts.into_iter().chain([run.host.kernel_release.as_str()]).chain(cells) {
        digest.update(part);
        digest.update([0]);
    }
    digest.update(run.plan.seed.to_le_bytes());
    digest.finalize()[..6].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use vioperf_analysis::testing::Synthetic;

    use super::*;

    #[test]
    fn it_stays_when_the_run_goes_on_and_is_another_for_another_run() {
        let mut run = Synthetic::tcg().run;
        let id = run_id(&run);
        assert!(id.len() == 12 && id.chars().all(|c| c.is_ascii_hexdigit()), "{id}");
        run.ended = None;
        assert_eq!(run_id(&run), id);
        run.started_at.push('1');
        assert_ne!(run_id(&run), id);
    }
}
