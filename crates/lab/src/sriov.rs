//! A network card with SR-IOV: its physical function, and the virtual functions that are made of it for a run.
//!
//! Sources: the kernel's `Documentation/PCI/pci-iov-howto.rst` and `Documentation/ABI/testing/sysfs-bus-pci`.

use std::cell::RefCell;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use vioperf_netlink::{Mac, NamespaceRef, NetlinkError, OperState, Socket};

use crate::host::Host;
use crate::journal::{Entry, Held, JournalError};
use crate::switch::Lack;
use crate::vfio::{self, VfioError};

/// How many virtual functions a run makes, where the card has as many: one for each end, two for what comes in place
/// of one that is not back yet.
const WANTED: u32 = 4;

/// The fewest that a lab can be made with.
const LEAST: u32 = 2;

/// How long a virtual function's driver may take until its interface is there.
const DRIVER_BINDS: Duration = Duration::from_secs(20);

/// How long a card's link may take to come back; gigabit over copper negotiates for 3 s.
const LINK_RETURNS: Duration = Duration::from_secs(10);

/// As a card was before its virtual functions were made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardBefore {
    /// The interface of its physical function.
    pub interface: String,
    /// The PCI address of that, as in `/sys/bus/pci/devices`.
    pub address: String,
    /// Whether that interface was up.
    pub was_up: bool,
}

impl Entry for CardBefore {
    const KIND: &'static str = "sriov";
}

/// Why a card could not be made use of, or not be put back.
#[derive(Debug, thiserror::Error)]
pub enum SriovError {
    /// It is not to be had.
    #[error("{0}")]
    Lack(Lack),
    /// A file of `/sys` could not be read or written.
    #[error("SR-IOV of {interface}: {step}: {source}")]
    Sysfs {
        /// The physical function's interface.
        interface: String,
        /// What was being done.
        step: String,
        /// The reason.
        source: io::Error,
    },
    /// No driver made an interface of a virtual function.
    #[error(
        "SR-IOV of {interface}: the virtual function {address} has no interface after {} s: is the module of its driver \
         there (igbvf, iavf, ixgbevf, mlx5_core ...)?",
        DRIVER_BINDS.as_secs()
    )]
    NoInterface {
        /// The physical function's interface.
        interface: String,
        /// The virtual function's PCI address.
        address: String,
    },
    /// A function could not be handed to a guest.
    #[error(transparent)]
    Vfio(#[from] VfioError),
    /// The journal could not be kept.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The kernel refused.
    #[error("SR-IOV: {0}")]
    Netlink(#[from] NetlinkError),
}

/// The files of a physical function.
#[derive(Debug, Clone)]
struct Files {
    interface: String,
    device: PathBuf,
}

impl Files {
    fn of(sys: &Path, interface: &str) -> Self {
        let device = sys.join("class/net").join(interface).join("device");
        Self { interface: interface.to_owned(), device }
    }

    fn number(&self, name: &str) -> Option<u32> {
        fs::read_to_string(self.device.join(name)).ok()?.trim().parse().ok()
    }

    fn set_functions(&self, number: u32) -> Result<(), SriovError> {
        let path = self.device.join("sriov_numvfs");
        fs::write(&path, number.to_string()).map_err(|source| SriovError::Sysfs {
            interface: self.interface.clone(),
            step: format!("write {number} to sriov_numvfs"),
            source,
        })
    }

    /// The PCI address of the device itself, or of one that a link in its folder leads to. (Not by way of the real
    /// path: from within the sandbox that one is another's.)
    fn address(&self, link: Option<&str>) -> Result<String, SriovError> {
        let path = link.map_or_else(|| self.device.clone(), |link| self.device.join(link));
        let failed = |source| SriovError::Sysfs {
            interface: self.interface.clone(),
            step: format!("read where {} leads", path.display()),
            source,
        };
        let there = fs::read_link(&path).map_err(failed)?;
        let last = there.file_name().and_then(|name| name.to_str()).map(str::to_owned);
        last.ok_or_else(|| failed(io::ErrorKind::InvalidData.into()))
    }
}

/// What is missing, below `sys`, for virtual functions of that interface; without one, of any.
pub(crate) fn lacks(sys: &Path, interface: Option<&str>) -> Option<Lack> {
    let Some(interface) = interface else {
        let name_it = "name the interface of a card with SR-IOV: `testbed.interface`";
        return cards(sys)
            .is_empty()
            .then(|| {
                Lack::new(
                    "no interface here is a card's with SR-IOV",
                    "switch it on in the firmware, or take another card",
                )
            })
            .or_else(|| {
                Some(Lack::new(format!("it is made of one of {}", cards(sys).join(", ")), name_it))
            });
    };
    let files = Files::of(sys, interface);
    if !sys.join("class/net").join(interface).exists() {
        let others = cards(sys).join(", ");
        let advice = match others.is_empty() {
            true => "no interface here is a card's with SR-IOV".to_owned(),
            false => format!("those with SR-IOV are {others}"),
        };
        return Some(Lack::new(format!("there is no interface {interface}"), advice));
    }
    let (Some(total), Some(now)) = (files.number("sriov_totalvfs"), files.number("sriov_numvfs"))
    else {
        return Some(Lack::new(
            format!("{interface} has no SR-IOV"),
            "name the physical function of a card that has, and switch SR-IOV on in the firmware",
        ));
    };
    if total < LEAST {
        return Some(Lack::new(
            format!("{interface} has {total} virtual functions and {LEAST} are needed"),
            "allow the card more of them, in its firmware's settings",
        ));
    }
    if now > 0 {
        return Some(Lack::new(
            format!("{interface} has {now} virtual functions already, which may be somebody's"),
            format!(
                "where nobody needs them: `echo 0 > /sys/class/net/{interface}/device/sriov_numvfs`"
            ),
        ));
    }
    (!nix::unistd::geteuid().is_root())
        .then(|| Lack::new("only root may make virtual functions", "run vioperf as root"))
}

/// The interfaces of physical functions.
fn cards(sys: &Path) -> Vec<String> {
    let entries = fs::read_dir(sys.join("class/net")).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut cards: Vec<String> =
        names.filter(|name| Files::of(sys, name).number("sriov_totalvfs") > Some(0)).collect();
    cards.sort();
    cards
}

/// A card whose virtual functions were made for this run; they go when the last of these does.
#[derive(Debug)]
pub(crate) struct Card {
    files: Files,
    functions: Vec<Function>,
    held: Option<Held<CardBefore>>,
    /// The host's network namespace: the socket was opened there.
    socket: RefCell<Socket>,
    host: Host,
}

/// A virtual function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Function {
    /// Its number.
    pub number: u32,
    /// Its PCI address.
    pub address: String,
    /// The interface that its driver made of it, as it is called on the host.
    pub interface: String,
}

