//! Open vSwitch, with its kernel datapath or its userspace one, the latter also with DPDK ([`dpdk`]).
//!
//! In the userspace datapath frames pass by packet sockets of ovs-vswitchd. It would drop those that the kernel
//! has left without a checksum, so it is told to pass on segments as they are (`userspace-tso-enable`), which
//! has to be before it starts.
//!
//! Sources: ovs-vswitchd.conf.db(5), and Open vSwitch's `Documentation/topics/userspace-tso.rst`.

mod daemons;
mod dpdk;

use std::path::{Path, PathBuf};

use nix::unistd::Pid;
use vioperf_netlink::{Socket, has_generic_family};

use self::daemons::{Daemons, Order, program};
use super::lack::{self, Lack};
use super::vsctl::PortPlace;
use super::{
    Backing, GuestEnd, NamespaceEnd, NearEnds, Room, Row, Site, Switch, SwitchError, Wire, ports,
};
use crate::preflight::{Status, tun};

pub(super) use self::dpdk::ROW as DPDK;

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

const VSWITCHD: &str = "ovs-vswitchd";
/// The one without DPDK where Debian and Ubuntu have both, whichever the machine's owner chose for `/usr/sbin`.
const PLAIN: &str = "/usr/lib/openvswitch-switch/ovs-vswitchd";
/// The programs beside it.
const TOOLS: [&str; 3] = ["ovsdb-tool", "ovsdb-server", "ovs-vsctl"];

/// Where distributions put the database's schema.
const SCHEMAS: [&str; 2] =
    ["usr/share/openvswitch/vswitch.ovsschema", "usr/local/share/openvswitch/vswitch.ovsschema"];

pub(super) const INSTALL: &str = "Debian, Ubuntu: `sudo apt-get install openvswitch-switch`; Fedora: `sudo dnf install openvswitch`";

fn lacks(root: &Path) -> Option<Lack> {
    lack::programs(root, &[VSWITCHD], INSTALL).or_else(|| lacks_beside(root))
}

/// What is missing but ovs-vswitchd.
fn lacks_beside(root: &Path) -> Option<Lack> {
    let programs = || lack::programs(root, &TOOLS, INSTALL);
    let schema = || {
        let has = find_schema(root).is_some();
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

fn find_schema(root: &Path) -> Option<PathBuf> {
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
    daemons: Option<Daemons>,
    /// Interfaces of the kernel that are its ports.
    ports: Vec<String>,
}

impl Switch for OpenVswitch {
    fn set_up(&mut self, site: &mut Site<'_>) -> Result<(), SwitchError> {
        let plain = PathBuf::from(PLAIN);
        let vswitchd = if plain.is_file() { plain } else { program(self.name, VSWITCHD)? };
        let order = Order { switch: self.name, vswitchd, settings: vec![TSO.to_owned()] };
        self.start(site, &order)
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
        self.is_port(wire)?;
        let datapath = match self.datapath {
            Datapath::Kernel => "kernel",
            Datapath::Userspace => "userspace",
        };
        Ok(format!("a tap on Open vSwitch {} with its {datapath} datapath", self.version))
    }

    fn processes(&self) -> Vec<(String, Pid)> {
        self.daemons.iter().flat_map(Daemons::processes).collect()
    }

    fn database(&self) -> Option<PathBuf> {
        Some(self.daemons.as_ref()?.vsctl().database().to_owned())
    }

    fn tear_down(&mut self, socket: &mut Socket) -> Vec<SwitchError> {
        let mut errors = Vec::new();
        // The kernel's datapath outlives the daemon, though not the namespace.
        if let Some(daemons) = self.daemons.take()
            && self.datapath == Datapath::Kernel
        {
            errors.extend(daemons.ask(|vsctl| vsctl.tell(&["--if-exists", "del-br", NAME])).err());
        }
        // Taps that it made to stay.
        let own = [NAME, "ovs-netdev"].map(str::to_owned);
        errors.extend(ports::delete(socket, self.ports.drain(..).chain(own)));
        errors
    }
}

const TSO: &str = "other_config:userspace-tso-enable=true";
/// It forwards by what it learns, as a switch without a controller does.
const STANDALONE: &str = "fail_mode=standalone";

impl OpenVswitch {
    fn new(name: &'static str, datapath: Datapath) -> Self {
        let (version, ports) = (String::new(), Vec::new());
        Self { name, datapath, version, daemons: None, ports }
    }

    /// Starts the daemons and makes the bridge.
    fn start(&mut self, site: &Site<'_>, order: &Order) -> Result<(), SwitchError> {
        let daemons = self.daemons.insert(Daemons::start(site, order)?);
        let datapath = format!("datapath_type={}", self.datapath.kind());
        let bridge = ["set", "Bridge", NAME, &datapath, STANDALONE];
        daemons.ask(|vsctl| vsctl.tell(&[&["--", "add-br", NAME, "--"], &bridge[..]].concat()))?;
        self.version = daemons.version()?;
        Ok(())
    }

    fn daemons(&self) -> Result<&Daemons, SwitchError> {
        let (switch, what) = (self.name, "its daemons do not run".to_owned());
        self.daemons.as_ref().ok_or(SwitchError::Program { switch, what })
    }

    /// Makes an interface a port and brings it up.
    fn attach(&mut self, site: &mut Site<'_>, port: &str) -> Result<(), SwitchError> {
        if !self.ports.iter().any(|known| known == port) {
            self.ports.push(port.to_owned());
        }
        let index = ports::prepare(site, port)?;
        site.socket.set_up(index)?;
        self.add_port(port, &[])
    }

    /// Adds a port, with what is to be set of it.
    fn add_port(&self, port: &str, settings: &[&str]) -> Result<(), SwitchError> {
        let daemons = self.daemons()?;
        // One of the same name that is gone may still be in the database.
        daemons.ask(|vsctl| {
            vsctl.delete_port(NAME, port)?;
            vsctl.add_port(NAME, port, settings)
        })
    }

    /// Whether that is a port of the bridge, and the bridge of the datapath that it should be of.
    fn is_port(&self, port: &str) -> Result<(), SwitchError> {
        let daemons = self.daemons()?;
        let place = daemons.ask(|vsctl| vsctl.place_of(port))?;
        let kind = daemons.ask(|vsctl| vsctl.get("Bridge", NAME, "datapath_type"))?;
        if place.bridge == NAME && place.is_in_force() && kind == self.datapath.kind() {
            return Ok(());
        }
        let PortPlace { bridge, number } = place;
        let what = format!("{port} is port {number} of {bridge}, whose datapath is {kind}");
        Err(SwitchError::NotInForce { switch: self.name, what })
    }
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
        for name in TOOLS.into_iter().chain([VSWITCHD]) {
            fs::write(root.path().join("usr/sbin").join(name), "").unwrap();
        }
        assert!(lacks(root.path()).unwrap().what.contains("ovsschema"));
        fs::create_dir_all(root.path().join("usr/share/openvswitch")).unwrap();
        fs::write(root.path().join(SCHEMAS[0]), "").unwrap();
        assert!(lacks(root.path()).unwrap().what.contains("/dev/net/tun"));
    }
}
