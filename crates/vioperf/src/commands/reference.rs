//! `vioperf reference`.

use std::process::ExitCode;

use super::report::analysis_of;
use super::schema::schema_of;
use crate::cli::{ReferenceCommand, SchemaOf};
use crate::exit::Failure;
use crate::output::Output;
use crate::references::{self, ReferencesError};
use crate::report::published;
use crate::store::to_json;
use crate::{reference, report};

/// Lists, shows, checks, keeps and removes references; prints pages.
pub fn execute(command: &ReferenceCommand, output: &Output) -> Result<ExitCode, Failure> {
    let text = match command {
        ReferenceCommand::List { json } => {
            let all = references::all()?;
            if *json { to_json(&published::listed(&all))? } else { published::list(&all) }
        }
        ReferenceCommand::Show { name, json } => {
            let found = references::find(name).map_err(usage)?;
            if *json { to_json(&found.reference)? } else { published::show(&found) }
        }
        ReferenceCommand::Check { names, json } => {
            let found = match names.as_slice() {
                [] => references::all()?,
                names => {
                    let found = names.iter().map(|name| references::find(name));
                    found.collect::<Result<_, _>>().map_err(usage)?
                }
            };
            if *json { to_json(&published::checked(&found))? } else { published::check(&found) }
        }
        ReferenceCommand::Add { run, name, title, replace } => {
            let analysis = analysis_of(run, output)?;
            let made = vioperf_analysis::references::of_run(&analysis, name, title.as_deref());
            let path = references::add(&made, *replace).map_err(usage)?;
            output.note(format_args!(
                "{} kept in {}: `vioperf run SCENARIO --reference {name}` sets a run beside it",
                report::published::figures(made.figures.len()),
                path.display()
            ));
            return Ok(ExitCode::SUCCESS);
        }
        ReferenceCommand::Remove { name } => {
            references::remove(name).map_err(usage)?;
            output.note(format_args!("removed the reference {name}"));
            return Ok(ExitCode::SUCCESS);
        }
        ReferenceCommand::Schema => to_json(&schema_of(SchemaOf::Reference))?,
        ReferenceCommand::Scenario => reference::scenario::page(),
        ReferenceCommand::Metrics => reference::metrics::page(),
    };
    output.result(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// What the command line names wrongly is told so.
fn usage(error: ReferencesError) -> Failure {
    use ReferencesError::{BuiltIn, Name, Taken, Unknown, Unsound};
    match error {
        BuiltIn(_) | Name(_) | Taken(_) | Unknown { .. } | Unsound { .. } => {
            Failure::Usage(error.into())
        }
        other => other.into(),
    }
}
