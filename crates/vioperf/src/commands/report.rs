//! `vioperf report`.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use vioperf_analysis::result::RunAnalysis;
use vioperf_analysis::{Analyser, iperf3};
use vioperf_model::record::Outcome;

use crate::cli::{ReportArgs, ReportFormat};
use crate::exit::Failure;
use crate::output::Output;
use crate::references;
use crate::report;
use crate::store::{self, Line, StoreError, StoredRun};

/// Reports a stored run, as the run itself did.
pub fn execute(args: &ReportArgs, output: &Output) -> Result<ExitCode, Failure> {
    if args.trial.is_some() && args.format != ReportFormat::Iperf3 {
        let why = "--trial is for `--format iperf3`: the other forms are of the whole run";
        return Err(Failure::Usage(anyhow!(why)));
    }
    let colors = args.output.is_none() && output.colors_results();
    if store::parts::holds_parts(&args.run) {
        let text = in_parts(args, colors, output)?;
        return write(&text, args, output);
    }
    let whole = || -> Result<RunAnalysis, Failure> {
        let mut analysis = analysis_of(&args.run, output)?;
        set_beside(&mut analysis, &args.reference)?;
        Ok(analysis)
    };
    let text = match args.format {
        ReportFormat::Terminal => report::terminal::render(&whole()?, args.wide, colors),
        ReportFormat::Json => report::json::render(&whole()?),
        ReportFormat::Csv => report::csv::render(&whole()?),
        ReportFormat::Markdown => report::markdown::render(&whole()?),
        ReportFormat::Html => report::html::render(&whole()?),
        ReportFormat::Openmetrics => report::openmetrics::render(&whole()?),
        ReportFormat::Iperf3 => one_trial(args, output)?,
    };
    write(&text, args, output)
}

/// Sets a run beside references that it did not ask for itself.
fn set_beside(analysis: &mut RunAnalysis, names: &[String]) -> Result<(), Failure> {
    for name in names {
        let found = references::find(name).map_err(|error| Failure::Usage(error.into()))?;
        if !analysis.references.iter().any(|known| known.name == found.reference.name) {
            let beside = vioperf_analysis::references::beside(analysis, &found.reference);
            analysis.references.push(beside);
        }
    }
    Ok(())
}

fn write(text: &str, args: &ReportArgs, output: &Output) -> Result<ExitCode, Failure> {
    match &args.output {
        Some(file) => fs::write(file, text)
            .with_context(|| format!("cannot write the report to {}", file.display()))?,
        None => output.result(text)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A run in parts.
fn in_parts(args: &ReportArgs, colors: bool, output: &Output) -> Result<String, Failure> {
    use report::parts;
    let mut whole = parts::Whole::read(&args.run, output)?;
    for analysis in whole.reports() {
        set_beside(analysis, &args.reference)?;
    }
    Ok(match args.format {
        ReportFormat::Terminal => parts::terminal(&whole, args.wide, colors),
        ReportFormat::Json => parts::json(&whole),
        ReportFormat::Csv => parts::csv(&whole),
        ReportFormat::Markdown => parts::markdown(&whole),
        ReportFormat::Html => parts::html(&whole),
        // What is of one run alone says so, and names a part.
        ReportFormat::Openmetrics | ReportFormat::Iperf3 => {
            return Err(store::read_info(&args.run).err().map_or_else(
                || anyhow!("name a part").into(),
                |error| Failure::Usage(error.into()),
            ));
        }
    })
}

/// A trial by itself, in the words of another tool.
fn one_trial(args: &ReportArgs, output: &Output) -> Result<String, Failure> {
    let StoredRun { info, records } = store::read(&args.run)?;
    let mut found = None;
    for line in records {
        match line? {
            Line::Record(record) => {
                let is_wanted = match args.trial {
                    Some(sequence) => record.sequence == sequence,
                    None => record.outcome == Outcome::Completed,
                };
                if is_wanted {
                    found = Some(record);
                }
            }
            Line::Damage(damage) => output.warning(damage),
        }
    }
    let trial = found.ok_or_else(|| match args.trial {
        Some(sequence) => anyhow!(
            "the run has no trial {sequence}: `vioperf export --format csv` lists those that it has"
        ),
        None => anyhow!("the run has no trial that counts"),
    })?;
    let cell = info.plan.cells.iter().find(|cell| cell.id == trial.cell);
    let cell = cell.ok_or_else(|| anyhow!("the run's plan has no cell {}", trial.cell))?;
    let document = iperf3::of_trial(&info, cell, &trial)
        .map_err(|reason| anyhow!("trial {}: {reason}", trial.sequence))?;
    Ok(report::json::render(&document))
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
    let mut analysis = analyser.finish();
    for name in &info.scenario.reference {
        match references::kept(run, name) {
            Ok(found) => {
                let beside = vioperf_analysis::references::beside(&analysis, &found.reference);
                analysis.references.push(beside);
            }
            Err(error) => output.warning(error),
        }
    }
    Ok(analysis)
}
