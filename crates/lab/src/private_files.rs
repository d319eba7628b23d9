//! A directory of the sandbox that has no name outside of it and none inside: a file system in memory that
//! is mounted nowhere, reached through a descriptor, and gone when that is closed, however the lab ends.
//!
//! Sources: fsopen(2), fsmount(2); Linux 5.2.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;

use nix::errno::Errno;

use crate::sandbox::Sandbox;

/// `FSCONFIG_CMD_CREATE` of linux/mount.h.
const CREATE: libc::c_uint = 6;
/// `FSOPEN_CLOEXEC` and `FSMOUNT_CLOEXEC`.
const CLOSE_ON_EXEC: libc::c_uint = 1;
/// `MOUNT_ATTR_NOSUID` and `MOUNT_ATTR_NOEXEC`; device files may be in it.
const ATTRIBUTES: libc::c_uint = 0x2 | 0x8;

/// A file system in memory.
#[derive(Debug)]
pub(crate) struct PrivateFiles {
    root: OwnedFd,
}

impl PrivateFiles {
    /// Makes one, empty.
    pub fn new(_: &Sandbox) -> io::Result<Self> {
        let kind: &CStr = c"tmpfs";
        // SAFETY: the name is a string that lives through the call; the kernel takes nothing else.
        let context =
            descriptor(unsafe { libc::syscall(libc::SYS_fsopen, kind.as_ptr(), CLOSE_ON_EXEC) })?;
        let (number, none) = (context.as_raw_fd(), std::ptr::null::<libc::c_char>());
        // SAFETY: the descriptor is open, and this command takes neither key nor value.
        let created = unsafe { libc::syscall(libc::SYS_fsconfig, number, CREATE, none, none, 0) };
        Errno::result(created)?;
        // SAFETY: the descriptor is open; the rest are numbers.
        let root = descriptor(unsafe {
            libc::syscall(libc::SYS_fsmount, number, CLOSE_ON_EXEC, ATTRIBUTES)
        })?;
        Ok(Self { root })
    }

    /// Where every process of the sandbox reaches it as long as this lives.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.root.as_raw_fd()))
    }
}

fn descriptor(result: libc::c_long) -> io::Result<OwnedFd> {
    let number = Errno::result(result)?;
    let number = i32::try_from(number).map_err(|_| io::Error::from(Errno::EBADF))?;
    // SAFETY: the kernel has just opened it for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}
