//! A network namespace without a name: it ends with its last descriptor and process, so that nothing
//! of it is left however its owner ends.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, anyhow, bail};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use vioperf_netlink::{NamespaceRef, Socket};

/// A network namespace, and programs in it.
#[derive(Debug)]
pub struct Namespace {
    file: File,
}

impl Namespace {
    /// Makes one, its loopback up.
    ///
    /// # Errors
    /// Where it is not allowed: this takes root.
    pub fn new() -> Result<Self> {
        let made = std::thread::spawn(|| -> Result<File> {
            unshare(CloneFlags::CLONE_NEWNET)
                .context("cannot make a network namespace: run this as root")?;
            let mut socket = Socket::open()?;
            let loopback = socket.link_by_name("lo")?.index;
            socket.set_up(loopback)?;
            File::open("/proc/thread-self/ns/net").context("cannot open the new network namespace")
        });
        let made =
            made.join().map_err(|_| anyhow!("the thread that makes a namespace panicked"))?;
        Ok(Self { file: made? })
    }

    /// Speaks rtnetlink in it.
    ///
    /// # Errors
    /// Where it cannot be entered.
    pub fn netlink(&self) -> Result<Socket> {
        Ok(Socket::open_in(self.reference())?)
    }

    /// What rtnetlink names it by.
    #[must_use]
    pub fn reference(&self) -> NamespaceRef<'_> {
        NamespaceRef::Fd(self.file.as_fd())
    }

    /// Does something on a thread in it.
    ///
    /// # Errors
    /// Where it cannot be entered, and what the work gives.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                setns(&self.file, CloneFlags::CLONE_NEWNET)
                    .context("cannot enter a network namespace")?;
                work()
            });
            thread.join().map_err(|_| anyhow!("a thread in a namespace panicked"))?
        })
    }

    /// A program that is to run in it, with a `/sys` that shows its interfaces; killed when the thread
    /// that starts it ends. The namespace has to outlive the start.
    #[must_use]
    pub fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null());
        let namespace = self.file.as_raw_fd();
        // SAFETY: between fork and exec only system calls are made, nothing is allocated or locked.
        unsafe { command.pre_exec(move || enter(namespace)) };
        command
    }

    /// Runs a program in it to its end; what it prints.
    ///
    /// # Errors
    /// Where it cannot be started or fails: its own words.
    pub fn run(&self, program: &str, arguments: &[&str]) -> Result<String> {
        said(program, arguments, self.command(program, arguments).output())
    }

    /// The same with the arguments in one text, separated by white space.
    ///
    /// # Errors
    /// As [`Namespace::run`].
    pub fn tell(&self, program: &str, arguments: &str) -> Result<String> {
        let arguments: Vec<&str> = arguments.split_ascii_whitespace().collect();
        self.run(program, &arguments)
    }

    /// Sets a parameter of the kernel that belongs to the namespace, such as `net.ipv4.ip_forward`.
    ///
    /// # Errors
    /// Where there is none, or it refuses.
    pub fn set(&self, parameter: &str, value: &str) -> Result<()> {
        let path = format!("/proc/sys/{}", parameter.replace('.', "/"));
        self.inside(|| {
            std::fs::write(&path, value).with_context(|| format!("cannot write {value} to {path}"))
        })
    }

    /// Writes to a file of `/sys` as it is in the namespace.
    ///
    /// # Errors
    /// Where there is none, or it refuses.
    pub fn write(&self, path: &str, value: &str) -> Result<()> {
        self.inside(|| {
            own_sys().context("cannot mount /sys")?;
            std::fs::write(path, value).with_context(|| format!("cannot write {value} to {path}"))
        })
    }
}

fn said(program: &str, arguments: &[&str], output: io::Result<Output>) -> Result<String> {
    let line = || format!("`{program} {}`", arguments.join(" "));
    let output = output.with_context(|| format!("cannot start {}: is it installed?", line()))?;
    if !output.status.success() {
        bail!("{} failed: {}", line(), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs in the child, between fork and exec.
fn enter(namespace: RawFd) -> io::Result<()> {
    set_pdeathsig(Signal::SIGKILL)?;
    // SAFETY: who starts a program keeps the namespace, and with it the descriptor, until it has.
    let namespace = unsafe { BorrowedFd::borrow_raw(namespace) };
    setns(namespace, CloneFlags::CLONE_NEWNET)?;
    own_sys()
}

/// Gives the calling thread a `/sys` of its network namespace.
fn own_sys() -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    let none = None::<&CStr>;
    mount(none, c"/", none, MsFlags::MS_REC | MsFlags::MS_SLAVE, none)?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    Ok(mount(Some(c"sysfs"), c"/sys", Some(c"sysfs"), flags, none)?)
}
