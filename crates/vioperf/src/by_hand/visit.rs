//! A visitor outside of a lab: asks it, goes into its namespaces, ends it.

use std::env;
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigHandler, Signal, signal};
use nix::sys::termios::{SetArg, Termios, tcgetattr, tcsetattr};
use nix::unistd::{Pid, getpgrp, getpid, setpgid, tcsetpgrp};
use signal_hook::consts::{SIGINT, SIGQUIT};
use vioperf_lab::visit::{Doors, hang_up_with_parent};

use super::message::{self, Answer, MessageError, Request};
use super::parts::Description;
use super::roll::Line;
use crate::output::Output;

/// A lab that stands answers at once.
const ANSWERS: Duration = Duration::from_secs(2);

/// How long a lab may take to come up, seen from one who wants to visit it.
const COMES_UP: Duration = Duration::from_secs(180);

/// How long a lab may take to go down: a card's functions are given back by then.
const GOES_DOWN: Duration = Duration::from_secs(60);

/// What stands; nothing while it is coming up.
///
/// # Errors
/// When the lab does not say.
pub fn describe(line: &Line) -> Result<Option<Description>> {
    message::send(&line.socket, &Request::Describe, &[])?;
    match message::receive(&line.socket, ANSWERS) {
        Ok((Answer::Description(description), _)) => Ok(Some(description)),
        Ok((Answer::Refused(reason), _)) => bail!("{reason}"),
        Ok(_) => bail!("the lab answers something else"),
        Err(MessageError::Silent(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The way into a part.
#[derive(Debug)]
pub enum Way {
    /// Of one that is in processes of the host.
    Doors(Doors),
    /// Of a guest: who serves a shell is at the other end, for as long as the line to the lab is open.
    Channel(UnixStream),
}

/// The way into a part, once the lab stands.
///
/// # Errors
/// When there is no such part, or the lab goes down.
pub fn way(line: &Line, part: &str, output: &Output) -> Result<Way> {
    message::send(&line.socket, &Request::Enter { part: part.to_owned() }, &[])?;
    let answered = match message::receive(&line.socket, ANSWERS) {
        Err(MessageError::Silent(_)) => {
            output.note("the lab is coming up");
            message::receive(&line.socket, COMES_UP)
        }
        answered => answered,
    };
    match answered? {
        (Answer::Doors, descriptors) => Ok(Way::Doors(Doors::from_descriptors(descriptors)?)),
        (Answer::Channel, mut descriptors) => match descriptors.pop() {
            Some(channel) => Ok(Way::Channel(channel.into())),
            None => bail!("the lab gives no channel to the guest"),
        },
        (Answer::Refused(reason), _) => bail!("{reason}"),
        (Answer::Description(_), _) => bail!("the lab answers something else"),
    }
}

/// Runs a command, or the user's shell, behind the doors; how it ended. Call it before any thread is started.
///
/// # Errors
/// When it cannot be started.
pub fn run(doors: Doors, command: &[OsString], lab: &str, part: &str) -> Result<ExitStatus> {
    let shell =
        || env::var_os("SHELL").filter(|s| !s.is_empty()).unwrap_or_else(|| "/bin/sh".into());
    let (program, arguments) = match command {
        [program, arguments @ ..] => (program.clone(), arguments),
        [] => (shell(), [].as_slice()),
    };
    let terminal = Terminal::of_input();
    // What a terminal sends to both of us is for the program; a handler, unlike ignoring, is not inherited.
    for number in [SIGINT, SIGQUIT] {
        let unused = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(number, unused).context("cannot handle signals")?;
    }
    doors.enter()?;
    let mut process = Command::new(&program);
    process.args(arguments).env("VIOPERF_LAB", format!("{lab}/{part}"));
    hang_up_with_parent(&mut process);
    if terminal.is_some() && command.is_empty() {
        with_terminal_of_its_own(&mut process);
    }
    let started = process.spawn();
    let mut child =
        started.with_context(|| format!("cannot start {}", program.to_string_lossy()))?;
    let status = child.wait().context("cannot wait for the program")?;
    if let Some(terminal) = terminal {
        terminal.restore();
    }
    Ok(status)
}

/// Gives the terminal to a shell, as the group that it leads. Ours has no number in the lab's process namespace, and a shell
/// that gives the terminal back to a group without a number ends with an error.
fn with_terminal_of_its_own(command: &mut Command) {
    let prepare = || {
        setpgid(Pid::from_raw(0), Pid::from_raw(0))?;
        // Whoever is in the background is stopped for taking the terminal, unless it ignores that.
        // SAFETY: neither disposition runs code of ours.
        unsafe { signal(Signal::SIGTTOU, SigHandler::SigIgn) }?;
        // SAFETY: a program has its standard input, which is a terminal here.
        let input = unsafe { BorrowedFd::borrow_raw(libc::STDIN_FILENO) };
        let taken = tcsetpgrp(input, getpid());
        // SAFETY: as above.
        unsafe { signal(Signal::SIGTTOU, SigHandler::SigDfl) }?;
        Ok(taken?)
    };
    // SAFETY: between fork and exec only system calls are made, nothing is allocated or locked.
    unsafe { command.pre_exec(prepare) };
}

/// The exit code of one that ended so, as shells have it.
pub fn code_of(status: ExitStatus) -> u8 {
    let of_signal = || status.signal().map_or(1, |signal| 128 + signal);
    u8::try_from(status.code().unwrap_or_else(of_signal)).unwrap_or(1)
}

/// The user's terminal as it was: a shell that is killed with its lab leaves it as it had set it.
struct Terminal(Termios);

impl Terminal {
    fn of_input() -> Option<Self> {
        let input = io::stdin();
        let settings = input.is_terminal().then(|| tcgetattr(input.as_fd()));
        settings.and_then(Result::ok).map(Self)
    }

    fn restore(&self) {
        // A shell had the terminal as its own; whoever is in the background must not be stopped for taking it back.
        // SAFETY: ignoring a signal runs no code of ours.
        let _ = unsafe { signal(Signal::SIGTTOU, SigHandler::SigIgn) };
        let _ = tcsetpgrp(io::stdin().as_fd(), getpgrp());
        let _ = tcsetattr(io::stdin().as_fd(), SetArg::TCSADRAIN, &self.0);
    }
}

/// Ends a lab, and waits until nothing of it is left.
///
/// # Errors
/// When it does not end.
pub fn end(line: &Line, name: &str) -> Result<()> {
    let guard = process_descriptor(line)?;
    let Some(guard) = guard else { return Ok(()) };
    send_term(&guard).with_context(|| format!("cannot end process {}", line.guard))?;
    let deadline = Instant::now() + GOES_DOWN;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(guard.as_fd(), PollFlags::POLLIN)], timeout) {
            Ok(1..) => return Ok(()),
            Ok(_) if left.is_zero() => {
                return Err(anyhow!(
                    "the lab {name} has not gone down within {} s: `kill -9 {}` ends it, and leaves nothing either",
                    GOES_DOWN.as_secs(),
                    line.guard
                ));
            }
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno).context("cannot wait for the lab's end"),
        }
    }
}

