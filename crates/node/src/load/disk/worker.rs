//! One worker: it keeps operations under way and counts those that end.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use vioperf_model::sample::DiskEngine;
use vioperf_model::workload::Workload;

use super::bursts::Bursts;
use super::memory::Memory;
use super::pattern::{Operation, Pattern, Random};
use super::queue::{Ended, Queue, order};
use super::target::Target;
use crate::clock::monotonic_ns;
use crate::load::control::ThreadCounters;
use crate::load::histogram::Latencies;
use crate::load::schedule::sleep_until;
use crate::load::{LoadControl, LoadError};

/// How long it waits for an operation before it looks whether it shall end.
const TICK: Duration = Duration::from_millis(100);
/// How long operations that are under way when it shall end are waited for.
const GIVE_UP_AFTER_NS: u64 = 2_000_000_000;

/// A worker that is ready.
pub(super) struct Worker {
    number: usize,
    pattern: Pattern,
    bursts: Bursts,
    random: Random,
    memory: Memory,
    queue: Queue,
    /// Why the queue is no ring.
    queue_because: Option<String>,
    /// Of every operation that may be under way: when it began and what it does.
    under_way: Vec<Option<(u64, Operation)>>,
    /// The numbers of those that are not.
    free: Vec<usize>,
    warmup_ns: u64,
    reads: Latencies,
    writes: Latencies,
}

/// What a worker did.
pub(super) struct Worked {
    pub(super) number: usize,
    pub(super) bytes: u64,
    pub(super) reads: Latencies,
    pub(super) writes: Latencies,
    pub(super) given_up: u64,
    pub(super) engine: DiskEngine,
    pub(super) engine_because: Option<String>,
}

impl Worker {
    pub(super) fn new(
        number: usize,
        workload: &Workload,
        target: &Target,
        file: &Arc<File>,
        seed: u64,
    ) -> Result<Self, LoadError> {
        let depth = workload.queue_depth();
        let block = usize::try_from(workload.largest_block_bytes()).unwrap_or(usize::MAX);
        let nanoseconds = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        let delay = workload.delay.map_or(0, |delay| nanoseconds(delay.as_duration()));
        let (queue, queue_because) = Queue::new(file, depth)?;
        Ok(Self {
            number,
            pattern: Pattern::of(workload, target.reach_bytes, seed),
            bursts: Bursts::new(workload.burst.unwrap_or(1).into(), delay),
            random: Random(!seed),
            memory: Memory::new(depth.into(), block, seed)?,
            queue,
            queue_because,
            under_way: vec![None; depth.into()],
            free: (0..usize::from(depth)).rev().collect(),
            warmup_ns: nanoseconds(workload.warmup.as_duration()),
            reads: Latencies::new()?,
            writes: Latencies::new()?,
        })
    }

    /// Works until it shall stop, then waits for what is under way, but not for ever.
    pub(super) fn run(mut self, start_ns: u64, control: &LoadControl) -> Worked {
        let measured_from = start_ns.saturating_add(self.warmup_ns);
        let mut ended = Vec::new();
        let mut stopping_since = None;
        if let Err(error) = self.queue.begin() {
            self.fail(control, &format!("cannot take the ring over: {error}"));
        }
        loop {
            if control.stopping() {
                let since = *stopping_since.get_or_insert_with(monotonic_ns);
                let waited = monotonic_ns().saturating_sub(since);
                if self.count_under_way() == 0 || waited > GIVE_UP_AFTER_NS {
                    break;
                }
            } else if let Err(error) = self.begin() {
                self.fail(control, &format!("cannot begin an operation: {error}"));
            }
            if self.count_under_way() == 0 {
                sleep_until(self.bursts.begins_at_ns(), control.wake());
                continue;
            }
            if let Err(error) = self.queue.wait(TICK, &mut ended) {
                self.fail(control, &format!("cannot wait for an operation: {error}"));
                break;
            }
            let counters = control.counters().get(self.number);
            for one in ended.drain(..) {
                if let Err(reason) = self.end(one, measured_from, counters) {
                    self.fail(control, &reason);
                }
            }
        }
        self.finish(control)
    }

    /// Begins what may begin now.
    fn begin(&mut self) -> std::io::Result<()> {
        while let Some(number) = self.free.last().copied() {
            let now = monotonic_ns();
            if !self.bursts.allow(now) {
                break;
            }
            let operation = self.pattern.next();
            let random = if operation.writes { self.random.next() } else { 0 };
            self.queue.push(order(&self.memory, number, operation, random))?;
            self.free.pop();
            if let Some(place) = self.under_way.get_mut(number) {
                *place = Some((now, operation));
            }
            self.bursts.begun();
        }
        Ok(())
    }

    fn count_under_way(&self) -> usize {
        self.under_way.len() - self.free.len()
    }

    /// Counts one that has ended; what was wrong with it, if something was.
    fn end(
        &mut self,
        one: Ended,
        measured_from: u64,
        counters: Option<&ThreadCounters>,
    ) -> Result<(), String> {
        let now = monotonic_ns();
        let place = self.under_way.get_mut(one.number);
        let Some((began, operation)) = place.and_then(Option::take) else { return Ok(()) };
        self.free.push(one.number);
        let under_way = self.count_under_way();
        self.bursts.ended(now, under_way);
        match one.moved {
            Ok(bytes) if bytes == operation.bytes => {}
            Ok(bytes) => return Err(short(operation, bytes)),
            Err(errno) => return Err(failed(operation, Errno::from_raw(errno))),
        }
        if let Some(counters) = counters {
            counters.count_operation(operation.writes, operation.bytes as u64);
        }
        if began >= measured_from {
            let latencies = if operation.writes { &mut self.writes } else { &mut self.reads };
            latencies.record(now.saturating_sub(began));
        }
        Ok(())
    }

    /// A disk that fails is no disk to be measured: all workers end.
    fn fail(&self, control: &LoadControl, reason: &str) {
        control.note_early_end(reason.to_owned());
        control.stop();
    }

    fn finish(self, control: &LoadControl) -> Worked {
        let given_up = self.count_under_way() as u64;
        if given_up > 0 {
            let seconds = GIVE_UP_AFTER_NS / 1_000_000_000;
            control.note_early_end(format!(
                "{given_up} operations of the disk had not ended {seconds} s after the load: does the \
                 device still answer? The kernel's log tells (dmesg)"
            ));
            // The kernel may still move them.
            self.memory.leak();
        }
        let counters = control.counters().get(self.number);
        Worked {
            number: self.number,
            bytes: counters.map_or(0, ThreadCounters::bytes),
            reads: self.reads,
            writes: self.writes,
            given_up,
            engine: self.queue.engine(),
            engine_because: self.queue_because,
        }
    }
}

fn verb(operation: Operation) -> &'static str {
    if operation.writes { "write" } else { "read" }
}

fn short(operation: Operation, bytes: usize) -> String {
    format!(
        "a {} of {} bytes at {} ended after {bytes}: has the file become shorter?",
        verb(operation),
        operation.bytes,
        operation.offset
    )
}

fn failed(operation: Operation, errno: Errno) -> String {
    let advice = match errno {
        Errno::EINVAL => {
            "; with O_DIRECT block_size and alignment have to be multiples of the device's sector \
             (/sys/block/*/queue/logical_block_size)"
        }
        Errno::ENOSPC => "; there is no room behind the file: give it more, or ask for less",
        _ => "; the kernel's log tells more (dmesg)",
    };
    let (verb, Operation { bytes, offset, .. }) = (verb(operation), operation);
    format!("a {verb} of {bytes} bytes at {offset} failed: {}{advice}", errno.desc())
}
