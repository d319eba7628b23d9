//! Processes of the lab: an endpoint in a network namespace of its own, or in the sandbox's.
//!
//! Each gets one end of a byte channel as its standard input and output. They need no
//! `PR_SET_PDEATHSIG`: the sandbox's process namespace ends with PID 1, and that signal would come
//! already when the *thread* that started them ends (prctl(2)).

use std::ffi::{CStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::{Pid, setsid};

use crate::console::Tail;
use crate::sandbox::Sandbox;

/// Which network namespace a process is put into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The sandbox's: it sees the switch and its ports.
    Sandbox,
    /// The host's own, where a switch is made of what is there.
    Host,
    /// A new one without a name, with nothing but a loopback interface that is down.
    OwnNamespace,
}

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessCommand {
    /// The program; usually `/proc/self/exe`.
    pub program: OsString,
    /// Its arguments, without the program's name.
    pub arguments: Vec<OsString>,
}

/// Why a process of the lab could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot start `{name}` ({program}): {step}: {source}")]
pub struct SpawnError {
    name: String,
    program: String,
    step: &'static str,
    source: io::Error,
}

/// A running process of the lab; killed and waited for when dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    errors: Tail,
}

/// Starts `command` in `place` and returns it with the other end of its channel.
///
/// It leads a session of its own, so that Ctrl-C reaches vioperf alone. Its standard error is kept
/// ([`Process::error_tail`]) and not shown.
///
/// # Errors
/// [`SpawnError`], which names the step.
pub fn spawn(
    sandbox: &Sandbox,
    name: &str,
    command: &ProcessCommand,
    place: Place,
) -> Result<(Process, UnixStream), SpawnError> {
    let failed = |step: &'static str| {
        move |source| SpawnError {
            name: name.to_owned(),
            program: command.program.to_string_lossy().into_owned(),
            step,
            source,
        }
    };
    let (ours, theirs) = UnixStream::pair().map_err(failed("make a channel"))?;
    let theirs = OwnedFd::from(theirs);
    let again = theirs.try_clone().map_err(failed("duplicate the channel"))?;
    let mut process = Command::new(&command.program);
    process.args(&command.arguments).stdin(theirs).stdout(again).stderr(Stdio::piped());
    let host = sandbox.host().network_descriptor();
    // SAFETY: between fork and exec only system calls are made, nothing is allocated or locked.
    unsafe { process.pre_exec(move || prepare(place, host)) };
    let mut child = process.spawn().map_err(failed("start the process"))?;
    let errors = match child.stderr.take() {
        Some(stream) => Tail::follow(name, stream),
        None => Err(io::Error::other("it has no standard error")),
    };
    match errors {
        Ok(errors) => Ok((Process { name: name.to_owned(), child, errors }, ours)),
        Err(source) => {
            end(&mut child);
            Err(failed("follow its standard error")(source))
        }
    }
}

/// A program that serves a switch: it has no channel, and its standard error is kept.
#[derive(Debug, Default)]
pub(crate) struct Service<'a> {
    /// What it is called in messages.
    pub name: &'a str,
    /// The program.
    pub program: OsString,
    /// Its arguments, without the program's name.
    pub arguments: Vec<OsString>,
    /// What its environment has beside ours.
    pub environment: Vec<(&'static str, OsString)>,
    /// Descriptors that it inherits, under the same numbers.
    pub inherited: Vec<RawFd>,
    /// A process whose network namespace it is put into; none leaves it in the sandbox's.
    pub beside: Option<Pid>,
}

/// Starts a service, leading a session of its own.
///
/// # Errors
/// [`SpawnError`], which names the step.
pub(crate) fn serve(_: &Sandbox, service: Service<'_>) -> Result<Process, SpawnError> {
    let (name, program) = (service.name.to_owned(), service.program.to_string_lossy().into_owned());
    let failed = |step: &'static str| move |source| SpawnError { name, program, step, source };
    let namespace = service.beside.map(|pid| File::open(format!("/proc/{pid}/ns/net")));
    let namespace = match namespace.transpose() {
        Ok(namespace) => namespace,
        Err(source) => return Err(failed("open a network namespace")(source)),
    };
    let mut command = Command::new(&service.program);
    command.args(&service.arguments).envs(service.environment);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let inherited = service.inherited;
    let prepare = move || {
        setsid()?;
        if let Some(namespace) = &namespace {
            setns(namespace, CloneFlags::CLONE_NEWNET)?;
        }
        inherit(&inherited)
    };
    // SAFETY: between fork and exec only system calls are made, nothing is allocated or locked.
    unsafe { command.pre_exec(prepare) };
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(source) => return Err(failed("start the process")(source)),
    };
    let errors = match child.stderr.take() {
        Some(stream) => Tail::follow(service.name, stream),
        None => Err(io::Error::other("it has no standard error")),
    };
    match errors {
        Ok(errors) => Ok(Process { name: service.name.to_owned(), child, errors }),
        Err(source) => {
            end(&mut child);
            Err(failed("follow its standard error")(source))
        }
    }
}

/// Makes descriptors live through the exec; runs in the child, before it.
pub(crate) fn inherit(descriptors: &[RawFd]) -> io::Result<()> {
    for &number in descriptors {
        // SAFETY: the parent holds these descriptors open, and so does its copy here.
        let fd = unsafe { BorrowedFd::borrow_raw(number) };
        fcntl(fd, FcntlArg::F_SETFD(FdFlag::empty()))?;
    }
    Ok(())
}

/// Runs in the child, between fork and exec.
fn prepare(place: Place, host: RawFd) -> io::Result<()> {
    setsid()?;
    match place {
        Place::Sandbox => return Ok(()),
        Place::OwnNamespace => unshare(CloneFlags::CLONE_NEWNET)?,
        Place::Host => {
            // SAFETY: the parent holds the descriptor open, and so does its copy here.
            let host = unsafe { BorrowedFd::borrow_raw(host) };
            setns(host, CloneFlags::CLONE_NEWNET)?;
        }
    }
    unshare(CloneFlags::CLONE_NEWNS)?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    // Shows that namespace's interfaces in /sys/class/net. Where a container forbids it, /sys
    // goes on showing the sandbox's; netlink and /proc/net show the right ones in any case.
    let _ = mount(Some(c"sysfs"), c"/sys", Some(c"sysfs"), flags, None::<&CStr>);
    Ok(())
}

impl Process {
    /// Its name in messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its id in the sandbox's process namespace.
    #[must_use]
    pub fn pid(&self) -> Pid {
        pid_of(&self.child)
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// The last lines of its standard error.
    #[must_use]
    pub fn error_tail(&self) -> Vec<String> {
        self.errors.lines()
    }

    /// Waits until it has ended by itself, at most so long.
    pub fn wait(&mut self, bound: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + bound;
        loop {
            if let Some(status) = self.ended() {
                return Some(status);
            }
            if Instant::now() >= deadline {
                return None;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Kills and waits; a process that has ended already is fine.
pub(crate) fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

pub(crate) fn pid_of(child: &Child) -> Pid {
    // The kernel's pids are below 2^22.
    Pid::from_raw(child.id().cast_signed())
}
