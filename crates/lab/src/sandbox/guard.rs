//! The process outside: hands signals on, waits, tells how it ended.

use nix::errno::Errno;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, sigprocmask};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// How the inner process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this exit code.
    Exited(i32),
    /// By this signal; the lab went with it.
    Killed(Signal),
}

impl Ended {
    /// The exit code for the guard: the inner one, or 128 and the signal's number, as shells have it.
    #[must_use]
    pub fn exit_code(self) -> i32 {
        match self {
            Self::Exited(code) => code,
            Self::Killed(signal) => 128 + signal as i32,
        }
    }

    /// One sentence for the user, where there is something to say.
    #[must_use]
    pub fn message(self) -> Option<String> {
        match self {
            Self::Exited(_) => None,
            Self::Killed(signal) => Some(format!(
                "vioperf was ended by {signal}; the kernel has taken its lab (guests, taps, links) down with it"
            )),
        }
    }
}

/// The signals that the guard waits for; they must be blocked before the split.
pub(super) fn handed_on() -> SigSet {
    let mut signals = SigSet::empty();
    for signal in
        [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGCHLD]
    {
        signals.add(signal);
    }
    signals
}

/// Waits until `inner` has ended, and hands signals on until then: it is the inner process that has
/// something to finish. It is in a process group of its own, so each comes to it once, whether a
/// terminal or a script sent it, to this process or to its whole group.
pub(super) fn watch(inner: Pid, before: &SigSet) -> nix::Result<Ended> {
    let signals = handed_on();
    let ended = loop {
        if let Some(ended) = ended(inner)? {
            break ended;
        }
        match signals.wait() {
            Ok(Signal::SIGCHLD) | Err(Errno::EINTR) => {}
            // An inner process that has just ended needs no signal any more.
            Ok(signal) => match kill(inner, signal) {
                Ok(()) | Err(Errno::ESRCH) => {}
                Err(errno) => return Err(errno),
            },
            Err(errno) => return Err(errno),
        }
    };
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(before), None)?;
    Ok(ended)
}

fn ended(inner: Pid) -> nix::Result<Option<Ended>> {
    match waitpid(inner, Some(WaitPidFlag::WNOHANG)) {
        Ok(WaitStatus::Exited(_, code)) => Ok(Some(Ended::Exited(code))),
        Ok(WaitStatus::Signaled(_, signal, _)) => Ok(Some(Ended::Killed(signal))),
        Ok(_) | Err(Errno::EINTR) => Ok(None),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_of_a_shell() {
        assert_eq!(Ended::Exited(3).exit_code(), 3);
        assert_eq!(Ended::Killed(Signal::SIGKILL).exit_code(), 137);
        assert!(Ended::Exited(1).message().is_none());
        assert!(Ended::Killed(Signal::SIGKILL).message().unwrap().contains("SIGKILL"));
    }
}
