//! Open vSwitch, with its kernel datapath or its userspace one. Its two daemons are our own: they answer in a
//! directory of the sandbox that has no name outside, know nothing of one that runs on the host, and end with
//! the sandbox's process namespace.
//!
//! In the userspace datapath frames pass by packet sockets of ovs-vswitchd. It would drop those that the kernel
//! has left without a checksum, so it is told to pass on segments as they are (`userspace-tso-enable`), which
//! has to be before it starts.
//!
//! Sources: ovs-vswitchd.conf.db(5), ovsdb-server(1), and Open vSwitch's `Documentation/topics/userspace-tso.rst`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use vioperf_netlink::{Socket, has_generic_family};

use super::lack::{self, Lack, find_program};
use super::{
    Backing, GuestEnd, NamespaceEnd, NearEnds, Room, Row, Site, Switch, SwitchError, Wire, ports,
};
use crate::namespace::{Process, Service, serve};
use crate::preflight::{Status, tun};
use crate::private_files::PrivateFiles;

/// The kernel's datapath where it has one.
pub(super) const ROW: Row = Row {
    name: "openvswitch",
    lacks: |root, _| lacks(root),
    backing: Backing::Tap,
    near_ends: NearEnds::Both,
    room: Room { host_interface: Some(NAME), rules: false, ..Room::LINUX_BRIDGE },
    open: |_| {
        let has_kernel = has_generic_family(KERNEL_DATAPATH).unwrap_or(false);
        let datapath = if has_kernel { Datapath::Kernel } else { Datapath::Userspace };
        Box::new(OpenVswitch::new(ROW.name, datapath))
    },
};

/// The userspace datapath, whatever the kernel has.
pub(super) const USERSPACE: Row = Row {
    name: "openvswitch-userspace",
    open: |_| Box::new(OpenVswitch::new(USERSPACE.name, Datapath::Userspace)),
    ..ROW
};

/// The generic netlink family of the kernel's datapath.
const KERNEL_DATAPATH: &str = "ovs_datapath";

const NAME: &str = "vioperf0";

const PROGRAMS: [&str; 4] = ["ovsdb-tool", "ovsdb-server", "ovs-vswitchd", "ovs-vsctl"];

/// Where distributions put the database's schema.
const SCHEMAS: [&str; 2] =
    ["usr/share/openvswitch/vswitch.ovsschema", "usr/local/share/openvswitch/vswitch.ovsschema"];

pub(super) const INSTALL: &str = "Debian, Ubuntu: `sudo apt-get install openvswitch-switch`; Fedora: `sudo dnf install openvswitch`";

/// How long a daemon may take to answer, and a change to be made.
const ANSWER_SECONDS: u64 = 10;

fn lacks(root: &Path) -> Option<Lack> {
    let programs = || lack::programs(root, &PROGRAMS, INSTALL);
    let schema = || {
        let has = schema(root).is_some();
        (!has).then(|| Lack::new("Open vSwitch's vswitch.ovsschema was not found", INSTALL))
    };
    // The bridge itself is a tap of ovs-vswitchd in the userspace datapath.
    let device = || {
        let check = tun(root);
        let advice = check.advice.unwrap_or_default();
        (check.status == Status::Fail).then(|| Lack::new(check.found, advice))
    };
    programs().or_else(schema).or_else(device)
}

fn schema(root: &Path) -> Option<PathBuf> {
    SCHEMAS.iter().map(|path| root.join(path)).find(|path| path.is_file())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Datapath {
    Kernel,
    Userspace,
}

impl Datapath {
    /// Its name in the database.
    fn kind(self) -> &'static str {
        match self {
            Self::Kernel => "system",
            Self::Userspace => "netdev",
        }
    }
}

