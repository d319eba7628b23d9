//! Finding a disk in a guest, and what is told of it.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A disk as the machine that has it sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiskFacts {
    /// Its device file (`/dev/vda`).
    pub path: PathBuf,
    /// The driver of what it is attached to: of the nearest device on a bus (PCI, virtio).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// The smallest piece that can be read or written, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logical_block_bytes: Option<u32>,
    /// The kernel's I/O scheduler for it (`none`, `mq-deadline`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
    /// Hardware queues that the kernel uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<u32>,
    /// `write back` where the kernel has to flush what the disk keeps in a cache, else `write through`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_cache: Option<String>,
}
