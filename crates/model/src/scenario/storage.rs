//! Where the bytes of disks are, and how QEMU hands them to a guest.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where the bytes are that disks hold, on the host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Storage {
    /// What they are kept in.
    pub kind: StorageKind,
    /// The directory of `kind = "file"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "`/var/tmp`"))]
    pub directory: Option<String>,
    /// The block device of `kind = "device"`: what is on it is lost, which `--allow-overwrite DEVICE` has to allow.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "none"))]
    pub device: Option<String>,
}

/// What keeps a disk's bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StorageKind {
    /// A file without a name in a directory of the host's, filled before anything is measured.
    #[default]
    File,
    /// Memory of the host's (tmpfs).
    Tmpfs,
    /// A block device of the host's.
    Device,
}

impl fmt::Display for StorageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::File => "file",
            Self::Tmpfs => "tmpfs",
            Self::Device => "device",
        })
    }
}

/// Where files are, unless somebody says otherwise: the directory for large temporary files that outlive a restart, so not
/// in memory (file-hierarchy(7)).
const USUAL_DIRECTORY: &str = "/var/tmp";

impl Storage {
    /// The directory of a file.
    pub fn directory(&self) -> &str {
        self.directory.as_deref().unwrap_or(USUAL_DIRECTORY)
    }

    /// The block device, where the bytes are on one. One may be named beside another kind, as where the kind is varied.
    pub fn block_device(&self) -> Option<&String> {
        self.device.as_ref().filter(|_| self.kind == StorageKind::Device)
    }

    /// What contradicts itself.
    pub(super) fn check(&self, check: &mut impl FnMut(bool, &str, String)) {
        check(
            self.kind == StorageKind::Device && self.device.is_none(),
            "testbed.storage",
            "which block device? Give storage.device, such as \"/dev/nvme1n1\"; what is on it is lost"
                .into(),
        );
        let is_absolute =
            |path: &Option<String>| path.as_ref().is_none_or(|own| own.starts_with('/'));
        check(
            !is_absolute(&self.device) || !is_absolute(&self.directory),
            "testbed.storage",
            "directory and device are paths from the root, as in \"/var/tmp\"".into(),
        );
    }
}

/// How QEMU hands a disk to the guest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Drive {
    /// What the bytes are an image of.
    pub format: ImageFormat,
    /// What of a `qcow2` image is allocated before anything is measured.
    #[serde(skip_serializing_if = "super::variants::is_default")]
    #[schemars(extend("x-absent" = "`full`"))]
    pub preallocation: Preallocation,
    /// Whether the host's page cache is in the path, and whether a write has ended before it is on the disk.
    pub cache: CacheMode,
    /// How QEMU reads and writes the file.
    pub aio: AsyncIo,
    /// Whether a thread of its own serves the disk (virtio-blk and virtio-scsi), in place of QEMU's main loop.
    pub io_thread: bool,
}

/// Formats of images.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ImageFormat {
    /// The bytes as they are.
    #[default]
    Raw,
    /// QEMU's own.
    Qcow2,
}

/// What of an image is allocated when it is made, as `qemu-img create -o preallocation=` has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Preallocation {
    /// Every cluster, and all its bytes are written: what is written later finds its place.
    #[default]
    Full,
    /// The tables and every cluster, but no bytes: the file has holes.
    Metadata,
    /// Nothing, as of a thin image: each cluster when it is first written.
    Off,
}

impl Preallocation {
    /// QEMU's name of it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Metadata => "metadata",
            Self::Off => "off",
        }
    }
}

impl ImageFormat {
    /// QEMU's name of its driver.
    pub fn driver(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Qcow2 => "qcow2",
        }
    }
}

/// Cache modes, as `cache=` of qemu(1) and libvirt have them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CacheMode {
    /// Past the host's page cache; the disk has a cache of its own.
    #[default]
    None,
    /// Through the host's page cache.
    Writeback,
    /// Through the host's page cache, and every write is on the disk before it has ended.
    Writethrough,
    /// Past the host's page cache, and every write is on the disk before it has ended.
    Directsync,
    /// Through the host's page cache, and what asks for it to be emptied is not heard.
    Unsafe,
}

impl CacheMode {
    /// Whether the host's page cache is left out (`O_DIRECT`).
    pub fn is_direct(self) -> bool {
        matches!(self, Self::None | Self::Directsync)
    }

    /// Whether the guest is told that the disk has a cache that it has to flush.
    pub fn has_write_cache(self) -> bool {
        !matches!(self, Self::Writethrough | Self::Directsync)
    }

    /// Whether flushes are ignored.
    pub fn ignores_flushes(self) -> bool {
        self == Self::Unsafe
    }
}

impl fmt::Display for CacheMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::None => "none",
            Self::Writeback => "writeback",
            Self::Writethrough => "writethrough",
            Self::Directsync => "directsync",
            Self::Unsafe => "unsafe",
        })
    }
}

/// Ways of QEMU's to read and write a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AsyncIo {
    /// A pool of threads.
    #[default]
    Threads,
    /// Linux's native asynchronous I/O (io_submit(2)); past the page cache alone.
    Native,
    /// io_uring(7).
    IoUring,
}

impl AsyncIo {
    /// QEMU's name of it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Threads => "threads",
            Self::Native => "native",
            Self::IoUring => "io_uring",
        }
    }
}
