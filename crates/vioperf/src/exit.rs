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

/// The exit codes of the parts of a run, of which the gravest is that of the whole.
#[derive(Debug, Default)]
pub struct PartCodes(Vec<i32>);

impl PartCodes {
    /// Adds a part's.
    pub fn add(&mut self, code: i32) {
        self.0.push(code);
    }

    /// Whether a part was ended by a signal, so that nothing further is wanted.
    pub fn is_interrupted(&self) -> bool {
        self.0.iter().any(|code| *code >= 128)
    }

    /// That of the whole.
    pub fn code(&self) -> ExitCode {
        ExitCode::from(self.gravest())
    }

    fn gravest(&self) -> u8 {
        let rank = |code: &i32| match *code {
            128.. => 4,
            0 => 0,
            code if code == i32::from(INCOMPLETE) => 1,
            code if code == i32::from(MACHINE) => 2,
            _ => 3,
        };
        let gravest = self.0.iter().copied().max_by_key(rank).unwrap_or(0);
        u8::try_from(gravest).unwrap_or(1)
    }
}

/// The exit code of a comparison, by whether a row came out as `--fail-if` says.
pub fn compare_code(fails: bool) -> ExitCode {
    if fails { ExitCode::from(COMPARED) } else { ExitCode::SUCCESS }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gravest_part_decides() {
        for (codes, whole) in [
            (&[0, 0][..], 0),
            (&[0, 4, 0], 4),
            (&[4, 3, 0], 3),
            (&[3, 1, 4], 1),
            (&[1, 130], 130),
            (&[], 0),
        ] {
            assert_eq!(PartCodes(codes.to_vec()).gravest(), whole, "{codes:?}");
        }
        assert!(PartCodes(vec![0, 143]).is_interrupted() && !PartCodes(vec![4]).is_interrupted());
    }
}
