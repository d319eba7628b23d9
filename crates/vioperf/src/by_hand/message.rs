//! What a visitor and a lab say to each other: one message each, and descriptors with the answer.
//!
//! Both are the same user's, and the same program in most cases; a lab that was made by another version says so by not being
//! understood.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use nix::cmsg_space;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use vioperf_lab::visit::DOORS;

use super::parts::Description;

/// The longest message.
const MOST_BYTES: usize = 64 << 10;

/// From a visitor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// What stands? Answered by [`Answer::Description`].
    Describe,
    /// The way into a part. Answered by [`Answer::Doors`] or [`Answer::Channel`].
    Enter {
        /// What it is called.
        part: String,
    },
}

/// From a lab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// What stands.
    Description(Description),
    /// With it come descriptors of namespaces.
    Doors,
    /// With it comes a channel to a guest that serves a shell, for as long as the visitor's own socket is open.
    Channel,
    /// It cannot be had.
    Refused(String),
}

/// Why a message did not come or go.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    /// Nobody is there any more.
    #[error("the lab has gone down")]
    Gone,
    /// Nothing came in time.
    #[error("the lab does not answer within {} s: `vioperf lab down` ends it", .0.as_secs())]
    Silent(Duration),
    /// What came is not understood.
    #[error(
        "what came is not understood ({0}): are the lab and this program of one version of vioperf?"
    )]
    Malformed(String),
    /// The socket failed.
    #[error("the socket of the lab: {0}")]
    Io(#[from] io::Error),
}

/// Sends a message, with descriptors.
///
/// # Errors
/// [`MessageError`].
pub fn send<T: Serialize>(
    socket: &OwnedFd,
    message: &T,
    descriptors: &[RawFd],
) -> Result<(), MessageError> {
    let text = serde_json::to_vec(message).map_err(io::Error::from)?;
    let rights = [ControlMessage::ScmRights(descriptors)];
    let rights = if descriptors.is_empty() { &[] } else { rights.as_slice() };
    match sendmsg::<()>(
        socket.as_raw_fd(),
        &[IoSlice::new(&text)],
        rights,
        MsgFlags::MSG_NOSIGNAL,
        None,
    ) {
        Ok(_) => Ok(()),
        Err(Errno::EPIPE | Errno::ECONNRESET) => Err(MessageError::Gone),
        Err(errno) => Err(MessageError::Io(errno.into())),
    }
}

/// Receives a message with its descriptors, within a bound.
///
/// # Errors
/// [`MessageError`].
pub fn receive<T: DeserializeOwned>(
    socket: &OwnedFd,
    bound: Duration,
) -> Result<(T, Vec<OwnedFd>), MessageError> {
    await_readable(socket.as_fd(), bound)?;
    let mut bytes = vec![0; MOST_BYTES];
    let mut space = cmsg_space!([RawFd; DOORS]);
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let flags = MsgFlags::MSG_CMSG_CLOEXEC | MsgFlags::MSG_DONTWAIT;
    let received = recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut space), flags);
    let received = match received {
        Ok(received) => received,
        Err(Errno::ECONNRESET) => return Err(MessageError::Gone),
        Err(errno) => return Err(MessageError::Io(errno.into())),
    };
    let length = received.bytes;
    let mut descriptors = Vec::new();
    for message in received.cmsgs().map_err(io::Error::from)? {
        if let ControlMessageOwned::ScmRights(numbers) = message {
            // SAFETY: the kernel has just opened them for us alone.
            descriptors
                .extend(numbers.into_iter().map(|number| unsafe { OwnedFd::from_raw_fd(number) }));
        }
    }
    if length == 0 {
        return Err(MessageError::Gone);
    }
    let message = serde_json::from_slice(bytes.get(..length).unwrap_or_default());
    let message = message.map_err(|error| MessageError::Malformed(error.to_string()))?;
    Ok((message, descriptors))
}

fn await_readable(socket: BorrowedFd<'_>, bound: Duration) -> Result<(), MessageError> {
    let deadline = Instant::now() + bound;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(socket, PollFlags::POLLIN)], timeout) {
            Ok(0) if left.is_zero() => return Err(MessageError::Silent(bound)),
            Ok(0) | Err(Errno::EINTR) => {}
            Ok(_) => return Ok(()),
            Err(errno) => return Err(MessageError::Io(errno.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;

    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};

    use super::*;

    const BOUND: Duration = Duration::from_secs(5);

    fn pair() -> (OwnedFd, OwnedFd) {
        socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC).unwrap()
    }

    #[test]
    fn descriptors_come_with_the_answer() {
        let (here, there) = pair();
        let file = File::open("/proc/self/comm").unwrap();
        send(&there, &Answer::Doors, &[file.as_raw_fd()]).unwrap();
        let (answer, mut descriptors) = receive::<Answer>(&here, BOUND).unwrap();
        assert_eq!((answer, descriptors.len()), (Answer::Doors, 1));
        let mut text = String::new();
        File::from(descriptors.remove(0)).read_to_string(&mut text).unwrap();
        assert!(!text.is_empty());
    }

    #[test]
    fn silence_nonsense_and_the_end_are_told_apart() {
        let (here, there) = pair();
        let bound = Duration::from_millis(20);
        assert!(matches!(receive::<Answer>(&here, bound), Err(MessageError::Silent(_))));
        send(&there, &"what?", &[]).unwrap();
        assert!(matches!(receive::<Answer>(&here, BOUND), Err(MessageError::Malformed(_))));
        drop(there);
        assert!(matches!(receive::<Answer>(&here, BOUND), Err(MessageError::Gone)));
        assert!(matches!(send(&here, &Request::Describe, &[]), Err(MessageError::Gone)));
    }
}
