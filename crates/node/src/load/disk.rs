//! Reads and writes of a disk, as IOmeter's access specifications describe them.
//!
//! Every stream is a worker: a thread with a place of its own in the file and a ring of its own, by
//! which it keeps so many operations under way. The file is opened with `O_DIRECT`, so that the page
//! cache of this machine has no part in it. There is no other end; what has ended counts.
//!
//! How long an operation took is recorded of those that began after the warm-up, by this node's own
//! clock since Start, from when it was handed to the kernel to when the worker learnt of its end.

mod bursts;
mod fio;
mod helpers;
mod memory;
mod pattern;
mod queue;
mod ring;
mod target;
mod worker;

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use vioperf_model::sample::{DiskOutcome, LoadOutcome, StreamOutcome};
use vioperf_model::wire::Role;
use vioperf_model::workload::Workload;

use super::histogram::export;
use super::threads::{Threads, join_all};
use super::{Load, LoadControl, LoadError};
use crate::clock::monotonic_ns;
pub(super) use fio::Fio;
use target::Target;
use worker::{Worked, Worker};

/// This load.
pub(crate) struct Disk {
    control: Arc<LoadControl>,
    threads: Threads,
    streams: usize,
    target: Target,
    stage: Stage,
}

enum Stage {
    Ready(Vec<Worker>),
    Working(Vec<JoinHandle<Worked>>),
    Ended,
}

impl Disk {
    pub(crate) fn prepare(
        role: &Role,
        workload: &Workload,
        path: Option<&Path>,
    ) -> Result<Self, LoadError> {
        let target = open(workload, path)?;
        let threads = Threads::of(role, workload)?;
        let file = target.file.try_clone().map_err(LoadError::system("duplicate a file"))?;
        let file = Arc::new(file);
        let streams = usize::from(workload.streams);
        let control = Arc::new(LoadControl::new(streams)?.counting_operations());
        let seed = monotonic_ns();
        let worker = |number: usize| {
            // Far apart, so that no two workers draw the same.
            let seed = seed ^ (number as u64).rotate_right(8);
            Worker::new(number, workload, &target, &file, seed)
        };
        let workers = (0..streams).map(worker).collect::<Result<_, _>>()?;
        Ok(Self { control, threads, streams, target, stage: Stage::Ready(workers) })
    }

    fn outcome(&self, worked: &[Worked]) -> DiskOutcome {
        let first = worked.first();
        DiskOutcome {
            engine: first.map_or_else(Default::default, |one| one.engine),
            fio: None,
            engine_because: first.and_then(|one| one.engine_because.clone()),
            direct: self.target.direct,
            reach_bytes: self.target.reach_bytes,
            size_bytes: self.target.size_bytes,
            reads: export(worked.iter().map(|one| &one.reads)),
            writes: export(worked.iter().map(|one| &one.writes)),
            given_up: worked.iter().map(|one| one.given_up).sum(),
        }
    }
}

/// The disk that a load is for, which has to be one that can be meant.
fn open(workload: &Workload, path: Option<&Path>) -> Result<Target, LoadError> {
    let path = path.ok_or_else(|| LoadError::Parameter {
        what: "disk",
        value: "absent".to_owned(),
        advice: "name the file or block device to read and write".to_owned(),
    })?;
    if let Some(wrong) = workload.contradictions().into_iter().next() {
        let value = format!("as asked ({})", wrong.key);
        return Err(LoadError::Parameter { what: "disk", value, advice: wrong.message });
    }
    Target::open(path, workload)
}

impl Load for Disk {
    fn port(&self) -> Option<u16> {
        None
    }

    fn control(&self) -> &Arc<LoadControl> {
        &self.control
    }

    fn await_peer(&mut self) -> Result<(), LoadError> {
        Ok(())
    }

    fn begin(&mut self) -> Result<(), LoadError> {
        let Stage::Ready(workers) = std::mem::replace(&mut self.stage, Stage::Ended) else {
            return Ok(());
        };
        let start_ns = monotonic_ns();
        let mut threads = Vec::with_capacity(workers.len());
        for (number, worker) in workers.into_iter().enumerate() {
            let spawned = self
                .threads
                .spawn(number, &self.control, move |control| worker.run(start_ns, control))
                // Those threads that there are end by themselves.
                .inspect_err(|_| self.control.stop());
            threads.push(spawned?);
        }
        self.stage = Stage::Working(threads);
        Ok(())
    }

    fn end(&mut self) -> LoadOutcome {
        self.control.stop();
        let Stage::Working(threads) = std::mem::replace(&mut self.stage, Stage::Ended) else {
            return LoadOutcome::default();
        };
        let worked = join_all(threads, &self.control);
        let mut streams = vec![StreamOutcome::default(); self.streams];
        for one in &worked {
            if let Some(stream) = streams.get_mut(one.number) {
                stream.bytes = one.bytes;
            }
        }
        LoadOutcome {
            streams,
            latency: Some(export(worked.iter().flat_map(|one| [&one.reads, &one.writes]))),
            disk: Some(Box::new(self.outcome(&worked))),
            ended_early: self.control.ended_early(),
            ..LoadOutcome::default()
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.control.stop();
        if let Stage::Working(threads) = std::mem::replace(&mut self.stage, Stage::Ended) {
            drop(join_all(threads, &self.control));
        }
    }
}

#[cfg(test)]
mod tests;
