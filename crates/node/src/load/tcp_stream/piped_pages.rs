//! Payload that is never copied: pages of this process go into a pipe (vmsplice(2)) and from there to
//! sockets (splice(2)), which hold on to them until the peer has them.
//!
//! The memory is one huge page, where the kernel has such: pages that follow each other are one
//! fragment of a packet then, in place of sixteen.

use std::io::IoSlice;
use std::num::NonZeroUsize;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, SpliceFFlags, fcntl, splice, vmsplice};
use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, munmap};
use nix::unistd::pipe2;

use crate::load::LoadError;

/// The size of a huge page.
const HUGE_PAGE: usize = 2 << 20;
/// What a pipe may hold without privileges (sysctl fs.pipe-max-size).
const PIPE_BYTES: usize = 1 << 20;

/// Memory that is only read from now on, in one huge page.
struct Pages {
    start: NonNull<libc::c_void>,
    mapped_bytes: usize,
    /// Where the huge page begins in it.
    offset: usize,
}

// SAFETY: nobody writes to the memory after it was made.
unsafe impl Send for Pages {}

impl Pages {
    fn filled_with(byte: u8) -> Result<Self, LoadError> {
        let failed = LoadError::system::<Errno>;
        // Twice as much as needed, so that a whole huge page is in it somewhere.
        let mapped_bytes = 2 * HUGE_PAGE;
        let length = NonZeroUsize::new(mapped_bytes).unwrap_or(NonZeroUsize::MIN);
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new private mapping where the kernel likes it; nobody else knows of it.
        let start = unsafe { mmap_anonymous(None, length, protection, MapFlags::MAP_PRIVATE) }
            .map_err(failed("take memory for payload"))?;
        let offset = start.as_ptr().align_offset(HUGE_PAGE).min(HUGE_PAGE);
        let pages = Self { start, mapped_bytes, offset };
        // SAFETY: inside the mapping, which is alive. Without huge pages it is only slower.
        let _ = unsafe { madvise(pages.begin(), HUGE_PAGE, MmapAdvise::MADV_HUGEPAGE) };
        // SAFETY: PIPE_BYTES from there are inside the mapping, which is writable and ours alone.
        unsafe { std::ptr::write_bytes(pages.begin().as_ptr().cast::<u8>(), byte, PIPE_BYTES) };
        Ok(pages)
    }

    fn begin(&self) -> NonNull<libc::c_void> {
        // SAFETY: the offset is at most half of what is mapped.
        unsafe { self.start.byte_add(self.offset) }
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: PIPE_BYTES from there were written when it was made, are never written to again,
        // and live as long as `self`.
        unsafe { std::slice::from_raw_parts(self.begin().as_ptr().cast::<u8>(), PIPE_BYTES) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: this mapping was made by us and nobody has a reference any more; pages that the
        // kernel still sends are held by it.
        let _ = unsafe { munmap(self.start, self.mapped_bytes) };
    }
}

/// A pipe that is filled with the same pages again and again. What one connection leaves in it goes
/// to the next: it is all the same.
pub(super) struct PipedPages {
    pages: Pages,
    reader: OwnedFd,
    writer: OwnedFd,
    /// What is in the pipe.
    waiting: usize,
}

impl PipedPages {
    pub(super) fn new(byte: u8) -> Result<Self, LoadError> {
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)
            .map_err(LoadError::system("make a pipe (send = \"splice\")"))?;
        // A smaller pipe only takes more calls.
        let size = i32::try_from(PIPE_BYTES).unwrap_or(i32::MAX);
        let _ = fcntl(&writer, FcntlArg::F_SETPIPE_SZ(size));
        Ok(Self { pages: Pages::filled_with(byte)?, reader, writer, waiting: 0 })
    }

    /// Hands the kernel up to so many bytes; how many it took.
    pub(super) fn send(&mut self, socket: BorrowedFd<'_>, most: usize) -> Result<usize, Errno> {
        if self.waiting == 0 {
            let pages = self.pages.bytes();
            let part = IoSlice::new(pages.get(..most).unwrap_or(pages));
            self.waiting = vmsplice(&self.writer, &[part], SpliceFFlags::SPLICE_F_NONBLOCK)?;
        }
        let length = most.min(self.waiting);
        let flags = SpliceFFlags::SPLICE_F_NONBLOCK;
        let taken = splice(&self.reader, None, socket, None, length, flags)?;
        self.waiting = self.waiting.saturating_sub(taken);
        Ok(taken)
    }
}
