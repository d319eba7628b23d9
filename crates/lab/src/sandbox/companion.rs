//! Another process that does a piece of the work: each sandbox wants a process of its own, as the kernel lets a
//! process make one process namespace for its children and no second.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::unistd::{Pid, getpid, getppid};

use super::guard::{self, Ended};
use super::{SandboxError, block, process};

/// Runs `command` and waits for its end. It is in a process group of its own, and signals are handed on to it, so that
/// each comes to it once; should this process die, it gets SIGTERM.
///
/// # Errors
/// [`SandboxError::Process`] where it cannot be started or waited for.
pub fn run_beside(command: &mut Command) -> Result<Ended, SandboxError> {
    let own = getpid();
    let before = block(&guard::handed_on())?;
    // SAFETY: what runs between fork and exec are three system calls, and nothing is allocated.
    unsafe { command.process_group(0).pre_exec(move || begin(own, &before)) };
    let child = command.spawn().map_err(|error| SandboxError::Process {
        step: "start another vioperf",
        errno: error.raw_os_error().map_or(Errno::EIO, Errno::from_raw),
    })?;
    let pid = i32::try_from(child.id()).map(Pid::from_raw).unwrap_or_else(|_| Pid::from_raw(-1));
    guard::watch(pid, &before).map_err(process("wait for another vioperf"))
}

/// A program that is executed keeps the mask of who started it, which holds back what is handed on.
fn begin(parent: Pid, mask: &SigSet) -> io::Result<()> {
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(mask), None)?;
    prctl::set_pdeathsig(Signal::SIGTERM)?;
    // It died before the line above.
    if getppid() == parent { Ok(()) } else { Err(Errno::ESRCH.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_waited_for_in_a_group_of_its_own() {
        let script = "[ \"$(ps -o pgid= -p $$ | tr -d ' ')\" = $$ ] && exit 7";
        let ended = run_beside(Command::new("sh").args(["-c", script])).unwrap();
        assert_eq!(ended, Ended::Exited(7));
        let ended = run_beside(Command::new("sh").args(["-c", "kill -TERM $$"])).unwrap();
        assert_eq!(ended.exit_code(), 143);
        let ended = run_beside(Command::new("sh").args(["-c", "kill -KILL $$"])).unwrap();
        assert_eq!(ended.exit_code(), 137);
        assert!(run_beside(&mut Command::new("/no/such/program")).is_err());
    }
}
