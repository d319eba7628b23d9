//! macvtap: the guest's frames go straight through the interface below, without a switch. The interface
//! below is the wire to the peer. The baseline has a macvlan of the same mode in the place of the guest's
//! macvtap: the same way, but for the device file.
//!
//! Source: `drivers/net/macvlan.c` and `drivers/net/tap.c` of Linux.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use vioperf_netlink::{Mac, MacvlanMode, NetlinkError, Socket, Upper, VethEnd};

use super::{
    Backend, Backing, GuestEnd, Held, NamespaceEnd, NearEnd, NearEnds, Part, Room, Row, Site,
    Switch, SwitchError, Wire, lack, ports,
};
use crate::private_files::PrivateFiles;

/// What the four modes have in common.
const COMMON: Row = Row {
    name: "macvtap-bridge",
    lacks: |_, _| lack::kernel(try_one, "macvtap", "`sudo modprobe macvtap`"),
    backing: Backing::Macvtap,
    near_ends: NearEnds::Both,
    room: Room { peer_port: true, ..Room::ONE_GUEST },
    open: |near| Macvtap::open(COMMON.name, MacvlanMode::Bridge, near),
};

pub(super) const BRIDGE: Row = Row { room: Room { several_guests: true, ..COMMON.room }, ..COMMON };

pub(super) const VEPA: Row = Row {
    name: "macvtap-vepa",
    open: |near| Macvtap::open(VEPA.name, MacvlanMode::Vepa, near),
    ..COMMON
};

pub(super) const PRIVATE: Row = Row {
    name: "macvtap-private",
    open: |near| Macvtap::open(PRIVATE.name, MacvlanMode::Private, near),
    ..COMMON
};

/// It takes the interface below for itself alone.
pub(super) const PASSTHRU: Row = Row {
    name: "macvtap-passthru",
    near_ends: NearEnds::Either,
    open: |near| Macvtap::open(PASSTHRU.name, MacvlanMode::Passthru, near),
    ..COMMON
};

fn try_one(socket: &mut Socket) -> Result<(), NetlinkError> {
    socket.create_veth(&VethEnd::new("below"), &VethEnd::new("other"))?;
    let below = socket.link_by_name("below")?.index;
    let upper = Upper { name: "tried", below, mac: None, mtu: None, namespace: None };
    socket.create_macvtap(&upper, MacvlanMode::Bridge)
}

#[derive(Debug)]
struct Macvtap {
    name: &'static str,
    mode: MacvlanMode,
    near: NearEnd,
    /// The interface below, by index.
    below: Option<u32>,
    /// The address of the guest that was connected last.
    guest: Option<Mac>,
    links: Vec<String>,
}

impl Macvtap {
    fn open(name: &'static str, mode: MacvlanMode, near: NearEnd) -> Box<dyn Switch> {
        Box::new(Self { name, mode, near, below: None, guest: None, links: Vec::new() })
    }

    fn not_in_force(&self, what: String) -> SwitchError {
        SwitchError::NotInForce { switch: self.name, what }
    }

    /// The interface below, for an upper one with that address: where there is one alone, both have the
    /// same.
    fn below(&self, socket: &mut Socket, mac: Mac) -> Result<u32, SwitchError> {
        let missing = || self.not_in_force("the peer comes first".to_owned());
        let below = self.below.ok_or_else(missing)?;
        if self.mode == MacvlanMode::Passthru {
            socket.set_mac(below, mac)?;
        }
        Ok(below)
    }
}

impl Switch for Macvtap {
    fn connect_namespace(
        &mut self,
        site: &mut Site<'_>,
        end: NamespaceEnd<'_>,
    ) -> Result<Option<String>, SwitchError> {
        let alone = self.mode == MacvlanMode::Passthru && self.near != NearEnd::Second;
        if end.part == Part::Second && !alone {
            let upper = Upper {
                name: end.interface,
                below: self.below(site.socket, end.mac)?,
                mac: Some(end.mac),
                mtu: Some(site.mtu),
                namespace: Some(end.namespace()),
            };
            site.socket.create_macvlan(&upper, self.mode)?;
            return Ok(None);
        }
        // The second beside a guest that is alone has no part in it: its wire leads nowhere.
        let (port, index) = ports::veth_up(site, &end)?;
        self.links.push(port.clone());
        if end.part == Part::Second {
            return Ok(None);
        }
        self.below = Some(index);
        Ok(Some(port))
    }

