//! Memory that disks read from and write to: whole pages, as `O_DIRECT` needs it.

use std::num::NonZeroUsize;
use std::ptr::NonNull;

use nix::errno::Errno;
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::pattern::Random;
use crate::load::LoadError;

/// What `O_DIRECT` needs on every device.
const PAGE_BYTES: usize = 4096;
/// Writes begin at one of so many places in the memory that they are from, so that not every block of
/// the disk becomes the same.
const WRITTEN_FROM: usize = 256;

/// The memory of one worker: a place for what each operation reads, and one that all writes are from.
pub(super) struct Memory {
    start: NonNull<libc::c_void>,
    mapped_bytes: usize,
    /// Bytes from one place to the next.
    step: usize,
    /// Where the memory begins that writes are from.
    written_from: usize,
}

// SAFETY: the mapping belongs to this value alone, and is not bound to a thread.
unsafe impl Send for Memory {}

impl Memory {
    /// For so many operations at a time, of no more bytes than a block each. What is written is random, so that no device can
    /// make it shorter.
    pub(super) fn new(operations: usize, block: usize, seed: u64) -> Result<Self, LoadError> {
        let step = block.next_multiple_of(PAGE_BYTES);
        let written_from = step.saturating_mul(operations);
        let mapped_bytes = written_from.saturating_add(step + WRITTEN_FROM * PAGE_BYTES);
        let length = NonZeroUsize::new(mapped_bytes).unwrap_or(NonZeroUsize::MIN);
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new private mapping where the kernel likes it; nobody else knows of it.
        let start = unsafe { mmap_anonymous(None, length, protection, MapFlags::MAP_PRIVATE) }
            .map_err(LoadError::system::<Errno>("take memory for a disk's blocks"))?;
        let memory = Self { start, mapped_bytes, step, written_from };
        let mut random = Random(seed);
        for at in (written_from..mapped_bytes).step_by(size_of::<u64>()) {
            // SAFETY: at most eight bytes before the end of the mapping, which is of whole pages,
            // aligned to eight, writable and ours alone.
            unsafe { start.byte_add(at).cast::<u64>().write(random.next()) };
        }
        // What is read is written over this; it is touched now, so that no page is missing later.
        // SAFETY: that many bytes from the start are inside the mapping.
        unsafe { start.cast::<u8>().write_bytes(0, written_from) };
        Ok(memory)
    }

    /// Where an operation reads to.
    pub(super) fn place(&self, operation: usize) -> NonNull<u8> {
        let at = (operation * self.step).min(self.written_from.saturating_sub(self.step));
        // SAFETY: a whole step from there is inside the mapping.
        unsafe { self.start.byte_add(at) }.cast()
    }

    /// What the next operation writes: one of several places, so that blocks differ.
    pub(super) fn written(&self, random: u64) -> NonNull<u8> {
        let page = usize::try_from(random % WRITTEN_FROM as u64).unwrap_or(0);
        // SAFETY: a step and `WRITTEN_FROM` pages are mapped from there.
        unsafe { self.start.byte_add(self.written_from + page * PAGE_BYTES) }.cast()
    }

    /// Keeps it for good: the kernel may still write to it.
    pub(super) fn leak(self) {
        std::mem::forget(self);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: this mapping was made by us, and no operation is under way (else it is leaked).
        let _ = unsafe { munmap(self.start, self.mapped_bytes) };
    }
}
