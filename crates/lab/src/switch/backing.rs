//! How a guest's NIC is backed on the host, and what that needs.

use std::path::Path;

use super::lack::Lack;
use crate::preflight::{Check, Status, tun};
use crate::qemu::Qemu;

/// What the host's end of a guest's wire is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backing {
    /// A tap, handed to QEMU by descriptor.
    Tap,
    /// The device file of a macvtap, handed to QEMU by descriptor.
    Macvtap,
    /// A stream socket to a program.
    Stream,
    /// QEMU's own network.
    Slirp,
    /// A socket by which a program is given the guest's memory.
    VhostUser,
}

impl Backing {
    /// What it needs and the machine below `root` or QEMU has not.
    pub(super) fn lacks(self, root: &Path, qemu: Option<&Qemu>) -> Option<Lack> {
        let netdev = self.netdev();
        let of_machine = match self {
            Self::Tap => of_check(tun(root)),
            Self::Macvtap => (!nix::unistd::geteuid().is_root()).then(|| {
                let what = "only root may make and open a macvtap's device file";
                Lack::new(what, "run vioperf as root")
            }),
            Self::Stream | Self::Slirp | Self::VhostUser => None,
        };
        of_machine.or_else(|| {
            let qemu = qemu?;
            (!qemu.has_netdev(netdev)).then(|| {
                let what = format!("QEMU {} has no network backend `{netdev}`", qemu.version);
                Lack::new(what, "take a newer QEMU, or one that was built with it")
            })
        })
    }

    fn netdev(self) -> &'static str {
        match self {
            Self::Tap | Self::Macvtap => "tap",
            Self::Stream => "stream",
            Self::Slirp => "user",
            Self::VhostUser => "vhost-user",
        }
    }
}

fn of_check(check: Check) -> Option<Lack> {
    (check.status == Status::Fail).then(|| Lack::new(check.found, check.advice.unwrap_or_default()))
}
