//! Trying out what a kernel allows, where it leaves nothing behind.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};

use crate::namespace::end;

/// Makes `attempt` in new namespaces of a child that never comes to run a program; they and what was made
/// there are gone with it. An ordinary user's child has a user namespace of its own besides.
///
/// # Errors
/// The kernel's, to the namespaces or to the attempt.
pub(crate) fn in_namespaces(
    mut flags: CloneFlags,
    is_root: bool,
    mut attempt: impl FnMut() -> Result<(), Errno> + Send + Sync + 'static,
) -> Result<(), Errno> {
    // The child tells by an error that it never runs a program: this one is success.
    const SUCCESS: Errno = Errno::ECANCELED;
    flags.set(CloneFlags::CLONE_NEWUSER, !is_root);
    let mut command = Command::new("/proc/self/exe");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let in_child = move || -> io::Result<()> {
        unshare(flags)?;
        Err(attempt().err().unwrap_or(SUCCESS).into())
    };
    // SAFETY: the attempt may allocate, which the C library allows after a fork; it takes no lock of ours,
    // and whatever it says the child ends after it.
    unsafe { command.pre_exec(in_child) };
    match command.spawn() {
        // Cannot be: the child always fails.
        Ok(mut child) => {
            end(&mut child);
            Ok(())
        }
        Err(error) => match error.raw_os_error().map(Errno::from_raw) {
            Some(SUCCESS) => Ok(()),
            other => Err(other.unwrap_or(Errno::EIO)),
        },
    }
}
