//! The custom JSON of github-action-benchmark: the numbers of B, with what they are beside A.

use serde::Serialize;
use vioperf_analysis::compare::result::{ComparedRow, RunComparison};

use super::values;

/// An entry, as `customBiggerIsBetter` and `customSmallerIsBetter` read it.
#[derive(Debug, Serialize)]
struct Entry {
    name: String,
    unit: &'static str,
    value: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    range: Option<String>,
    extra: String,
}

/// Renders the rows of `comparison` in which more is better, or those in which less is: the action takes
/// one direction a file.
///
/// # Errors
/// None that memory would not cause.
pub fn render(comparison: &RunComparison, bigger_is_better: bool) -> serde_json::Result<String> {
    let rows = comparison.rows.iter().filter(|row| row.higher_is_better == bigger_is_better);
    crate::store::to_json(&rows.filter_map(entry).collect::<Vec<_>>())
}

fn entry(row: &ComparedRow) -> Option<Entry> {
    let b = row.b?;
    Some(Entry {
        name: format!("{} {}", row.name(), row.title),
        unit: row.unit,
        value: b.mean,
        range: b.half_width().map(|half| format!("± {half}")),
        extra: format!(
            "B vs A {}, p {}: {}",
            values::difference(row),
            values::p_value(row),
            values::verdict(row)
        ),
    })
}
