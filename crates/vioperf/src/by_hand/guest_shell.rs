//! A visitor's end of a shell in a guest: its terminal, or its pipes, carried there and back.

use std::env;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use nix::libc;
use nix::pty::Winsize;
use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};
use signal_hook::consts::{SIGHUP, SIGTERM, SIGWINCH};
use signal_hook::iterator::Signals;
use vioperf_model::shell::{FromShell, Message, ShellError, Size, Start, Terminal, ToShell};

/// How long a guest may take to begin.
const BEGINS: Duration = Duration::from_secs(30);

/// The most that is carried at once.
const PIECE: usize = 16 << 10;

/// Leaves a shell whose guest does not answer any more, as with `virsh console`: Ctrl and `]`.
const LEAVES: u8 = 0x1d;

/// Who writes to the guest; clones share it.
type Writer = Arc<Mutex<UnixStream>>;

/// Runs a command, or a shell, in the guest at the other end; its exit code. With a terminal at both ends of this program it has
/// one too.
///
/// # Errors
/// When it cannot be run, or the guest has gone.
pub fn run(channel: UnixStream, command: &[OsString], machine: &str) -> Result<u8> {
    let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    let terminal = is_terminal.then(|| Terminal {
        kind: env::var("TERM").unwrap_or_else(|_| "vt100".to_owned()),
        size: size_of(io::stdin().as_fd()),
    });
    let words = command.iter().map(|word| word.to_str().map(str::to_owned));
    let command: Option<Vec<String>> = words.collect();
    let command = command.context("a command for a guest must be UTF-8")?;
    let start = Start { command, machine: machine.to_owned(), terminal };
    let mut reader = channel.try_clone().context("cannot duplicate the channel")?;
    let writer: Writer = Arc::new(Mutex::new(channel));
    send(&writer, &ToShell::Start(start)).context("cannot speak to the guest")?;
    reader.set_read_timeout(Some(BEGINS)).context("cannot wait for the guest")?;
    match FromShell::read(&mut reader) {
        Ok(FromShell::Started) => {}
        Ok(FromShell::Failed(reason)) => bail!("{machine}: {reason}"),
        Ok(_) => bail!("{machine} says something else than that it began"),
        Err(ShellError::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {
            bail!(
                "{machine} does not answer within {} s: look at it with `vioperf lab list`",
                BEGINS.as_secs()
            )
        }
        Err(error) => return Err(anyhow!(error).context(format!("{machine} does not begin"))),
    }
    reader.set_read_timeout(None).context("cannot wait for the guest")?;
    let raw = if is_terminal { Raw::enter() } else { None };
    if is_terminal {
        follow_signals(&writer, raw.clone())?;
    }
    let input = Arc::clone(&writer);
    let left = Arc::new(AtomicBool::new(false));
    let leaves = Arc::clone(&left);
    let carry = move || carry_in(&input, is_terminal, &leaves);
    thread::Builder::new().name("input".into()).spawn(carry)?;
    let ended = carry_out(&mut reader);
    if let Some(raw) = raw {
        raw.leave();
    }
    match ended {
        Ok(code) => Ok(code),
        Err(_) if left.load(Ordering::Relaxed) => Ok(0),
        Err(error) => Err(error.context(format!("{machine} has gone"))),
    }
}

fn send(writer: &Writer, message: &ToShell) -> io::Result<()> {
    message.write(&mut *writer.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Writes what comes, until the end of the program; its code.
fn carry_out(reader: &mut UnixStream) -> Result<u8> {
    loop {
        match FromShell::read(reader)? {
            FromShell::Output(bytes) => write_to(&mut io::stdout().lock(), &bytes)?,
            FromShell::Errors(bytes) => write_to(&mut io::stderr().lock(), &bytes)?,
            FromShell::Ended(code) => return Ok(code),
            FromShell::Failed(reason) => bail!("{reason}"),
            FromShell::Started => {}
        }
    }
}

fn write_to(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    out.write_all(bytes)?;
    out.flush()
}

/// Sends what is typed or read, until there is nothing more.
fn carry_in(writer: &Writer, is_terminal: bool, left: &AtomicBool) {
    let mut piece = vec![0; PIECE];
    loop {
        let length = match io::stdin().lock().read(&mut piece) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        let bytes = piece.get(..length).unwrap_or_default();
        if is_terminal && bytes.contains(&LEAVES) {
            left.store(true, Ordering::Relaxed);
            // Then the other side reads an end, and so does whoever waits for it here.
            let _ = writer.lock().unwrap_or_else(PoisonError::into_inner).shutdown(Shutdown::Both);
            return;
        }
        if send(writer, &ToShell::Input(bytes.to_vec())).is_err() {
            return;
        }
    }
    // Whoever does not listen any more has ended.
    let _ = send(writer, &ToShell::InputEnds);
}

/// Tells the guest of every new size, and gives the terminal back where this program is ended.
fn follow_signals(writer: &Writer, raw: Option<Raw>) -> Result<()> {
    let mut signals = Signals::new([SIGWINCH, SIGTERM, SIGHUP]).context("cannot handle signals")?;
    let writer = Arc::clone(writer);
    thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            if signal == SIGWINCH {
                // The next one tells the size again.
                let _ = send(&writer, &ToShell::Size(size_of(io::stdin().as_fd())));
                continue;
            }
            if let Some(raw) = &raw {
                raw.leave();
            }
            std::process::exit(128 + signal);
        }
    })?;
    Ok(())
}

/// The size of a terminal; one that does not tell has the usual one.
fn size_of(terminal: BorrowedFd<'_>) -> Size {
    let mut found = Winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the descriptor is open, and the kernel writes a structure that lives through the call.
    let asked = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCGWINSZ, &mut found) };
    match asked {
        0 if found.ws_row > 0 && found.ws_col > 0 => {
            Size { rows: found.ws_row, columns: found.ws_col }
        }
        _ => Size { rows: 24, columns: 80 },
    }
}

/// The user's terminal, as it was before every key went to the guest.
#[derive(Clone)]
struct Raw(Termios);

impl Raw {
    fn enter() -> Option<Self> {
        let before = tcgetattr(io::stdin().as_fd()).ok()?;
        let mut raw = before.clone();
        cfmakeraw(&mut raw);
        tcsetattr(io::stdin().as_fd(), SetArg::TCSADRAIN, &raw).ok()?;
        Some(Self(before))
    }

    fn leave(&self) {
        let _ = tcsetattr(io::stdin().as_fd(), SetArg::TCSADRAIN, &self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_that_goes_or_fails_is_told() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        FromShell::Failed("cannot run x: not there".into()).write(&mut theirs).unwrap();
        let message = run(ours, &["x".into()], "guest").unwrap_err().to_string();
        assert_eq!(message, "guest: cannot run x: not there");
        assert!(
            matches!(ToShell::read(&mut theirs), Ok(ToShell::Start(start)) if start.command == ["x"])
        );
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        assert!(run(ours, &[], "guest").is_err());
    }

    #[test]
    fn the_end_of_a_program_is_its_code() {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        FromShell::Output(Vec::new()).write(&mut theirs).unwrap();
        FromShell::Ended(7).write(&mut theirs).unwrap();
        assert_eq!(carry_out(&mut ours).unwrap(), 7);
    }
}
