//! Tap devices: the host's end of a guest's wire. Not persistent: they go with their descriptors.
//!
//! Source: `Documentation/networking/tuntap.rst` of Linux.

use std::fs::{File, OpenOptions};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

/// The device that taps are made from.
pub const TUN_DEVICE: &str = "/dev/net/tun";

nix::ioctl_write_ptr_bad!(
    /// Gives an open tun device its interface.
    tun_set_interface,
    libc::TUNSETIFF,
    libc::ifreq
);

/// A tap in the sandbox's network namespace.
#[derive(Debug)]
pub struct Tap {
    /// Its name there.
    pub name: String,
    /// One descriptor a queue.
    pub queues: Vec<OwnedFd>,
}

/// Why there is no tap.
#[derive(Debug, thiserror::Error)]
pub enum TapError {
    /// The device file is missing.
    #[error(
        "{} does not exist: `modprobe tun` as root; in a container, pass the device in (--device {TUN_DEVICE})", .path.display()
    )]
    NoDevice {
        /// The device file.
        path: PathBuf,
    },
    /// The device file is not for this user.
    #[error(
        "no permission to open {}: an administrator can allow it with `chmod 0666 {TUN_DEVICE}` (what most \
         distributions have, creating a tap still needs CAP_NET_ADMIN), or run vioperf as root", .path.display()
    )]
    NoPermission {
        /// The device file.
        path: PathBuf,
    },
    /// The device file opens for nobody.
    #[error("cannot open {}: {source}", .path.display())]
    Open {
        /// The device file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The kernel does not give this process an interface.
    #[error(
        "the kernel refuses to create tap `{name}` (TUNSETIFF: EPERM): this needs CAP_NET_ADMIN over the \
         network namespace, which the sandbox gives; was it entered?"
    )]
    NotAllowed {
        /// The tap's name.
        name: String,
    },
    /// The kernel refuses for another reason.
    #[error("cannot create tap `{name}`: {step}: {errno}")]
    Create {
        /// The tap's name.
        name: String,
        /// The step that failed.
        step: &'static str,
        /// The reason.
        errno: Errno,
    },
}

impl Tap {
    /// Creates a tap with `queues` queues (at least one), down, in the calling thread's namespace.
    ///
    /// # Errors
    /// [`TapError`], each kind with its own way out.
    pub fn create(name: &str, queues: u16) -> Result<Self, TapError> {
        let queues = (0..queues.max(1))
            .map(|_| open_queue(name, queues > 1))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self { name: name.to_owned(), queues })
    }
}

/// Opens the tun device; the errors tell what is wrong with it.
///
/// # Errors
/// [`TapError::NoDevice`], [`TapError::NoPermission`] or [`TapError::Open`].
pub fn open_device(path: &Path) -> Result<File, TapError> {
    let opened =
        OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(path);
    opened.map_err(|source| {
        let path = path.to_owned();
        match source.raw_os_error().map(Errno::from_raw) {
            Some(Errno::ENOENT | Errno::ENODEV | Errno::ENXIO) => TapError::NoDevice { path },
            Some(Errno::EACCES | Errno::EPERM) => TapError::NoPermission { path },
            _ => TapError::Open { path, source },
        }
    })
}

fn open_queue(name: &str, multi_queue: bool) -> Result<OwnedFd, TapError> {
    let file = open_device(Path::new(TUN_DEVICE))?;
    let failed = |step: &'static str| {
        move |errno: Errno| match errno {
            Errno::EPERM => TapError::NotAllowed { name: name.to_owned() },
            errno => TapError::Create { name: name.to_owned(), step, errno },
        }
    };
    // IFF_VNET_HDR: QEMU can pass checksum and segmentation offload through (the emulated NICs use
    // it as well).
    let mut flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    if multi_queue {
        flags |= libc::IFF_MULTI_QUEUE;
    }
    let request = interface_request(name, flags).ok_or_else(|| failed("name")(Errno::EINVAL))?;
    // SAFETY: the descriptor is open and the request is a whole `ifreq` that lives through the call.
    unsafe { tun_set_interface(file.as_raw_fd(), &raw const request) }
        .map_err(failed("TUNSETIFF"))?;
    Ok(file.into())
}

fn interface_request(name: &str, flags: libc::c_int) -> Option<libc::ifreq> {
    // SAFETY: `ifreq` is plain bytes, all zeroes are a valid one.
    let mut request: libc::ifreq = unsafe { MaybeUninit::zeroed().assume_init() };
    if name.is_empty() || name.len() >= request.ifr_name.len() {
        return None;
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = libc::c_short::try_from(flags).ok()?;
    Some(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_device_is_told_apart_from_a_forbidden_one() {
        let missing = open_device(Path::new("/nonexistent/tun")).unwrap_err();
        assert!(matches!(missing, TapError::NoDevice { .. }));
        assert!(missing.to_string().contains("modprobe tun"), "{missing}");
    }

    #[test]
    fn a_name_that_does_not_fit_is_refused() {
        assert!(interface_request("", 0).is_none());
        assert!(interface_request("sixteen-bytes-xx", 0).is_none());
        assert!(interface_request("fifteen-bytes-x", libc::IFF_MULTI_QUEUE).is_some());
    }
}
