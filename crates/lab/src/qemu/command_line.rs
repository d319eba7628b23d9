//! QEMU's command line, as an argument vector.
//!
//! Machine type: by itself q35, with PCI Express slots and a conventional bus behind one of them, because
//! it is what libvirt and the distributions give to new guests and because PCI Express models belong
//! into a PCI Express slot; hot-plug and boot took the same time on `pc` for every model.
//!
//! Kernel arguments: nothing is tuned. The guest keeps its mitigations, timers and scheduler as a
//! normal one has them, since their cost is part of what is measured; what is there serves the console
//! and makes a broken guest end instead of hanging.

use std::ffi::OsString;
use std::os::fd::{AsRawFd, RawFd};
use std::path::PathBuf;

use vioperf_model::scenario::{HugePages, MachineType};

use super::binary::SECCOMP;
use super::nic::{Properties, as_argument, chardev};
use super::{Accelerator, BootImage, DiskSpec, Hypervisor, Shape};

/// The slots for PCI Express NICs, the one under test first.
pub(super) const PCIE_SLOTS: [&str; 2] = ["slot0", "slot2"];

/// The bus for a conventional PCI NIC.
pub(super) const LEGACY_BUS: &str = "legacy0";

/// What QEMU itself calls a guest's memory: under this name a snapshot fits, whatever backs it.
const MEMORY: &str = "pc.ram";

/// Name of the port by which the guest's agent is reached, in `/sys/class/virtio-ports/*/name`.
pub const AGENT_PORT: &str = "org.vioperf.agent";

/// The bus of the virtio-serial controller, on which ports are.
pub(super) const SERIAL_BUS: &str = "serial0.0";

/// `panic=-1` with `-no-reboot` ends QEMU at once after a panic; `oops=panic` makes a driver's oops
/// one, for a guest that goes on with half a kernel would be measured.
const KERNEL_ARGUMENTS: &str = "console=ttyS0 quiet panic=-1 oops=panic";

/// What the command line speaks of.
pub(super) struct Parts<'a> {
    pub hypervisor: &'a Hypervisor,
    pub image: &'a BootImage,
    pub shape: Shape,
    /// Descriptor of the monitor's socket, as QEMU inherits it.
    pub monitor: RawFd,
    /// Descriptor of the agent's socket.
    pub agent: RawFd,
    /// Where it is to listen for who moves the frames of a NIC, by the NIC's number: the guest's memory is shared with them.
    pub memory_sockets: Vec<(usize, PathBuf)>,
    /// Wait for a snapshot instead of booting.
    pub incoming: bool,
    /// Backend and device of the NICs that are there from the start.
    pub nics: Vec<(Option<Properties>, Properties)>,
    /// A disk that is there from the start.
    pub disk: Option<&'a DiskSpec>,
}

/// The arguments, without the program's name.
pub(super) fn arguments(parts: &Parts<'_>) -> Vec<OsString> {
    let Parts { hypervisor, image, shape, monitor, agent, .. } = parts;
    let (accelerator, processor) = match hypervisor.accelerator {
        Accelerator::Kvm => ("kvm", "host"),
        Accelerator::Tcg => ("tcg,thread=multi", "max"),
    };
    let mut line = Line::default();
    line.flag("-nodefaults").flag("-no-user-config").flag("-no-reboot");
    line.option("-display", "none").option("-name", "vioperf,debug-threads=on");
    let huge = match shape.huge_pages {
        HugePages::Explicit => ",hugetlb=on",
        HugePages::Auto | HugePages::None | HugePages::Transparent => "",
    };
    let mut memory = String::new();
    if !huge.is_empty() || !parts.memory_sockets.is_empty() {
        let size = shape.memory_mib;
        let backend = format!("memory-backend-memfd,id={MEMORY},size={size}M,share=on{huge}");
        line.option("-object", backend);
        memory = format!(",memory-backend={MEMORY}");
    }
    line.option("-machine", format!("{},graphics=off{memory}", shape.machine));
    line.option("-accel", accelerator);
    line.option("-cpu", hypervisor.cpu.as_deref().unwrap_or(processor))
        .option("-smp", shape.vcpus.to_string());
    line.option("-m", format!("{}M", shape.memory_mib));
    line.option("-kernel", format!("/proc/self/fd/{}", image.kernel().as_raw_fd()));
    line.option("-initrd", format!("/proc/self/fd/{}", image.initramfs().as_raw_fd()));
    line.option("-append", format!("{KERNEL_ARGUMENTS} {}", image.arguments()).trim_end());
    line.option("-chardev", format!("socket,id=monitor,fd={monitor}"));
    line.option("-mon", "chardev=monitor,mode=control");
    line.option("-chardev", "stdio,id=console,signal=off").option("-serial", "chardev:console");
    line.option("-chardev", format!("socket,id=agent,fd={agent}"));
    for (nic, socket) in &parts.memory_sockets {
        let (id, path) = (chardev(*nic), socket.display());
        line.option("-chardev", format!("socket,id={id},path={path},server=on,wait=off"));
    }
    line.option("-device", "virtio-serial-pci,id=serial0");
    line.option("-device", format!("virtserialport,chardev=agent,name={AGENT_PORT}"));
    match shape.machine {
        MachineType::Q35 => {
            for (slot, chassis) in PCIE_SLOTS.into_iter().zip([1, 3]) {
                line.option("-device", format!("pcie-root-port,id={slot},chassis={chassis}"));
            }
            line.option("-device", "pcie-root-port,id=slot1,chassis=2");
            line.option("-device", format!("pcie-pci-bridge,id={LEGACY_BUS},bus=slot1"));
        }
        // The same slots by name, all of conventional PCI.
        MachineType::Pc => {
            for (slot, chassis) in PCIE_SLOTS.into_iter().chain([LEGACY_BUS]).zip([1, 3, 2]) {
                line.option("-device", format!("pci-bridge,id={slot},chassis_nr={chassis}"));
            }
        }
    }
    if hypervisor.qemu.has_device("pvpanic") {
        line.option("-device", "pvpanic");
    }
    if hypervisor.qemu.seccomp {
        line.option("-sandbox", SECCOMP);
    }
    if parts.incoming {
        line.option("-incoming", "defer");
    }
    for (backend, device) in &parts.nics {
        if let Some(backend) = backend {
            line.option("-netdev", as_argument(backend.clone()));
        }
        line.option("-device", as_argument(device.clone()));
    }
    if let Some(disk) = parts.disk {
        if let Some(thread) = disk.io_thread() {
            line.option("-object", as_argument(thread));
        }
        line.option("-blockdev", disk.block_nodes().to_string());
        for device in disk.devices(shape.machine) {
            line.option("-device", as_argument(device));
        }
    }
    line.0
}

#[derive(Default)]
struct Line(Vec<OsString>);

impl Line {
    fn flag(&mut self, name: &str) -> &mut Self {
        self.0.push(name.into());
        self
    }

    fn option(&mut self, name: &str, value: impl Into<OsString>) -> &mut Self {
        self.0.extend([name.into(), value.into()]);
        self
    }
}
