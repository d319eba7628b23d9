//! vioperf, run as a user runs it: `vioperf serve` at one end, `vioperf test` at the other.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::{said, word_after};
use crate::contests::Load;
use crate::entry::Entry;

pub struct Vioperf {
    pub program: PathBuf,
    version: String,
}

impl Vioperf {
    /// `given`, or the one beside this program.
    pub fn find(given: Option<&Path>) -> Result<Self> {
        let program = match given {
            Some(path) => path.to_path_buf(),
            None => env::current_exe().context("where is this program?")?.with_file_name("vioperf"),
        };
        ensure!(program.is_file(), "no vioperf at {}: `make build` makes it", program.display());
        let program = program.canonicalize().context("cannot resolve vioperf's path")?;
        let version = word_after(&said(&program, "--version"), "vioperf ")
            .with_context(|| format!("{} does not tell its version", program.display()))?;
        Ok(Self { program, version })
    }

    pub fn name(&self) -> String {
        format!("vioperf {}", self.version)
    }

    pub fn entries(&self, _load: Load, _seconds: u16) -> Vec<Entry> {
        Vec::new()
    }
}
