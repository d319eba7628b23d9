//! The host's end of a guest's wire, as it is handed to QEMU.

use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use nix::unistd::Pid;
use vioperf_netlink::Socket;

use crate::namespace::Process;

/// The host's end of a guest's NIC.
#[derive(Debug)]
pub struct Wire {
    /// Name of its interface; where it has none, what it is called.
    pub name: String,
    /// The same where it is a port in the sandbox's network namespace: what is sent there goes to the
    /// guest.
    pub port: Option<String>,
    /// What QEMU is given.
    pub backend: Backend,
    /// A process whose network namespace QEMU has to be in; none leaves it in the sandbox's.
    pub beside: Option<Pid>,
    /// The ports that the guest's ends of connections must be on, where the backend forwards no others.
    pub ports: Option<RangeInclusive<u16>>,
    /// Who answers for the peer, where nobody answers for any other neighbour.
    pub gateway: Option<IpAddr>,
    /// What goes when the guest does.
    pub held: Held,
}

impl Wire {
    /// One whose interface is a port of the sandbox's network namespace and goes with QEMU.
    pub(super) fn of_port(name: String, backend: Backend) -> Self {
        let (port, held) = (Some(name.clone()), Held::default());
        Self { name, port, backend, beside: None, ports: None, gateway: None, held }
    }

    /// One that is no such port.
    pub(super) fn without_port(name: String, backend: Backend) -> Self {
        Self { port: None, ..Self::of_port(name, backend) }
    }
}

/// What moves a NIC's frames on QEMU's side (`-netdev`).
#[derive(Debug)]
pub enum Backend {
    /// Descriptors of a tap or macvtap, one a queue.
    Tap(Vec<OwnedFd>),
    /// A connected stream socket; each frame follows its length.
    Stream(OwnedFd),
    /// Nothing: QEMU makes sockets itself.
    Slirp(Slirp),
    /// A socket by which the program that is to move the frames is given the guest's memory.
    VhostUser {
        /// Where QEMU, which is the server, makes it: it hands descriptors on by no socket that it inherits.
        socket: PathBuf,
        /// Queue pairs.
        queues: u16,
    },
    /// A device of the host that vfio-pci has.
    Function {
        /// Its PCI address.
        address: String,
    },
}

/// What QEMU's own network is made with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slirp {
    /// An address in it, and the length of its prefix.
    pub network: String,
    /// The neighbour that it answers as.
    pub gateway: IpAddr,
    /// Its name server: an address that nobody has, as it is not the peer's.
    pub name_server: IpAddr,
    /// What it listens to on the host for the guest (`tcp::PORT-ADDRESS:PORT`).
    pub forwards: Vec<String>,
}

impl Backend {
    /// What QEMU calls it; nothing where QEMU moves no frames.
    #[must_use]
    pub fn netdev(&self) -> Option<&'static str> {
        match self {
            Self::Tap(_) => Some("tap"),
            Self::Stream(_) => Some("stream"),
            Self::Slirp(_) => Some("user"),
            Self::VhostUser { .. } => Some("vhost-user"),
            Self::Function { .. } => None,
        }
    }

    /// Every descriptor that QEMU has to inherit.
    pub(crate) fn descriptors(&self) -> &[OwnedFd] {
        match self {
            Self::Tap(queues) => queues,
            Self::Stream(socket) => std::slice::from_ref(socket),
            Self::Slirp(_) | Self::VhostUser { .. } | Self::Function { .. } => &[],
        }
    }

    /// The socket by which the guest's memory is handed out, if it is.
    pub(crate) fn memory_socket(&self) -> Option<&Path> {
        match self {
            Self::VhostUser { socket, .. } => Some(socket),
            Self::Tap(_) | Self::Stream(_) | Self::Slirp(_) | Self::Function { .. } => None,
        }
    }

    /// The PCI address of the host's device that the NIC is, if it is one.
    pub(crate) fn function(&self) -> Option<&str> {
        match self {
            Self::Function { address } => Some(address),
            _ => None,
        }
    }
}

/// What goes when the guest does: QEMU's end does not take it along by itself.
#[derive(Debug, Default)]
pub struct Held {
    /// Processes that serve this guest alone, with what they are called in reports.
    pub(crate) processes: Vec<(&'static str, Process)>,
    /// What undoes itself when it is dropped.
    #[expect(dead_code, reason = "it is there to be dropped")]
    other: Option<Box<dyn Undoes>>,
}

/// Something that undoes itself when it is dropped.
pub(super) trait Undoes: fmt::Debug + Send {}

impl<T: fmt::Debug + Send> Undoes for T {}

impl Held {
    pub(super) fn of(other: impl Undoes + 'static) -> Self {
        Self { other: Some(Box::new(other)), ..Self::default() }
    }

    pub(super) fn of_link(name: String) -> Self {
        Self::of(OwnLink(name))
    }

    pub(super) fn of_process(name: &'static str, process: Process) -> Self {
        Self { processes: vec![(name, process)], ..Self::default() }
    }
}

/// An interface of the sandbox's network namespace.
#[derive(Debug)]
struct OwnLink(String);

impl Drop for OwnLink {
    fn drop(&mut self) {
        // Without a socket, or where the link is gone already, the namespace takes what is left.
        let Ok(mut socket) = Socket::open() else { return };
        let _ = socket.link_by_name(&self.0).and_then(|link| socket.delete(link.index));
    }
}