/// The lab's guard, whatever becomes of its process id; nothing when it has ended already.
fn process_descriptor(line: &Line) -> Result<Option<OwnedFd>> {
    // SAFETY: takes and returns plain numbers.
    let number = unsafe { libc::syscall(libc::SYS_pidfd_open, line.guard.as_raw(), 0) };
    let number = match Errno::result(number) {
        Ok(number) => i32::try_from(number).context("pidfd_open")?,
        Err(Errno::ESRCH) => return Ok(None),
        Err(errno) => {
            return Err(errno).context("cannot watch the lab's process (pidfd_open, Linux 5.3)");
        }
    };
    // SAFETY: the kernel has just opened it for us alone.
    let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
    // As long as somebody listens the guard lives, so that the id was its own.
    let mut fds = [PollFd::new(line.socket.as_fd(), PollFlags::empty())];
    let hung_up = poll(&mut fds, PollTimeout::ZERO).is_ok_and(|ready| ready > 0);
    Ok((!hung_up).then_some(descriptor))
}

fn send_term(process: &OwnedFd) -> nix::Result<()> {
    let none = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: the descriptor is open; without a siginfo the kernel fills one in as kill(2) does.
    let sent = unsafe {
        libc::syscall(libc::SYS_pidfd_send_signal, process.as_raw_fd(), libc::SIGTERM, none, 0)
    };
    match Errno::result(sent) {
        Ok(_) | Err(Errno::ESRCH) => Ok(()),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_of_a_shell() {
        assert_eq!(code_of(ExitStatus::from_raw(7 << 8)), 7);
        assert_eq!(code_of(ExitStatus::from_raw(9)), 137);
    }
}
