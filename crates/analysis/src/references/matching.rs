//! Which cells a figure is compared with.

use serde_json::Value;
use vioperf_model::plan::Cell;
use vioperf_model::reference::Figure;
use vioperf_model::section::in_words;

use crate::result::CellAnalysis;

/// A cell of the plan with what was measured of it.
#[derive(Debug, Clone, Copy)]
pub struct Own<'a> {
    pub cell: &'a Cell,
    pub analysed: &'a CellAnalysis,
}

/// Whether a cell has all that tells the figure from others.
pub fn matches(figure: &Figure, own: Own<'_>) -> bool {
    figure.load.as_deref() == Some(own.analysed.workload.kind.name())
        && figure.is_baseline == own.analysed.is_baseline
        && figure.setting.iter().all(|(key, value)| is_any_of(own.cell, key, value))
}

/// In what the cell differs from how the figure was measured (`far_end remote (there host)`).
pub fn otherwise(figure: &Figure, cell: &Cell) -> Vec<String> {
    let differs = |(key, value): (&String, &Value)| {
        let own = cell.value_of(key)?;
        (!is_any_of(cell, key, value)).then(|| format!("{key} {own} (there {})", words(value)))
    };
    figure.circumstances.iter().filter_map(differs).collect()
}

fn is_any_of(cell: &Cell, key: &str, value: &Value) -> bool {
    let Some(own) = cell.value_of(key) else { return false };
    let is = |value: &Value| in_words(value).eq_ignore_ascii_case(&own);
    is(value) || value.as_array().is_some_and(|values| values.iter().any(is))
}

/// A value of a figure's setting as people say it.
pub fn words(value: &Value) -> String {
    match value {
        Value::Array(values) => values.iter().map(in_words).collect::<Vec<_>>().join(" or "),
        value => in_words(value),
    }
}
