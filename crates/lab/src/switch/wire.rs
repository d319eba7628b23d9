//! The host's end of a guest's wire, as it is handed to QEMU.

use std::os::fd::OwnedFd;

use nix::unistd::Pid;

/// The host's end of a guest's NIC.
#[derive(Debug)]
pub struct Wire {
    /// Name of its interface in the sandbox's network namespace; where it has none, what it is called.
    pub name: String,
    /// What QEMU is given.
    pub backend: Backend,
    /// A process whose network namespace QEMU has to be in; none leaves it in the sandbox's.
    pub beside: Option<Pid>,
}

/// What moves a NIC's frames on QEMU's side (`-netdev`).
#[derive(Debug)]
pub enum Backend {
    /// Descriptors of a tap or macvtap, one a queue.
    Tap(Vec<OwnedFd>),
}

impl Backend {
    /// What QEMU calls it.
    #[must_use]
    pub fn netdev(&self) -> &'static str {
        match self {
            Self::Tap(_) => "tap",
        }
    }

    /// Every descriptor that QEMU has to inherit.
    pub(crate) fn descriptors(&self) -> &[OwnedFd] {
        match self {
            Self::Tap(queues) => queues,
        }
    }
}
