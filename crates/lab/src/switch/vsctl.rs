//! Asking and changing the database of an Open vSwitch, the host's or ours, by `ovs-vsctl` (ovs-vsctl(8)).

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::lack::find_program;

const PROGRAM: &str = "ovs-vsctl";

/// How long an answer, or a change, may take.
const ANSWER_SECONDS: u64 = 10;

/// Where the socket of the database is, where `OVS_RUNDIR` names no other directory: of a distribution's package, and of
/// one that was built from its source.
const FOLDERS: [&str; 3] =
    ["run/openvswitch", "var/run/openvswitch", "usr/local/var/run/openvswitch"];

/// Why Open vSwitch did not answer.
#[derive(Debug, thiserror::Error)]
pub enum VsctlError {
    /// There is no such program.
    #[error("the program {PROGRAM} was not found")]
    NoProgram,
    /// It did not start.
    #[error("cannot run {PROGRAM}: {0}")]
    Start(#[source] std::io::Error),
    /// It failed.
    #[error("{PROGRAM} {arguments}: {said}")]
    Failed {
        /// What it was told.
        arguments: String,
        /// What it said.
        said: String,
    },
    /// A port is in the database, and nothing more.
    #[error("{port} is no port of {bridge}: {said}")]
    NoPort {
        /// The port.
        port: String,
        /// The bridge.
        bridge: String,
        /// What ovs-vswitchd said.
        said: String,
    },
}

/// Where a port is.
#[derive(Debug)]
pub(crate) struct PortPlace {
    /// Its bridge.
    pub bridge: String,
    /// Its number there, or what stands in its place.
    pub number: String,
}

impl PortPlace {
    /// Whether ovs-vswitchd has it, not the database alone.
    pub(crate) fn is_in_force(&self) -> bool {
        self.number.parse::<i32>().is_ok_and(|number| number > 0)
    }
}

/// A running Open vSwitch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Vsctl {
    database: PathBuf,
}

impl Vsctl {
    /// That whose database answers at this socket.
    pub(crate) fn of(database: &Path) -> Self {
        Self { database: database.to_owned() }
    }

    /// The host's, if it runs; `root` is `/` but in tests.
    pub(crate) fn of_host(root: &Path) -> Option<Self> {
        let named = env::var_os("OVS_RUNDIR").map(PathBuf::from);
        let usual = || FOLDERS.map(|folder| root.join(folder)).to_vec();
        let folders = named.map_or_else(usual, |named| vec![named]);
        let sockets = folders.into_iter().map(|folder| folder.join("db.sock"));
        sockets.into_iter().find(|socket| socket.exists()).map(|database| Self { database })
    }

    /// The socket of its database.
    pub(crate) fn database(&self) -> &Path {
        &self.database
    }

    /// Changes or reads the database, and waits until ovs-vswitchd has done it, unless told `--no-wait`: what it answered.
    pub(crate) fn tell(&self, arguments: &[&str]) -> Result<String, VsctlError> {
        let program = find_program(Path::new("/"), PROGRAM).ok_or(VsctlError::NoProgram)?;
        let mut database = OsString::from("--db=unix:");
        database.push(&self.database);
        let mut command = Command::new(program);
        command.arg(format!("--timeout={ANSWER_SECONDS}")).arg(database).args(arguments);
        let output = command.stdin(Stdio::null()).output().map_err(VsctlError::Start)?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(VsctlError::Failed { arguments: arguments.join(" "), said })
    }

    /// A value of a record, without quotes.
    pub(crate) fn get(&self, table: &str, record: &str, key: &str) -> Result<String, VsctlError> {
        let value = self.tell(&["--if-exists", "get", table, record, key])?;
        Ok(value.trim_matches('"').to_owned())
    }

    /// Whether there is a bridge of that name.
    pub(crate) fn has_bridge(&self, bridge: &str) -> Result<bool, VsctlError> {
        Ok(self.bridges()?.iter().any(|known| known == bridge))
    }

    /// The bridges.
    pub(crate) fn bridges(&self) -> Result<Vec<String>, VsctlError> {
        Ok(self.tell(&["list-br"])?.lines().map(str::to_owned).collect())
    }

    /// The ports of a bridge, its own aside.
    pub(crate) fn ports_of(&self, bridge: &str) -> Result<Vec<String>, VsctlError> {
        Ok(self.tell(&["list-ports", bridge])?.lines().map(str::to_owned).collect())
    }

    /// Puts an interface on a bridge, with what is to be set of it, each as `ovs-vsctl set` takes it.
    pub(crate) fn add_port(
        &self,
        bridge: &str,
        port: &str,
        settings: &[&str],
    ) -> Result<(), VsctlError> {
        let set: &[&str] =
            if settings.is_empty() { &[] } else { &["--", "set", "Interface", port] };
        self.tell(&[&["add-port", bridge, port], set, settings].concat())?;
        let said = self.get("Interface", port, "error")?;
        match said.as_str() {
            "[]" | "" => Ok(()),
            _ => Err(VsctlError::NoPort { port: port.to_owned(), bridge: bridge.to_owned(), said }),
        }
    }

    /// Where a port is.
    pub(crate) fn place_of(&self, port: &str) -> Result<PortPlace, VsctlError> {
        let bridge = self.tell(&["port-to-br", port])?;
        Ok(PortPlace { bridge, number: self.get("Interface", port, "ofport")? })
    }

    /// Takes a port off a bridge, if it is on it.
    pub(crate) fn delete_port(&self, bridge: &str, port: &str) -> Result<(), VsctlError> {
        self.tell(&["--if-exists", "del-port", bridge, port]).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn one_that_runs_is_found_by_its_socket() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(Vsctl::of_host(root.path()), None);
        fs::create_dir_all(root.path().join("run/openvswitch")).unwrap();
        let socket = root.path().join("run/openvswitch/db.sock");
        fs::write(&socket, "").unwrap();
        assert_eq!(Vsctl::of_host(root.path()).unwrap().database(), socket);
    }

    #[test]
    fn one_that_does_not_answer_is_told() {
        let error = Vsctl::of(Path::new("/nonexistent/db.sock")).bridges().unwrap_err();
        let said = error.to_string();
        assert!(said.contains("ovs-vsctl"), "{said}");
    }
}
