//! A guest booted once, kept in a memory file, from which others start in a tenth of a second.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::Pid;
use serde_json::json;

use super::fault::{Fault, GuestError};
use super::machine::{COMMAND_BOUND, Machine, Start};
use super::{BootImage, Hypervisor, QemuVersion, Shape};

/// How long saving or restoring may take; it is about memory bandwidth.
const MIGRATION_BOUND: Duration = Duration::from_secs(60);

/// QEMU writes at most so fast, in bytes per second; its default would be 128 MiB/s.
const BANDWIDTH: u64 = 1 << 40;

/// The first QEMU with `file:` migration; since 9.1 it warns that `fd:` is not for files.
const FILE_MIGRATION: QemuVersion = QemuVersion { major: 8, minor: 2, micro: 0 };

/// A guest without a NIC that runs, or still boots; its agent is the caller's to talk to.
#[derive(Debug)]
pub struct Booted {
    machine: Machine,
    origin: Origin,
    memory: OwnedFd,
    started: Instant,
}

/// What a snapshot was made from, and what its guests have to be started with again.
#[derive(Debug, Clone)]
pub(super) struct Origin {
    pub hypervisor: Hypervisor,
    pub image: BootImage,
    pub shape: Shape,
}

/// A guest at rest; clones share it. Any number of guests can be restored from it.
#[derive(Debug, Clone)]
pub struct Snapshot(Arc<Kept>);

#[derive(Debug)]
struct Kept {
    origin: Origin,
    memory: OwnedFd,
    saving_took: Duration,
}

/// Starts a guest without a NIC.
pub(crate) fn boot(
    hypervisor: &Hypervisor,
    image: &BootImage,
    shape: Shape,
) -> Result<Booted, Box<GuestError>> {
    let operation = "boot the template guest";
    let started = Instant::now();
    let memory = memfd_create(c"vioperf-snapshot", MFdFlags::MFD_CLOEXEC).map_err(|errno| {
        let (step, source) = ("make a memory file", errno.into());
        GuestError::before_start(operation, Fault::NotStarted { step, source })
    })?;
    let machine = Machine::start(Start {
        operation,
        hypervisor,
        image,
        shape,
        incoming: false,
        nics: Vec::new(),
        disk: None,
        memory_sockets: Vec::new(),
        inherited: vec![memory.as_raw_fd()],
        beside: None,
    })?;
    let origin = Origin { hypervisor: hypervisor.clone(), image: image.clone(), shape };
    Ok(Booted { machine, origin, memory, started })
}

impl Booted {
    /// Lets `converse` talk to the agent, on a thread of its own, while the guest is watched: returns
    /// what it returned, or an error as soon as the guest has died, QEMU gave it up, or `bound` is
    /// over. The channel is then closed under `converse`, which must end when it reads that.
    ///
    /// # Errors
    /// [`GuestError`], with the console's last lines.
    pub fn answer_within<T: Send, E: std::fmt::Display + Send>(
        &mut self,
        bound: Duration,
        converse: impl FnOnce(UnixStream) -> Result<T, E> + Send,
    ) -> Result<T, Box<GuestError>> {
        self.machine.answer_within("boot the template guest", bound, converse)
    }

    /// A handle of the byte channel to the agent.
    ///
    /// # Errors
    /// When no descriptor is left.
    pub fn channel(&self) -> io::Result<UnixStream> {
        self.machine.channel()
    }

    /// QEMU's process, in the sandbox's process namespace.
    #[must_use]
    pub fn qemu_pid(&self) -> Pid {
        self.machine.pid()
    }

    /// The last lines of the guest's console.
    #[must_use]
    pub fn console_tail(&self) -> Vec<String> {
        self.machine.console_tail()
    }

    /// How long ago it was started.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// Stops the guest for good and keeps it. Its agent must be waiting for a request, with nothing
    /// under way on the channel: what is in flight would be lost.
    ///
    /// # Errors
    /// [`GuestError`], when the guest has died or QEMU cannot save it.
    pub fn into_snapshot(mut self) -> Result<Snapshot, Box<GuestError>> {
        let operation = "save the template guest";
        let started = Instant::now();
        let machine = &mut self.machine;
        machine.command(operation, "stop", &json!({}))?;
        let bandwidth = json!({ "max-bandwidth": BANDWIDTH });
        machine.command(operation, "migrate-set-parameters", &bandwidth)?;
        let by_file = self.origin.hypervisor.qemu.version >= FILE_MIGRATION;
        let uri = if by_file {
            format!("file:/proc/self/fd/{}", self.memory.as_raw_fd())
        } else {
            let sent =
                machine.monitor.send_descriptor("snapshot", self.memory.as_fd(), COMMAND_BOUND);
            sent.map_err(|error| machine.error(operation, Fault::Monitor(error)))?;
            "fd:snapshot".to_owned()
        };
        machine.command(operation, "migrate", &json!({ "uri": uri }))?;
        machine.wait_for_migration(operation, MIGRATION_BOUND)?;
        let saving_took = started.elapsed();
        let Self { origin, memory, .. } = self;
        Ok(Snapshot(Arc::new(Kept { origin, memory, saving_took })))
    }
}

impl Snapshot {
    /// How long saving it took.
    #[must_use]
    pub fn saving_took(&self) -> Duration {
        self.0.saving_took
    }

    /// How large it is, in bytes.
    ///
    /// # Errors
    /// When the memory file cannot be asked.
    pub fn size_bytes(&self) -> io::Result<u64> {
        Ok(File::from(self.0.memory.try_clone()?).metadata()?.len())
    }

    /// The shape its guests have.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.0.origin.shape
    }

    pub(super) fn origin(&self) -> &Origin {
        &self.0.origin
    }

    /// A QEMU that holds the guest, stopped; `inherited` are further descriptors for it, its memory is handed out by
    /// `memory_sockets`, and it is put into the network namespace of `beside`.
    pub(super) fn restore(
        &self,
        operation: &'static str,
        mut inherited: Vec<RawFd>,
        memory_sockets: Vec<(usize, PathBuf)>,
        beside: Option<Pid>,
    ) -> Result<Machine, Box<GuestError>> {
        let failed = |source| {
            let step = "open the snapshot";
            GuestError::before_start(operation, Fault::NotStarted { step, source })
        };
        // Opened anew, not duplicated: each guest reads at a position of its own.
        let path = format!("/proc/self/fd/{}", self.0.memory.as_raw_fd());
        let memory = OpenOptions::new().read(true).open(path).map_err(failed)?;
        let number = memory.as_raw_fd();
        inherited.push(number);
        let Origin { hypervisor, image, shape } = &self.0.origin;
        let mut machine = Machine::start(Start {
            operation,
            hypervisor,
            image,
            shape: *shape,
            incoming: true,
            nics: Vec::new(),
            disk: None,
            memory_sockets,
            inherited,
            beside,
        })?;
        let uri = match hypervisor.qemu.version >= FILE_MIGRATION {
            true => format!("file:/proc/self/fd/{number}"),
            false => format!("fd:{number}"),
        };
        machine.command(operation, "migrate-incoming", &json!({ "uri": uri }))?;
        machine.wait_for_migration(operation, MIGRATION_BOUND)?;
        Ok(machine)
    }
}
