//! `vioperf node`: what runs in the lab's namespaces on the host.

use std::process::ExitCode;

use crate::exit::Failure;

/// Serves as a node over standard input until that is closed.
pub fn execute() -> Result<ExitCode, Failure> {
    vioperf_node::serve_stdio()?;
    Ok(ExitCode::SUCCESS)
}
