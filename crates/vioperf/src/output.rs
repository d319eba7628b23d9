//! What is printed where: results on standard output, everything else on standard error.

use std::env;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};

use crate::cli::ColorChoice;

/// Where a command prints.
#[derive(Debug, Clone)]
pub struct Output {
    quiet: bool,
    color: ColorChoice,
    /// What the status line says, its last step aside.
    status: Arc<Mutex<String>>,
}

impl Output {
    /// As the user asked for.
    pub fn new(quiet: bool, color: ColorChoice) -> Self {
        Self { quiet, color, status: Arc::default() }
    }

    /// Whether results are printed with colours.
    pub fn colors_results(&self) -> bool {
        self.colors(io::stdout().is_terminal())
    }

    fn colors(&self, on_terminal: bool) -> bool {
        match self.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => {
                on_terminal && env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
            }
        }
    }

    /// Prints a result as it is.
    ///
    /// # Errors
    /// When standard output is gone; a closed pipe (`| head`) is no error.
    pub fn result(&self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            done => done,
        }
    }

    /// Tells what is going on; nothing is told when the user wants quiet.
    pub fn note(&self, text: impl Display) {
        if !self.quiet {
            self.line(&text.to_string());
        }
    }

    /// Warns; not even quiet silences it.
    pub fn warning(&self, text: impl Display) {
        self.line(&format!("{} {text}", self.mark("warning:", "33")));
    }

    /// Says why a command failed.
    pub fn error(&self, text: impl Display) {
        self.line(&format!("{} {text}", self.mark("error:", "31")));
    }

    /// A status line that the next one replaces; `None` where there is no terminal or quiet is
    /// wanted.
    pub fn shows_status(&self) -> bool {
        !self.quiet && io::stderr().is_terminal()
    }

    /// Replaces the status line; an empty text clears it.
    pub fn status(&self, text: &str) {
        text.clone_into(&mut self.status.lock().unwrap_or_else(PoisonError::into_inner));
        self.show_status(text);
    }

    /// Adds to the status line what is done at the moment; the next step replaces it.
    pub fn status_step(&self, step: &str) {
        let status = self.status.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.show_status(&format!("{status}; {step}"));
    }

    fn show_status(&self, text: &str) {
        if self.shows_status() {
            let mut err = io::stderr().lock();
            // Nothing can be done about a terminal that went away; the run goes on.
            let _ = write!(err, "\r\x1b[2K{text}").and_then(|()| err.flush());
        }
    }

    fn mark(&self, word: &str, color: &str) -> String {
        if self.colors(io::stderr().is_terminal()) {
            format!("\x1b[1;{color}m{word}\x1b[0m")
        } else {
            word.to_owned()
        }
    }

    fn line(&self, text: &str) {
        self.status("");
        let mut err = io::stderr().lock();
        // As above: standard error may be gone, and there is nobody left to tell.
        let _ = writeln!(err, "{text}");
    }
}
