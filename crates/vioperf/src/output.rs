//! What is printed where: results on standard output, everything else on standard error.

use std::env;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};

use self::panel::Panel;
use crate::cli::ColorChoice;

mod panel;

/// Where a command prints.
#[derive(Debug, Clone)]
pub struct Output {
    quiet: bool,
    color: ColorChoice,
    status: Arc<Mutex<Status>>,
}

/// What is said of what goes on.
#[derive(Debug)]
struct Status {
    /// The lines, a step aside.
    lines: Vec<String>,
    panel: Panel,
}

impl Output {
    /// As the user asked for.
    pub fn new(quiet: bool, color: ColorChoice) -> Self {
        let status = Status { lines: Vec::new(), panel: Panel::new() };
        Self { quiet, color, status: Arc::new(Mutex::new(status)) }
    }

    /// The options by which another vioperf prints as this one does.
    pub fn options(&self) -> Vec<&'static str> {
        let color = match self.color {
            ColorChoice::Auto => "--color=auto",
            ColorChoice::Always => "--color=always",
            ColorChoice::Never => "--color=never",
        };
        [self.quiet.then_some("--quiet"), Some(color)].into_iter().flatten().collect()
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
        self.status("");
        self.line(&format!("{} {text}", self.mark("error:", "31")));
    }

    /// Whether what goes on is told in lines that the next ones replace: not where there is no terminal, nor
    /// where quiet is wanted.
    pub fn shows_status(&self) -> bool {
        !self.quiet && io::stderr().is_terminal()
    }

    /// Replaces what is told of what goes on; without lines it is cleared.
    pub fn status_lines(&self, lines: Vec<String>) {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        status.lines = lines;
        let Status { lines, panel } = &mut *status;
        if self.shows_status() {
            panel.show(lines);
        }
    }

    /// The same with a single line; an empty text clears it.
    pub fn status(&self, text: &str) {
        self.status_lines(if text.is_empty() { Vec::new() } else { vec![text.to_owned()] });
    }

    /// Adds to the last line what is done at the moment; the next step replaces it.
    pub fn status_step(&self, step: &str) {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lines = status.lines.clone();
        match lines.last_mut() {
            Some(last) => last.push_str(&format!("; {step}")),
            None => lines.push(step.to_owned()),
        }
        if self.shows_status() {
            status.panel.show(&lines);
        }
    }

    /// Whether that is told in colours.
    pub fn colors_status(&self) -> bool {
        self.colors(io::stderr().is_terminal())
    }

    fn mark(&self, word: &str, color: &str) -> String {
        if self.colors(io::stderr().is_terminal()) {
            format!("\x1b[1;{color}m{word}\x1b[0m")
        } else {
            word.to_owned()
        }
    }

    fn line(&self, text: &str) {
        let status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        status.panel.aside(|| {
            let mut err = io::stderr().lock();
            // Standard error may be gone, and there is nobody left to tell.
            let _ = writeln!(err, "{text}");
        });
    }
}
