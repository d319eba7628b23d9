//! Guests: finding QEMU, its command line, its monitor, snapshots, hot-plugged NICs.
//!
//! No file on disk and no shell: kernel, initramfs and snapshot are memory files, monitor, control
//! channel and tap are inherited descriptors, so that a killed run leaves nothing.

pub mod accelerator;
pub mod binary;
mod command_line;
mod disk;
pub mod disk_image;
mod disk_in_use;
mod fault;
pub mod guest;
pub mod image;
mod kvm_statistics;
mod machine;
pub mod memory_pages;
mod monitor;
mod nic;
pub mod processor;
pub mod snapshot;

pub use accelerator::{Accelerator, Verdict};
pub use binary::{Qemu, QemuError, QemuVersion};
pub use command_line::AGENT_PORT;
pub use disk::DiskSpec;
pub use fault::{Fault, GuestError};
pub use guest::{Guest, GuestSource, NicSpec, Timings};
pub use image::BootImage;
pub use monitor::MonitorError;
pub use snapshot::{Booted, Snapshot};

use vioperf_model::scenario::{HugePages, MachineType};

/// What runs guests on this machine.
#[derive(Debug, Clone)]
pub struct Hypervisor {
    /// The program.
    pub qemu: Qemu,
    /// What executes the guests' instructions.
    pub accelerator: Accelerator,
    /// The CPU model; none takes the accelerator's best.
    pub cpu: Option<String>,
}

/// Size of a guest. A snapshot can be restored only into the shape it was taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Virtual processors.
    pub vcpus: u16,
    /// Memory, in MiB. Four sockets with 8 MiB of buffers each must fit beside the kernel.
    pub memory_mib: u64,
    /// The machine type.
    pub machine: MachineType,
    /// Which pages of the host the memory is in.
    pub huge_pages: HugePages,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            vcpus: 1,
            memory_mib: 256,
            machine: MachineType::default(),
            huge_pages: HugePages::default(),
        }
    }
}
