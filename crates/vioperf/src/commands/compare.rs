//! `vioperf compare`.

use std::fs;
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use vioperf_analysis::compare::result::RunComparison;
use vioperf_analysis::compare::{self, Options};

use super::report::analysis_of;
use crate::cli::{CompareArgs, CompareFormat, Smallest};
use crate::exit::{self, Failure};
use crate::output::Output;
use crate::report::comparison::{benchmark, json, junit, markdown, terminal};

/// Compares two stored runs, or the variants of one.
pub fn execute(args: &CompareArgs, output: &Output) -> Result<ExitCode, Failure> {
    let a = analysis_of(&args.a, output)?;
    let options = options(args);
    let comparison = match &args.b {
        Some(path) => {
            let b = analysis_of(path, output)?;
            let names = [&args.a, path].map(|path| path.display().to_string());
            compare::runs(names.each_ref().map(String::as_str), &a, &b, &options)
        }
        None => compare::variants(&a, &options).ok_or_else(|| {
            Failure::Usage(anyhow!(
                "{} has no variants to compare; give a second run, or measure variants in one \
                 (docs/scenarios.md)",
                args.a.display()
            ))
        })?,
    };
    let text = render(args, &comparison, output)?;
    match &args.output {
        Some(file) => fs::write(file, text)
            .with_context(|| format!("cannot write the comparison to {}", file.display()))?,
        None => output.result(&text)?,
    }
    let hits = comparison.rows.iter().filter(|row| fails(args, row.verdict)).count();
    Ok(exit::compare_code(hits > 0))
}

fn fails(args: &CompareArgs, verdict: compare::result::Verdict) -> bool {
    args.fail_if.iter().any(|fail_if| fail_if.meets(verdict))
}

fn options(args: &CompareArgs) -> Options {
    let mut options = Options { alpha: args.alpha, ..Options::default() };
    if !args.metrics.is_empty() {
        options.metrics.clone_from(&args.metrics);
    }
    for smallest in &args.smallest {
        match smallest {
            Smallest::Every(ratio) => options.smallest_ratio = Some(*ratio),
            Smallest::Of(metrics, size) => {
                options.smallest.extend(metrics.iter().map(|metric| (*metric, *size)));
            }
        }
    }
    options
}

fn render(
    args: &CompareArgs,
    comparison: &RunComparison,
    output: &Output,
) -> Result<String, Failure> {
    let colours = args.output.is_none() && output.colors_results();
    Ok(match args.format {
        CompareFormat::Terminal => terminal::render(comparison, colours),
        CompareFormat::Markdown => markdown::render(comparison),
        CompareFormat::Json => json::render(comparison)?,
        CompareFormat::Junit => junit::render(comparison, |verdict| fails(args, verdict))?,
        CompareFormat::GithubActionBenchmark => benchmark::render(comparison, true)?,
        CompareFormat::GithubActionBenchmarkSmaller => benchmark::render(comparison, false)?,
    })
}
