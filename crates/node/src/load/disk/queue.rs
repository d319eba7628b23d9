//! How a worker hands operations to the kernel and learns that they have ended.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use vioperf_model::sample::DiskEngine;

use super::helpers::Helpers;
use super::memory::Memory;
use super::pattern::Operation;
use super::ring::Ring;
use crate::load::LoadError;

/// An operation that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ended {
    /// Its number among those that may be under way.
    pub(super) number: usize,
    /// Bytes that were moved, or the kernel's error.
    pub(super) moved: Result<usize, i32>,
}

/// An operation as it is handed over. Whoever carries it out may use the memory until it has ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Order {
    pub(super) number: usize,
    pub(super) operation: Operation,
    pub(super) memory: std::ptr::NonNull<u8>,
    pub(super) bytes: usize,
}

// SAFETY: the memory is the worker's; it neither reads nor frees it before the operation has ended.
unsafe impl Send for Order {}

/// Either way of handing operations over.
pub(super) enum Queue {
    Ring(Box<Ring>),
    Helpers(Helpers),
}

impl Queue {
    /// A ring; where the kernel refuses it helpers, and why.
    pub(super) fn new(file: &Arc<File>, depth: u16) -> Result<(Self, Option<String>), LoadError> {
        match Ring::new(file.clone(), depth) {
            Ok(ring) => Ok((Self::Ring(Box::new(ring)), None)),
            Err(why) => {
                let why = format!("the kernel refuses io_uring: {why}");
                Ok((Self::Helpers(Helpers::start(file, depth)?), Some(why)))
            }
        }
    }

    pub(super) fn engine(&self) -> DiskEngine {
        match self {
            Self::Ring(_) => DiskEngine::IoUring,
            Self::Helpers(_) => DiskEngine::Threads,
        }
    }

    /// Makes it the calling thread's.
    pub(super) fn begin(&self) -> io::Result<()> {
        match self {
            Self::Ring(ring) => ring.begin(),
            Self::Helpers(_) => Ok(()),
        }
    }

    /// Makes an operation ready: it is under way at the latest when the worker waits.
    pub(super) fn push(&mut self, order: Order) -> io::Result<()> {
        match self {
            Self::Ring(ring) => ring.push(order),
            Self::Helpers(helpers) => helpers.push(order),
        }
    }

    /// Waits, no longer than that, until an operation has ended, and adds all that have to `ended`.
    pub(super) fn wait(&mut self, most: Duration, ended: &mut Vec<Ended>) -> io::Result<()> {
        match self {
            Self::Ring(ring) => ring.wait(most, ended),
            Self::Helpers(helpers) => helpers.wait(most, ended),
        }
    }
}

/// Where an operation moves to or from.
pub(super) fn order(memory: &Memory, number: usize, operation: Operation, random: u64) -> Order {
    let place = if operation.writes { memory.written(random) } else { memory.place(number) };
    Order { number, operation, memory: place, bytes: operation.bytes }
}
