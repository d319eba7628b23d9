//! What fio is asked to do, in its own words (fio(1)).

use std::fmt::Write as _;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use vioperf_model::sample::DiskEngine;
use vioperf_model::units::Ratio;
use vioperf_model::workload::Workload;

use super::super::target::Target;

/// How long fio would go on past the load's end if it was told nothing, not even by being killed.
const BEYOND: Duration = Duration::from_secs(5);
/// The file that fio opens: the one that we have open, whatever it is called.
pub(super) fn path_of(file: RawFd) -> String {
    format!("/proc/self/fd/{file}")
}

/// The job: one worker for each stream, each of which begins at the beginning of the file.
pub(super) fn job(workload: &Workload, target: &Target, way: DiskEngine, most: Duration) -> String {
    let kind = workload.operation_kinds().into_iter().next();
    let (block, reads, random) = kind.map_or((0, 0, 0), |kind| {
        (kind.block_bytes, percent(kind.read_share), percent(kind.random_share))
    });
    let way = match way {
        DiskEngine::IoUring => "io_uring",
        DiskEngine::Libaio => "libaio",
        DiskEngine::Threads => "psync",
    };
    let milliseconds = (most + BEYOND).as_millis();
    let mut text = format!(
        "[worker]\nfilename={}\nsize={}\nbs={block}\nrw={}\niodepth={}\nnumjobs={}\nioengine={way}\n\
         direct={}\ntime_based=1\nruntime={milliseconds}ms\n",
        path_of(target.file.as_raw_fd()),
        target.reach_bytes,
        pattern(reads, random),
        workload.queue_depth(),
        workload.streams,
        u8::from(target.direct),
    );
    // As our own engine does: whatever is free goes to the kernel together, and what has ended is taken together. By itself
    // fio makes a system call for each.
    let depth = workload.queue_depth();
    let _ = writeln!(
        text,
        "iodepth_batch_submit={depth}\niodepth_batch_complete_min=1\niodepth_batch_complete_max={depth}"
    );
    if reads != 0 && reads != 100 {
        let _ = writeln!(text, "rwmixread={reads}");
    }
    if random != 0 && random != 100 {
        let _ = writeln!(text, "percentage_random={random}");
    }
    let cores: Vec<String> =
        workload.sender_cpus.as_slice().iter().map(ToString::to_string).collect();
    if !cores.is_empty() {
        let _ = writeln!(text, "cpus_allowed={}\ncpus_allowed_policy=split", cores.join(","));
    }
    text.push_str(ALWAYS);
    text
}

/// One process that ends as a whole; places drawn anew for each operation, other ones in every trial; nothing made, emptied or
/// advised beforehand; and no more told than is read.
const ALWAYS: &str = "thread=1\nexitall_on_error=1\nnorandommap=1\nrandrepeat=0\nallow_file_create=0\ninvalidate=0\n\
    fadvise_hint=0\ndisk_util=0\nlat_percentiles=1\nclat_percentiles=0\nslat_percentiles=0\n";

fn pattern(reads: u64, random: u64) -> &'static str {
    match (reads, random) {
        (100, 0) => "read",
        (0, 0) => "write",
        (_, 0) => "rw",
        (100, _) => "randread",
        (0, _) => "randwrite",
        _ => "randrw",
    }
}

fn percent(share: Ratio) -> u64 {
    share.as_ppb() / 10_000_000
}
