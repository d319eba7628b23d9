//! Who runs first when the load wants every core.

use std::io;

/// Gives the calling thread, and the threads it will create, precedence over ordinary ones (nice
/// -10): in a guest with one virtual CPU the message loop and the sampler must run while the load
/// saturates it. The load's own threads go back to normal.
///
/// # Errors
/// `EACCES` without `CAP_SYS_NICE`.
pub fn raise_priority() -> io::Result<()> {
    set_nice(-10)
}

/// Undoes [`raise_priority`] for the calling thread. It can only fail by not being needed.
pub(crate) fn normal_priority() {
    // SAFETY: takes and returns plain integers; 0 is the calling thread.
    let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    if nice < 0 {
        let _ = set_nice(0);
    }
}

fn set_nice(nice: libc::c_int) -> io::Result<()> {
    // SAFETY: takes and returns plain integers; 0 is the calling thread.
    match unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
