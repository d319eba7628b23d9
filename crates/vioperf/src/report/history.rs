//! The list of runs that `vioperf history` prints.

use std::fmt::Write as _;

use serde::Serialize;
use vioperf_analysis::wording::count;

use super::csv::{quoted, text};
use super::text::{clean, wrap};
use crate::cli::ListFormat;
use crate::history::entry::Run;
use crate::store::to_json;

const WIDTH: usize = 100;

/// A run, and whether its directory is still there.
#[derive(Serialize)]
struct Listed<'a> {
    #[serde(flatten)]
    run: &'a Run,
    is_gone: bool,
}

/// Renders `runs`.
///
/// # Errors
/// None that happens: all of it is text and numbers.
pub fn render(runs: &[Run], format: ListFormat) -> anyhow::Result<String> {
    match format {
        ListFormat::Terminal => Ok(terminal(runs)?),
        ListFormat::Json => {
            let listed: Vec<Listed> =
                runs.iter().map(|run| Listed { run, is_gone: run.is_gone() }).collect();
            Ok(to_json(&listed)?)
        }
        ListFormat::Csv => Ok(csv(runs)),
    }
}

fn terminal(runs: &[Run]) -> Result<String, std::fmt::Error> {
    let mut out = String::new();
    for run in runs {
        let time = run.started_at.get(..16).unwrap_or(&run.started_at).replace('T', " ");
        let host = if run.host.is_empty() { "an unknown host" } else { &run.host };
        let ending = run.ending.as_deref().unwrap_or("no end is recorded");
        let void = match run.trials_void {
            0 => String::new(),
            void => format!(" + {void} void"),
        };
        let line = format!(
            "{time}  {}  {} on {host}  {}, {}{void}, {ending}",
            run.id,
            run.scenario,
            count(run.cells as usize, "cell"),
            count(run.trials_completed as usize, "trial"),
        );
        writeln!(out, "{}", clean(&line))?;
        let indent = " ".repeat(18);
        out += &wrap(&run.headline, WIDTH, &indent, &indent);
        let directory = match &run.directory {
            None => "not stored".to_owned(),
            Some(directory) if run.is_gone() => format!("{directory} (gone)"),
            Some(directory) => directory.clone(),
        };
        writeln!(out, "{indent}{}", clean(&directory))?;
    }
    if !runs.is_empty() {
        writeln!(out, "\nTimes are UTC.")?;
    }
    Ok(out)
}

fn csv(runs: &[Run]) -> String {
    let mut out =
        "id,started_at,ended_at,ending,scenario,host,cells,trials_completed,trials_void,headline,\
                   directory,is_gone\n"
            .to_owned();
    for run in runs {
        let or_nothing = |value: &Option<String>| value.clone().unwrap_or_default();
        let fields = [
            run.id.clone(),
            run.started_at.clone(),
            or_nothing(&run.ended_at),
            or_nothing(&run.ending),
            text(&run.scenario),
            text(&run.host),
            run.cells.to_string(),
            run.trials_completed.to_string(),
            run.trials_void.to_string(),
            text(&run.headline),
            text(&or_nothing(&run.directory)),
            run.is_gone().to_string(),
        ];
        out += &fields.map(|field| quoted(&field)).join(",");
        out.push('\n');
    }
    out
}
