//! `vioperf completions`.

use std::process::ExitCode;

use clap::CommandFactory;

use crate::cli::{Cli, CompletionsArgs};
use crate::exit::Failure;
use crate::output::Output;

/// Prints a shell's completions.
pub fn execute(args: &CompletionsArgs, output: &Output) -> Result<ExitCode, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "vioperf", &mut text);
    output.result(&String::from_utf8_lossy(&text))?;
    Ok(ExitCode::SUCCESS)
}
