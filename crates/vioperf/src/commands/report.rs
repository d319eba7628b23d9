//! `vioperf report`.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use vioperf_analysis::Analyser;
use vioperf_analysis::result::RunAnalysis;

use crate::cli::{ReportArgs, ReportFormat};
use crate::exit::Failure;
use crate::output::Output;
use crate::report;
use crate::store::{self, Line, StoreError, StoredRun};

/// Reports a stored run, as the run itself did.
pub fn execute(args: &ReportArgs, output: &Output) -> Result<ExitCode, Failure> {
    let analysis = analysis_of(&args.run, output)?;
    let colors = args.output.is_none() && output.colors_results();
    let text = match args.format {
        ReportFormat::Terminal => report::terminal::render(&analysis, args.wide, colors),
        ReportFormat::Json => report::json::render(&analysis),
        ReportFormat::Csv => report::csv::render(&analysis),
        ReportFormat::Markdown => report::markdown::render(&analysis),
        ReportFormat::Html => report::html::render(&analysis),
        ReportFormat::Openmetrics => report::openmetrics::render(&analysis),
    };
    match &args.output {
        Some(file) => fs::write(file, text)
            .with_context(|| format!("cannot write the report to {}", file.display()))?,
        None => output.result(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Analyses what is stored of a run; what of it cannot be read is warned of and left out.
///
/// # Errors
/// As [`store::read`].
pub fn analysis_of(run: &Path, output: &Output) -> Result<RunAnalysis, StoreError> {
    let StoredRun { info, records } = store::read(run)?;
    let mut analyser = Analyser::new(&info);
    for line in records {
        match line? {
            Line::Record(record) => analyser.add(&record),
            Line::Damage(damage) => output.warning(damage),
        }
    }
    Ok(analyser.finish())
}
