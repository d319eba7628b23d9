//! A guest with a NIC under test, restored from a snapshot or freshly booted.

mod shell_port;

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use serde_json::json;
use vioperf_model::nic::NicModel;
use vioperf_model::record::Processor;
use vioperf_model::scenario::{DeviceOption, MachineType, Vhost};
use vioperf_netlink::Mac;

use super::disk_in_use;
use super::fault::{Fault, GuestError};
use super::machine::{Machine, Start};
use super::nic::{self, Device, as_json, backend};
use super::{Accelerator, BootImage, DiskSpec, Hypervisor, Shape, Snapshot};
use crate::storage::DiskFile;
use crate::switch::{Backend, Held, Wire};

/// The kernel's own packet mover for guests.
pub const VHOST_DEVICE: &str = "/dev/vhost-net";

/// The backend whose frames the program at its other end moves.
const SHARED_MEMORY: &str = "vhost-user";

/// What a guest starts from.
#[derive(Debug, Clone, Copy)]
pub enum GuestSource<'a> {
    /// A snapshot; the NIC is hot-plugged.
    Snapshot(&'a Snapshot),
    /// A boot of its own; the NIC is there from the start.
    FreshBoot {
        /// What runs it.
        hypervisor: &'a Hypervisor,
        /// What it boots from.
        image: &'a BootImage,
        /// Its size.
        shape: Shape,
    },
}

impl GuestSource<'_> {
    fn hypervisor(&self) -> &Hypervisor {
        match self {
            Self::Snapshot(snapshot) => &snapshot.origin().hypervisor,
            Self::FreshBoot { hypervisor, .. } => hypervisor,
        }
    }
}

/// The NIC a guest gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NicSpec {
    /// Its model.
    pub model: NicModel,
    /// The addresses that it will have (they are the agent's to set): a backend that ends connections
    /// itself answers for them.
    pub addresses: Vec<IpAddr>,
    /// The length of their network's prefix, in bits.
    pub prefix_length: u8,
    /// Queue pairs; more than one is for virtio only.
    pub queues: u16,
    /// Who moves the frames between its tap and it.
    pub vhost: Vhost,
    /// Properties of QEMU's device that are otherwise than they would be.
    pub options: BTreeMap<String, DeviceOption>,
}

/// When a guest was how far, counted from the beginning of its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timings {
    /// QEMU answered; for a snapshot, it also held the guest's memory.
    pub restored: Duration,
    /// The NIC was plugged and the guest ran.
    pub plugged: Duration,
}

/// A running guest; killed and waited for when dropped, and its tap with it where nobody else holds it.
#[derive(Debug)]
pub struct Guest {
    machine: Machine,
    /// Its NICs.
    nics: Vec<Plugged>,
    /// Where the bytes of its disk are, where it has one under test.
    disk: Option<Arc<DiskFile>>,
    vhost: bool,
    path: String,
    timings: Timings,
}

/// A NIC that is to be plugged in: its wire becomes QEMU's.
#[derive(Debug)]
pub(crate) struct Plug<'a> {
    pub nic: &'a NicSpec,
    pub wire: Wire,
    pub mac: Mac,
}

/// A NIC that is plugged in.
#[derive(Debug)]
struct Plugged {
    wire: String,
    port: Option<String>,
    ports: Option<RangeInclusive<u16>>,
    gateway: Option<IpAddr>,
    /// What QEMU calls its backend, where it has one.
    netdev: Option<&'static str>,
    held: Held,
    mac: Mac,
}

