//! What connects the endpoints of a lab. **A kind of switch is a file here and its line in [`TABLE`]**
//! (and its name in [`vioperf_model::switch`], where scenarios find it); everything else goes through
//! [`Switch`].

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use nix::unistd::Pid;
use vioperf_model::scenario::{SwitchKind, Topology};
use vioperf_netlink::{Mac, NamespaceRef, NetlinkError, Socket};

use crate::host_ports::HostPortsError;
use crate::namespace::{Place, SpawnError};
use crate::qemu::Qemu;
use crate::sandbox::Sandbox;
use crate::shaped_link;
use crate::sriov::SriovError;
use crate::tap::TapError;

mod backing;
mod behind_host;
mod bridge;
mod host_bridge;
mod host_open_vswitch;
mod lack;
mod macvtap;
mod none;
mod open_vswitch;
mod outside;
mod pair;
mod passt;
mod ports;
mod room;
mod slirp;
mod sriov;
mod vlan;
mod vsctl;
mod wire;

pub use self::backing::Backing;
pub use self::lack::Lack;
pub use self::room::Room;
pub(crate) use self::vsctl::Vsctl;
pub use self::vsctl::VsctlError;
pub use self::wire::{Backend, Held, Slirp, Wire};

/// Every switch.
const TABLE: &[Row] = &[
    bridge::ROW,
    vlan::FILTERING,
    vlan::OWN_BRIDGE,
    none::ROW,
    open_vswitch::ROW,
    open_vswitch::USERSPACE,
    open_vswitch::DPDK,
    macvtap::BRIDGE,
    macvtap::VEPA,
    macvtap::PRIVATE,
    macvtap::PASSTHRU,
    passt::ROW,
    slirp::ROW,
    sriov::ROW,
    sriov::HOST,
];

/// Those that are made of a bridge that the host had before, where the scenario names one: they stand in place of
/// the line of the same name above.
const ON_HOST: &[Row] = &[host_bridge::ROW, host_open_vswitch::ROW];

/// A line of the table.
#[derive(Debug)]
pub struct Row {
    /// Its name, as [`vioperf_model::switch::SWITCHES`] has it.
    name: &'static str,
    /// What of the switch itself is missing on the machine below a root, for a lab on that interface of the host.
    lacks: fn(&Path, Option<&str>) -> Option<Lack>,
    /// How a guest's NIC is backed, which has wants of its own.
    backing: Backing,
    /// Which near ends it has room for.
    near_ends: NearEnds,
    /// What else it has room for.
    room: Room,
    /// Makes it, not yet set up.
    open: fn(NearEnd) -> Box<dyn Switch>,
}

/// Which near ends a lab with this switch can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NearEnds {
    /// The second namespace, and guests one after the other: one lab serves all.
    Both,
    /// Either: what the one has, the other would be in the way of.
    Either,
}

/// What is at the near end of the path that a lab is brought up for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NearEnd {
    /// The second namespace: a baseline.
    Second,
    /// A guest, whose NIC has so many queue pairs.
    Guest {
        /// Queue pairs.
        queues: u16,
    },
}

/// One kind of switch, in the sandbox's network namespace, or in the host's.
pub trait Switch: fmt::Debug {
    /// Creates it, without ports. Where nothing stands between the endpoints there is nothing to create.
    ///
    /// # Errors
    /// When the kernel refuses, or a program does not start.
    fn set_up(&mut self, _: &mut Site<'_>) -> Result<(), SwitchError> {
        Ok(())
    }

    /// Connects an endpoint's network namespace, the peer's first: afterwards it has an interface of
    /// that name and address, down. What its port in the sandbox's namespace is called, if it has one.
    ///
    /// # Errors
    /// When the kernel refuses, or the namespace is gone.
    fn connect_namespace(
        &mut self,
        site: &mut Site<'_>,
        end: NamespaceEnd<'_>,
    ) -> Result<Option<String>, SwitchError>;

    /// Makes the host's end of a guest's wire and connects it.
    ///
    /// # Errors
    /// When the kernel refuses, or a program does not start.
    fn connect_guest(
        &mut self,
        site: &mut Site<'_>,
        guest: &GuestEnd<'_>,
    ) -> Result<Wire, SwitchError>;

