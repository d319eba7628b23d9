//! A lab in the background: the same program is started once more, in a session of its own, and tells over its standard input
//! when the lab stands; until then what it says is passed on.

use std::env;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{ChildStderr, Command, ExitStatus, Stdio};

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::setsid;

/// The argument by which the one in the background knows that it is that.
pub const TELLS: &str = "--tells-when-it-stands";

/// What became of it.
#[derive(Debug)]
pub enum Started {
    /// It stands; this is to be told of it.
    Stands(String),
    /// It does not.
    Ended(ExitStatus),
}

/// Starts this program once more with the same arguments, and waits until its lab stands or it has ended.
///
/// # Errors
/// When it cannot be started.
pub fn start() -> Result<Started> {
    let (mut ours, theirs) = UnixStream::pair().context("cannot make a channel")?;
    let mut command = Command::new("/proc/self/exe");
    command.args(env::args_os().skip(1)).arg(TELLS);
    command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().context("cannot start vioperf in the background")?;
    // What it was started with holds the other end of the channel.
    drop(command);
    let mut errors = child.stderr.take().context("it has no standard error")?;
    pass_on(&mut errors, &ours)?;
    let mut text = String::new();
    ours.read_to_string(&mut text).context("cannot hear whether the lab stands")?;
    if !text.is_empty() {
        return Ok(Started::Stands(text));
    }
    let status = child.wait().context("cannot wait for vioperf in the background")?;
    // Its last words.
    let _ = io::copy(&mut errors, &mut io::stderr());
    Ok(Started::Ended(status))
}

/// Passes on what it says, until it has something to tell over the channel.
fn pass_on(errors: &mut ChildStderr, channel: &UnixStream) -> Result<()> {
    let mut piece = [0; 4096];
    let mut is_open = true;
    loop {
        let of_errors = if is_open { PollFlags::POLLIN } else { PollFlags::empty() };
        let mut fds = [
            PollFd::new(channel.as_fd(), PollFlags::POLLIN),
            PollFd::new(errors.as_fd(), of_errors),
        ];
        match poll(if is_open { &mut fds } else { &mut fds[..1] }, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno).context("cannot wait for the lab"),
        }
        let has_said = is_open && fds[1].any() == Some(true);
        let has_told = fds[0].any() == Some(true);
        // What was said before is passed on before.
        if has_said {
            match errors.read(&mut piece) {
                Ok(0) | Err(_) => is_open = false,
                Ok(length) => {
                    // Nobody may look on.
                    let _ = io::stderr().write_all(piece.get(..length).unwrap_or_default());
                }
            }
        } else if has_told {
            return Ok(());
        }
    }
}

/// Leaves the terminal of whoever started it.
///
/// # Errors
/// When this process leads a group already: it was not started by [`start`].
pub fn leave_terminal() -> Result<()> {
    setsid().map(drop).context("cannot leave the terminal")
}

/// Tells whoever started this that the lab stands.
///
/// # Errors
/// When nobody is there any more: then nobody wants the lab.
pub fn tell(text: &str) -> Result<()> {
    let channel = io::stdin().as_fd().try_clone_to_owned().context("cannot use standard input")?;
    let mut channel = UnixStream::from(channel);
    channel.write_all(text.as_bytes()).context("whoever started the lab has gone")?;
    channel.shutdown(Shutdown::Write).context("whoever started the lab has gone")
}
