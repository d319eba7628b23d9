//! One visitor: what it wants run is started, with a terminal of its own or with pipes, and carried to it and back.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, Command, ExitCode, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use nix::libc;
use nix::pty::{OpenptyResult, Winsize, openpty};
use nix::sys::signal::{SigHandler, Signal, killpg, signal};
use nix::unistd::{Pid, setsid};
use vioperf_model::shell::{FromShell, Message, Size, Start, Terminal, ToShell};

use super::{BUSYBOX, CALLED};
use crate::port::Port;

/// How long what a program left in the background may hold up the word of its end.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The most that is carried at once.
const PIECE: usize = 16 << 10;

/// Serves the port that it is told, if it is called for that; nothing if it is not.
pub fn main(arguments: &[String]) -> Option<ExitCode> {
    let [called, port] = arguments else { return None };
    if called != CALLED {
        return None;
    }
    // The first process ignores it, and what is ignored is inherited.
    // SAFETY: sets a disposition, not a handler: no code of ours runs on the signal.
    let _ = unsafe { signal(Signal::SIGCHLD, SigHandler::SigDfl) };
    // Whoever could be told is the visitor, and it sees the port close.
    Some(match serve(port) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    })
}

fn serve(name: &str) -> io::Result<()> {
    let mut port = Port::find(name).map_err(io::Error::other)?;
    port.await_host().map_err(io::Error::other)?;
    let answers = Answers(Arc::new(Mutex::new(port.try_clone()?)));
    let start = match ToShell::read(&mut port).map_err(io::Error::other)? {
        ToShell::Start(start) => start,
        _ => return answers.send(&FromShell::Failed("it was not told what to run".to_owned())),
    };
    let Running { mut child, input, outputs } = match run(&start) {
        Ok(running) => running,
        Err(error) => {
            let wanted = start.command.first().map_or("sh", String::as_str);
            return answers.send(&FromShell::Failed(format!("cannot run {wanted}: {error}")));
        }
    };
    answers.send(&FromShell::Started)?;
    let group = Pid::from_raw(child.id().cast_signed());
    thread::Builder::new().name("input".into()).spawn(move || {
        carry_in(&mut port, input);
        // The visitor has gone, or says what nobody understands.
        let _ = killpg(group, Signal::SIGHUP);
    })?;
    let (tell, ended) = channel();
    let carried = Arc::new(AtomicU64::new(0));
    for (output, wrap) in outputs {
        let (answers, tell, carried) = (answers.clone(), tell.clone(), Arc::clone(&carried));
        thread::Builder::new().name("output".into()).spawn(move || {
            carry_out(output, wrap, &answers, &carried);
            // Nobody may wait for it any more.
            let _ = tell.send(());
        })?;
    }
    drop(tell);
    let status = child.wait()?;
    await_last_words(&ended, &carried);
    answers.send(&FromShell::Ended(code_of(status)))
}

/// Where everything is told; clones share it.
#[derive(Clone)]
struct Answers(Arc<Mutex<Port>>);

