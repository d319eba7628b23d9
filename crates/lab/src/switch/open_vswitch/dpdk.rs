//! Open vSwitch with DPDK: frames of a guest pass by rings in the guest's own memory, which a thread of ovs-vswitchd polls
//! (vhost-user). QEMU shares that memory with it and moves nothing itself.
//!
//! The peer and the baseline's end are on veth pairs, as with the other Open vSwitches: ovs-vswitchd's main thread reads and
//! writes them by packet sockets. DPDK takes a core for itself only where there is a port to poll, so the lab of a
//! baseline, which has room for nothing else, has no thread that polls.
//!
//! Sources: ovs-vswitchd.conf.db(5); Open vSwitch's `Documentation/topics/dpdk/vhost-user.rst`; DPDK's
//! `doc/guides/linux_gsg/linux_eal_parameters.rst`; QEMU's `docs/interop/vhost-user.rst`.

use std::fs;
use std::path::{Path, PathBuf};

use nix::unistd::Pid;
use vioperf_netlink::Socket;

use super::daemons::Order;
use super::{Datapath, NAME, OpenVswitch, TSO};
use crate::qemu::memory_pages::free_huge_mib;
use crate::switch::lack::{Lack, find_program};
use crate::switch::vsctl::Vsctl;
use crate::switch::{
    Backend, Backing, GuestEnd, Held, NamespaceEnd, NearEnds, Room, Row, Site, Switch, SwitchError,
    Wire,
};

pub(in crate::switch) const ROW: Row = Row {
    name: "openvswitch-dpdk",
    lacks: |root, _| lacks(root),
    backing: Backing::VhostUser,
    near_ends: NearEnds::Either,
    room: Room { host_interface: Some(NAME), rules: false, ..Room::LINUX_BRIDGE },
    open: |_| {
        let inner = OpenVswitch::new(ROW.name, Datapath::Userspace);
        Box::new(OnDpdk { inner, pages: Pages::Small, dpdk: String::new() })
    },
};

/// Where Debian and Ubuntu have the program: the one in `/usr/sbin` is either, as the machine's owner chose.
const OF_DEBIAN: &str = "usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk";
/// What Fedora calls it.
const OF_FEDORA: &str = "ovs-vswitchd.dpdk";
/// What DPDK gives its buffers out with: a package of its own in Debian and Ubuntu, which nothing asks for.
const MEMPOOL: &str = "librte_mempool_ring.so";
const INSTALL: &str = "Debian 12: `sudo apt-get install openvswitch-switch-dpdk librte-mempool-ring23` (the number is that of the \
    other DPDK libraries); Fedora: `sudo dnf install openvswitch openvswitch-dpdk`";

/// What DPDK takes for the buffers of a guest's port or two, in MiB.
const MEMORY_MIB: u64 = 512;

fn lacks(root: &Path) -> Option<Lack> {
    let lack = |what: &str| Some(Lack::new(what, INSTALL));
    match vswitchd(root) {
        None => return lack("no ovs-vswitchd with DPDK was found"),
        Some(program) if program.ends_with(OF_DEBIAN) && !has_mempool(root) => {
            return lack("DPDK has no librte_mempool_ring, by which it gives out buffers");
        }
        Some(_) => {}
    }
    super::lacks_beside(root)
}

fn vswitchd(root: &Path) -> Option<PathBuf> {
    let of_debian = root.join(OF_DEBIAN);
    of_debian.is_file().then_some(of_debian).or_else(|| find_program(root, OF_FEDORA))
}

/// In `usr/lib/TRIPLET/dpdk/pmds-VERSION`.
fn has_mempool(root: &Path) -> bool {
    let below = |folder: PathBuf| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let drivers = below(root.join("usr/lib")).into_iter().flat_map(|at| below(at.join("dpdk")));
    drivers.flat_map(below).any(|driver| {
        driver.file_name().is_some_and(|name| name.to_string_lossy().starts_with(MEMPOOL))
    })
}

/// Where DPDK has its buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pages {
    /// In pages that the host has set aside.
    Huge,
    /// In small ones: there are no others.
    Small,
}

impl Pages {
    fn of_machine(root: &Path) -> Self {
        if free_huge_mib(root) >= MEMORY_MIB { Self::Huge } else { Self::Small }
    }

    /// DPDK's arguments: no cards, nothing in the file system, no telemetry.
    fn arguments(self) -> String {
        let memory = match self {
            Self::Huge => "--in-memory".to_owned(),
            Self::Small => format!("--no-huge --legacy-mem --no-shconf -m {MEMORY_MIB}"),
        };
        format!("{memory} --no-pci --iova-mode=va --no-telemetry")
    }

    fn in_words(self) -> &'static str {
        match self {
            Self::Huge => "in huge pages",
            Self::Small => "without huge pages",
        }
    }
}

#[derive(Debug)]
struct OnDpdk {
    inner: OpenVswitch,
    pages: Pages,
    /// DPDK's version, as it says.
    dpdk: String,
}

