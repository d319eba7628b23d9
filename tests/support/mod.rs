//! What the end-to-end tests share: the real binary, and looking for what it left behind.
#![allow(dead_code, reason = "each test program uses a part")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "of test programs")]

pub mod emulated_machine;
pub mod libvirt_client;
pub mod libvirtd;
pub mod listener;
pub mod machines;
pub mod mounts;
pub mod own_network;
pub mod past;
pub mod planting;
pub mod readers;
pub mod running;
pub mod schema;
pub mod sshd;
pub mod traces;
pub mod tries;
pub mod world;

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The binary under test.
pub const VIOPERF: &str = env!("CARGO_BIN_EXE_vioperf");

/// Runs vioperf to its end.
pub fn vioperf(arguments: &[&str]) -> Finished {
    let mut command = Command::new(VIOPERF);
    // The user's history is not for tests.
    command.args(arguments).env("VIOPERF_NO_HISTORY", "1").stdin(Stdio::null());
    Finished::of(command.output().unwrap())
}

/// How a vioperf ended.
#[derive(Debug)]
pub struct Finished {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Finished {
    pub fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            signal: output.status.signal(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The test's subject is what comes after a success.
    #[track_caller]
    pub fn succeeded(self) -> Self {
        assert_eq!(self.code, Some(0), "{self:#?}");
        self
    }

    /// It ended with this code and said all of these words.
    #[track_caller]
    pub fn failed_with(self, code: i32, words: &[&str]) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        for word in words {
            assert!(self.stderr.contains(word), "no `{word}` in: {}", self.stderr);
        }
        self
    }
}

/// Writes a file for a test.
pub fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
