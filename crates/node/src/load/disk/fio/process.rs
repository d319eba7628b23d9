//! fio's process: made when a load is prepared, it waits for its job, so that what starting a program takes is over when
//! the load begins.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, getpid, getppid};

use crate::scheduling::normal_priority;

/// The program that is looked for.
const PROGRAM: &str = "fio";

/// Its threads beside its workers: the first, and the one that tells of it.
const THREADS_BESIDE: usize = 2;

/// How long a process whose output has ended may take to end itself.
const ENDS_WITHIN: Duration = Duration::from_secs(2);

/// A fio that waits for its job, or does it. It ends when this is dropped, and with this process.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    job: Option<ChildStdin>,
}

/// What it prints.
pub(super) struct Prints {
    pub(super) output: ChildStdout,
    pub(super) errors: ChildStderr,
}

impl Process {
    /// Starts it with an open file that it inherits.
    pub(super) fn start(file: &File) -> io::Result<(Self, Prints)> {
        let mut command = Command::new(PROGRAM);
        command
            .args(["--output-format=json+", "--eta=never", "-"])
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let (parent, file) = (getpid(), file.as_raw_fd());
        // SAFETY: between fork and exec only system calls are made, nothing is allocated or locked.
        unsafe { command.pre_exec(move || prepare(parent, file)) };
        let mut child = command.spawn()?;
        let (job, output, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let process = Self { child, job };
        match (output, errors) {
            (Some(output), Some(errors)) => Ok((process, Prints { output, errors })),
            _ => Err(io::Error::other("a pipe to fio is missing")),
        }
    }

    /// Gives it its job, which it begins at once.
    pub(super) fn begin(&mut self, job: &str) -> io::Result<()> {
        match self.job.take() {
            Some(mut input) => input.write_all(job.as_bytes()),
            None => Ok(()),
        }
    }

    /// Asks it to end its job and to tell of it.
    pub(super) fn ask_to_end(&self) {
        self.signal(Signal::SIGINT);
    }

    /// Asks it to tell of itself. One that is not that far would be ended by it: see [`Process::hears`].
    pub(super) fn ask_to_tell(&self) {
        self.signal(Signal::SIGUSR1);
    }

    /// Whether it has come so far that it can be asked to tell of itself: it catches the signal (`SigCgt` of
    /// proc_pid_status(5)), and all its workers are there, as one that is asked while it makes a worker may wait for that
    /// worker's answer for ever.
    pub(super) fn hears(&self, workers: u16) -> bool {
        let folder = format!("/proc/{}", self.child.id());
        let tasks = std::fs::read_dir(format!("{folder}/task")).map_or(0, Iterator::count);
        let status = std::fs::read_to_string(format!("{folder}/status"));
        let caught = |text: String| {
            let mask = text.lines().find_map(|line| line.strip_prefix("SigCgt:"))?.trim();
            u64::from_str_radix(mask, 16).ok()
        };
        let mask = status.ok().and_then(caught).unwrap_or(0);
        mask >> (Signal::SIGUSR1 as u32 - 1) & 1 == 1
            && tasks >= THREADS_BESIDE + usize::from(workers)
    }

    fn signal(&self, signal: Signal) {
        // It is our child and not waited for: nobody else has its number.
        if let Ok(pid) = i32::try_from(self.child.id()) {
            let _ = killpg(Pid::from_raw(pid), signal);
        }
    }

    #[cfg(test)]
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn ends_within(&mut self, most: Duration) -> bool {
        let until = Instant::now() + most;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        true
    }
}

impl Drop for Process {
    /// Waits, bounded, for the end of one whose job is over or never came; what does not end is killed. Killed, it ends when the
    /// device answers what it had under way: that is not waited for.
    fn drop(&mut self) {
        let waits_for_job = self.job.is_some();
        if waits_for_job || !self.ends_within(ENDS_WITHIN) {
            self.signal(Signal::SIGKILL);
            self.ends_within(ENDS_WITHIN);
        }
    }
}

/// In the child: it dies with its parent, runs as ordinary programs do, and has the file.
fn prepare(parent: Pid, file: i32) -> io::Result<()> {
    set_pdeathsig(Signal::SIGKILL)?;
    if getppid() != parent {
        return Err(ErrorKind::BrokenPipe.into());
    }
    normal_priority();
    // SAFETY: takes and returns plain integers; the file is open.
    match unsafe { libc::fcntl(file, libc::F_SETFD, 0) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
