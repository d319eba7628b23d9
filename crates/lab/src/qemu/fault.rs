//! What can befall a guest, told apart, with what it said last.

use std::fmt;
use std::process::ExitStatus;
use std::time::Duration;

use super::monitor::MonitorError;

/// How many of the console's last lines an error shows.
const SHOWN_LINES: usize = 20;

/// What befell a guest, or kept it from being.
#[derive(Debug)]
pub enum Fault {
    /// QEMU could not be started, or a descriptor for it could not be made.
    NotStarted {
        /// The step that failed.
        step: &'static str,
        /// The reason.
        source: std::io::Error,
    },
    /// QEMU has ended: by itself, or somebody killed it.
    QemuEnded(ExitStatus),
    /// The guest's kernel panicked.
    Panicked,
    /// QEMU stopped the guest with an internal error: the accelerator cannot run it.
    InternalError,
    /// No answer from the guest in time.
    Silent {
        /// How long was waited.
        bound: Duration,
    },
    /// The guest answered, but not as the caller wants; in the caller's words.
    Disagreed(String),
    /// QEMU refused, or its monitor failed.
    Monitor(MonitorError),
    /// A snapshot could not be taken or restored, in QEMU's words.
    Migration(String),
    /// The host's end of the wire could not be made.
    Wire(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotStarted { step, source } => write!(f, "{step}: {source}"),
            Self::QemuEnded(status) => write!(f, "QEMU has ended ({status})"),
            Self::Panicked => f.write_str("the guest's kernel panicked"),
            Self::InternalError => f.write_str(
                "QEMU stopped the guest with an internal error: this machine's KVM cannot run it",
            ),
            Self::Silent { bound } => {
                write!(f, "the guest did not answer within {:.1} s", bound.as_secs_f64())
            }
            Self::Disagreed(reason) | Self::Migration(reason) | Self::Wire(reason) => {
                f.write_str(reason)
            }
            Self::Monitor(error) => error.fmt(f),
        }
    }
}

/// A fault, what was being done, and what QEMU and the guest's console said last.
#[derive(Debug)]
pub struct GuestError {
    /// What was being done, as in "restore the guest".
    pub operation: &'static str,
    /// What happened.
    pub fault: Fault,
    /// The console's last lines, oldest first.
    pub console: Vec<String>,
    /// The last lines of QEMU's standard error.
    pub qemu_said: Vec<String>,
}

impl GuestError {
    /// An error before there was a guest to say anything.
    pub(crate) fn before_start(operation: &'static str, fault: Fault) -> Box<Self> {
        Box::new(Self { operation, fault, console: Vec::new(), qemu_said: Vec::new() })
    }
}

impl std::error::Error for GuestError {}

impl fmt::Display for GuestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {}: {}", self.operation, self.fault)?;
        for (who, lines) in
            [("QEMU said", &self.qemu_said), ("the guest's console ends with", &self.console)]
        {
            if !lines.is_empty() {
                write!(f, "\n{who}:")?;
                for line in lines.iter().skip(lines.len().saturating_sub(SHOWN_LINES)) {
                    write!(f, "\n    {line}")?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_shows_the_last_lines_only() {
        let error = GuestError {
            operation: "boot the guest",
            fault: Fault::Silent { bound: Duration::from_secs(10) },
            console: (0..100).map(|line| format!("line {line}")).collect(),
            qemu_said: Vec::new(),
        };
        let text = error.to_string();
        assert!(text.starts_with("cannot boot the guest: the guest did not answer within 10.0 s"));
        assert!(text.contains("line 99") && text.contains("line 80") && !text.contains("line 79"));
        assert!(!text.contains("QEMU said"));
    }
}
