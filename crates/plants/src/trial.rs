//! A short real trial over a testbed, and what vioperf tells of it.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::namespace::Namespace;
use crate::stutter::Stutter;
use crate::testbed::{End, SERVER, Testbed};

/// No server takes longer until it listens, and no test until it ends.
const LISTENS_WITHIN: Duration = Duration::from_secs(10);
const ENDS_WITHIN: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(10);

/// What a report tells of one cell.
#[derive(Debug, Clone)]
pub struct Told {
    /// Rules that found something, the first is what limits the cell.
    pub rules: Vec<String>,
    /// What the first said.
    pub title: String,
    /// The whole report.
    pub report: Value,
}

impl Told {
    /// Reads what is told of the last cell of a report (the first is the baseline, where there is one).
    ///
    /// # Errors
    /// Where the report has no cell, or none of its trials counts.
    pub fn of(report: Value) -> Result<Self> {
        let cells = report["cells"].as_array().context("the report has no cells")?;
        let cell = cells.last().context("the report has no cells")?;
        if cell["trials"]["completed"] == 0 {
            bail!("no trial counts: {}", report["findings"]);
        }
        let limits = cell["limits"].as_array().cloned().unwrap_or_default();
        let word = |limit: &Value, key: &str| limit[key].as_str().unwrap_or_default().to_owned();
        let rules = limits.iter().map(|limit| word(limit, "rule")).collect();
        let title = limits.first().map(|limit| word(limit, "title")).unwrap_or_default();
        Ok(Self { rules, title, report })
    }
}

/// Runs `vioperf serve` on one end and `vioperf test` with these options on the other.
///
/// `folder` takes the run and what else there is of it.
///
/// # Errors
/// Where one of them fails: its own words.
pub fn between(testbed: &Testbed, vioperf: &Path, options: &[&str], folder: &Path) -> Result<Told> {
    let program = vioperf.to_str().context("vioperf's path is no text")?;
    let file = |name: &str| -> Result<String> {
        let path = folder.join(name);
        Ok(path.to_str().context("a path is no text")?.to_owned())
    };
    let (token, run) = (file("token")?, file("run")?);
    if !folder.join("token").exists() {
        testbed.server.run(program, &["serve", "--new-token", &token])?;
    }
    let address = SERVER.to_string();
    let serve = ["serve", "--listen", &address, "--token-file", &token];
    let mut server = Running::start(testbed, End::Server, program, &serve)?;
    server.until("listening")?;
    let _stutter = testbed.stops_receiver.then(|| Stutter::of_children(server.child.id()));
    let fixed = ["test", &address, "--token-file", &token, "--json", "--no-history", "--out", &run];
    let client = Running::start(testbed, End::Client, program, &[&fixed, options].concat())?;
    Told::of(client.report()?)
}

/// Runs a scenario with these changes, in a lab of its own.
///
/// # Errors
/// Where it fails: its own words.
pub fn in_lab(vioperf: &Path, scenario: &str, options: &[&str], folder: &Path) -> Result<Told> {
    let (file, run) = (folder.join("plant.toml"), folder.join("run"));
    fs::write(&file, scenario).context("cannot write the scenario")?;
    let mut lab = outside(vioperf);
    lab.arg("run").arg(&file).arg("--out").arg(&run).arg("--no-history").args(options);
    Running::of(&mut lab)?.ends()?;
    reported(vioperf, &run)
}

/// What is told of a run that was stored.
///
/// # Errors
/// Where it cannot be reported: its own words.
pub fn reported(vioperf: &Path, run: &Path) -> Result<Told> {
    let mut report = outside(vioperf);
    report.args(["report", "--format", "json"]).arg(run);
    Told::of(Running::of(&mut report)?.report()?)
}

/// A program outside of all testbeds that ends with the thread that starts it.
fn outside(program: &Path) -> Command {
    let mut command = Command::new(program);
    // SAFETY: between fork and exec one system call is made.
    unsafe { command.pre_exec(|| Ok(set_pdeathsig(Signal::SIGKILL)?)) };
    command.stdin(Stdio::null());
    command
}

/// A vioperf that runs; killed when dropped.
struct Running {
    name: String,
    child: Child,
    output: File,
    errors: File,
}

impl Running {
    fn start(testbed: &Testbed, end: End, program: &str, arguments: &[&str]) -> Result<Self> {
        let namespace: &Namespace = testbed.end(end);
        let mut command = namespace.command(program, arguments);
        command.env_remove("VIOPERF_TOKEN");
        if let Some(group) = testbed.group(end) {
            let group = group.as_raw_fd();
            let enter = move || {
                // SAFETY: the testbed keeps the file open until its processes have ended; one byte is
                // written that lives for ever. "0" is who writes it.
                match unsafe { libc::write(group, c"0".as_ptr().cast(), 1) } {
                    1 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                }
            };
            // SAFETY: between fork and exec one system call is made.
            unsafe { command.pre_exec(enter) };
        }
        Self::of(&mut command)
    }

    fn of(command: &mut Command) -> Result<Self> {
        let name = format!("{command:?}");
        let failed = || format!("cannot start {name}");
        let output = tempfile::tempfile().with_context(failed)?;
        let errors = tempfile::tempfile().with_context(failed)?;
        command.stdout(output.try_clone().with_context(failed)?);
        command.stderr(errors.try_clone().with_context(failed)?);
        let child = command.spawn().with_context(failed)?;
        Ok(Self { name, child, output, errors })
    }

    fn said(&self) -> Result<String> {
        Ok(text(&self.errors)? + &text(&self.output)?)
    }

    fn until(&mut self, word: &str) -> Result<()> {
        let deadline = Instant::now() + LISTENS_WITHIN;
        while !self.said()?.contains(word) {
            if self.child.try_wait()?.is_some() || Instant::now() > deadline {
                bail!("{} does not say `{word}` but: {}", self.name, self.said()?);
            }
            sleep(LOOK);
        }
        Ok(())
    }

    /// Waits for its end; what it printed.
    fn ends(mut self) -> Result<String> {
        let deadline = Instant::now() + ENDS_WITHIN;
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if Instant::now() > deadline {
                bail!("{} does not end; it said: {}", self.name, self.said()?);
            }
            sleep(LOOK);
        };
        if !status.success() {
            bail!("{} failed: {}", self.name, text(&self.errors)?.trim());
        }
        text(&self.output)
    }

    fn report(self) -> Result<Value> {
        serde_json::from_str(&self.ends()?).context("the report is no JSON")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Its position, which is the writer's too, stays where it is.
fn text(file: &File) -> Result<String> {
    let length = file.metadata().context("cannot read an output")?.len();
    let mut bytes = vec![0; usize::try_from(length)?];
    file.read_exact_at(&mut bytes, 0).context("cannot read an output")?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
