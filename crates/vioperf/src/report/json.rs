//! For programs: the analysis as it is. Its first field is the notice.

use serde::Serialize;

/// Renders `analysis`, or what else is derived.
pub fn render(analysis: &impl Serialize) -> String {
    match serde_json::to_string_pretty(analysis) {
        Ok(text) => text + "\n",
        // Only a map whose keys are no strings could cause it, and nothing derived has one.
        Err(error) => format!("{}\n", serde_json::json!({ "error": error.to_string() })),
    }
}
