//! For programs: the analysis as it is. Its first field is the notice.

use vioperf_analysis::result::RunAnalysis;

/// Renders `analysis`.
pub fn render(analysis: &RunAnalysis) -> String {
    match serde_json::to_string_pretty(analysis) {
        Ok(text) => text + "\n",
        // Only a map whose keys are no strings could cause it, and an analysis has none.
        Err(error) => format!("{}\n", serde_json::json!({ "error": error.to_string() })),
    }
}
