//! `vioperf export`.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use vioperf_analysis::Analyser;
use vioperf_analysis::trial_table::{Row, Rows, headings};

use crate::cli::{ExportArgs, ExportFormat};
use crate::exit::Failure;
use crate::export::{self, Table};
use crate::output::Output;
use crate::run_id::run_id;
use crate::store::{self, Line, StoreError, StoredRun};

/// Writes the trials of runs as one table.
pub fn execute(args: &ExportArgs, output: &Output) -> Result<ExitCode, Failure> {
    if args.format == ExportFormat::Parquet && args.out.is_none() && io::stdout().is_terminal() {
        return Err(Failure::Usage(anyhow!(
            "Parquet is not for a terminal: give --out FILE, or --format csv"
        )));
    }
    let mut table = Table { headings: headings(), rows: Vec::new() };
    for run in &args.runs {
        for run in store::parts::runs_in(run)? {
            table.rows.extend(rows_of(&run, output)?);
        }
    }
    match &args.out {
        Some(path) => {
            let written = write_file(&table, args.format, path);
            written.with_context(|| format!("cannot write {}", path.display()))?;
        }
        None => match write(&table, args.format, io::stdout()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            written => written.context("cannot write to standard output")?,
        },
    }
    Ok(ExitCode::SUCCESS)
}

/// The rows of a stored run; what of it cannot be read is warned of and left out.
fn rows_of(run: &Path, output: &Output) -> Result<Vec<Row>, StoreError> {
    let StoredRun { info, records } = store::read(run)?;
    let mut analyser = Analyser::new(&info);
    let mut rows = Rows::new();
    for line in records {
        match line? {
            Line::Record(record) => {
                analyser.add(&record);
                rows.add(&record);
            }
            Line::Damage(damage) => output.warning(damage),
        }
    }
    Ok(rows.finish(&run_id(&info), &analyser.finish()))
}

/// A file that is not whole is not left.
fn write_file(table: &Table, format: ExportFormat, path: &Path) -> io::Result<()> {
    let file = File::create(path)?;
    let written = write(table, format, BufWriter::new(&file));
    if written.is_err() && file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        // The reason why it could not be written matters more than why it stays.
        let _ = std::fs::remove_file(path);
    }
    written
}

fn write(table: &Table, format: ExportFormat, mut out: impl Write + Send) -> io::Result<()> {
    match format {
        ExportFormat::Csv => export::csv::write(table, &mut out)?,
        ExportFormat::Iometer => export::iometer::write(table, &mut out)?,
        ExportFormat::Parquet => {
            export::parquet::write(table, &mut out).map_err(|error| match error {
                parquet::errors::ParquetError::External(source) => {
                    source.downcast::<io::Error>().map_or_else(io::Error::other, |source| *source)
                }
                other => io::Error::other(other),
            })?;
        }
    }
    out.flush()
}
