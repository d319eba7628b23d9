//! The guest's kernel: where it comes from, how QEMU boots it, and which modules go along.
//!
//! [`find::find`] chooses a kernel (the user's, the host's own, or one from the cache),
//! [`fetch::fetch`] puts a distribution's kernel package into the cache without installing it,
//! [`GuestKernel::boot_file`] hands QEMU the quickest bootable form, and [`modules::ModuleTree`]
//! gathers drivers with their dependencies for the [initramfs](crate::initramfs).

pub mod cache;
pub mod decompress;
pub mod error;
pub mod fetch;
pub mod find;
pub mod image;
pub mod modinfo;
pub mod modules;
mod package;
mod version;

use std::path::{Path, PathBuf};

pub use error::KernelError;
pub use image::Boot;
pub use modules::{ModuleSet, ModuleTree};

/// Modules without which no guest of vioperf works: the control channel is virtio-serial on PCI.
///
/// Their dependencies (`virtio`, `virtio_ring`, `virtio_pci_modern_dev`, `virtio_pci_legacy_dev`)
/// come from `modules.dep`. All are modules in Debian's kernel; in Fedora's they are built in,
/// which costs nothing. PCI Express hot-plug (`pciehp`) is not listed since the kernel offers it
/// built in only (`CONFIG_HOTPLUG_PCI_PCIE` is a bool), like `acpiphp` for conventional PCI.
pub const ALWAYS_NEEDED: &[&str] = &["virtio_pci", "virtio_console"];

/// Modules that are taken along where the kernel has them, and not missed where it has not:
/// `shpchp` is hot-plug behind PCI bridges that ACPI does not handle; built in on Debian, a
/// module elsewhere. `sch_netem` plants the delays and losses that `vioperf calibrate` reads.
pub const USED_IF_PRESENT: &[&str] = &["shpchp", "sch_netem"];

/// Modules that a guest which forwards takes along where the kernel has them as such: a bridge, and
/// nftables with named counters. In the order in which they are loaded: `libcrc32c`, which `nf_tables` needs,
/// asks for `crc32c` by its name. The last two are parts of `nf_tables` since Linux 6.2 and 5.18.
pub const USED_TO_FORWARD: &[&str] =
    &["bridge", "crc32c_generic", "nf_tables", "nft_objref", "nft_counter"];

/// What of those a guest that forwards cannot do without, and a kernel has not.
///
/// # Errors
/// When the modules cannot be read.
pub fn lacks_to_forward(tree: &ModuleTree) -> Result<Vec<String>, KernelError> {
    let mut lacking = tree.missing(&["bridge", "nf_tables"]);
    if lacking.is_empty() {
        let set = tree.collect(&["nf_tables"], &[])?;
        // Newer ones have the sum without a module.
        if set.files().iter().any(|file| file.name == "libcrc32c") {
            lacking = tree.missing(&["crc32c_generic"]);
        }
    }
    Ok(lacking.into_iter().map(str::to_owned).collect())
}

/// Where a kernel was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The user named it.
    Given,
    /// The host's own, under `/boot` or `/lib/modules`.
    Host,
    /// Fetched earlier by `vioperf kernel fetch`.
    Cache,
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Given => "given",
            Self::Host => "host",
            Self::Cache => "cache",
        })
    }
}

/// A kernel that guests can run, with its modules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestKernel {
    /// The image as it was found: a bzImage, or an ELF `vmlinux` (possibly compressed).
    pub image: PathBuf,
    /// The directory with `modules.dep` or at least `kernel/`; `None` for a kernel without modules
    /// (all that was wanted cannot then be checked, so only a [given](Source::Given) one).
    pub modules: Option<PathBuf>,
    /// `uname -r` of the guest.
    pub release: String,
    /// Where it was found.
    pub source: Source,
}

/// What QEMU's `-kernel` is to be given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootFile {
    /// The file.
    pub path: PathBuf,
    /// How QEMU starts it.
    pub boot: Boot,
}

impl GuestKernel {
    /// Opens the module tree.
    ///
    /// # Errors
    /// When it is not readable, or its `modules.dep` is malformed.
    pub fn module_tree(&self) -> Result<ModuleTree, KernelError> {
        match &self.modules {
            Some(dir) => ModuleTree::open(dir, &self.release),
            None => Ok(ModuleTree::without_files(&self.release)),
        }
    }

    /// The file that QEMU boots quickest: the ELF `vmlinux` where it has a PVH entry (half the time
    /// of a bzImage, which unpacks itself inside the guest), else the image as it is.
    ///
    /// A `vmlinux` that must be extracted first is kept in `cache_dir` under the digest of the
    /// image's bytes, so that it is paid for once.
    ///
    /// # Errors
    /// When the image is unreadable or none, or the cache cannot be written.
    pub fn boot_file(
        &self,
        cache_dir: &Path,
        progress: &mut dyn FnMut(&str),
    ) -> Result<BootFile, KernelError> {
        cache::boot_file(self, cache_dir, progress)
    }
}
