//! What a load of a disk counts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::LatencyHistogram;

/// Operations of a disk that have ended, and the bytes that they moved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiskCounters {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes that reads brought.
    pub bytes_read: u64,
    /// Bytes that writes took.
    pub bytes_written: u64,
}

impl DiskCounters {
    /// Reads and writes.
    pub fn operations(&self) -> u64 {
        self.reads.saturating_add(self.writes)
    }
}

/// How operations got to the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DiskEngine {
    /// By a ring that the kernel shares with each worker (io_uring(7)).
    #[default]
    IoUring,
    /// By `pread` and `pwrite`, a thread for each operation that may be under way: the kernel refused
    /// io_uring.
    Threads,
    /// By Linux's native asynchronous I/O (io_submit(2)), of fio alone: the kernel refused io_uring.
    Libaio,
}

impl DiskEngine {
    /// As a person reads it.
    pub fn name(self) -> &'static str {
        match self {
            Self::IoUring => "io_uring",
            Self::Threads => "threads",
            Self::Libaio => "libaio",
        }
    }
}

/// How a disk was read and written, from Start to Stop.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiskOutcome {
    /// How operations got to the kernel.
    pub engine: DiskEngine,
    /// The version of fio as it tells it (`fio-3.33`), where fio was asked to read and write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fio: Option<String>,
    /// Why it was not io_uring, where it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_because: Option<String>,
    /// Whether the file was opened with `O_DIRECT`, past the page cache of the node's machine.
    pub direct: bool,
    /// Bytes in reach, from the beginning of the file or device.
    pub reach_bytes: u64,
    /// Size of the file or device.
    pub size_bytes: u64,
    /// How long reads took that began after the warm-up.
    pub reads: LatencyHistogram,
    /// The same of writes.
    pub writes: LatencyHistogram,
    /// Operations that had not ended when the load was told to end, and were given up.
    pub given_up: u64,
}

/// What a block device or partition did since boot (Documentation/admin-guide/iostats.rst).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BlockDeviceCounters {
    /// Reads that ended.
    pub reads: u64,
    /// Writes that ended.
    pub writes: u64,
    /// Bytes that reads brought.
    pub bytes_read: u64,
    /// Bytes that writes took.
    pub bytes_written: u64,
    /// Milliseconds in which an operation was under way.
    pub busy_ms: u64,
    /// The sum of the milliseconds that every operation was under way for.
    pub in_flight_ms: u64,
}