/// Starts a guest with those NICs, the one under test first, and that disk.
pub(crate) fn start(
    source: GuestSource<'_>,
    plugs: Vec<Plug<'_>>,
    disk: Option<&DiskSpec>,
) -> Result<Guest, Box<GuestError>> {
    let operation = "start the guest";
    let started = Instant::now();
    let hypervisor = source.hypervisor();
    let before = |fault| GuestError::before_start(operation, fault);
    let mut descriptors: Vec<RawFd> = Vec::new();
    let mut vhosts = Vec::new();
    let mut properties = Vec::new();
    let mut memory_sockets = Vec::new();
    let mut beside = None;
    for (number, Plug { nic, wire, mac }) in plugs.iter().enumerate() {
        let supported = hypervisor.qemu.require(nic.model);
        supported.map_err(|error| before(Fault::Wire(error.to_string())))?;
        let vhost = open_vhost(hypervisor.accelerator, nic, &wire.backend)
            .map_err(|error| before(Fault::Wire(format!("{VHOST_DEVICE}: {error}"))))?;
        descriptors.extend(wire.backend.descriptors().iter().chain(&vhost).map(AsRawFd::as_raw_fd));
        let socket = wire.backend.memory_socket();
        memory_sockets.extend(socket.map(|socket| (number, socket.to_owned())));
        let (model, queues, function) = (nic.model, nic.queues, wire.backend.function());
        let device = Device { model, mac: *mac, queues, number, function };
        properties.push((backend(number, &wire.backend, &vhost), device.properties(&nic.options)));
        vhosts.extend(vhost);
        beside = beside.or(wire.beside);
    }
    if let Some(disk) = disk {
        let supported = hypervisor.qemu.require_disk(disk.model);
        supported.map_err(|error| before(Fault::Wire(error.to_string())))?;
        descriptors.push(disk.file.descriptor());
    }
    let (machine, timings) = match source {
        GuestSource::Snapshot(snapshot) => {
            let mut machine = snapshot.restore(operation, descriptors, memory_sockets, beside)?;
            let restored = started.elapsed();
            for (backend, device) in properties {
                if let Some(backend) = backend {
                    machine.command("plug the NIC in", "netdev_add", &as_json(backend))?;
                }
                machine.command("plug the NIC in", "device_add", &as_json(device))?;
            }
            if let Some(disk) = disk {
                plug_disk(&mut machine, disk, snapshot.shape().machine)?;
            }
            machine.command(operation, "cont", &json!({}))?;
            (machine, Timings { restored, plugged: started.elapsed() })
        }
        GuestSource::FreshBoot { hypervisor, image, shape } => {
            let machine = Machine::start(Start {
                operation,
                hypervisor,
                image,
                shape,
                incoming: false,
                nics: properties,
                disk,
                memory_sockets,
                inherited: descriptors,
                beside,
            })?;
            let now = started.elapsed();
            (machine, Timings { restored: now, plugged: now })
        }
    };
    // Our descriptors of the tap close here: from now on it lives exactly as long as QEMU.
    let plugged = |Plug { wire, mac, .. }: Plug<'_>| {
        let netdev = wire.backend.netdev();
        let Wire { name, port, ports, gateway, held, .. } = wire;
        Plugged { wire: name, port, ports, gateway, netdev, held, mac }
    };
    let nics = plugs.into_iter().map(plugged).collect();
    let (vhost, path) = (!vhosts.is_empty(), String::new());
    let own_disk = disk.map(|disk| Arc::clone(&disk.file));
    let mut guest = Guest { machine, nics, disk: own_disk, vhost, path, timings };
    guest.verify_backends()?;
    if let Some(disk) = disk {
        guest.verify_disk(disk)?;
    }
    Ok(guest)
}

/// Plugs a disk in, and what it is attached to.
fn plug_disk(
    machine: &mut Machine,
    disk: &DiskSpec,
    machine_type: MachineType,
) -> Result<(), Box<GuestError>> {
    let operation = "plug the disk in";
    if let Some(thread) = disk.io_thread() {
        machine.command(operation, "object-add", &as_json(thread))?;
    }
    machine.command(operation, "blockdev-add", &disk.block_nodes())?;
    for device in disk.devices(machine_type) {
        machine.command(operation, "device_add", &as_json(device))?;
    }
    Ok(())
}

/// By itself vhost serves virtio under KVM; where it is missing QEMU moves the packets itself.
fn open_vhost(
    accelerator: Accelerator,
    nic: &NicSpec,
    backend: &Backend,
) -> io::Result<Vec<OwnedFd>> {
    let queues = match (backend, takes_vhost(nic.model)) {
        (Backend::Tap(queues), true) => queues.len(),
        _ if nic.vhost == Vhost::On => {
            return Err(io::Error::other("vhost-net serves virtio on a tap alone"));
        }
        _ => return Ok(Vec::new()),
    };
    let open = || OpenOptions::new().read(true).write(true).open(VHOST_DEVICE).map(OwnedFd::from);
    let opened = || (0..queues).map(|_| open()).collect::<io::Result<Vec<_>>>();
    match nic.vhost {
        Vhost::On => opened(),
        Vhost::Auto if accelerator == Accelerator::Kvm => Ok(opened().unwrap_or_default()),
        Vhost::Auto | Vhost::Off => Ok(Vec::new()),
    }
}

