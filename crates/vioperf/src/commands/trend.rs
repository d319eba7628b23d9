//! `vioperf trend`.

use std::process::ExitCode;

use anyhow::anyhow;
use vioperf_analysis::columns;
use vioperf_analysis::trend::Trend;

use crate::cli::TrendArgs;
use crate::exit::Failure;
use crate::history::{HEADLINE, History, Series};
use crate::output::Output;
use crate::report;

/// Shows a metric over time.
pub fn execute(args: &TrendArgs, output: &Output) -> Result<ExitCode, Failure> {
    if args.metric != HEADLINE && columns::named(&args.metric).is_none() {
        return Err(Failure::Usage(unknown(&args.metric)));
    }
    let history = History::open()?;
    let series = history.series(&args.metric, &args.which.filter(args.limit))?;
    let is_wanted = |cell: &str| args.cell.as_ref().is_none_or(|pattern| matches(pattern, cell));
    let trends: Vec<Trend> =
        series.into_iter().filter(|series| is_wanted(&series.cell)).map(Series::trend).collect();
    if trends.is_empty() {
        output.note(
            "the history has no such run and cell: `vioperf history` lists runs, `vioperf history add RUN` \
             enters one",
        );
    }
    output.result(&report::trend::render(&trends, args.format, output.colors_results())?)?;
    Ok(ExitCode::SUCCESS)
}

fn unknown(metric: &str) -> anyhow::Error {
    let names = columns::all().iter().map(|column| column.name);
    let nearest = names
        .clone()
        .max_by(|a, b| strsim::jaro_winkler(a, metric).total_cmp(&strsim::jaro_winkler(b, metric)));
    let nearest = nearest.unwrap_or_default();
    let all: Vec<&str> = names.collect();
    anyhow!(
        "there is no metric `{metric}`; did you mean `{nearest}`? There are headline, {}",
        all.join(", ")
    )
}

/// Whether `text` has `pattern` in it, where `*` stands for anything.
fn matches(pattern: &str, text: &str) -> bool {
    let mut rest = text;
    for part in pattern.split('*') {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_found_anywhere_and_a_star_is_anything() {
        let cell = "virtio/4-streams/to-guest";
        for yes in ["virtio", "4-streams", "virtio/*/to-guest", "*", "v*o*t", ""] {
            assert!(matches(yes, cell), "{yes}");
        }
        for no in ["e1000", "to-guest*virtio", "virtio/1"] {
            assert!(!matches(no, cell), "{no}");
        }
    }

    #[test]
    fn a_mistyped_metric_gets_the_nearest() {
        let message = unknown("percent_of_base").to_string();
        assert!(message.contains("did you mean `percent_of_baseline`?"), "{message}");
    }
}
