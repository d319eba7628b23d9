//! Apache Parquet, in version 1 pages and compressed with Snappy: what every reader knows.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{Type, TypePtr};
use vioperf_analysis::trial_table::{Heading, Kind, Value};

use super::{Table, microseconds};

/// Writes `table`. Units and meanings are in the file's key-value metadata, as `unit.COLUMN` and
/// `about.COLUMN`.
///
/// # Errors
/// What the system refused.
pub fn write(table: &Table, out: impl Write + Send) -> Result<()> {
    let fields = table.headings.iter().map(field).collect::<Result<Vec<TypePtr>>>()?;
    let schema = Type::group_type_builder("trial").with_fields(fields).build()?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(concat!("vioperf ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(metadata(&table.headings)))
        .build();
    let mut writer = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    for at in 0..table.headings.len() {
        let Some(mut column) = group.next_column()? else {
            return Err(ParquetError::General("the schema lacks a column".into()));
        };
        let values = table.rows.iter().map(|row| row.get(at).and_then(Option::as_ref));
        write_column(column.untyped(), values)?;
        column.close()?;
    }
    group.close()?;
    writer.close().map(drop)
}

fn field(heading: &Heading) -> Result<TypePtr> {
    let (physical, logical) = match heading.kind {
        Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        Kind::Integer => (Physical::INT64, None),
        Kind::Real => (Physical::DOUBLE, None),
        Kind::Flag => (Physical::BOOLEAN, None),
        Kind::Time => (Physical::INT64, Some(time_type())),
    };
    let built = Type::primitive_type_builder(heading.name, physical)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(logical)
        .build()?;
    Ok(Arc::new(built))
}

/// Without a time zone in its type readers take it for what it is: UTC, of no place.
fn time_type() -> LogicalType {
    LogicalType::timestamp(false, TimeUnit::MICROS)
}

fn metadata(headings: &[Heading]) -> Vec<KeyValue> {
    let of = |heading: &Heading| {
        let unit = heading.unit.map(|unit| pair("unit", heading.name, unit));
        unit.into_iter().chain([pair("about", heading.name, heading.about)])
    };
    headings.iter().flat_map(of).collect()
}

fn pair(what: &str, column: &str, value: &str) -> KeyValue {
    KeyValue::new(format!("{what}.{column}"), value.to_owned())
}

/// Writes a column: to every row whether it has a value, and the values of those that do.
fn write_column<'a>(
    column: &mut ColumnWriter<'_>,
    values: impl Iterator<Item = Option<&'a Value>>,
) -> Result<()> {
    match column {
        ColumnWriter::ByteArrayColumnWriter(writer) => {
            let (values, levels) = present(values, |value| match value {
                Value::Text(text) => Some(ByteArray::from(text.as_str())),
                _ => None,
            });
            writer.write_batch(&values, Some(&levels), None).map(drop)
        }
        ColumnWriter::Int64ColumnWriter(writer) => {
            let (values, levels) = present(values, |value| match value {
                Value::Integer(value) => Some(*value),
                Value::Time(time) => microseconds(time),
                _ => None,
            });
            writer.write_batch(&values, Some(&levels), None).map(drop)
        }
        ColumnWriter::DoubleColumnWriter(writer) => {
            let (values, levels) = present(values, |value| match value {
                Value::Real(value) => Some(*value),
                _ => None,
            });
            writer.write_batch(&values, Some(&levels), None).map(drop)
        }
        ColumnWriter::BoolColumnWriter(writer) => {
            let (values, levels) = present(values, |value| match value {
                Value::Flag(value) => Some(*value),
                _ => None,
            });
            writer.write_batch(&values, Some(&levels), None).map(drop)
        }
        _ => Err(ParquetError::General("a column has a type that no value has".into())),
    }
}

/// The values that are there, and for every row 1 where it has one.
fn present<'a, T>(
    values: impl Iterator<Item = Option<&'a Value>>,
    read: impl Fn(&Value) -> Option<T>,
) -> (Vec<T>, Vec<i16>) {
    let values: Vec<Option<T>> = values.map(|value| value.and_then(&read)).collect();
    let levels = values.iter().map(|value| i16::from(value.is_some())).collect();
    (values.into_iter().flatten().collect(), levels)
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    use super::super::tests::table;
    use super::*;

    /// Another reader's view is in tests/export.rs.
    #[test]
    fn what_is_written_is_read_back() {
        let table = table();
        let mut out = Vec::new();
        write(&table, &mut out).unwrap();
        let reader = SerializedFileReader::new(bytes::Bytes::from(out)).unwrap();
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!(rows.len(), table.rows.len());
        for (read, written) in rows.iter().zip(&table.rows) {
            for (((name, field), value), heading) in
                read.get_column_iter().zip(written).zip(&table.headings)
            {
                assert_eq!(name, heading.name);
                let same = match (field, value) {
                    (Field::Null, None) => true,
                    (Field::Str(a), Some(Value::Text(b))) => a == b,
                    (Field::Long(a), Some(Value::Integer(b))) => a == b,
                    (Field::Double(a), Some(Value::Real(b))) => a == b,
                    (Field::Bool(a), Some(Value::Flag(b))) => a == b,
                    (Field::TimestampMicros(a), Some(Value::Time(b))) => {
                        Some(*a) == microseconds(b)
                    }
                    _ => false,
                };
                assert!(same, "{name}: {field:?} is not {value:?}");
            }
        }
    }
}
