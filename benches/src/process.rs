//! Programs in the arena: started, watched, ended, and what they cost.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::arena::{Arena, Side};

/// How often a process that is waited for is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How often its memory is.
const LOOK_AT_MEMORY_EVERY: Duration = Duration::from_millis(150);
/// How long a server may take until it listens.
const LISTENS_WITHIN: Duration = Duration::from_secs(3);
/// How long a server that ends by itself may take for it, and one that was told to.
const ENDS_WITHIN: Duration = Duration::from_millis(1500);

/// A program and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    pub program: PathBuf,
    pub arguments: Vec<String>,
    pub environment: Vec<(&'static str, &'static str)>,
}

impl CommandLine {
    /// `arguments` are separated by white space.
    pub fn new(program: impl Into<PathBuf>, arguments: &str) -> Self {
        let arguments = arguments.split_whitespace().map(str::to_owned).collect();
        Self { program: program.into(), arguments, environment: Vec::new() }
    }
}

impl fmt::Display for CommandLine {
    /// As one would type it, the program without its directory.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.program.file_name().unwrap_or(self.program.as_os_str());
        self.environment.iter().try_for_each(|(key, value)| write!(f, "{key}={value} "))?;
        write!(f, "{}", name.to_string_lossy())?;
        self.arguments.iter().try_for_each(|argument| write!(f, " {argument}"))
    }
}

/// A process in the arena; killed and waited for when dropped.
pub struct Running {
    name: String,
    pid: Pid,
    output: File,
    errors: File,
    resident_peak_bytes: u64,
    /// When its memory was looked at last.
    looked: Option<Instant>,
    ended: bool,
}

/// A process at its end.
#[derive(Debug, Clone)]
pub struct Ended {
    pub output: String,
    pub errors: String,
    pub success: bool,
    /// User and system time of it and of every child that it waited for: wait4(2).
    pub cpu_seconds: f64,
    /// The most memory that it, or one of its children, was seen to have resident: `VmHWM` of
    /// proc_pid_status(5).
    pub resident_peak_bytes: u64,
}

impl Running {
    pub fn start(arena: &Arena, side: Side, line: &CommandLine) -> Result<Self> {
        let failed = || format!("cannot start `{line}`");
        let output = tempfile::tempfile().with_context(failed)?;
        let errors = tempfile::tempfile().with_context(failed)?;
        let mut command = Command::new(&line.program);
        command.args(line.arguments.iter().map(OsStr::new));
        command.envs(line.environment.iter().copied());
        command.stdin(Stdio::null());
        command.stdout(output.try_clone().with_context(failed)?);
        command.stderr(errors.try_clone().with_context(failed)?);
        let namespace = arena.descriptor(side);
        let enter = move || -> io::Result<()> {
            // SAFETY: the arena, and with it the descriptor, outlives every process in it.
            let namespace = unsafe { BorrowedFd::borrow_raw(namespace) };
            Ok(setns(namespace, CloneFlags::CLONE_NEWNET)?)
        };
        // SAFETY: between fork and exec one system call is made, nothing is allocated or locked.
        unsafe { command.pre_exec(enter) };
        let child = command.spawn().with_context(failed)?;
        let pid = Pid::from_raw(child.id().cast_signed());
        let name = line.to_string();
        Ok(Self { name, pid, output, errors, resident_peak_bytes: 0, looked: None, ended: false })
    }

