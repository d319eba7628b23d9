//! The namespaces that a lab lives in, and the guard outside them.
//!
//! [`enter`] splits the program in two. The *inner* process goes on with the program as PID 1 of a
//! new process namespace, in new mount and network namespaces (and in a new user namespace where it
//! is not root). The *guard* stays outside, hands signals on and waits. Nothing of the lab has a
//! name outside: when the inner process ends, however it ends, the kernel kills every other process
//! of the namespace, and with the last of them go taps, links, bridges and memory
//! (pid_namespaces(7), network_namespaces(7)). When the guard ends, the inner process gets SIGKILL.

use std::cell::RefCell;
use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::mount::{MsFlags, mount};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, signal, sigprocmask};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{ForkResult, Gid, Pid, Uid, fork, getegid, geteuid, pipe2, setpgid};
use vioperf_netlink::{NetlinkError, Socket};

use crate::host::Host;
use crate::host_ports::{BridgeKind, HostPorts, HostPortsError};
use crate::partition::{Partition, PartitionError};
#[cfg(doc)]
use crate::put_back;
use crate::sriov::{Card, SriovError};

pub use self::companion::run_beside;
pub use self::guard::Ended;
pub(crate) use self::refusal::Refusal;

mod companion;
mod guard;
mod orphans;
mod refusal;

/// Which side of the split this process is.
#[derive(Debug)]
pub enum Entered {
    /// Outside: the inner process has ended, in this way. Nothing is left to do but to exit with
    /// [`Ended::exit_code`].
    Guard(Ended),
    /// Inside: go on with the program.
    Inside(Box<Sandbox>),
}

/// The proof that this process is PID 1 of a sandbox; whoever alters links or starts guests asks for
/// it, so that nothing can be done to the host by mistake.
#[derive(Debug)]
pub struct Sandbox {
    sysfs_is_own: bool,
    /// The signal mask from before the split.
    mask: SigSet,
    host: Host,
    /// Where is written down what of the host is altered.
    journal: PathBuf,
    /// The cards whose virtual functions were made, until the sandbox goes.
    cards: RefCell<Vec<Rc<Card>>>,
    /// The bridges of the host's that ports were put on, until the sandbox goes.
    ports: RefCell<Vec<Rc<HostPorts>>>,
}

/// Why no sandbox could be made.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The program has more than one thread, so it cannot be split.
    #[error("the sandbox must be entered before any thread is started; {threads} threads run")]
    Threads {
        /// How many there are.
        threads: usize,
    },
    /// The kernel forbids one of the namespaces.
    #[error("cannot make {namespaces}: {errno}; {advice}")]
    Forbidden {
        /// Which ones.
        namespaces: &'static str,
        /// The kernel's errno.
        errno: Errno,
        /// What forbids it, and the way out.
        advice: String,
    },
    /// The user or group could not be mapped into the user namespace.
    #[error("cannot write {path}, without which a user namespace has no root: {source}; {advice}")]
    Mapping {
        /// The file.
        path: &'static str,
        /// The reason.
        source: io::Error,
        /// What forbids it, and the way out.
        advice: String,
    },
    /// A file system of the sandbox could not be mounted.
    #[error("cannot mount {what} in the sandbox: {errno}; {advice}")]
    Mount {
        /// What was to be mounted where.
        what: &'static str,
        /// The kernel's errno.
        errno: Errno,
        /// What to do.
        advice: &'static str,
    },
    /// The loopback interface could not be brought up.
    #[error("loopback of the sandbox: {0}")]
    Loopback(#[from] NetlinkError),
    /// What a lab may need of the host could not be opened.
    #[error("cannot open {what}: {source}")]
    Host {
        /// The files.
        what: &'static str,
        /// The reason.
        source: io::Error,
    },
    /// A process could not be made or waited for.
    #[error("cannot {step}: {errno}")]
    Process {
        /// What was being done.
        step: &'static str,
        /// The kernel's errno.
        errno: Errno,
    },
}

