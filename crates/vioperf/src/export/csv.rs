//! RFC 4180: a header row, then a row a trial. An empty field is no value.

use std::io::{self, Write};

use vioperf_analysis::trial_table::{Row, Value};

use super::Table;
use crate::report::csv::{quoted, text};

/// Writes `table`.
///
/// # Errors
/// What the system refused.
pub fn write(table: &Table, out: &mut impl Write) -> io::Result<()> {
    let names: Vec<&str> = table.headings.iter().map(|heading| heading.name).collect();
    writeln!(out, "{}", names.join(","))?;
    table.rows.iter().try_for_each(|row| writeln!(out, "{}", line(row)))
}

fn line(row: &Row) -> String {
    let field = |value: &Option<Value>| match value {
        None => String::new(),
        Some(Value::Text(value) | Value::Time(value)) => quoted(&text(value)),
        Some(Value::Integer(value)) => value.to_string(),
        // With its decimal point, so that a reader that guesses does not take it for an integer.
        Some(Value::Real(value)) => format!("{value:?}"),
        Some(Value::Flag(value)) => value.to_string(),
    };
    row.iter().map(field).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::super::tests::table;
    use super::*;

    #[test]
    fn there_is_a_row_a_trial_and_what_is_absent_is_empty() {
        let table = table();
        let mut out = Vec::new();
        write(&table, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count(), 1 + table.rows.len());
        assert!(text.starts_with("run_id,run_started_at,"));
        assert!(text.contains(",void,\"") || text.contains(",void,the guest"), "{text}");
    }
}
