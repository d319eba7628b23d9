//! What a load of kind `disk` asks for, with what holds where nothing is asked for.

use super::{OperationKind, Workload, WorkloadKind};
use crate::units::{ByteSize, TimeSpan};

/// Disks are read and written in whole sectors of at least so many bytes.
pub const SECTOR_BYTES: u64 = 512;

/// The largest operation: what one request of the kernel's block layer may become in many pieces.
const LARGEST_BLOCK: ByteSize = ByteSize::from_mib(16);
/// The most operations that one worker keeps under way.
const DEEPEST_QUEUE: u16 = 1024;
/// The most workers: each has a thread and memory of its own.
const MOST_WORKERS: u16 = 64;
/// The most memory that all operations together may need.
const MOST_MEMORY: ByteSize = ByteSize::from_mib(1024);
/// The largest file.
const LARGEST_FILE: ByteSize = ByteSize::from_mib(1 << 20);

impl Workload {
    /// Bytes of the largest operation.
    pub fn largest_block_bytes(&self) -> u64 {
        self.operation_kinds().iter().map(|kind| kind.block_bytes).max().unwrap_or_default()
    }

    /// Operations that each worker keeps under way.
    pub fn queue_depth(&self) -> u16 {
        self.queue_depth.unwrap_or(1)
    }

    /// How much of the disk is in reach: 256 MiB unless asked for otherwise.
    pub fn file_size_bytes(&self) -> u64 {
        self.file_size.unwrap_or(ByteSize::from_mib(256)).as_bytes()
    }

    /// What of a disk's load contradicts itself.
    pub(super) fn check_disk(&self, check: &mut impl FnMut(bool, &str, String)) {
        self.check_mix(check);
        self.check_operations(check);
        let sizes = |kind: OperationKind| kind.block_bytes.max(kind.alignment_bytes);
        let largest = self.operation_kinds().into_iter().map(sizes).max().unwrap_or_default();
        let file = self.file_size.unwrap_or(ByteSize::from_mib(256));
        check(
            file < ByteSize::from_mib(1) || file > LARGEST_FILE,
            "workload.file_size",
            format!("{file} is not between 1 MiB and {LARGEST_FILE}"),
        );
        check(
            file.as_bytes() < largest,
            "workload.file_size",
            format!("{file} has no room for one operation: give more, or a smaller block_size"),
        );
        check(
            self.streams > MOST_WORKERS,
            "workload.streams",
            format!("{} workers: a disk's load has 1 to {MOST_WORKERS}", self.streams),
        );
        let depth = u64::from(self.queue_depth());
        let memory =
            self.largest_block_bytes().saturating_mul(depth).saturating_mul(self.streams.into());
        check(
            memory > MOST_MEMORY.as_bytes(),
            "workload.queue_depth",
            format!(
                "{depth} operations of {} bytes by each of {} workers need more than {MOST_MEMORY} \
                 of memory: give a smaller block_size, queue_depth or streams",
                self.largest_block_bytes(),
                self.streams
            ),
        );
    }

    fn check_operations(&self, check: &mut impl FnMut(bool, &str, String)) {
        // Where the key of a kind stands.
        let key = |own: &'static str| if self.mix.is_empty() { own } else { "workload.mix" };
        for kind in self.operation_kinds() {
            for (key, bytes) in [
                (key("workload.block_size"), kind.block_bytes),
                (key("workload.alignment"), kind.alignment_bytes),
            ] {
                check(
                    !(SECTOR_BYTES..=LARGEST_BLOCK.as_bytes()).contains(&bytes)
                        || !bytes.is_multiple_of(SECTOR_BYTES),
                    key,
                    format!(
                        "{bytes} bytes is no multiple of a sector ({SECTOR_BYTES} bytes) up to \
                         {LARGEST_BLOCK}"
                    ),
                );
            }
            for (key, share) in [
                (key("workload.read_share"), kind.read_share),
                (key("workload.random_share"), kind.random_share),
            ] {
                check(share.as_f64() > 1.0, key, format!("{share} is more than all operations"));
            }
        }
        check(
            !(1..=DEEPEST_QUEUE).contains(&self.queue_depth()),
            "workload.queue_depth",
            format!("{} is not between 1 and {DEEPEST_QUEUE}", self.queue_depth()),
        );
        check(
            self.delay.is_some_and(|delay| delay > TimeSpan::from_millis(60_000)),
            "workload.delay",
            "a pause between bursts lasts 60 s at most".into(),
        );
        check(
            self.kind == WorkloadKind::Disk && self.burst.is_some() && self.delay.is_none(),
            "workload.burst",
            "a burst of operations is what comes between two pauses: give workload.delay too"
                .into(),
        );
    }
}
