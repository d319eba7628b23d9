//! Where a sender's payload comes from, and how the kernel gets it.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::errno::Errno;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::sendfile::sendfile64;
use nix::sys::socket::{MsgFlags, send};
use vioperf_model::sample::ZerocopyOutcome;
use vioperf_model::workload::SendWay;

use super::completions::Completions;
use super::piped_pages::PipedPages;
use crate::load::LoadError;
use crate::load::socket_options::set_number;

/// What payload is made of. Not zeros: pages that were never written share one, which no real payload
/// does.
const BYTE: u8 = 0x5a;
const ZEROCOPY: MsgFlags = MsgFlags::from_bits_retain(libc::MSG_ZEROCOPY);

/// One thread's payload.
pub(super) enum Source {
    /// Copied by `send`.
    Copy(Vec<u8>),
    /// Sent as it lies there. Nobody writes to it, so that it does not matter when the kernel is done.
    Zerocopy(Vec<u8>),
    /// A file in memory, and its length.
    File(File, usize),
    /// Pages that are put into a pipe, and on from there.
    Pipe(PipedPages),
}

impl Source {
    /// Payload for one call at a time.
    pub(super) fn new(way: SendWay, message_bytes: usize) -> Result<Self, LoadError> {
        Ok(match way {
            SendWay::Copy => Self::Copy(vec![BYTE; message_bytes]),
            SendWay::Zerocopy => Self::Zerocopy(vec![BYTE; message_bytes]),
            SendWay::Sendfile => Self::File(file_in_memory(message_bytes)?, message_bytes),
            SendWay::Splice => Self::Pipe(PipedPages::new(BYTE)?),
        })
    }

    /// Hands the kernel up to so many bytes of a message; how many it took.
    pub(super) fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        completions: &mut Completions,
        most: usize,
        flags: MsgFlags,
    ) -> Result<usize, Errno> {
        // A broken pipe is an errno, no signal; sendfile has no flags, but Rust ignores the signal.
        let flags = flags | MsgFlags::MSG_NOSIGNAL;
        match self {
            Self::Copy(payload) => {
                send(socket.as_raw_fd(), payload.get(..most).unwrap_or(payload), flags)
            }
            Self::Zerocopy(payload) => {
                completions.make_room(socket)?;
                let payload = payload.get(..most).unwrap_or(payload);
                let taken = send(socket.as_raw_fd(), payload, flags | ZEROCOPY)?;
                completions.expect_one();
                Ok(taken)
            }
            Self::File(file, length) => {
                let mut from = 0;
                sendfile64(socket, file, Some(&mut from), most.min(*length))
            }
            Self::Pipe(pages) => pages.send(socket, most),
        }
    }
}

/// Lets a socket be sent on without copying, where that is asked for.
pub(super) fn allow(way: SendWay, socket: BorrowedFd<'_>) -> Result<(), LoadError> {
    if way == SendWay::Zerocopy {
        set_number(socket, libc::SOL_SOCKET, libc::SO_ZEROCOPY, 1)
            .map_err(LoadError::refused("SO_ZEROCOPY (send = \"zerocopy\")"))?;
    }
    Ok(())
}

/// The sum of what became of all connections.
pub(super) fn together(
    each: impl Iterator<Item = Option<ZerocopyOutcome>>,
) -> Option<ZerocopyOutcome> {
    each.flatten().reduce(|a, b| ZerocopyOutcome {
        sent: a.sent + b.sent,
        completed: a.completed + b.completed,
        copied: a.copied + b.copied,
    })
}

fn file_in_memory(bytes: usize) -> Result<File, LoadError> {
    let file = memfd_create("payload", MFdFlags::MFD_CLOEXEC)
        .map_err(LoadError::system("make a file in memory (send = \"sendfile\")"))?;
    let mut file = File::from(file);
    let chunk = vec![BYTE; bytes.min(64 << 10)];
    let mut left = bytes;
    while left > 0 {
        let written = file
            .write(chunk.get(..left.min(chunk.len())).unwrap_or(&chunk))
            .map_err(LoadError::system("fill a file in memory (send = \"sendfile\")"))?;
        left = left.saturating_sub(written);
    }
    Ok(file)
}
