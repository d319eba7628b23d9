//! `vioperf node`: one end of the traffic, started by vioperf itself.

use std::process::ExitCode;

use anyhow::Context;
use nix::sys::resource::{Resource, setrlimit};

use crate::exit::Failure;

/// Serves as a node over standard input until that is closed; with `memory` it ends when it needs more
/// bytes than that for data (`RLIMIT_DATA`, getrlimit(2)).
pub fn execute(memory: Option<u64>) -> Result<ExitCode, Failure> {
    if let Some(bytes) = memory {
        setrlimit(Resource::RLIMIT_DATA, bytes, bytes).context("cannot bound the node's memory")?;
    }
    vioperf_node::serve_stdio()?;
    Ok(ExitCode::SUCCESS)
}