impl Card {
    /// Makes the virtual functions, and brings the card up: it carries nothing else.
    ///
    /// # Errors
    /// [`SriovError`]; nothing is altered then, or it is undone by whoever looks into the journal next.
    pub fn take(host: &Host, journal: &Path, interface: &str) -> Result<Rc<Self>, SriovError> {
        let sys = host.sys();
        if let Some(lack) = lacks(&sys, Some(interface)) {
            return Err(SriovError::Lack(lack));
        }
        let host = host.try_clone().map_err(|source| SriovError::Sysfs {
            interface: interface.to_owned(),
            step: "keep hold of the host's /sys".to_owned(),
            source,
        })?;
        let files = Files::of(&host.sys(), interface);
        let mut socket = Socket::open_in(host.network())?;
        let link = socket.link_by_name(interface)?;
        let address = files.address(None)?;
        let before = CardBefore { interface: interface.to_owned(), address, was_up: link.up };
        let name = before.address.clone();
        let held = Held::begin(journal, &name, before)?;
        let (functions, held, socket) = (Vec::new(), Some(held), RefCell::new(socket));
        let mut card = Self { files, functions, held, socket, host };
        card.socket.get_mut().set_up(link.index)?;
        let total = card.files.number("sriov_totalvfs").unwrap_or_default();
        card.files.set_functions(total.min(WANTED))?;
        for number in 0..total.min(WANTED) {
            card.functions.push(card.wait_for(number)?);
        }
        card.wait_for_link(link.index)?;
        Ok(Rc::new(card))
    }

