//! `vioperf history`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::anyhow;

use crate::cli::{HistoryAction, HistoryArgs};
use crate::commands::report::analysis_of;
use crate::exit::Failure;
use crate::history::entry::Entry;
use crate::history::{Filter, History};
use crate::output::Output;
use crate::{report, store};

/// Lists the history, enters runs and takes them out.
pub fn execute(args: &HistoryArgs, output: &Output) -> Result<ExitCode, Failure> {
    let mut history = History::open()?;
    match &args.action {
        None => {
            let runs = history.runs(&args.which.filter(args.limit))?;
            if runs.is_empty() {
                output.note("no such run is in the history; `vioperf history add RUN` enters one");
            }
            output.result(&report::history::render(&runs, args.format)?)?;
        }
        Some(HistoryAction::Add { runs }) => {
            let runs: Vec<Vec<PathBuf>> =
                runs.iter().map(|run| store::parts::runs_in(run)).collect::<Result<_, _>>()?;
            for run in runs.iter().flatten() {
                let entry = Entry::of(&analysis_of(run, output)?, Some(run));
                let again = if history.has(&entry.run.id)? { " (again)" } else { "" };
                history.enter(&entry)?;
                output.note(format_args!("{}  {}{again}", entry.run.id, run.display()));
            }
        }
        Some(HistoryAction::Forget { ids, gone }) => {
            let mut ids = ids.clone();
            if *gone {
                let runs = history.runs(&Filter::default())?;
                ids.extend(runs.into_iter().filter(|run| run.is_gone()).map(|run| run.id));
            }
            for id in ids {
                match history.forget(&id)? {
                    Some(id) => output.note(format_args!("{id} is forgotten")),
                    None => {
                        return Err(Failure::Usage(anyhow!(
                            "not one run's id begins with `{id}`: `vioperf history` lists them"
                        )));
                    }
                }
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
