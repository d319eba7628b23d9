//! Values of keys, in words.

use serde_json::Value;

/// A value as people write it (`off`, `512 MiB`, `gro off, tso off`).
pub fn in_words(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::Bool(true) => "on".to_owned(),
        Value::Bool(false) => "off".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(in_words).collect::<Vec<_>>().join(","),
        Value::Object(table) => {
            let words = table.iter().map(|(key, value)| format!("{key} {}", in_words(value)));
            words.collect::<Vec<_>>().join(", ")
        }
    }
}

/// The name of a level, which is part of cells' names: `1-vcpu`, `2-vcpus`, `gro-off`, `placement-apart`. `files` says
/// whether of a path the file's own name is enough.
fn level_name(key: &str, value: &Value, files: bool) -> String {
    match value {
        Value::Number(number) if number.as_u64() == Some(1) => {
            format!("1-{}", singular(key))
        }
        Value::Number(number) => format!("{number}-{key}"),
        Value::Object(table) if table.is_empty() => format!("{key}-default"),
        Value::Object(table) => {
            let words = table.iter().map(|(inner, value)| level_name(inner, value, files));
            words.collect::<Vec<_>>().join("+")
        }
        Value::String(text) if text.contains('/') && files => {
            let name = text.rsplit('/').find(|part| !part.is_empty()).unwrap_or(text);
            format!("{key}-{}", plain(name))
        }
        other => format!("{key}-{}", plain(&in_words(other))),
    }
}

/// What one of them is called.
fn singular(key: &str) -> &str {
    let stem = if key.ends_with("sses") { key.strip_suffix("es") } else { key.strip_suffix('s') };
    stem.unwrap_or(key)
}

/// The text without what a cell's name cannot have.
fn plain(text: &str) -> String {
    let text = text.split_whitespace().collect::<String>();
    text.chars()
        .map(|c| if c.is_ascii_alphanumeric() || "-_.+,:=%".contains(c) { c } else { '_' })
        .collect()
}

/// The names of a factor's levels, each another one.
pub(crate) fn level_names(key: &str, levels: &[Value]) -> Vec<String> {
    let names =
        |files| levels.iter().map(|level| level_name(key, level, files)).collect::<Vec<_>>();
    let short = names(true);
    let is_distinct = (0..short.len()).all(|i| !short[..i].contains(&short[i]));
    if is_distinct { short } else { names(false) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural() {
        let names = |key: &str| level_names(key, &[1.into(), 2.into()]);
        assert_eq!(names("vcpus"), ["1-vcpu", "2-vcpus"]);
        assert_eq!(
            names("destination_addresses"),
            ["1-destination_address", "2-destination_addresses"]
        );
        assert_eq!(names("batch"), ["1-batch", "2-batch"]);
    }
}
