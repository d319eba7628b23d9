//! `vioperf report`.

use std::fs;
use std::process::ExitCode;

use anyhow::Context;
use vioperf_analysis::analyse;

use crate::cli::{ReportArgs, ReportFormat};
use crate::exit::Failure;
use crate::output::Output;
use crate::{report, store};

/// Reports a stored run, as the run itself did.
pub fn execute(args: &ReportArgs, output: &Output) -> Result<ExitCode, Failure> {
    let stored = store::read(&args.run)?;
    for damage in &stored.damage {
        output.warning(damage);
    }
    let analysis = analyse(&stored.info, &stored.trials);
    let colors = args.output.is_none() && output.colors_results();
    let text = match args.format {
        ReportFormat::Terminal => report::terminal::render(&analysis, args.wide, colors),
        ReportFormat::Json => report::json::render(&analysis),
        ReportFormat::Csv => report::csv::render(&analysis),
        ReportFormat::Markdown => report::markdown::render(&analysis),
        ReportFormat::Html => report::html::render(&analysis),
    };
    match &args.output {
        Some(file) => fs::write(file, text)
            .with_context(|| format!("cannot write the report to {}", file.display()))?,
        None => output.result(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}
