//! How vioperf ends: its exit codes, as `vioperf --help` documents them.

use std::fmt;
use std::process::ExitCode;

use vioperf_model::record::RunEnding;

/// The command line or the scenario is wrong (clap's own code for a wrong command line).
const USAGE: u8 = 2;
/// This machine lacks something.
const MACHINE: u8 = 3;
/// Some cell has no trial that counts.
const INCOMPLETE: u8 = 4;
/// A comparison came out as `--fail-if` says.
const COMPARED: u8 = 5;

/// A reading of a calibration is beyond what is allowed.
const CALIBRATION: u8 = 6;

/// Why a command failed, and the code that says so.
#[derive(Debug)]
pub enum Failure {
    /// What was asked for makes no sense.
    Usage(anyhow::Error),
    /// This machine lacks something.
    Machine(anyhow::Error),
    /// Anything else.
    Other(anyhow::Error),
}

impl Failure {
    /// The exit code.
    pub fn code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(USAGE),
            Self::Machine(_) => ExitCode::from(MACHINE),
            Self::Other(_) => ExitCode::FAILURE,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Usage(error) | Self::Machine(error) | Self::Other(error)) = self;
        write!(f, "{error:#}")
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Other(error.into())
    }
}

/// The exit code of a calibration, `right` when every reading was.
pub fn calibration_code(right: bool) -> ExitCode {
    if right { ExitCode::SUCCESS } else { ExitCode::from(CALIBRATION) }
}

/// The exit code of a run that ended so; `incomplete` when a cell has no trial that counts.
pub fn run_code(how: &RunEnding, incomplete: bool) -> ExitCode {
    match how {
        RunEnding::Completed | RunEnding::Settled | RunEnding::BudgetUsed if incomplete => {
            ExitCode::from(INCOMPLETE)
        }
        RunEnding::Completed | RunEnding::Settled | RunEnding::BudgetUsed => ExitCode::SUCCESS,
        RunEnding::Interrupted { signal } if signal == "SIGINT" => ExitCode::from(130),
        RunEnding::Interrupted { .. } => ExitCode::from(143),
        RunEnding::Failed { .. } => ExitCode::FAILURE,
    }
}

/// The exit code of a comparison, by whether a row came out as `--fail-if` says.
pub fn compare_code(fails: bool) -> ExitCode {
    if fails { ExitCode::from(COMPARED) } else { ExitCode::SUCCESS }
}
