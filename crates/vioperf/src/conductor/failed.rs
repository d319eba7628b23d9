//! What did not come off, as it is told of a trial.

use anyhow::anyhow;
use vioperf_lab::LabError;
use vioperf_lab::qemu::GuestError;

use super::node_link::NodeError;

/// A trial that did not come off.
pub(super) struct Failed {
    pub(super) reason: String,
    pub(super) console_tail: Vec<String>,
    pub(super) interrupted: bool,
}

impl Failed {
    pub(super) fn of_node(error: &NodeError) -> Self {
        Self {
            reason: error.to_string(),
            console_tail: Vec::new(),
            interrupted: error.is_interrupt(),
        }
    }

    /// For a reason of no guest's and no node's.
    pub(super) fn because(error: impl std::fmt::Display) -> Self {
        Self { reason: error.to_string(), console_tail: Vec::new(), interrupted: false }
    }

    /// As the error of something that is not a trial: the last words are part of it.
    pub(super) fn into_error(self) -> anyhow::Error {
        match self.console_tail.is_empty() {
            true => anyhow!(self.reason),
            false => anyhow!("{}\n  {}", self.reason, self.console_tail.join("\n  ")),
        }
    }

    pub(super) fn of_guest(error: GuestError) -> Self {
        let reason = format!("cannot {}: {}", error.operation, error.fault);
        let console_tail = error.qemu_said.into_iter().chain(error.console).collect();
        Self { reason, console_tail, interrupted: false }
    }
}

impl From<LabError> for Failed {
    fn from(error: LabError) -> Self {
        match error {
            LabError::Guest(error) => Self::of_guest(*error),
            other => Self::because(other),
        }
    }
}