/// Splits the program; returns twice, as [`Entered`] says. Call it before any thread is started.
///
/// The inner process is PID 1 of its namespace, and the kernel throws away every signal that PID 1
/// has no handler for. So those that the guard hands on are blocked in it: install handlers for
/// SIGINT, SIGTERM and SIGHUP, then call [`Sandbox::unblock_signals`]. Until then only SIGKILL ends it.
///
/// What of the host is altered beyond the sandbox is written down in the folder `journal`, and put back from it
/// ([`put_back::what_is_left`]) should nobody inside be left to do so.
///
/// # Errors
/// [`SandboxError`], in the one process or in the inner one: say it and exit, a guard that waits
/// outside exits with the same code.
pub fn enter(journal: &Path) -> Result<Entered, SandboxError> {
    let threads = fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if threads > 1 {
        return Err(SandboxError::Threads { threads });
    }
    let host = Host::look()
        .map_err(|source| SandboxError::Host { what: "/proc/self/ns/net and /sys", source })?;
    if !geteuid().is_root() {
        become_root_of_a_user_namespace()?;
    }
    // The guard stays where it was but for this: its next child is PID 1 of a new namespace.
    forbidden(unshare(CloneFlags::CLONE_NEWPID), "a process namespace")?;
    let (guard_lives, guards_end) = pipe2(OFlag::O_CLOEXEC).map_err(process("make a pipe"))?;
    let before = block(&guard::handed_on())?;
    // SAFETY: the process has one thread (asked above), so the child may go on with all of it.
    match unsafe { fork() }.map_err(process("split the program"))? {
        ForkResult::Parent { child } => {
            drop(guard_lives);
            let ended = guard::watch(child, &before).map_err(process("wait for the lab"))?;
            drop(guards_end);
            Ok(Entered::Guard(ended))
        }
        ForkResult::Child => {
            drop(guards_end);
            let sysfs_is_own = furnish(&guard_lives)?;
            let sandbox = Sandbox {
                sysfs_is_own,
                mask: before,
                host,
                journal: journal.to_owned(),
                cards: RefCell::default(),
                ports: RefCell::default(),
            };
            Ok(Entered::Inside(Box::new(sandbox)))
        }
    }
}

impl Sandbox {
    /// True when `/sys` shows the sandbox's own network interfaces; where the kernel did not allow
    /// mounting it (containers that hide parts of `/sys`), it still shows the outside.
    #[must_use]
    pub fn sysfs_is_own(&self) -> bool {
        self.sysfs_is_own
    }

    /// The card of that interface with its virtual functions, which stay until the sandbox goes: making them
    /// interrupts the card's link.
    pub(crate) fn card(&self, interface: &str) -> Result<Rc<Card>, SriovError> {
        let mut cards = self.cards.borrow_mut();
        if let Some(card) = cards.iter().find(|card| card.interface() == interface) {
            return Ok(Rc::clone(card));
        }
        let card = Card::take(&self.host, &self.journal, interface)?;
        cards.push(Rc::clone(&card));
        Ok(card)
    }

    /// Leave to put ports on a bridge of the host's, which they are off again when the sandbox goes.
    pub(crate) fn host_ports(
        &self,
        bridge: &str,
        kind: BridgeKind,
    ) -> Result<Rc<HostPorts>, HostPortsError> {
        let mut all = self.ports.borrow_mut();
        if let Some(ports) = all.iter().find(|ports| ports.is_of(bridge)) {
            return Ok(Rc::clone(ports));
        }
        let ports = Rc::new(HostPorts::take(&self.host, &self.journal, bridge, kind)?);
        all.push(Rc::clone(&ports));
        Ok(ports)
    }

    /// The host outside.
    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    /// Cores that nobody else is on, until that goes.
    pub(crate) fn partition(&self, cores: &[u16]) -> Result<Partition, PartitionError> {
        Partition::take(&self.host, &self.journal, cores)
    }

    /// Lets signals come, also those that were sent since the split, now that there are handlers.
    ///
    /// # Errors
    /// [`SandboxError::Process`], which does not happen.
    pub fn unblock_signals(&self) -> Result<(), SandboxError> {
        sigprocmask(SigmaskHow::SIG_SETMASK, Some(&self.mask), None)
            .map_err(process("unblock signals"))
    }

    /// Waits for processes whose parent ended before them and that nobody else will wait for.
    /// Leaves alone what this program started itself.
    pub fn reap_orphans(&self) {
        for pid in orphans::left_by_endpoints(Path::new("/proc")) {
            let _ = waitpid(pid, Some(WaitPidFlag::WNOHANG));
        }
    }

    /// The same for what visitors ([`crate::visit`]) left behind. It looks like what this program starts without a session of
    /// its own, so call it only while nothing of that kind runs.
    pub fn reap_visitors(&self) {
        for pid in orphans::left_by_visitors(Path::new("/proc")) {
            let _ = waitpid(pid, Some(WaitPidFlag::WNOHANG));
        }
    }
}

