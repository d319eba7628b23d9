//! What was asked of a disk. Of a mix of operations the largest size, and shares of all of them.

use vioperf_model::plan::Cell;
use vioperf_model::workload::{OperationKind, Workload, WorkloadKind};

use super::{Kind, Source, Value, integer, source};

pub(super) const SOURCES: &[Source<Cell>] = &[
    source("block_bytes", Kind::Integer, Some("B"), "size of a disk's operations", |c| {
        integer(disk(c)?.largest_block_bytes())
    }),
    source("read_percent", Kind::Real, Some("%"), "of the operations, that read", |c| {
        Some(Value::Real(disk(c)?.read_fraction() * 100.0))
    }),
    source("random_percent", Kind::Real, Some("%"), "of them, that go to a random place", |c| {
        Some(Value::Real(disk(c)?.random_fraction() * 100.0))
    }),
    source("queue_depth", Kind::Integer, None, "operations that a worker keeps under way", |c| {
        integer(disk(c)?.queue_depth())
    }),
    source("alignment_bytes", Kind::Integer, Some("B"), "operations begin at multiples", |c| {
        let alignment = |kind: OperationKind| kind.alignment_bytes;
        integer(disk(c)?.operation_kinds().into_iter().map(alignment).min()?)
    }),
    source("delay_ms", Kind::Real, Some("ms"), "pause after a burst of operations", |c| {
        Some(Value::Real(disk(c)?.delay?.as_duration().as_secs_f64() * 1000.0))
    }),
    source("burst", Kind::Integer, None, "operations between two pauses", |c| {
        integer(disk(c)?.burst?)
    }),
    source("file_bytes", Kind::Integer, Some("B"), "how much of the disk is in reach", |c| {
        integer(disk(c)?.file_size_bytes())
    }),
];

fn disk(cell: &Cell) -> Option<&Workload> {
    Some(&cell.workload).filter(|load| load.kind == WorkloadKind::Disk)
}
