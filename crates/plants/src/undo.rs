//! What belongs to the whole machine and is changed for a moment: it is put back when the value goes,
//! and by a process of its own where this one dies before.

use std::ffi::CString;
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::fcntl::OFlag;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork, pipe2, setsid};

/// How often a directory is tried to be removed that somebody may still be in, and how far apart.
const TRIES: u32 = 100;
const APART: Duration = Duration::from_millis(50);

/// A parameter of the kernel that is of the whole machine, for as long as this value lives.
#[derive(Debug)]
pub struct MachineParameter {
    path: PathBuf,
    before: String,
    _watch: Watch,
}

impl MachineParameter {
    /// Sets it: `net.core.netdev_max_backlog`.
    ///
    /// # Errors
    /// Where there is none, or it refuses.
    pub fn set(name: &str, value: &str) -> Result<Self> {
        let path = Path::new("/proc/sys").join(name.replace('.', "/"));
        let before = fs::read_to_string(&path).with_context(|| format!("cannot read {name}"))?;
        let watch = Watch::begin(&Undo::Write(text(&path)?, before.trim().into()))?;
        let parameter = Self { path, before, _watch: watch };
        fs::write(&parameter.path, value).with_context(|| format!("cannot set {name}"))?;
        Ok(parameter)
    }
}

impl Drop for MachineParameter {
    fn drop(&mut self) {
        if let Err(error) = fs::write(&self.path, self.before.trim()) {
            eprintln!(
                "{} is not what it was ({}): {error}",
                self.path.display(),
                self.before.trim()
            );
        }
    }
}

/// A control group whose processes get a part of a core together, for as long as this value lives.
///
/// Sources: `Documentation/scheduler/sched-bwc.rst`, `Documentation/admin-guide/cgroup-v2.rst`.
#[derive(Debug)]
pub struct CpuQuota {
    path: PathBuf,
    _watch: Watch,
}

/// Over so long the quota counts, in microseconds.
const PERIOD_US: u64 = 20_000;

impl CpuQuota {
    /// Makes one for so many percent of a core.
    ///
    /// # Errors
    /// Where the kernel has no CPU controller, or it is not given to this user.
    pub fn new(percent_of_core: u64) -> Result<Self> {
        let name = format!("vioperf-plants-{}-{percent_of_core}", std::process::id());
        let quota_us = PERIOD_US * percent_of_core / 100;
        let (first, second) = (Path::new("/sys/fs/cgroup/cpu"), Path::new("/sys/fs/cgroup"));
        let is_first = first.join("tasks").exists();
        // In the first version below this process's own group, of whose time it takes a part; in the second
        // a group with processes in it cannot have others below it.
        let path = if is_first { first.join(own_group()) } else { second.into() }.join(name);
        let watch = Watch::begin(&Undo::Remove(text(&path)?))?;
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        let group = Self { path, _watch: watch };
        if is_first {
            group.write("cpu.cfs_period_us", &PERIOD_US.to_string())?;
            group.write("cpu.cfs_quota_us", &quota_us.to_string())?;
        } else {
            group.write("cpu.max", &format!("{quota_us} {PERIOD_US}"))?;
        }
        Ok(group)
    }

    /// Its directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn write(&self, file: &str, value: &str) -> Result<()> {
        let path = self.path.join(file);
        fs::write(&path, value).with_context(|| {
            format!("cannot write {}: is the CPU controller (cgroups) there?", path.display())
        })
    }
}

impl Drop for CpuQuota {
    fn drop(&mut self) {
        let mut last = Ok(());
        for _ in 0..TRIES {
            last = fs::remove_dir(&self.path);
            if last.is_ok() {
                return;
            }
            // Processes that were killed may take a moment to be gone.
            sleep(APART);
        }
        if let Err(error) = last {
            eprintln!("{} is left behind: {error}", self.path.display());
        }
    }
}

/// Of the controller `cpu` of the first version, from its root (cgroups(7)); the root where it is not told.
fn own_group() -> PathBuf {
    let lines = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let of_cpu = |line: &str| {
        let mut fields = line.splitn(3, ':').skip(1);
        let is_cpu = fields.next()?.split(',').any(|controller| controller == "cpu");
        is_cpu.then(|| fields.next().map(|path| path.trim_start_matches('/').into())).flatten()
    };
    lines.lines().find_map(of_cpu).unwrap_or_default()
}

fn text(path: &Path) -> Result<CString> {
    CString::new(path.as_os_str().as_encoded_bytes()).context("a path with a zero byte")
}

/// What is done where this process dies.
enum Undo {
    Write(CString, Vec<u8>),
    Remove(CString),
}

/// A process that waits for this one's end, and undoes what it could not.
#[derive(Debug)]
struct Watch {
    pid: Pid,
    _ours: OwnedFd,
}

impl Watch {
    fn begin(undo: &Undo) -> Result<Self> {
        let (theirs, ours) = pipe2(OFlag::O_CLOEXEC).context("cannot make a pipe")?;
        // SAFETY: the child only makes system calls and ends without returning; nothing is allocated
        // there, and no lock is taken.
        match unsafe { fork() } {
            Ok(ForkResult::Parent { child }) => Ok(Self { pid: child, _ours: ours }),
            Ok(ForkResult::Child) => {
                let _ = setsid();
                // SAFETY: closes the child's own copy, which nobody uses: else the end never comes.
                unsafe { libc::close(ours.as_raw_fd()) };
                wait_for_end(&theirs);
                put_back(undo);
                // SAFETY: ends this process at once.
                unsafe { libc::_exit(0) }
            }
            Err(errno) => bail!("cannot start the process that puts things back: {errno}"),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = kill(self.pid, Signal::SIGKILL);
        let _ = waitpid(self.pid, None);
    }
}

fn wait_for_end(pipe: &OwnedFd) {
    let mut byte = [0];
    while !matches!(nix::unistd::read(pipe, &mut byte), Ok(0)) {}
}

fn put_back(undo: &Undo) {
    match undo {
        Undo::Write(path, value) => {
            // SAFETY: path and value are whole and live through the calls.
            unsafe {
                let file = libc::open(path.as_ptr(), libc::O_WRONLY);
                libc::write(file, value.as_ptr().cast(), value.len());
            }
        }
        Undo::Remove(path) => {
            for _ in 0..TRIES {
                // SAFETY: the path is whole and lives through the call.
                if unsafe { libc::rmdir(path.as_ptr()) } == 0 {
                    return;
                }
                sleep(APART);
            }
        }
    }
}
