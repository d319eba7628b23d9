//! What the kernel says of payload that was sent with `MSG_ZEROCOPY`: it numbers the calls of each
//! socket and tells on its error queue which of them it is done with
//! (Documentation/networking/msg_zerocopy.rst).

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use vioperf_model::sample::ZerocopyOutcome;

/// Of a note about such calls (linux/errqueue.h).
const SO_EE_ORIGIN_ZEROCOPY: u8 = 5;
/// That their payload was copied all the same (linux/errqueue.h).
const SO_EE_CODE_ZEROCOPY_COPIED: u8 = 1;
/// The most calls that the kernel may still need the payload of: each takes some of the memory that
/// a socket has for such notes (sysctl net.core.optmem_max).
const MOST_UNDER_WAY: u64 = 64;
/// How long it is waited for a note when there are too many.
const WAIT_MS: u8 = 5;
/// Room for one note: a header, `struct sock_extended_err` and the address that follows it.
const CONTROL_BYTES: usize = 128;

/// Counts the calls of one socket, and the notes of them.
#[derive(Debug, Default)]
pub(super) struct Completions {
    outcome: ZerocopyOutcome,
}

/// Memory of control messages, aligned as cmsg(3) wants it.
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

impl Completions {
    /// One more call went out without a copy.
    pub(super) fn expect_one(&mut self) {
        self.outcome.sent += 1;
    }

    /// Reads notes when there may be too many calls under way, and waits for a moment if there are.
    ///
    /// # Errors
    /// `EAGAIN` when there still are.
    pub(super) fn make_room(&mut self, socket: BorrowedFd<'_>) -> Result<(), Errno> {
        if self.under_way() < MOST_UNDER_WAY {
            return Ok(());
        }
        self.read_all(socket);
        if self.under_way() < MOST_UNDER_WAY {
            return Ok(());
        }
        self.wait(socket);
        if self.under_way() < MOST_UNDER_WAY { Ok(()) } else { Err(Errno::EAGAIN) }
    }

    /// Waits for a moment for a note, and reads what there is.
    pub(super) fn wait(&mut self, socket: BorrowedFd<'_>) {
        let mut fds = [PollFd::new(socket.as_fd(), PollFlags::empty())];
        // Whatever it says: reading tells.
        let _ = poll(&mut fds, PollTimeout::from(WAIT_MS));
        self.read_all(socket);
    }

    /// What became of the calls, if there were any.
    pub(super) fn outcome(&self) -> Option<ZerocopyOutcome> {
        (self.outcome.sent > 0).then_some(self.outcome)
    }

    fn under_way(&self) -> u64 {
        self.outcome.sent.saturating_sub(self.outcome.completed)
    }

    /// Reads all notes that there are.
    pub(super) fn read_all(&mut self, socket: BorrowedFd<'_>) {
        let mut control = Control([0; CONTROL_BYTES]);
        while let Some(note) = read_note(socket, &mut control) {
            self.take(&note);
        }
    }

    fn take(&mut self, note: &libc::sock_extended_err) {
        if note.ee_origin != SO_EE_ORIGIN_ZEROCOPY || note.ee_errno != 0 {
            return;
        }
        // From the first call to the last, both counted in 32 bits.
        let calls = u64::from(note.ee_data.wrapping_sub(note.ee_info)) + 1;
        self.outcome.completed += calls;
        if note.ee_code == SO_EE_CODE_ZEROCOPY_COPIED {
            self.outcome.copied += calls;
        }
    }
}

/// One note of the socket's error queue.
fn read_note(socket: BorrowedFd<'_>, control: &mut Control) -> Option<libc::sock_extended_err> {
    // SAFETY: a header of zeros is one without address, parts and control messages.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = CONTROL_BYTES as _;
    const FLAGS: libc::c_int = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: the header points to `control`, which is as long as it says and outlives the call.
    let received = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, FLAGS) };
    if received < 0 {
        return None;
    }
    // SAFETY: the header was written by the kernel, its control memory is borrowed here.
    let place = unsafe { libc::CMSG_FIRSTHDR(&raw const header) };
    if place.is_null() {
        return None;
    }
    // SAFETY: CMSG_FIRSTHDR gives null or a header inside the memory.
    let found = unsafe { *place };
    let is_error = matches!(
        (found.cmsg_level, found.cmsg_type),
        (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR)
    );
    let needed = u32::try_from(size_of::<libc::sock_extended_err>()).ok()?;
    // SAFETY: CMSG_LEN only computes.
    let needed = u64::from(unsafe { libc::CMSG_LEN(needed) });
    if !is_error || u64::try_from(found.cmsg_len).ok()? < needed {
        return None;
    }
    let mut note = MaybeUninit::<libc::sock_extended_err>::uninit();
    // SAFETY: the kernel wrote such a note behind this header, as its length says.
    unsafe {
        std::ptr::copy_nonoverlapping(
            libc::CMSG_DATA(place).cast::<libc::sock_extended_err>(),
            note.as_mut_ptr(),
            1,
        );
        Some(note.assume_init())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(from: u32, to: u32, code: u8) -> libc::sock_extended_err {
        libc::sock_extended_err {
            ee_errno: 0,
            ee_origin: SO_EE_ORIGIN_ZEROCOPY,
            ee_type: 0,
            ee_code: code,
            ee_pad: 0,
            ee_info: from,
            ee_data: to,
        }
    }

    #[test]
    fn notes_are_of_ranges_that_wrap_and_of_nothing_else() {
        let mut completions = Completions::default();
        (0..10).for_each(|_| completions.expect_one());
        completions.take(&note(u32::MAX, 1, 0));
        completions.take(&note(2, 2, SO_EE_CODE_ZEROCOPY_COPIED));
        completions.take(&libc::sock_extended_err { ee_origin: 1, ..note(3, 5, 0) });
        let expected = ZerocopyOutcome { sent: 10, completed: 4, copied: 1 };
        assert_eq!(completions.outcome(), Some(expected));
        assert_eq!(Completions::default().outcome(), None);
    }
}
