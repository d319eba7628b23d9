//! Those of a disk's load.

use super::{Column, US, column};
use crate::result::{CellAnalysis, Disk, Metric};

const OPERATIONS: &str = "operations/s";
const MB: &str = "MB/s";

pub(super) const COLUMNS: &[Column] = &[
    column("disk_operations_per_second", OPERATIONS, "reads and writes that ended", |c| {
        disk(c, |d| &d.operations_per_second)
    }),
    column("disk_reads_per_second", OPERATIONS, "reads that ended", |c| {
        disk(c, |d| &d.reads_per_second)
    }),
    column("disk_writes_per_second", OPERATIONS, "writes that ended", |c| {
        disk(c, |d| &d.writes_per_second)
    }),
    column("disk_mb_per_second", MB, "read and written, in megabytes of 1 000 000 bytes", |c| {
        disk(c, |d| &d.mb_per_second)
    }),
    column(
        "disk_mib_per_second",
        "MiB/s",
        "read and written, in mebibytes of 1 048 576 bytes",
        |c| disk(c, |d| &d.mib_per_second),
    ),
    column("disk_mb_read_per_second", MB, "read, in megabytes", |c| {
        disk(c, |d| &d.mb_read_per_second)
    }),
    column("disk_mb_written_per_second", MB, "written, in megabytes", |c| {
        disk(c, |d| &d.mb_written_per_second)
    }),
    column("disk_read_mean_us", US, "mean response time of reads", |c| {
        disk(c, |d| &d.reads.mean_us)
    }),
    column("disk_read_p99_us", US, "99 % of a trial's reads took no longer", |c| {
        disk(c, |d| &d.reads.p99_us)
    }),
    column("disk_read_max_us", US, "the longest read of a trial", |c| disk(c, |d| &d.reads.max_us)),
    column("disk_write_mean_us", US, "mean response time of writes", |c| {
        disk(c, |d| &d.writes.mean_us)
    }),
    column("disk_write_p99_us", US, "99 % of a trial's writes took no longer", |c| {
        disk(c, |d| &d.writes.p99_us)
    }),
    column("disk_write_max_us", US, "the longest write of a trial", |c| {
        disk(c, |d| &d.writes.max_us)
    }),
    column(
        "disk_device_percent_of_load",
        "%",
        "bytes that the host's busiest block device moved, of those of the load",
        |c| disk(c, |d| &d.device_percent_of_load),
    ),
    column(
        "disk_device_busy_percent",
        "%",
        "the time in which that device had an operation under way",
        |c| disk(c, |d| &d.device_busy_percent),
    ),
    column("disk_device_in_flight", "operations", "that it had under way, on average", |c| {
        disk(c, |d| &d.device_in_flight)
    }),
    column("disk_given_up", "operations", "that had not ended when the load was to", |c| {
        disk(c, |d| &d.given_up)
    }),
    column("host_us_per_operation", US, "busy time of the host per operation of the disk", |c| {
        disk(c, |d| &d.service_demand.host_us)
    }),
    column("qemu_us_per_operation", US, "QEMU's CPU time per operation of the disk", |c| {
        disk(c, |d| &d.service_demand.qemu_us)
    }),
    column("guest_us_per_operation", US, "busy time of the guest per operation of the disk", |c| {
        disk(c, |d| &d.service_demand.guest_us)
    }),
];

fn disk(cell: &CellAnalysis, read: fn(&Disk) -> &Metric) -> Option<&Metric> {
    cell.disk.as_ref().map(read)
}
