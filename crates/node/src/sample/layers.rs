//! Counters of every layer that packets pass. They are read twice a trial, so that what they cost
//! hardly matters, and no file is kept open.

mod access_list;
mod conntrack;
mod devices;
mod disks;
mod interrupts;
mod open_vswitch;
mod pressure;
mod protocols;
mod qdiscs;
mod quota;
mod soft_interrupts;
mod softnet;
mod switches;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use vioperf_model::sample::LayerCounters;
use vioperf_model::wire::WatchedProcess;

use super::kept_file::KeptFile;
use super::{ReadError, noting};
use crate::clock::monotonic_ns;
use crate::interface::ethtool::Device;

/// Where they are read.
pub(super) struct Layers {
    proc: PathBuf,
    processes: Vec<WatchedProcess>,
    open_vswitch: Option<PathBuf>,
}

impl Layers {
    /// `proc` is `/proc` but in tests.
    pub(super) fn new(proc: &Path, processes: &[WatchedProcess]) -> Self {
        Self { proc: proc.to_owned(), processes: processes.to_vec(), open_vswitch: None }
    }

    /// Reads the ports of an Open vSwitch too, beside the socket of its database.
    pub(super) fn watch_open_vswitch(&mut self, database: &Path) {
        self.open_vswitch = Some(database.to_owned());
    }

    /// Reads everything, in the calling thread's network namespace.
    pub(super) fn read(&self, absent: &mut BTreeMap<String, String>) -> LayerCounters {
        let proc = self.proc.as_path();
        let links = noting("layers.devices", interfaces(proc), absent).unwrap_or_default();
        let on_a_bus: Vec<String> =
            links.iter().filter(|link| is_on_a_bus(link)).cloned().collect();
        LayerCounters {
            monotonic_ns: monotonic_ns(),
            softnet: noting("layers.softnet", softnet::read(proc), absent),
            soft_interrupts: noting("layers.soft_interrupts", soft_interrupts::read(proc), absent),
            interrupts: noting("layers.interrupts", interrupts::read(proc, &on_a_bus), absent),
            devices: (!links.is_empty()).then(|| devices::read(&links)),
            qdiscs: noting("layers.qdiscs", qdiscs::read(), absent),
            protocols: noting("layers.protocols", protocols::read(proc), absent),
            conntrack: noting("layers.conntrack", conntrack::read(proc), absent),
            access_list: access_list::read(),
            pressure: noting("layers.pressure", pressure::read(proc), absent),
            disks: noting("layers.disks", disks::read(proc), absent),
            quota: noting("layers.quota", quota::read(proc, Path::new("/sys/fs/cgroup")), absent),
            open_vswitch: self.open_vswitch.as_ref().and_then(|database| {
                noting("layers.open_vswitch", open_vswitch::read(database), absent)
            }),
            hardware: None,
            kvm: None,
            switches: match self.processes.as_slice() {
                [] => None,
                processes => Some(switches::read(proc, processes)),
            },
        }
    }
}

/// The interfaces of the network namespace, loopback aside.
fn interfaces(proc: &Path) -> Result<Vec<String>, ReadError> {
    let interfaces = super::interfaces::Reader::open(proc)?.read()?;
    Ok(interfaces.into_keys().collect())
}

fn is_on_a_bus(interface: &str) -> bool {
    Device::open(interface).is_ok_and(|device| device.is_on_a_bus())
}

/// Reads a file, once, and what it says.
fn parsed<T>(path: &Path, parse: impl FnOnce(&str) -> Result<T, String>) -> Result<T, ReadError> {
    KeptFile::open(path)?.parse(parse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_machine_lacks_is_noted_once_with_its_reason() {
        let nothing = tempfile::tempdir().unwrap();
        let layers = Layers::new(nothing.path(), &[]);
        let mut absent = BTreeMap::new();
        let read = layers.read(&mut absent);
        assert!(read.softnet.is_none() && read.protocols.is_none() && read.switches.is_none());
        assert!(absent["layers.softnet"].contains("softnet_stat"), "{absent:?}");
        let before = absent.clone();
        layers.read(&mut absent);
        assert_eq!(absent, before);
    }

    #[test]
    fn this_machine_is_read() {
        let mut absent = BTreeMap::new();
        let own =
            WatchedProcess { label: "own".into(), pid: i32::try_from(std::process::id()).unwrap() };
        let read = Layers::new(Path::new("/proc"), &[own]).read(&mut absent);
        assert!(read.softnet.is_some_and(|cores| !cores.is_empty()), "{absent:?}");
        assert!(read.soft_interrupts.is_some_and(|cores| !cores.is_empty()), "{absent:?}");
        assert!(read.protocols.unwrap().contains_key("UdpRcvbufErrors"), "{absent:?}");
        assert!(!read.switches.unwrap().is_empty());
    }
}
