//! What a disk's load is told by.

use schemars::JsonSchema;
use serde::Serialize;

use super::{LatencyAnalysis, Metric, TransactionDemand};

/// Reads and writes of a disk.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Disk {
    /// Operations that ended, reads and writes.
    pub operations_per_second: Metric,
    /// Reads.
    pub reads_per_second: Metric,
    /// Writes.
    pub writes_per_second: Metric,
    /// What they moved, in megabytes of 1 000 000 bytes.
    pub mb_per_second: Metric,
    /// The same in mebibytes of 1 048 576 bytes.
    pub mib_per_second: Metric,
    /// What was read, in megabytes.
    pub mb_read_per_second: Metric,
    /// What was written, in megabytes.
    pub mb_written_per_second: Metric,
    /// How long operations took, from when they were handed to the kernel.
    pub latency: LatencyAnalysis,
    /// How long reads took.
    pub reads: OperationTimes,
    /// How long writes took.
    pub writes: OperationTimes,
    /// Bytes that the block device of the host moved that the disk's bytes are on (where that is not known, the one that
    /// moved most meanwhile), in percent of those of the
    /// load and of a neighbour's, warm-up included: far less than 100 where memory answered in its place, more where others use
    /// it or one operation becomes several.
    pub device_percent_of_load: Metric,
    /// The part of the time in which that device had an operation under way.
    pub device_busy_percent: Metric,
    /// Operations that it had under way, on average.
    pub device_in_flight: Metric,
    /// Operations that had not ended when the load was to, in a trial.
    pub given_up: Metric,
    /// CPU time per operation.
    pub service_demand: TransactionDemand,
    /// That device, as the host's kernel calls it; several only where trials differ.
    pub devices: Vec<String>,
    /// Whether the disk's bytes were in memory, so that there was no such device.
    pub in_memory: bool,
    /// How operations got to the kernel (`io_uring`; where it refuses that `threads`, or `libaio` of fio).
    pub engines: Vec<&'static str>,
    /// The versions of fio, where it was what read and wrote.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fio: Vec<String>,
    /// Whether every trial opened the disk with `O_DIRECT`, past the page cache of the machine that the
    /// load ran on; absent where no trial tells.
    pub direct: Option<bool>,
}

/// How long operations of one sort took; percentiles where there are enough.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct OperationTimes {
    /// Mean.
    pub mean_us: Metric,
    /// 99 % took no longer.
    pub p99_us: Metric,
    /// The longest of each trial.
    pub max_us: Metric,
}