    fn wait_for(&self, number: u32) -> Result<Function, SriovError> {
        let deadline = Instant::now() + DRIVER_BINDS;
        let link = format!("virtfn{number}");
        let address = self.files.address(Some(&link))?;
        loop {
            if let Some(interface) = first_name(&self.files.device.join(&link).join("net")) {
                return Ok(Function { number, address, interface });
            }
            if Instant::now() >= deadline {
                let interface = self.files.interface.clone();
                return Err(SriovError::NoInterface { interface, address });
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Making virtual functions interrupts the card's link, and theirs wait for it. A card without a cable has none
    /// ever, and may yet switch between them.
    fn wait_for_link(&mut self, index: u32) -> Result<(), SriovError> {
        let deadline = Instant::now() + LINK_RETURNS;
        let socket = self.socket.get_mut();
        while socket.link_by_index(index)?.oper_state != OperState::Up && Instant::now() < deadline
        {
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// The physical function's interface.
    pub fn interface(&self) -> &str {
        &self.files.interface
    }

    /// A virtual function.
    pub fn function(&self, number: usize) -> Option<&Function> {
        self.functions.get(number)
    }

    /// Whether a virtual function still is one of this card's.
    pub fn is_function(&self, function: &Function) -> bool {
        let link = format!("virtfn{}", function.number);
        self.files.address(Some(&link)).is_ok_and(|address| address == function.address)
    }

    /// Makes a virtual function one that QEMU can hand to a guest, where it has that hardware address.
    ///
    /// # Errors
    /// [`SriovError`].
    pub fn hand_over(&self, function: &Function, mac: Mac) -> Result<(), SriovError> {
        let mut socket = self.socket.borrow_mut();
        let card = socket.link_by_name(&self.files.interface)?.index;
        socket.set_function_mac(card, function.number, mac)?;
        Ok(vfio::hand_over(&self.host.sys(), &function.address)?)
    }

    /// Whether one that was made so still is.
    ///
    /// # Errors
    /// [`SriovError::Vfio`].
    pub fn verify_handed_over(&self, function: &Function) -> Result<(), SriovError> {
        Ok(vfio::verify(&self.host.sys(), &function.address)?)
    }

    /// The host's network namespace.
    pub fn network(&self) -> NamespaceRef<'_> {
        self.host.network()
    }

    /// Requests about the host's network namespace.
    pub fn host(&self) -> std::cell::RefMut<'_, Socket> {
        self.socket.borrow_mut()
    }
}

impl Drop for Card {
    fn drop(&mut self) {
        // What fails here is tried again by the process outside, from the journal.
        if let Some(held) = self.held.take() {
            let _ = put_back(&self.host.sys(), &held.entry, &mut self.socket.borrow_mut())
                .and_then(|()| Ok(held.end()?));
        }
    }
}

fn first_name(folder: &Path) -> Option<String> {
    fs::read_dir(folder).ok()?.flatten().next()?.file_name().into_string().ok()
}

fn put_back(sys: &Path, before: &CardBefore, socket: &mut Socket) -> Result<(), SriovError> {
    let interface = before.interface.clone();
    let devices = sys.join("bus/pci/devices");
    let listed = fs::read_dir(&devices).map_err(|source| {
        let step = format!("look for the card in {}", devices.display());
        SriovError::Sysfs { interface: interface.clone(), step, source }
    })?;
    // A card that was taken out needs no putting back.
    if listed.flatten().any(|entry| entry.file_name() == before.address.as_str()) {
        Files { interface, device: devices.join(&before.address) }.set_functions(0)?;
    }
    if !before.was_up {
        match socket.link_by_name(&before.interface) {
            Ok(link) => socket.set_down(link.index)?,
            Err(NetlinkError::NoSuchLink { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Puts back every card that a run altered and did not put back itself, as it was killed: which.
///
/// # Errors
/// The first that fails; its entry stays in the journal.
pub fn put_back_what_is_left(journal: &Path) -> Result<Vec<CardBefore>, SriovError> {
    let mut done = Vec::new();
    for held in Held::<CardBefore>::left(journal)? {
        put_back(Path::new("/sys"), &held.entry, &mut Socket::open()?)?;
        done.push(held.entry.clone());
        held.end()?;
    }
    Ok(done)
}

/// Moves an interface from the socket's namespace into another, where it is called `name`.
pub(crate) fn move_interface(
    from: &mut Socket,
    interface: &str,
    to: NamespaceRef<'_>,
    name: &str,
) -> Result<(), NetlinkError> {
    let index = from.link_by_name(interface)?.index;
    from.set_down(index)?;
    from.move_as(index, to, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A written `/sys` with a card of so many virtual functions.
    fn sys(total: u32, now: u32) -> tempfile::TempDir {
        let sys = tempfile::tempdir().unwrap();
        let device = sys.path().join("class/net/enp1s0/device");
        fs::create_dir_all(&device).unwrap();
        fs::write(device.join("sriov_totalvfs"), format!("{total}\n")).unwrap();
        fs::write(device.join("sriov_numvfs"), format!("{now}\n")).unwrap();
        fs::create_dir_all(sys.path().join("class/net/eth0")).unwrap();
        sys
    }

    #[test]
    fn what_is_in_the_way_is_told_with_what_to_do() {
        let said = |sys: &tempfile::TempDir, name: Option<&str>| {
            lacks(sys.path(), name).map(|lack| lack.to_string()).unwrap_or_default()
        };
        assert!(said(&sys(7, 0), None).contains("enp1s0"));
        assert!(said(&sys(0, 0), None).contains("no interface here"));
        assert!(said(&sys(7, 0), Some("enp9")).contains("those with SR-IOV are enp1s0"));
        assert!(said(&sys(7, 0), Some("eth0")).contains("eth0 has no SR-IOV"));
        assert!(said(&sys(1, 0), Some("enp1s0")).contains("1 virtual functions and 2 are needed"));
        assert!(said(&sys(7, 3), Some("enp1s0")).contains("has 3 virtual functions already"));
        let free = said(&sys(7, 0), Some("enp1s0"));
        assert!(free.is_empty() || free.contains("root"), "{free}");
    }
}
