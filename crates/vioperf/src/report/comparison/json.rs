//! For programs: the comparison as it is. Its first field is the notice.

use vioperf_analysis::compare::result::RunComparison;

/// Renders `comparison`.
///
/// # Errors
/// Only a map whose keys are no strings could cause one, and a comparison has none.
pub fn render(comparison: &RunComparison) -> serde_json::Result<String> {
    crate::store::to_json(comparison)
}