impl Switch for OnDpdk {
    fn set_up(&mut self, site: &mut Site<'_>) -> Result<(), SwitchError> {
        let root = Path::new("/");
        self.pages = Pages::of_machine(root);
        let vswitchd = vswitchd(root).ok_or_else(|| SwitchError::Program {
            switch: ROW.name,
            what: format!("its ovs-vswitchd is gone: {INSTALL}"),
        })?;
        let own = [
            "other_config:dpdk-init=true".to_owned(),
            // Else every port takes its buffers from one pool, made for the largest number of them.
            "other_config:per-port-memory=true".to_owned(),
            format!("other_config:dpdk-extra=\"{}\"", self.pages.arguments()),
            TSO.to_owned(),
        ];
        let order = Order { switch: ROW.name, vswitchd, settings: own.into() };
        self.inner.start(site, &order)?;
        let daemons = self.inner.daemons()?;
        let of_dpdk = |key| daemons.ask(|vsctl| vsctl.get("Open_vSwitch", ".", key));
        if of_dpdk("dpdk_initialized")? != "true" {
            return Err(daemons.failed("DPDK did not initialize"));
        }
        self.dpdk = of_dpdk("dpdk_version")?;
        Ok(())
    }

    fn connect_namespace(
        &mut self,
        site: &mut Site<'_>,
        end: NamespaceEnd<'_>,
    ) -> Result<Option<String>, SwitchError> {
        self.inner.connect_namespace(site, end)
    }

    /// QEMU is the server, as it ends with the guest; ovs-vswitchd looks for it every second.
    fn connect_guest(
        &mut self,
        site: &mut Site<'_>,
        guest: &GuestEnd<'_>,
    ) -> Result<Wire, SwitchError> {
        let daemons = self.inner.daemons()?;
        let name = format!("vhost{}", guest.number);
        let path = daemons.folder().join(&name);
        let vsctl = daemons.vsctl().clone();
        let port = Port { vsctl, name: name.clone(), socket: path.clone() };
        let settings = [
            format!("type={KIND}"),
            format!("options:vhost-server-path={}", path.display()),
            format!("mtu_request={}", site.mtu),
        ];
        self.inner.add_port(&name, &settings.each_ref().map(String::as_str))?;
        let backend = Backend::VhostUser { socket: path, queues: guest.queues };
        Ok(Wire { held: Held::of(port), ..Wire::of_port(name, backend) })
    }

    fn verify(&mut self, _: &mut Site<'_>, wire: &str) -> Result<String, SwitchError> {
        self.inner.is_port(wire)?;
        let daemons = self.inner.daemons()?;
        let kind = daemons.ask(|vsctl| vsctl.get("Interface", wire, "type"))?;
        if kind != KIND {
            let what = format!("{wire} is of the type {kind}, not {KIND}");
            return Err(SwitchError::NotInForce { switch: ROW.name, what });
        }
        Ok(format!(
            "a vhost-user socket to Open vSwitch {} with {}, {}",
            self.inner.version,
            self.dpdk,
            self.pages.in_words()
        ))
    }

    fn processes(&self) -> Vec<(String, Pid)> {
        self.inner.processes()
    }

    fn database(&self) -> Option<PathBuf> {
        self.inner.database()
    }

    fn tear_down(&mut self, socket: &mut Socket) -> Vec<SwitchError> {
        self.inner.tear_down(socket)
    }
}

/// The type of a guest's port.
const KIND: &str = "dpdkvhostuserclient";

/// A guest's port: ovs-vswitchd would look for its QEMU every second after that has gone.
#[derive(Debug)]
struct Port {
    vsctl: Vsctl,
    name: String,
    socket: PathBuf,
}

impl Drop for Port {
    fn drop(&mut self) {
        // Where the daemons or their directory have gone before, so has it.
        let _ = self.vsctl.delete_port(NAME, &self.name);
        let _ = fs::remove_file(&self.socket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_and_the_library_that_nothing_asks_for_are_both_named() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        };
        let lack = lacks(root.path()).unwrap().to_string();
        assert!(lack.contains("openvswitch-switch-dpdk librte-mempool-ring23"), "{lack}");
        write(OF_DEBIAN);
        assert!(lacks(root.path()).unwrap().what.contains("librte_mempool_ring"));
        write("usr/lib/x86_64-linux-gnu/dpdk/pmds-23.0/librte_mempool_ring.so.23.0");
        assert!(lacks(root.path()).unwrap().what.contains("ovsdb-tool"));
    }

    #[test]
    fn huge_pages_are_taken_where_enough_are_free() {
        let root = tempfile::tempdir().unwrap();
        let meminfo = |free: u64| {
            fs::create_dir_all(root.path().join("proc")).unwrap();
            let text =
                format!("HugePages_Total: 900\nHugePages_Free: {free}\nHugepagesize: 2048 kB\n");
            fs::write(root.path().join("proc/meminfo"), text).unwrap();
            Pages::of_machine(root.path())
        };
        assert_eq!(Pages::of_machine(root.path()), Pages::Small);
        assert_eq!(meminfo(255), Pages::Small);
        assert_eq!(meminfo(256), Pages::Huge);
        assert!(Pages::Small.arguments().starts_with("--no-huge"));
        assert!(!Pages::Huge.arguments().contains("no-huge"));
    }
}