/// Whether vhost-net can move the frames of a model.
#[must_use]
pub fn takes_vhost(model: NicModel) -> bool {
    model.row().qemu_device.starts_with("virtio-net")
}

impl Guest {
    /// Lets `converse` talk to the agent, on a thread of its own, while the guest is watched; see
    /// [`super::Booted::answer_within`].
    ///
    /// # Errors
    /// [`GuestError`], with the console's last lines.
    pub fn answer_within<T: Send, E: std::fmt::Display + Send>(
        &mut self,
        operation: &'static str,
        bound: Duration,
        converse: impl FnOnce(UnixStream) -> Result<T, E> + Send,
    ) -> Result<T, Box<GuestError>> {
        self.machine.answer_within(operation, bound, converse)
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

    /// The threads of QEMU that run the virtual CPUs, in the CPUs' order.
    ///
    /// # Errors
    /// When QEMU does not tell.
    pub(crate) fn virtual_cpu_threads(&mut self) -> Result<Vec<Pid>, Box<GuestError>> {
        self.machine.virtual_cpu_threads()
    }

    /// The CPU that it really has; nothing where QEMU has no names for them.
    ///
    /// # Errors
    /// When QEMU does not answer.
    pub fn processor(&mut self) -> Result<Option<Processor>, Box<GuestError>> {
        self.machine.processor()
    }

    /// What KVM has counted of its virtual CPUs so far (`exits`, `io_exits`, …), all together; empty where KVM
    /// does not run them, or tells nothing.
    ///
    /// # Errors
    /// When QEMU does not tell: before 7.1 it does not know the question.
    pub fn kvm_counters(&mut self) -> Result<BTreeMap<String, u64>, Box<GuestError>> {
        self.machine.kvm_counters()
    }

    /// Hardware addresses of its NICs, by which the agent finds them.
    pub fn macs(&self) -> impl Iterator<Item = Mac> {
        self.nics.iter().map(|nic| nic.mac)
    }

    /// Names of the host's ends of their wires.
    pub fn wires(&self) -> impl Iterator<Item = &str> {
        self.nics.iter().map(|nic| nic.wire.as_str())
    }

    /// The switch's port that its NIC is on, in the sandbox's network namespace, if it is on one.
    #[must_use]
    pub fn port(&self) -> Option<&str> {
        self.port_of(0)
    }

    /// The same of its NIC of that number.
    #[must_use]
    pub fn port_of(&self, nic: usize) -> Option<&str> {
        self.nics.get(nic)?.port.as_deref()
    }

    /// The ports that its ends of connections must be on, where no others are forwarded.
    #[must_use]
    pub fn ports(&self) -> Option<RangeInclusive<u16>> {
        self.nics.first()?.ports.clone()
    }

    /// Who answers for the peer, where nobody answers for any other neighbour.
    #[must_use]
    pub fn gateway(&self) -> Option<IpAddr> {
        self.nics.first()?.gateway
    }

    /// Processes that serve it alone, with what they are called in reports.
    #[must_use]
    pub fn processes(&self) -> Vec<(String, Pid)> {
        let held = self.nics.iter().flat_map(|nic| nic.held.processes.iter());
        held.map(|(name, process)| ((*name).to_owned(), process.pid())).collect()
    }

    /// The way of its frames on the host, as the switch was seen to have it, and who moves them; nothing where it has no
    /// NIC.
    #[must_use]
    pub fn path(&self) -> Option<String> {
        if self.nics.is_empty() {
            return None;
        }
        let is_shared = self.nics.iter().any(|nic| nic.netdev == Some(SHARED_MEMORY));
        let is_of_card = self.nics.iter().any(|nic| nic.netdev.is_none());
        let mover = match (self.vhost, is_shared) {
            (true, _) => "vhost-net",
            (false, true) => "the switch",
            (false, false) if is_of_card => "the card",
            (false, false) => "QEMU",
        };
        Some(format!("{}, its frames moved by {mover}", self.path))
    }

    pub(crate) fn set_path(&mut self, path: String) {
        self.path = path;
    }

    /// Whether QEMU itself says that the NIC is on the backend that was asked for.
    fn verify_backends(&mut self) -> Result<(), Box<GuestError>> {
        let operation = "look at the NIC's backend";
        let ask = json!({ "command-line": "info network" });
        let answer = self.machine.command(operation, "human-monitor-command", &ask)?;
        let text = answer.as_str().unwrap_or_default();
        let mut held = self.nics.iter_mut().flat_map(|nic| nic.held.processes.iter_mut());
        if let Some((name, ended)) = held.find_map(|(name, process)| {
            process.ended().map(|status| (name, format!("{status}: {:?}", process.error_tail())))
        }) {
            let reason = format!("{name} has ended ({ended})");
            return Err(self.machine.error(operation, Fault::Wire(reason)));
        }
        let is_other =
            |(number, nic): &(usize, &Plugged)| nic::backend_of(*number, text) != nic.netdev;
        let Some((_, nic)) = self.nics.iter().enumerate().find(is_other) else { return Ok(()) };
        let wanted = nic.netdev.unwrap_or("nothing");
        let reason = format!("a NIC should be backed by `{wanted}`, but QEMU says: {text}");
        Err(self.machine.error(operation, Fault::Wire(reason)))
    }

    /// Whether QEMU itself says that the disk is as it was asked for.
    fn verify_disk(&mut self, disk: &DiskSpec) -> Result<(), Box<GuestError>> {
        let operation = "look at the disk";
        let answer = self.machine.command(operation, "query-block", &json!({}))?;
        match disk.contradiction(&answer) {
            None => Ok(()),
            Some(reason) => Err(self.machine.error(operation, Fault::Wire(reason))),
        }
    }

    /// Whether the disk is served by the thread, and read and written in the way, that was asked for; to be asked when
    /// the guest's kernel has found the disk, and so has read of it.
    ///
    /// # Errors
    /// When it is otherwise, or QEMU does not answer.
    pub fn verify_disk_in_use(&mut self, disk: &DiskSpec) -> Result<(), Box<GuestError>> {
        let operation = "look at how the disk is served";
        let told = disk.served().map(|ask| self.machine.command(operation, "qom-get", &ask));
        let other = told.transpose()?.and_then(|answer| disk.other_thread(&answer));
        let otherwise =
            || disk_in_use::contradiction(Path::new("/"), self.qemu_pid(), disk.drive.aio);
        match other.or_else(otherwise) {
            None => Ok(()),
            Some(reason) => Err(self.machine.error(operation, Fault::Wire(reason))),
        }
    }

    /// Where the bytes of its disk are, where it has one under test.
    #[must_use]
    pub fn disk(&self) -> Option<&DiskFile> {
        self.disk.as_deref()
    }

    /// True when the host's kernel moves the packets (vhost-net), not QEMU.
    #[must_use]
    pub fn vhost(&self) -> bool {
        self.vhost
    }

    /// When it was how far.
    #[must_use]
    pub fn timings(&self) -> Timings {
        self.timings
    }

    /// The last lines of its console.
    #[must_use]
    pub fn console_tail(&self) -> Vec<String> {
        self.machine.console_tail()
    }

    /// What is wrong with it, if it is seen to be dead: QEMU has ended or the kernel panicked.
    pub fn fault(&mut self) -> Option<Fault> {
        self.machine.fault()
    }

    /// The same for a guest that has just closed its channel: QEMU is seen to have ended, and the
    /// console to end with a panic, a moment later.
    pub fn fault_within(&mut self, bound: Duration) -> Option<Fault> {
        let deadline = Instant::now() + bound;
        loop {
            let fault = self.fault();
            if fault.is_some() || Instant::now() >= deadline {
                return fault;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// True while nothing is seen to be wrong with it.
    pub fn is_alive(&mut self) -> bool {
        self.fault().is_none()
    }

    /// The error for something that went wrong with this guest, with its last words.
    #[must_use]
    pub fn error(&self, operation: &'static str, fault: Fault) -> Box<GuestError> {
        self.machine.error(operation, fault)
    }

    /// Stops its virtual CPUs; its clock stands still with them.
    ///
    /// # Errors
    /// When QEMU does not do it.
    pub(crate) fn pause(&mut self) -> Result<(), Box<GuestError>> {
        self.machine.command("pause the guest", "stop", &json!({})).map(drop)
    }

    /// Lets it go on.
    ///
    /// # Errors
    /// When QEMU does not do it.
    pub(crate) fn go_on(&mut self) -> Result<(), Box<GuestError>> {
        self.machine.command("let the guest go on", "cont", &json!({})).map(drop)
    }

    /// Ends it at once; the tap is gone when this returns.
    pub fn stop(self) {
        drop(self);
    }
}
