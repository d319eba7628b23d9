//! What the first process of a machine has to do before anything else works.

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sys::signal::{SigHandler, Signal, signal};

use crate::Fatal;

/// What is mounted where; devtmpfs makes the device nodes by itself.
const MOUNTS: [(&str, &str); 4] =
    [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev"), ("tmpfs", "/tmp")];

/// Mounts the kernel's file systems, each in a folder that is made if need be.
pub fn mount_all() -> Result<(), Fatal> {
    for (kind, folder) in MOUNTS {
        let failed = |reason: &dyn std::fmt::Display| {
            Fatal(format!("cannot mount {kind} on {folder}: {reason}"))
        };
        std::fs::create_dir_all(folder).map_err(|error| failed(&error))?;
        match mount(Some(kind), folder, Some(kind), MsFlags::empty(), None::<&str>) {
            // The kernel may have mounted /dev itself (CONFIG_DEVTMPFS_MOUNT).
            Ok(()) | Err(Errno::EBUSY) => {}
            Err(errno) => return Err(failed(&errno)),
        }
    }
    Ok(())
}

/// Loopback is down at boot.
pub fn bring_loopback_up() -> Result<(), Fatal> {
    vioperf_node::bring_loopback_up().map_err(|error| Fatal(error.to_string()))
}

/// Nobody waits for our children, nor for those that lost their parent: the kernel reaps them when
/// `SIGCHLD` is ignored (wait(2)).
pub fn reap_orphans() -> Result<(), Fatal> {
    // SAFETY: sets a disposition, not a handler: no code of ours runs on the signal.
    unsafe { signal(Signal::SIGCHLD, SigHandler::SigIgn) }
        .map(drop)
        .map_err(|errno| Fatal(format!("cannot ignore SIGCHLD: {errno}")))
}