    /// Looks whether a guest's wire, by its name, really is connected as it should be: what is in force,
    /// in words.
    ///
    /// # Errors
    /// [`SwitchError::NotInForce`].
    fn verify(&mut self, site: &mut Site<'_>, wire: &str) -> Result<String, SwitchError>;

    /// Its own processes, with what they are called in reports.
    fn processes(&self) -> Vec<(String, Pid)> {
        Vec::new()
    }

    /// Where its OVSDB answers, if it is an Open vSwitch: a socket that every process of the sandbox
    /// reaches by this path.
    fn database(&self) -> Option<PathBuf> {
        None
    }

    /// Undoes everything; goes on after an error and returns all of them. What is in the endpoints'
    /// namespaces alone goes with those.
    fn tear_down(&mut self, _: &mut Socket) -> Vec<SwitchError> {
        Vec::new()
    }
}

/// Where a switch is made.
pub struct Site<'a> {
    /// The sandbox.
    pub sandbox: &'a Sandbox,
    /// Requests about the network namespace that the switch is in ([`place`]).
    pub socket: &'a mut Socket,
    /// MTU of every port, in bytes.
    pub mtu: u32,
    /// The interface of the host that it is made of, where it is made of one.
    pub interface: Option<&'a str>,
}

/// An endpoint in a network namespace of its own.
#[derive(Debug, Clone, Copy)]
pub struct NamespaceEnd<'a> {
    /// Which one.
    pub part: Part,
    /// A process in its network namespace.
    pub pid: Pid,
    /// The name that its interface gets there.
    pub interface: &'a str,
    /// The hardware address that it gets.
    pub mac: Mac,
}

impl NamespaceEnd<'_> {
    /// Its network namespace.
    pub(crate) fn namespace(&self) -> NamespaceRef<'static> {
        NamespaceRef::Pid(self.pid)
    }
}

/// The endpoints that are namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The far end of every load.
    Peer,
    /// The near end of a baseline.
    Second,
}

impl Part {
    /// What it is called, and its port.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Peer => "peer",
            Self::Second => "second",
        }
    }
}

/// A guest that is to be connected.
#[derive(Debug, Clone, Copy)]
pub struct GuestEnd<'a> {
    /// How many guests the lab had before.
    pub number: u32,
    /// Hardware address of its NIC.
    pub mac: Mac,
    /// Queue pairs of its NIC.
    pub queues: u16,
    /// Whether its NIC is part of a card of the host's.
    pub is_passed_through: bool,
    /// The addresses that it will have, and the length of their network's prefix.
    pub addresses: &'a [IpAddr],
    /// See there.
    pub prefix_length: u8,
}