    /// Waits until something in its namespace listens on `port`.
    pub fn await_listening(&mut self, port: u16) -> Result<()> {
        let deadline = Instant::now() + LISTENS_WITHIN;
        while !listens(self.pid, port) {
            if let Some(ended) = self.poll()? {
                bail!("`{}` ended instead of listening: {}", self.name, ended.said());
            }
            if Instant::now() > deadline {
                bail!("`{}` does not listen on port {port}", self.name);
            }
            sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Waits for its end; after `bound` it is killed, which is an error.
    pub fn wait(&mut self, bound: Duration) -> Result<Ended> {
        match self.wait_at_most(bound)? {
            Some(ended) => Ok(ended),
            None => bail!("`{}` did not end within {bound:?}", self.name),
        }
    }

    /// Waits for a server's end: by itself where it does that after one client, else by a signal.
    pub fn finish(&mut self, ends_by_itself: bool) -> Result<Ended> {
        let patience = if ends_by_itself { ENDS_WITHIN } else { Duration::ZERO };
        if let Some(ended) = self.wait_at_most(patience)? {
            return Ok(ended);
        }
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGKILL] {
            // It may have ended just now: then waiting tells.
            let _ = kill(self.pid, signal);
            if let Some(ended) = self.wait_at_most(ENDS_WITHIN)? {
                return Ok(ended);
            }
        }
        bail!("`{}` survives SIGKILL", self.name)
    }

    fn wait_at_most(&mut self, bound: Duration) -> Result<Option<Ended>> {
        let deadline = Instant::now() + bound;
        loop {
            if let Some(ended) = self.poll()? {
                return Ok(Some(ended));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            sleep(LOOK_EVERY);
        }
    }

    fn poll(&mut self) -> Result<Option<Ended>> {
        // Rarely: it costs time that the contenders could use. The peak only ever grows.
        if self.looked.is_none_or(|looked| looked.elapsed() > LOOK_AT_MEMORY_EVERY) {
            self.looked = Some(Instant::now());
            let seen = family(self.pid).into_iter().filter_map(resident_peak_bytes).max();
            self.resident_peak_bytes = self.resident_peak_bytes.max(seen.unwrap_or(0));
        }
        let (mut status, mut usage) = (0, MaybeUninit::<libc::rusage>::zeroed());
        // SAFETY: both pointers are to memory of the right size; `rusage` is plain data, valid as
        // zeroes.
        let (waited, usage) = unsafe {
            let pid = self.pid.as_raw();
            let waited = libc::wait4(pid, &raw mut status, libc::WNOHANG, usage.as_mut_ptr());
            (waited, usage.assume_init())
        };
        match waited {
            0 => return Ok(None),
            pid if pid == self.pid.as_raw() => self.ended = true,
            _ => {
                return Err(io::Error::last_os_error())
                    .with_context(|| format!("cannot wait for `{}`", self.name));
            }
        }
        Ok(Some(Ended {
            output: text(&mut self.output)?,
            errors: text(&mut self.errors)?,
            success: libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0,
            cpu_seconds: seconds(usage.ru_utime) + seconds(usage.ru_stime),
            resident_peak_bytes: self.resident_peak_bytes,
        }))
    }
}

impl Ended {
    /// The last lines of what it had to say, for an error.
    pub fn said(&self) -> String {
        let words = if self.errors.trim().is_empty() { &self.output } else { &self.errors };
        let lines: Vec<&str> = words.trim().lines().rev().take(4).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join(" / ")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.ended {
            let _ = kill(self.pid, Signal::SIGKILL);
            let _ = nix::sys::wait::waitpid(self.pid, None);
        }
    }
}

fn seconds(time: libc::timeval) -> f64 {
    time.tv_sec as f64 + time.tv_usec as f64 / 1e6
}

fn text(file: &mut File) -> Result<String> {
    let mut bytes = Vec::new();
    file.rewind().and_then(|()| file.read_to_end(&mut bytes)).context("cannot read an output")?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A process and all that come from it, among those of the sandbox.
fn family(ancestor: Pid) -> Vec<Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let parents: Vec<(Pid, Pid)> = entries
        .filter_map(|entry| {
            let pid = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?);
            Some((pid, Pid::from_raw(status_field(pid, "PPid:")?.parse().ok()?)))
        })
        .collect();
    let mut found = vec![ancestor];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        next += 1;
        let children = parents.iter().filter(|(_, its_parent)| *its_parent == parent);
        found.extend(children.map(|(pid, _)| *pid));
    }
    found
}

fn resident_peak_bytes(pid: Pid) -> Option<u64> {
    let text = status_field(pid, "VmHWM:")?;
    Some(text.strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}

fn status_field(pid: Pid, key: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    Some(status.lines().find_map(|line| line.strip_prefix(key))?.trim().to_owned())
}

/// Whether a TCP or UDP socket in the namespace of `pid` is bound to `port` and waits (states 0A and
/// 07 of /proc/net/tcp, proc_net(5)).
fn listens(pid: Pid, port: u16) -> bool {
    let bound = format!(":{port:04X}");
    [("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")].iter().any(|(table, state)| {
        let text = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        text.lines().any(|line| {
            let mut words = line.split_whitespace();
            let (address, found) = (words.nth(1), words.nth(1));
            address.is_some_and(|address| address.ends_with(&bound)) && found == Some(state)
        })
    })
}