#[derive(Debug)]
struct OpenVswitch {
    name: &'static str,
    datapath: Datapath,
    version: String,
    /// The daemons, the one that is ended first in front.
    daemons: Vec<(&'static str, Process)>,
    files: Option<PrivateFiles>,
    ports: Vec<String>,
}

impl Switch for OpenVswitch {
    fn set_up(&mut self, site: &mut Site<'_>) -> Result<(), SwitchError> {
        let files = PrivateFiles::new(site.sandbox);
        let step = "make a directory for Open vSwitch";
        let folder = files.map_err(|source| SwitchError::Io { step, source });
        let folder = self.files.insert(folder?).path();
        let schema =
            schema(Path::new("/")).ok_or_else(|| self.failed("it has no schema".into()))?;
        let database = folder.join("conf.db");
        self.run("ovsdb-tool", &["create".into(), database.clone().into(), schema.into()])?;
        self.start(
            site,
            "ovsdb-server",
            &[database.into(), remote("--remote=punix:", &folder), control(&folder, "db.ctl")],
        )?;
        self.wait_for(&folder.join("db.sock"))?;
        self.change(&["--no-wait", "--", "init", "--", "set", "Open_vSwitch", ".", TSO])?;
        let vswitchd = [remote("unix:", &folder), control(&folder, "vswitchd.ctl")];
        self.start(site, "ovs-vswitchd", &vswitchd)?;
        let datapath = format!("datapath_type={}", self.datapath.kind());
        self.change(&["--", "add-br", NAME, "--", "set", "Bridge", NAME, &datapath, STANDALONE])?;
        self.version = version_of(&self.run("ovs-vsctl", &["--version".into()])?);
        Ok(())
    }

    fn connect_namespace(
        &mut self,
        site: &mut Site<'_>,
        end: NamespaceEnd<'_>,
    ) -> Result<Option<String>, SwitchError> {
        let port = ports::veth(site, &end)?;
        self.attach(site, &port)?;
        Ok(Some(port))
    }

    fn connect_guest(
        &mut self,
        site: &mut Site<'_>,
        guest: &GuestEnd<'_>,
    ) -> Result<Wire, SwitchError> {
        let wire = ports::tap(guest)?;
        self.attach(site, &wire.name)?;
        Ok(wire)
    }

    fn verify(&mut self, _: &mut Site<'_>, wire: &str) -> Result<String, SwitchError> {
        let bridge = self.change(&["port-to-br", wire])?;
        let number = self.change(&["get", "Interface", wire, "ofport"])?;
        let kind = self.change(&["get", "Bridge", NAME, "datapath_type"])?;
        let [bridge, number, kind] = [&bridge, &number, &kind].map(|answer| answer.trim());
        let is_port = number.parse::<i32>().is_ok_and(|number| number > 0);
        if bridge != NAME || !is_port || kind.trim_matches('"') != self.datapath.kind() {
            let what = format!("{wire} is port {number} of {bridge}, whose datapath is {kind}");
            return Err(SwitchError::NotInForce { switch: self.name, what });
        }
        let datapath = match self.datapath {
            Datapath::Kernel => "kernel",
            Datapath::Userspace => "userspace",
        };
        Ok(format!("a tap on Open vSwitch {} with its {datapath} datapath", self.version))
    }

    fn processes(&self) -> Vec<(String, Pid)> {
        self.daemons.iter().map(|(name, daemon)| ((*name).to_owned(), daemon.pid())).collect()
    }

    fn database(&self) -> Option<PathBuf> {
        Some(self.files.as_ref()?.path().join("db.sock"))
    }

    fn tear_down(&mut self, socket: &mut Socket) -> Vec<SwitchError> {
        let mut errors = Vec::new();
        // The kernel's datapath outlives the daemon, though not the namespace.
        if self.datapath == Datapath::Kernel && self.daemons.len() == DAEMONS {
            errors.extend(self.change(&["--if-exists", "del-br", NAME]).err());
        }
        self.daemons.clear();
        self.files = None;
        // Taps that it made to stay.
        let own = [NAME, "ovs-netdev"].map(str::to_owned);
        errors.extend(ports::delete(socket, self.ports.drain(..).chain(own)));
        errors
    }
}

const DAEMONS: usize = 2;
const TSO: &str = "other_config:userspace-tso-enable=true";
/// It forwards by what it learns, as a switch without a controller does.
const STANDALONE: &str = "fail_mode=standalone";

fn remote(kind: &str, folder: &Path) -> OsString {
    joined(kind, &folder.join("db.sock"))
}

fn control(folder: &Path, name: &str) -> OsString {
    joined("--unixctl=", &folder.join(name))
}

fn joined(before: &str, path: &Path) -> OsString {
    let mut text = OsString::from(before);
    text.push(path);
    text
}

impl OpenVswitch {
    fn new(name: &'static str, datapath: Datapath) -> Self {
        let (version, ports, daemons) = (String::new(), Vec::new(), Vec::new());
        Self { name, datapath, version, daemons, files: None, ports }
    }

    fn failed(&self, what: String) -> SwitchError {
        SwitchError::Program { switch: self.name, what }
    }

