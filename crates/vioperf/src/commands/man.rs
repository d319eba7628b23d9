//! `vioperf man`.

use std::fs;
use std::process::ExitCode;

use anyhow::Context;
use clap::CommandFactory;

use crate::cli::{Cli, ManArgs};
use crate::exit::Failure;

/// Writes the man pages, one a subcommand.
pub fn execute(args: &ManArgs) -> Result<ExitCode, Failure> {
    let directory = &args.directory;
    fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), directory))
        .with_context(|| format!("cannot write man pages into {}", directory.display()))?;
    Ok(ExitCode::SUCCESS)
}
