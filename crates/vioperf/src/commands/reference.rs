//! `vioperf reference`.

use std::process::ExitCode;

use crate::cli::{ReferenceArgs, ReferenceOf};
use crate::exit::Failure;
use crate::output::Output;
use crate::reference;

/// Prints the page.
pub fn execute(args: &ReferenceArgs, output: &Output) -> Result<ExitCode, Failure> {
    let page = match args.of {
        ReferenceOf::Scenario => reference::scenario::page(),
        ReferenceOf::Metrics => reference::metrics::page(),
    };
    output.result(&page)?;
    Ok(ExitCode::SUCCESS)
}