fn process(step: &'static str) -> impl Fn(Errno) -> SandboxError {
    move |errno| SandboxError::Process { step, errno }
}

fn block(signals: &SigSet) -> Result<SigSet, SandboxError> {
    let mut before = SigSet::empty();
    sigprocmask(SigmaskHow::SIG_BLOCK, Some(signals), Some(&mut before))
        .map_err(process("block signals"))?;
    Ok(before)
}

fn forbidden(outcome: nix::Result<()>, namespaces: &'static str) -> Result<(), SandboxError> {
    outcome.map_err(|errno| {
        let advice = Refusal::diagnose(std::path::Path::new("/"), errno).advice();
        SandboxError::Forbidden { namespaces, errno, advice }
    })
}

/// Maps the own user and group to root (user_namespaces(7): a process may map itself and no other).
fn become_root_of_a_user_namespace() -> Result<(), SandboxError> {
    let (user, group): (Uid, Gid) = (geteuid(), getegid());
    forbidden(unshare(CloneFlags::CLONE_NEWUSER), "a user namespace")?;
    let write = |path: &'static str, text: &str| {
        fs::write(path, text).map_err(|source| {
            let advice = Refusal::diagnose(std::path::Path::new("/"), Errno::EPERM).advice();
            SandboxError::Mapping { path, source, advice }
        })
    };
    write("/proc/self/setgroups", "deny")?;
    write("/proc/self/uid_map", &format!("0 {user} 1"))?;
    write("/proc/self/gid_map", &format!("0 {group} 1"))
}

/// Ties the inner process to the guard's life and gives it namespaces and file systems; whether `/sys` is
/// its own.
fn furnish(guard_lives: &OwnedFd) -> Result<bool, SandboxError> {
    prctl::set_pdeathsig(Signal::SIGKILL).map_err(process("tie the lab to its guard"))?;
    leave_the_group().map_err(process("leave the process group"))?;
    if is_dead(guard_lives) {
        // The guard died before the line above: nobody is left to tell.
        std::process::exit(1);
    }
    let both = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET;
    forbidden(unshare(both), "mount and network namespaces")?;
    keep_mounts_private()?;
    mount_over(c"proc", c"/proc").map_err(|errno| SandboxError::Mount {
        what: "a fresh /proc",
        errno,
        advice: "a container that hides parts of /proc forbids it: run vioperf outside it, or start the \
                 container with its /proc unmasked (podman: --security-opt unmask=ALL)",
    })?;
    let sysfs_is_own = mount_over(c"sysfs", c"/sys").is_ok();
    let mut socket = Socket::open()?;
    let loopback = socket.link_by_name("lo")?.index;
    socket.set_up(loopback)?;
    Ok(sysfs_is_own)
}

/// Out of the guard's process group, so that what a terminal or `kill -PGID` sends to the group
/// reaches the lab through the guard alone, and so once. The terminal then takes this process for
/// one in the background, which is stopped when it writes under `stty tostop` unless it ignores that.
fn leave_the_group() -> nix::Result<()> {
    setpgid(Pid::from_raw(0), Pid::from_raw(0))?;
    // SAFETY: ignoring a signal runs no code of ours.
    unsafe { signal(Signal::SIGTTOU, SigHandler::SigIgn) }.map(drop)
}

/// True when the other end of the pipe, which only the guard has, is closed.
fn is_dead(guard_lives: &OwnedFd) -> bool {
    use std::os::fd::AsFd;
    let mut fds = [PollFd::new(guard_lives.as_fd(), PollFlags::empty())];
    matches!(poll(&mut fds, PollTimeout::ZERO), Ok(ready) if ready > 0)
}

/// What is mounted here must not show outside.
fn keep_mounts_private() -> Result<(), SandboxError> {
    let private = |at: &CStr| {
        let flags = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(None::<&CStr>, at, None::<&CStr>, flags, None::<&CStr>)
    };
    let made = match private(c"/") {
        // The root of a chroot is no mount point; the two places that are mounted over are.
        Err(Errno::EINVAL) => private(c"/proc").and_then(|()| private(c"/sys")),
        outcome => outcome,
    };
    made.map_err(|errno| SandboxError::Mount {
        what: "anything without its showing outside (MS_PRIVATE)",
        errno,
        advice: "in a chroot, mount /proc and /sys first",
    })
}

fn mount_over(kind: &CStr, at: &CStr) -> nix::Result<()> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some(kind), at, Some(kind), flags, None::<&CStr>)
}