    /// Starts a daemon; it stays in the foreground, ours to end.
    fn start(
        &mut self,
        site: &Site<'_>,
        program: &'static str,
        arguments: &[OsString],
    ) -> Result<(), SwitchError> {
        let folder = self.files.as_ref().map(PrivateFiles::path).unwrap_or_default();
        let quiet = ["--no-chdir", "-vconsole:warn", "-vsyslog:off"].map(OsString::from);
        let service = Service {
            name: program,
            program: self.program(program)?.into(),
            arguments: arguments.iter().cloned().chain(quiet).collect(),
            environment: ["OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR", "OVS_SYSCONFDIR"]
                .map(|name| (name, folder.clone().into_os_string()))
                .into(),
            ..Service::default()
        };
        self.daemons.insert(0, (program, serve(site.sandbox, service)?));
        Ok(())
    }

    fn program(&self, name: &str) -> Result<PathBuf, SwitchError> {
        find_program(Path::new("/"), name)
            .ok_or_else(|| self.failed(format!("the program {name} is gone: {INSTALL}")))
    }

    /// Waits until the database answers.
    fn wait_for(&mut self, path: &Path) -> Result<(), SwitchError> {
        let deadline = Instant::now() + Duration::from_secs(ANSWER_SECONDS);
        while !path.exists() {
            let ended = self.daemons.iter_mut().find_map(|(_, daemon)| daemon.ended());
            if ended.is_some() || Instant::now() >= deadline {
                return Err(
                    self.failed(format!("its database does not answer{}", self.last_words()))
                );
            }
            thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    fn last_words(&self) -> String {
        let said = self.daemons.iter().flat_map(|(name, daemon)| {
            daemon.error_tail().into_iter().map(move |line| format!("; {name} said: {line}"))
        });
        said.collect()
    }

    /// Makes an interface a port and brings it up.
    fn attach(&mut self, site: &mut Site<'_>, port: &str) -> Result<(), SwitchError> {
        if !self.ports.iter().any(|known| known == port) {
            self.ports.push(port.to_owned());
        }
        let index = ports::prepare(site, port)?;
        site.socket.set_up(index)?;
        // One of the same name that is gone may still be in the database.
        self.change(&["--", "--if-exists", "del-port", port, "--", "add-port", NAME, port])?;
        let error = self.change(&["get", "Interface", port, "error"])?;
        match error.trim() {
            "[]" | "" => Ok(()),
            error => Err(self.failed(format!("{port} is no port: {error}{}", self.last_words()))),
        }
    }

    /// Changes or reads the database; without `--no-wait` it waits until ovs-vswitchd has done it.
    fn change(&self, arguments: &[&str]) -> Result<String, SwitchError> {
        let folder = self.files.as_ref().map(PrivateFiles::path).unwrap_or_default();
        let timeout = format!("--timeout={ANSWER_SECONDS}");
        let common = [timeout.into(), remote("--db=unix:", &folder)];
        let arguments: Vec<OsString> =
            common.into_iter().chain(arguments.iter().map(OsString::from)).collect();
        self.run("ovs-vsctl", &arguments)
    }

    /// Runs one of its tools to its end: what it printed.
    fn run(&self, program: &str, arguments: &[OsString]) -> Result<String, SwitchError> {
        let mut command = Command::new(self.program(program)?);
        command.args(arguments).stdin(Stdio::null());
        let step = "run a tool of Open vSwitch";
        let output = command.output().map_err(|source| SwitchError::Io { step, source })?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let what = format!("{program} failed ({}): {}", output.status, said.trim());
        Err(self.failed(format!("{what}{}", self.last_words())))
    }
}

/// Reads `ovs-vsctl (Open vSwitch) 3.1.0`.
fn version_of(answer: &str) -> String {
    let first = answer.lines().next().unwrap_or_default();
    first.rsplit(' ').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_is_missing_is_named_with_what_to_install() {
        let root = tempfile::tempdir().unwrap();
        assert!(lacks(root.path()).unwrap().to_string().contains("install openvswitch-switch"));
        fs::create_dir_all(root.path().join("usr/sbin")).unwrap();
        for name in PROGRAMS {
            fs::write(root.path().join("usr/sbin").join(name), "").unwrap();
        }
        assert!(lacks(root.path()).unwrap().what.contains("ovsschema"));
        fs::create_dir_all(root.path().join("usr/share/openvswitch")).unwrap();
        fs::write(root.path().join(SCHEMAS[0]), "").unwrap();
        assert!(lacks(root.path()).unwrap().what.contains("/dev/net/tun"));
    }

    #[test]
    fn the_version_is_the_last_word() {
        assert_eq!(version_of("ovs-vsctl (Open vSwitch) 3.1.0\nDB Schema 8.3.1\n"), "3.1.0");
    }
}