/// Why a switch could not be made or changed.
#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    /// Something is otherwise than it was made.
    #[error("switch `{switch}`: {what}")]
    NotInForce {
        /// The kind of switch.
        switch: &'static str,
        /// What was found.
        what: String,
    },
    /// A program of it did not do what it should.
    #[error("switch `{switch}`: {what}")]
    Program {
        /// The kind of switch.
        switch: &'static str,
        /// What happened, with its last words.
        what: String,
    },
    /// The kernel refused.
    #[error("switch: {0}")]
    Netlink(#[from] NetlinkError),
    /// There is no tap.
    #[error(transparent)]
    Tap(#[from] TapError),
    /// A card's virtual functions are not to be had.
    #[error(transparent)]
    Sriov(#[from] SriovError),
    /// A bridge of the host's may have no ports of ours.
    #[error(transparent)]
    HostPorts(#[from] HostPortsError),
    /// The host's Open vSwitch did not do what it was told.
    #[error("switch `openvswitch`: {0}")]
    Vsctl(#[from] VsctlError),
    /// A process did not start.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// A file or socket could not be made.
    #[error("switch: {step}: {source}")]
    Io {
        /// What was being done.
        step: &'static str,
        /// The reason.
        source: std::io::Error,
    },
}

/// The switch of that kind, made of that interface of the host where it is made of one; not yet set up.
#[must_use]
pub fn open(kind: SwitchKind, interface: Option<&str>, near: NearEnd) -> Box<dyn Switch> {
    (row(kind, interface).open)(near)
}

/// Which network namespace the switch and its ports are in.
#[must_use]
pub(crate) fn place(kind: SwitchKind, interface: Option<&str>) -> Place {
    match on_host(kind, interface) {
        Some(_) => Place::Host,
        None => Place::Sandbox,
    }
}

/// Name of the bridge between a guest that forwards and the far end.
pub(crate) const FAR_BRIDGE: &str = bridge::FAR_NAME;

/// The bridge between a guest that forwards and the far end, not yet set up.
#[must_use]
pub(crate) fn open_far() -> Box<dyn Switch> {
    Box::new(bridge::Bridge::far())
}

/// Which near ends a lab with this switch can have.
#[must_use]
pub fn near_ends(kind: SwitchKind) -> NearEnds {
    row(kind, None).near_ends
}

/// Whether guests on it are backed by a tap, or a macvtap: then the host's kernel can move their frames.
#[must_use]
pub fn has_tap(kind: SwitchKind) -> bool {
    matches!(row(kind, None).backing, Backing::Tap | Backing::Macvtap)
}

/// Whether a guest's NIC has an end among the host's own interfaces, whose settings can be changed. Without a switch the tap is
/// the peer's interface.
#[must_use]
pub fn has_port(kind: SwitchKind) -> bool {
    has_tap(kind) && kind.name() != none::ROW.name
}

/// Whether guests on it can have several queues.
#[must_use]
pub fn has_queues(kind: SwitchKind) -> bool {
    matches!(row(kind, None).backing, Backing::Tap | Backing::VhostUser)
}

/// Whether guests on it can be given a virtual function themselves.
#[must_use]
pub fn hands_out_functions(kind: SwitchKind) -> bool {
    [sriov::ROW.name, sriov::HOST.name].contains(&kind.name())
}

/// Whether guests on it share their memory with it: their NIC is a ring in there, which only virtio has.
#[must_use]
pub fn shares_memory(kind: SwitchKind) -> bool {
    matches!(row(kind, None).backing, Backing::VhostUser)
}

/// Why a lab with this switch, on that interface of the host where it is made of one, cannot have that far end, chain,
/// neighbour or those rules.
#[must_use]
pub fn refuses(kind: SwitchKind, interface: Option<&str>, topology: Topology) -> Option<Lack> {
    row(kind, interface).room.lacks(topology)
}

/// Why a lab on a bridge of the host's cannot have that MTU.
#[must_use]
pub fn narrows(kind: SwitchKind, interface: Option<&str>, mtu: u32) -> Option<Lack> {
    on_host(kind, interface).and_then(|_| outside::narrows(interface?, mtu))
}

/// Why a lab with this switch cannot hold the peer's link to a rate. The kernel is asked once.
#[must_use]
pub fn refuses_rate(kind: SwitchKind, interface: Option<&str>) -> Option<Lack> {
    const ADVICE: &str = "`sudo modprobe sch_tbf`, or leave testbed.rate out";
    static OF_KERNEL: OnceLock<Option<Lack>> = OnceLock::new();
    let of_kernel = || lack::kernel(shaped_link::try_one, "token bucket filter", ADVICE);
    let of_switch = row(kind, interface).room.lacks_rate();
    of_switch.or_else(|| OF_KERNEL.get_or_init(of_kernel).clone())
}

/// The interface of the host's that is on the switch, where it has one.
#[must_use]
pub(crate) fn host_interface(kind: SwitchKind, interface: Option<&str>) -> Option<&'static str> {
    row(kind, interface).room.host_interface
}

/// What a lab is wanted for.
#[derive(Debug, Clone, Copy)]
pub enum Purpose<'a> {
    /// Baselines alone.
    Baselines,
    /// Guests too, run by that QEMU, where one was found.
    Guests(Option<&'a Qemu>),
}

/// What is missing below `root` (`/`) for a lab with this switch, on that interface of the host where it is made of one.
#[must_use]
pub fn lacks(
    kind: SwitchKind,
    root: &Path,
    interface: Option<&str>,
    purpose: Purpose<'_>,
) -> Option<Lack> {
    let row = row(kind, interface);
    let of_backing = || match purpose {
        Purpose::Baselines => None,
        Purpose::Guests(qemu) => row.backing.lacks(root, qemu),
    };
    (row.lacks)(root, interface).or_else(of_backing)
}

/// The vocabulary and the table name the same switches: a test holds it.
fn row(kind: SwitchKind, interface: Option<&str>) -> &'static Row {
    let own = || TABLE.iter().find(|row| row.name == kind.name());
    on_host(kind, interface).or_else(own).unwrap_or(&bridge::ROW)
}

/// The line of one that is a bridge which the host had before.
fn on_host(kind: SwitchKind, interface: Option<&str>) -> Option<&'static Row> {
    interface.and_then(|_| ON_HOST.iter().find(|row| row.name == kind.name()))
}

#[cfg(test)]
mod tests {
    use vioperf_model::switch::OfHost;

    use super::*;

    #[test]
    fn every_name_has_a_line_and_every_line_a_name() {
        let names: Vec<&str> = SwitchKind::all().map(SwitchKind::name).collect();
        let lines: Vec<&str> = TABLE.iter().map(|row| row.name).collect();
        assert_eq!(names, lines, "the same, in the same order");
    }

    #[test]
    fn those_that_may_be_of_the_host_are_where_an_interface_is_named() {
        for kind in SwitchKind::all() {
            let may_be = kind.row().of_host == OfHost::WhereNamed;
            assert_eq!(on_host(kind, Some("br0")).is_some(), may_be, "{kind}");
            assert!(on_host(kind, None).is_none());
            // What is asked of the kind alone is the same for both.
            let (own, other) = (row(kind, None), row(kind, Some("br0")));
            assert_eq!((own.near_ends, own.backing), (other.near_ends, other.backing));
        }
    }
}
