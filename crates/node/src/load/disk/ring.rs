//! Operations by io_uring(7): one system call hands over what is due and waits for what has ended.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode};

use super::queue::{Ended, Order};

/// The ring of one worker.
pub(super) struct Ring {
    ring: IoUring,
    file: Arc<File>,
}

impl Ring {
    /// With room for so many operations; an error where the kernel has no io_uring (before Linux 5.11 in
    /// this form) or does not allow it (sysctl kernel.io_uring_disabled, seccomp).
    pub(super) fn new(file: Arc<File>, depth: u16) -> io::Result<Self> {
        let entries = u32::from(depth).next_power_of_two();
        // Kernels before Linux 6.1 do not know all that is asked for.
        let ring = for_one_thread(entries).or_else(|_| IoUring::new(entries))?;
        if !ring.params().is_feature_ext_arg() {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "it cannot wait for a limited time (Linux 5.11)",
            ));
        }
        Ok(Self { ring, file })
    }

    /// Makes it the calling thread's, who alone may use it from then on.
    pub(super) fn begin(&self) -> io::Result<()> {
        if self.ring.params().is_setup_single_issuer() {
            self.ring.submitter().register_enable_rings()?;
        }
        Ok(())
    }

    pub(super) fn push(&mut self, order: Order) -> io::Result<()> {
        let fd = Fd(self.file.as_raw_fd());
        let bytes = u32::try_from(order.bytes).unwrap_or(u32::MAX);
        let (memory, offset) = (order.memory.as_ptr(), order.operation.offset);
        let entry = if order.operation.writes {
            opcode::Write::new(fd, memory.cast_const(), bytes).offset(offset).build()
        } else {
            opcode::Read::new(fd, memory, bytes).offset(offset).build()
        };
        let entry = entry.user_data(order.number as u64);
        // SAFETY: the file lives as long as the ring; the memory is the worker's, which frees it only
        // when no operation is under way, and else never.
        unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)
    }

    pub(super) fn wait(&mut self, most: Duration, ended: &mut Vec<Ended>) -> io::Result<()> {
        let time = Timespec::from(most);
        let outcome = self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&time));
        match outcome.map_err(|error| (error.raw_os_error(), error)) {
            Ok(_) | Err((Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN), _)) => {}
            Err((_, error)) => return Err(error),
        }
        ended.extend(self.ring.completion().map(|entry| Ended {
            number: usize::try_from(entry.user_data()).unwrap_or(usize::MAX),
            moved: usize::try_from(entry.result()).map_err(|_| entry.result().saturating_neg()),
        }));
        Ok(())
    }
}

/// A ring of one thread, to be had from [`Ring::begin`] on. What an operation's end takes is done when that thread asks for
/// it, and not in between: without an interrupt of the core, and no later, as it does nothing else.
fn for_one_thread(entries: u32) -> io::Result<IoUring> {
    IoUring::builder()
        .setup_r_disabled()
        .setup_single_issuer()
        .setup_coop_taskrun()
        .setup_defer_taskrun()
        .build(entries)
}