    fn connect_guest(
        &mut self,
        site: &mut Site<'_>,
        guest: &GuestEnd<'_>,
    ) -> Result<Wire, SwitchError> {
        let below = self.below(site.socket, guest.mac)?;
        self.guest = Some(guest.mac);
        wire(site, guest, below, self.mode)
    }

    fn verify(&mut self, site: &mut Site<'_>, wire: &str) -> Result<String, SwitchError> {
        let link = site.socket.link_by_name(wire)?;
        let is_it = link.kind.as_deref() == Some("macvtap")
            && link.macvlan_mode == Some(self.mode)
            && link.below == self.below
            && link.mac == self.guest
            && link.up;
        if !is_it {
            let mode = self.mode;
            let what = format!("{wire} is no macvtap in mode {mode:?} on the wire: {link:?}");
            return Err(self.not_in_force(what));
        }
        Ok(format!("a macvtap in {} mode on the wire", format!("{:?}", self.mode).to_lowercase()))
    }

    fn tear_down(&mut self, socket: &mut Socket) -> Vec<SwitchError> {
        ports::delete(socket, self.links.drain(..))
    }
}

/// A macvtap for a guest on the interface below, up.
pub(super) fn wire(
    site: &mut Site<'_>,
    guest: &GuestEnd<'_>,
    below: u32,
    mode: MacvlanMode,
) -> Result<Wire, SwitchError> {
    let name = format!("macvtap{}", guest.number);
    let (mac, mtu) = (Some(guest.mac), Some(site.mtu));
    let upper = Upper { name: &name, below, mac, mtu, namespace: None };
    site.socket.create_macvtap(&upper, mode)?;
    let held = Held::of_link(name.clone());
    let index = ports::prepare(site, &name)?;
    // Its groups are the guest's to know: IPv6 asks for neighbours by one of them.
    site.socket.set_all_multicast(index)?;
    site.socket.set_up(index)?;
    let step = "open the macvtap's device file";
    let failed = |source| SwitchError::Io { step, source };
    let files = PrivateFiles::new(site.sandbox).map_err(failed)?;
    let device = device_file(&name, index, &files.path()).map_err(failed)?;
    let open = |_| {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
        options.open(&device).map(OwnedFd::from)
    };
    let queues = (0..guest.queues.max(1)).map(open).collect::<io::Result<_>>();
    let backend = Backend::Tap(queues.map_err(failed)?);
    Ok(Wire { held, ..Wire::without_port(name, backend) })
}

/// The device file of a macvtap, made anew where it cannot be mistaken: in `/dev` files of other
/// namespaces' macvtaps have the same names. Where `/sys` does not show this namespace, that in `/dev`.
fn device_file(name: &str, index: u32, folder: &Path) -> io::Result<PathBuf> {
    let numbers = format!("/sys/class/net/{name}/macvtap/tap{index}/dev");
    let Ok(numbers) = fs::read_to_string(numbers) else {
        return Ok(PathBuf::from(format!("/dev/tap{index}")));
    };
    let device = device_numbers(&numbers)
        .ok_or_else(|| io::Error::other(format!("{numbers:?} are no device numbers")))?;
    let path = folder.join(name);
    let mode = Mode::S_IRUSR | Mode::S_IWUSR;
    mknod(&path, SFlag::S_IFCHR, mode, makedev(device.0, device.1))?;
    Ok(path)
}

/// Reads `246:1`.
fn device_numbers(text: &str) -> Option<(u64, u64)> {
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_are_read() {
        assert_eq!(device_numbers("246:1\n"), Some((246, 1)));
        assert_eq!(device_numbers("246"), None);
    }
}
