//! How the threads of a load are counted and stopped.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use nix::sys::eventfd::{EfdFlags, EventFd};
use vioperf_model::sample::{DiskCounters, LoadCounters, LoadThread};

use super::LoadError;

/// What one thread has moved. Written by that thread alone, on cache lines of its own (two, as
/// processors fetch them in pairs), so that counting costs no traffic between cores.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct ThreadCounters {
    bytes: AtomicU64,
    calls: AtomicU64,
    datagrams: AtomicU64,
    transactions: AtomicU64,
    reads: AtomicU64,
    writes: AtomicU64,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
}

impl ThreadCounters {
    /// Counts one call. For the owning thread only: no read-modify-write is needed then.
    pub(crate) fn count(&self, bytes: u64) {
        self.bytes.store(self.bytes.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
        self.calls.store(self.calls.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Counts one call that moved so many datagrams. For the owning thread only.
    pub(crate) fn count_datagrams(&self, bytes: u64, datagrams: u64) {
        self.count(bytes);
        let before = self.datagrams.load(Ordering::Relaxed);
        self.datagrams.store(before + datagrams, Ordering::Relaxed);
    }

    /// Counts an operation of a disk that ended. For the owning thread only.
    pub(crate) fn count_operation(&self, writes: bool, bytes: u64) {
        self.count(bytes);
        let (operations, moved) = match writes {
            true => (&self.writes, &self.bytes_written),
            false => (&self.reads, &self.bytes_read),
        };
        operations.store(operations.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        moved.store(moved.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
    }

    /// What it has moved so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    fn operations(&self) -> DiskCounters {
        DiskCounters {
            reads: self.reads.load(Ordering::Relaxed),
            writes: self.writes.load(Ordering::Relaxed),
            bytes_read: self.bytes_read.load(Ordering::Relaxed),
            bytes_written: self.bytes_written.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn transactions(&self) -> u64 {
        self.transactions.load(Ordering::Relaxed)
    }

    /// Counts transactions that ended. For the owning thread only.
    pub(crate) fn count_transactions(&self, transactions: u64) {
        let before = self.transactions.load(Ordering::Relaxed);
        self.transactions.store(before + transactions, Ordering::Relaxed);
    }
}

/// Shared between a load's threads, the sampler and the message loop.
#[derive(Debug)]
pub(crate) struct LoadControl {
    counters: Vec<ThreadCounters>,
    counts_datagrams: bool,
    counts_transactions: bool,
    counts_operations: bool,
    /// What a program beside this one has told of its load, in place of the counters of threads.
    told: Option<Mutex<LoadCounters>>,
    stopping: AtomicBool,
    abandoned: AtomicBool,
    arrived: AtomicUsize,
    ended_early: Mutex<Option<String>>,
    ended_threads: Mutex<Vec<LoadThread>>,
    /// Readable from the moment of stopping, for threads that sleep in epoll or poll.
    wake: EventFd,
}

impl LoadControl {
    pub(crate) fn new(threads: usize) -> Result<Self, LoadError> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        Ok(Self {
            counters: std::iter::repeat_with(ThreadCounters::default).take(threads).collect(),
            counts_datagrams: false,
            counts_transactions: false,
            counts_operations: false,
            told: None,
            stopping: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
            arrived: AtomicUsize::new(0),
            ended_early: Mutex::new(None),
            ended_threads: Mutex::new(Vec::new()),
            wake: EventFd::from_value_and_flags(0, flags)
                .map_err(LoadError::system("create an eventfd"))?,
        })
    }

    /// That the load is one of datagrams.
    pub(crate) fn counting_datagrams(mut self) -> Self {
        self.counts_datagrams = true;
        self
    }

    /// That the load is one of transactions.
    pub(crate) fn counting_transactions(mut self) -> Self {
        self.counts_transactions = true;
        self
    }

    /// That the load is one of a disk's operations.
    pub(crate) fn counting_operations(mut self) -> Self {
        self.counts_operations = true;
        self
    }

    /// That another program does the load, and tells of it by [`LoadControl::tell`].
    pub(crate) fn told_by_another(mut self) -> Self {
        self.told = Some(Mutex::new(self.moved()));
        self
    }

    /// What another program has moved so far.
    pub(crate) fn tell(&self, moved: LoadCounters) {
        if let Some(told) = &self.told {
            *told.lock().unwrap_or_else(PoisonError::into_inner) = moved;
        }
    }

    /// The counters of each thread.
    pub(crate) fn counters(&self) -> &[ThreadCounters] {
        &self.counters
    }

    /// What all threads have moved so far.
    pub(crate) fn moved(&self) -> LoadCounters {
        if let Some(told) = &self.told {
            return *told.lock().unwrap_or_else(PoisonError::into_inner);
        }
        let none = LoadCounters {
            datagrams: self.counts_datagrams.then_some(0),
            transactions: self.counts_transactions.then_some(0),
            disk: self.counts_operations.then(DiskCounters::default),
            ..LoadCounters::default()
        };
        self.counters.iter().fold(none, |sum, thread| LoadCounters {
            bytes: sum.bytes + thread.bytes.load(Ordering::Relaxed),
            calls: sum.calls + thread.calls.load(Ordering::Relaxed),
            datagrams: sum.datagrams.map(|sum| sum + thread.datagrams.load(Ordering::Relaxed)),
            transactions: sum
                .transactions
                .map(|sum| sum + thread.transactions.load(Ordering::Relaxed)),
            disk: sum.disk.map(|sum| {
                let more = thread.operations();
                DiskCounters {
                    reads: sum.reads + more.reads,
                    writes: sum.writes + more.writes,
                    bytes_read: sum.bytes_read + more.bytes_read,
                    bytes_written: sum.bytes_written + more.bytes_written,
                }
            }),
            counted_at_ns: None,
        })
    }

    /// Tells every thread to end.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        // Fails only when the counter is full, and then it is readable as wanted.
        let _ = self.wake.write(1);
    }

    /// Tells every thread to end and to close its connections: nobody asked in time.
    pub(crate) fn abandon(&self, reason: String) {
        self.note_early_end(reason);
        self.abandoned.store(true, Ordering::Release);
        self.stop();
    }

    pub(crate) fn stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    pub(crate) fn abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Acquire)
    }

    /// Remembers how many connections stand, for a message when they are too few.
    pub(crate) fn note_arrived(&self, connections: usize) {
        self.arrived.store(connections, Ordering::Relaxed);
    }

    pub(crate) fn arrived(&self) -> usize {
        self.arrived.load(Ordering::Relaxed)
    }

    /// Remembers why the load did not run to its end; the first reason is the cause of the others.
    pub(crate) fn note_early_end(&self, reason: String) {
        let mut noted = self.ended_early.lock().unwrap_or_else(PoisonError::into_inner);
        noted.get_or_insert(reason);
    }

    pub(crate) fn ended_early(&self) -> Option<String> {
        self.ended_early.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Remembers what became of a thread's time.
    pub(crate) fn note_thread(&self, thread: LoadThread) {
        self.ended_threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
    }

    /// Of every thread that has ended.
    pub(crate) fn ended_threads(&self) -> Vec<LoadThread> {
        self.ended_threads.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Becomes readable when the load shall stop, and stays so.
    pub(crate) fn wake(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}