impl Answers {
    fn send(&self, message: &FromShell) -> io::Result<()> {
        message.write(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What the bytes of a stream are told as.
type Wrap = fn(Vec<u8>) -> FromShell;

/// A program, and how it is spoken with.
struct Running {
    child: Child,
    input: Input,
    outputs: Vec<(File, Wrap)>,
}

enum Input {
    Terminal(File),
    Pipe(Option<ChildStdin>),
}

fn run(start: &Start) -> io::Result<Running> {
    let mut command = match start.command.as_slice() {
        [program, arguments @ ..] => {
            let mut command = Command::new(program);
            command.args(arguments);
            command
        }
        [] => {
            let mut command = Command::new(BUSYBOX);
            command.arg("sh");
            command
        }
    };
    command
        .env_clear()
        .env("PATH", "/bin:/sbin:/usr/bin:/usr/sbin")
        .env("HOME", "/")
        .current_dir("/");
    if start.command.is_empty() {
        command.env("PS1", format!("{}:\\w# ", start.machine));
    }
    match &start.terminal {
        Some(terminal) => with_terminal(command, terminal),
        None => with_pipes(command),
    }
}

fn with_terminal(mut command: Command, terminal: &Terminal) -> io::Result<Running> {
    let OpenptyResult { master, slave } = openpty(&window(terminal.size), None)?;
    // What the program keeps of it would keep it open.
    close_on_exec(&master)?;
    let again = || slave.try_clone().map(Stdio::from);
    command.env("TERM", &terminal.kind).stdin(again()?).stdout(again()?).stderr(again()?);
    // SAFETY: between fork and exec only system calls are made, nothing is allocated or locked.
    unsafe {
        command.pre_exec(|| {
            setsid()?;
            match libc::ioctl(0, libc::TIOCSCTTY as _, 0) {
                -1 => Err(io::Error::last_os_error()),
                _ => Ok(()),
            }
        });
    }
    let child = command.spawn()?;
    let output = File::from(master.try_clone()?);
    let input = Input::Terminal(File::from(master));
    Ok(Running { child, input, outputs: vec![(output, FromShell::Output)] })
}

fn with_pipes(mut command: Command) -> io::Result<Running> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.process_group(0);
    let mut child = command.spawn()?;
    let missing = || io::Error::other("it has no pipe");
    let input = Input::Pipe(child.stdin.take());
    let output = OwnedFd::from(child.stdout.take().ok_or_else(missing)?);
    let errors = OwnedFd::from(child.stderr.take().ok_or_else(missing)?);
    let outputs: Vec<(File, Wrap)> =
        vec![(output.into(), FromShell::Output), (errors.into(), FromShell::Errors)];
    Ok(Running { child, input, outputs })
}

fn close_on_exec(descriptor: &OwnedFd) -> io::Result<()> {
    use nix::fcntl::{FcntlArg, FdFlag, fcntl};
    fcntl(descriptor.as_fd(), FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    Ok(())
}

fn window(Size { rows, columns }: Size) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

/// Carries what the visitor sends to the program, until the visitor has gone.
fn carry_in(port: &mut Port, mut input: Input) {
    while let Ok(message) = ToShell::read(port) {
        match (message, &mut input) {
            // A program that does not listen any more is about to end, or has its reasons.
            (ToShell::Input(bytes), Input::Terminal(terminal)) => drop(terminal.write_all(&bytes)),
            (ToShell::Input(bytes), Input::Pipe(Some(pipe))) => drop(pipe.write_all(&bytes)),
            (ToShell::InputEnds, Input::Pipe(pipe)) => drop(pipe.take()),
            (ToShell::Size(size), Input::Terminal(terminal)) => {
                // SAFETY: the descriptor is open, and the kernel reads a structure that lives through the call.
                unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ as _, &window(size)) };
            }
            (ToShell::Start(_), _) => return,
            _ => {}
        }
    }
}

/// Carries what the program writes to the visitor, until it ends; a terminal ends with an error.
fn carry_out(mut output: File, wrap: Wrap, answers: &Answers, carried: &AtomicU64) {
    let mut piece = vec![0; PIECE];
    loop {
        let length = match output.read(&mut piece) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        if answers.send(&wrap(piece.get(..length).unwrap_or_default().to_vec())).is_err() {
            break;
        }
        carried.fetch_add(1, Ordering::Relaxed);
    }
}

/// Waits until every output has ended, or nothing comes any more: then the background has it.
fn await_last_words(ended: &Receiver<()>, carried: &AtomicU64) {
    let mut before = carried.load(Ordering::Relaxed);
    loop {
        match ended.recv_timeout(LAST_WORDS) {
            Ok(()) => {}
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                let now = carried.load(Ordering::Relaxed);
                if now == before {
                    return;
                }
                before = now;
            }
        }
    }
}

fn code_of(status: ExitStatus) -> u8 {
    let of_signal = || status.signal().map_or(1, |signal| 128 + signal);
    u8::try_from(status.code().unwrap_or_else(of_signal)).unwrap_or(1)
}
