//! The two daemons of an Open vSwitch, ours: they answer in a directory of the sandbox that has no name outside, know
//! nothing of one that runs on the host, and end with the sandbox's process namespace.
//!
//! Sources: ovsdb-server(1), ovs-vswitchd(8), ovs-vsctl(8).

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use super::{INSTALL, find_schema};
use crate::namespace::{Process, Service, serve};
use crate::private_files::PrivateFiles;
use crate::switch::lack::find_program;
use crate::switch::vsctl::{Vsctl, VsctlError};
use crate::switch::{Site, SwitchError};

/// How long a daemon may take to answer.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

/// What is set before ovs-vswitchd starts, which reads it then alone.
#[derive(Debug)]
pub(super) struct Order {
    /// The kind of switch, for messages.
    pub switch: &'static str,
    /// The program ovs-vswitchd.
    pub vswitchd: PathBuf,
    /// Columns of the table Open_vSwitch, each as `ovs-vsctl set` takes it.
    pub settings: Vec<String>,
}

/// The daemons, running.
#[derive(Debug)]
pub(super) struct Daemons {
    switch: &'static str,
    /// The one that is ended first in front.
    processes: Vec<(&'static str, Process)>,
    files: PrivateFiles,
    vsctl: Vsctl,
}

impl Daemons {
    /// Starts them with an empty database.
    ///
    /// # Errors
    /// When a program is missing, ends, or does not answer.
    pub fn start(site: &Site<'_>, order: &Order) -> Result<Self, SwitchError> {
        let switch = order.switch;
        let files = PrivateFiles::new(site.sandbox);
        let step = "make a directory for Open vSwitch";
        let files = files.map_err(|source| SwitchError::Io { step, source })?;
        let folder = files.path();
        let socket = folder.join("db.sock");
        let vsctl = Vsctl::of(&socket);
        let mut daemons = Self { switch, processes: Vec::new(), files, vsctl };
        let schema = find_schema(Path::new("/"));
        let schema =
            schema.ok_or_else(|| failed(switch, format!("it has no schema: {INSTALL}")))?;
        let file = folder.join("conf.db");
        run(switch, "ovsdb-tool", &["create".into(), file.clone().into(), schema.into()])?;
        let server = program(switch, "ovsdb-server")?;
        let arguments =
            [file.into(), joined("--remote=punix:", &socket), control(&folder, "db.ctl")];
        daemons.serve(site, "ovsdb-server", server, &arguments)?;
        daemons.wait_for(&socket)?;
        let settings = order.settings.iter().map(String::as_str);
        let first = ["--no-wait", "--", "init", "--", "set", "Open_vSwitch", "."];
        let first: Vec<&str> = first.into_iter().chain(settings).collect();
        daemons.ask(|vsctl| vsctl.tell(&first))?;
        let arguments = [joined("unix:", &socket), control(&folder, "vswitchd.ctl")];
        daemons.serve(site, "ovs-vswitchd", order.vswitchd.clone(), &arguments)?;
        Ok(daemons)
    }

    /// Starts one; it stays in the foreground, ours to end.
    fn serve(
        &mut self,
        site: &Site<'_>,
        name: &'static str,
        program: PathBuf,
        arguments: &[OsString],
    ) -> Result<(), SwitchError> {
        let folder = self.files.path();
        let quiet = ["--no-chdir", "-vconsole:warn", "-vsyslog:off"].map(OsString::from);
        // The last is where DPDK puts what it would have in /run.
        let own = ["OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR", "OVS_SYSCONFDIR", "RUNTIME_DIRECTORY"];
        let service = Service {
            name,
            program: program.into(),
            arguments: arguments.iter().cloned().chain(quiet).collect(),
            environment: own.map(|name| (name, folder.clone().into_os_string())).into(),
            ..Service::default()
        };
        self.processes.insert(0, (name, serve(site.sandbox, service)?));
        Ok(())
    }

    /// Waits until the database answers.
    fn wait_for(&mut self, path: &Path) -> Result<(), SwitchError> {
        let deadline = Instant::now() + ANSWERS_WITHIN;
        while !path.exists() {
            let ended = self.processes.iter_mut().find_map(|(_, daemon)| daemon.ended());
            if ended.is_some() || Instant::now() >= deadline {
                return Err(self.failed("its database does not answer"));
            }
            thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Where they answer: every process of the sandbox reaches it as long as this lives.
    pub fn folder(&self) -> PathBuf {
        self.files.path()
    }

    /// Their database, for those who outlive a change of this.
    pub fn vsctl(&self) -> &Vsctl {
        &self.vsctl
    }

    /// Their processes, with what they are called.
    pub fn processes(&self) -> impl Iterator<Item = (String, Pid)> {
        self.processes.iter().map(|(name, daemon)| ((*name).to_owned(), daemon.pid()))
    }

    /// The version of its tools.
    pub fn version(&self) -> Result<String, SwitchError> {
        Ok(version_of(&run(self.switch, "ovs-vsctl", &["--version".into()])?))
    }

    /// Changes or reads the database; what fails is told with what the daemons said.
    pub fn ask<T>(
        &self,
        question: impl FnOnce(&Vsctl) -> Result<T, VsctlError>,
    ) -> Result<T, SwitchError> {
        question(&self.vsctl).map_err(|error| self.failed(error))
    }

    /// An error of this switch, with what its daemons said.
    pub fn failed(&self, what: impl std::fmt::Display) -> SwitchError {
        failed(self.switch, format!("{what}{}", self.last_words()))
    }

    fn last_words(&self) -> String {
        let said = self.processes.iter().flat_map(|(name, daemon)| {
            daemon.error_tail().into_iter().map(move |line| format!("; {name} said: {line}"))
        });
        said.collect()
    }
}

impl Drop for Daemons {
    fn drop(&mut self) {
        // In their order, before the directory that they answer in goes.
        while !self.processes.is_empty() {
            drop(self.processes.remove(0));
        }
    }
}

fn control(folder: &Path, name: &str) -> OsString {
    joined("--unixctl=", &folder.join(name))
}

fn joined(before: &str, path: &Path) -> OsString {
    let mut text = OsString::from(before);
    text.push(path);
    text
}

fn failed(switch: &'static str, what: String) -> SwitchError {
    SwitchError::Program { switch, what }
}

/// One of its programs.
pub(super) fn program(switch: &'static str, name: &str) -> Result<PathBuf, SwitchError> {
    find_program(Path::new("/"), name)
        .ok_or_else(|| failed(switch, format!("the program {name} is gone: {INSTALL}")))
}

/// Runs one of its tools to its end: what it printed.
fn run(switch: &'static str, name: &str, arguments: &[OsString]) -> Result<String, SwitchError> {
    let mut command = Command::new(program(switch, name)?);
    command.args(arguments).stdin(Stdio::null());
    let step = "run a tool of Open vSwitch";
    let output = command.output().map_err(|source| SwitchError::Io { step, source })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(failed(switch, format!("{name} failed ({}): {}", output.status, said.trim())))
}

/// Reads `ovs-vsctl (Open vSwitch) 3.1.0`.
fn version_of(answer: &str) -> String {
    let first = answer.lines().next().unwrap_or_default();
    first.rsplit(' ').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_last_word() {
        assert_eq!(version_of("ovs-vsctl (Open vSwitch) 3.1.0\nDB Schema 8.3.1\n"), "3.1.0");
    }
}
