//! A run directory: `run.json` in the first line, then records, as `vioperf report` reads them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vioperf_model::record::{RunInfo, TrialRecord};

fuzz_target!(|bytes: &[u8]| {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let Some(Ok(run)) = lines.next().map(serde_json::from_slice::<RunInfo>) else { return };
    let trials: Vec<TrialRecord> =
        lines.filter_map(|line| serde_json::from_slice(line).ok()).collect();
    let _ = vioperf_analysis::analyse(&run, &trials);
});
