//! Arguments of `compare`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use vioperf_analysis::compare::metric::{METRICS, Scale, Wanted};
use vioperf_analysis::compare::result::Verdict;
use vioperf_model::units::Ratio;

/// Arguments of `compare`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct CompareArgs {
    /// The run that is compared with; alone: its variants are compared with their first
    #[arg(value_name = "RUN_A")]
    pub a: PathBuf,
    /// The run that is compared
    #[arg(value_name = "RUN_B")]
    pub b: Option<PathBuf>,
    /// What is compared: a metric's place in `report --format json`, `headline`, `cpu` (the host's per
    /// unit of work) or `p99`; may be given again [default: headline, cpu and p99]
    #[arg(long = "metric", value_name = "NAME", value_parser = Wanted::parse)]
    pub metrics: Vec<Wanted>,
    /// The smallest difference that matters, such as 3%; NAME=5% is for that metric alone; may be given
    /// again [default: 3%]
    #[arg(long = "smallest-difference", value_name = "[NAME=]SIZE")]
    pub smallest: Vec<Smallest>,
    /// The part of comparisons without any difference in which one may be told
    #[arg(long, value_name = "LEVEL", default_value = "0.01", value_parser = level)]
    pub alpha: f64,
    /// End with code 5 where a row comes out so; several with commas
    #[arg(long, value_enum, value_name = "VERDICT", value_delimiter = ',')]
    pub fail_if: Vec<FailIf>,
    /// The form
    #[arg(long, value_enum, default_value = "terminal")]
    pub format: CompareFormat,
    /// Write to this file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
A difference counts only if a permutation test tells it from chance at the level of --alpha, all rows
together, and if it is as large as matters. It takes 5 blocks of each run at least, or 8 of one run with
variants; docs/statistics.md has the rest.

`--format github-action-benchmark` writes the rows in which more is better (its tool
customBiggerIsBetter), `github-action-benchmark-smaller` the others (customSmallerIsBetter).";

/// The smallest difference that matters.
#[derive(Debug, Clone, PartialEq)]
pub enum Smallest {
    /// Of every ratio: 0.03 for 3 %.
    Every(f64),
    /// Of these metrics: of a ratio 0.03 for 3 %, else in the metric's unit.
    Of(Vec<&'static str>, f64),
}

impl FromStr for Smallest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((name, size)) = text.split_once('=') else {
            return ratio(text).map(Self::Every);
        };
        let wanted = Wanted::parse(name.trim())?;
        let metrics: Vec<_> = METRICS.iter().filter(|metric| wanted.covers(metric)).collect();
        let size = match metrics.first() {
            Some(metric) if metric.scale == Scale::Difference => {
                positive(size).ok_or_else(|| {
                    format!(
                        "`{size}` is no number; write it in {}, without the unit",
                        metric.unit.name()
                    )
                })?
            }
            _ => ratio(size)?,
        };
        Ok(Self::Of(metrics.iter().map(|metric| metric.name).collect(), size))
    }
}

fn ratio(text: &str) -> Result<f64, String> {
    let ratio: Ratio = text.parse().map_err(|error| format!("{error}"))?;
    Ok(ratio.as_f64())
}

fn positive(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|size: &f64| size.is_finite() && *size >= 0.0)
}

fn level(text: &str) -> Result<f64, String> {
    let level = text.parse().ok().or_else(|| ratio(text).ok());
    level.filter(|level| (0.001..=0.2).contains(level)).ok_or_else(|| {
        format!("`{text}` is no level; give one from 0.001 to 0.2, such as 0.01 or 1%")
    })
}

/// What ends with code 5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FailIf {
    /// B is worse, by as much as matters
    Worse,
    /// B is worse or better, by as much as matters
    Different,
    /// Nothing can be said: unclear, too few blocks, or not comparable
    Unclear,
}

impl FailIf {
    /// Whether it meets that verdict.
    pub fn meets(self, verdict: Verdict) -> bool {
        match self {
            Self::Worse => verdict == Verdict::Worse,
            Self::Different => verdict.is_difference(),
            Self::Unclear => verdict.is_open(),
        }
    }
}

/// The forms of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CompareFormat {
    /// Tables for a terminal
    Terminal,
    /// For a pull request
    Markdown,
    /// Everything, with units (see `vioperf schema compare`)
    Json,
    /// JUnit XML: a test case for each cell by metric; one that --fail-if names has failed
    Junit,
    /// B's numbers for github-action-benchmark, where more is better
    GithubActionBenchmark,
    /// The same, where less is better
    GithubActionBenchmarkSmaller,
}
