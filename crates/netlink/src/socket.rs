//! The socket: one request, its answers, its acknowledgement.

use std::fs::File;
use std::io;
use std::time::Duration;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::protocols::NETLINK_ROUTE;
use nix::errno::Errno;
use nix::sched::{CloneFlags, setns};
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::{TimeVal, TimeValLike};

use crate::link::NamespaceRef;
use crate::{NetlinkError, Result};

/// How long an answer may take. The kernel answers within the send call; only a bug is slower.
const ANSWER_BOUND: Duration = Duration::from_secs(10);

/// A rtnetlink socket of one network namespace.
pub struct Socket {
    socket: netlink_sys::Socket,
    sequence: u32,
}

/// What a request is about, for its error.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub operation: &'static str,
    pub interface: &'a str,
}

impl std::fmt::Debug for Socket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Socket").field("sequence", &self.sequence).finish_non_exhaustive()
    }
}

impl Socket {
    /// Opens a socket in the network namespace of the calling thread.
    ///
    /// # Errors
    /// [`NetlinkError::Socket`] when there is no NETLINK_ROUTE, or no descriptor left.
    pub fn open() -> Result<Self> {
        let failed = |step| move |source| NetlinkError::Socket { step, source };
        let mut socket = netlink_sys::Socket::new(NETLINK_ROUTE).map_err(failed("open"))?;
        socket.bind_auto().map_err(failed("bind"))?;
        let seconds = i64::try_from(ANSWER_BOUND.as_secs()).unwrap_or(i64::MAX);
        setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::seconds(seconds))
            .map_err(|errno| failed("set a time-out")(errno.into()))?;
        // Only adds the kernel's own words to errors, so a kernel without it (before 4.12) is fine.
        let _ = socket.set_ext_ack(true);
        Ok(Self { socket, sequence: 0 })
    }

    /// Opens a socket in another network namespace; the calling thread stays where it is.
    ///
    /// # Errors
    /// [`NetlinkError::Socket`] when the namespace is gone or may not be entered (that takes
    /// CAP_SYS_ADMIN over it), else as [`Socket::open`].
    pub fn open_in(namespace: NamespaceRef<'_>) -> Result<Self> {
        // A namespace is entered by a thread, not by a process (setns(2)): one for this alone.
        let there = || -> Result<Self> {
            let entered = match namespace {
                NamespaceRef::Fd(fd) => setns(fd, CloneFlags::CLONE_NEWNET).map_err(Into::into),
                NamespaceRef::Pid(pid) => File::open(format!("/proc/{pid}/ns/net"))
                    .and_then(|file| Ok(setns(file, CloneFlags::CLONE_NEWNET)?)),
            };
            entered
                .map_err(|source| NetlinkError::Socket { step: "enter its namespace", source })?;
            Self::open()
        };
        let panicked = |_| NetlinkError::Socket {
            step: "enter its namespace",
            source: io::Error::other("the thread that was to enter it panicked"),
        };
        std::thread::scope(|scope| scope.spawn(there).join().map_err(panicked))?
    }

    /// Asks for a change and waits until the kernel has made it.
    pub(crate) fn change(
        &mut self,
        subject: Subject<'_>,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> Result<()> {
        self.request(subject, message, NLM_F_REQUEST | NLM_F_ACK | flags).map(drop)
    }

    /// Asks for one object.
    pub(crate) fn get(
        &mut self,
        subject: Subject<'_>,
        message: RouteNetlinkMessage,
    ) -> Result<Vec<RouteNetlinkMessage>> {
        self.request(subject, message, NLM_F_REQUEST | NLM_F_ACK)
    }

    /// Asks for all objects of a kind.
    pub(crate) fn dump(
        &mut self,
        operation: &'static str,
        message: RouteNetlinkMessage,
    ) -> Result<Vec<RouteNetlinkMessage>> {
        let subject = Subject { operation, interface: "*" };
        self.request(subject, message, NLM_F_REQUEST | NLM_F_DUMP)
    }

    fn request(
        &mut self,
        subject: Subject<'_>,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> Result<Vec<RouteNetlinkMessage>> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = flags;
        header.sequence_number = self.sequence;
        let mut packet = NetlinkMessage::new(header, NetlinkPayload::from(message));
        packet.finalize();
        let mut bytes = vec![0; packet.buffer_len()];
        packet.serialize(&mut bytes);
        loop {
            match self.socket.send(&bytes, 0) {
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(NetlinkError::Socket { step: "send", source }),
            }
        }
        self.answers(subject)
    }

    /// Collects answers until the acknowledgement, the end of the dump or an error.
    fn answers(&mut self, subject: Subject<'_>) -> Result<Vec<RouteNetlinkMessage>> {
        let mut found = Vec::new();
        loop {
            let bytes = match self.socket.recv_from_full() {
                Ok((bytes, _)) => bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(source) => return Err(NetlinkError::Socket { step: "receive", source }),
            };
            if self.take(subject, &bytes, &mut found)? {
                return Ok(found);
            }
        }
    }

    /// Takes one datagram of answers apart; true when the request is answered.
    fn take(
        &self,
        subject: Subject<'_>,
        bytes: &[u8],
        found: &mut Vec<RouteNetlinkMessage>,
    ) -> Result<bool> {
        let unreadable =
            |reason: String| NetlinkError::Unreadable { operation: subject.operation, reason };
        let mut rest = bytes;
        while !rest.is_empty() {
            let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest)
                .map_err(|error| unreadable(error.to_string()))?;
            let length = usize::try_from(answer.header.length).unwrap_or(usize::MAX);
            let this = rest.get(..length).unwrap_or(rest);
            // A late answer to an earlier request that timed out is not ours.
            if answer.header.sequence_number == self.sequence {
                match answer.payload {
                    NetlinkPayload::Error(error) if error.code.is_none() => return Ok(true),
                    NetlinkPayload::Error(error) => {
                        return Err(refused(subject, error.raw_code(), this));
                    }
                    NetlinkPayload::Done(done) if done.code < 0 => {
                        return Err(refused(subject, done.code, &[]));
                    }
                    NetlinkPayload::Done(_) => return Ok(true),
                    NetlinkPayload::InnerMessage(message) => found.push(message),
                    NetlinkPayload::Overrun(_) => return Err(unreadable("overrun".to_owned())),
                    _ => {}
                }
            }
            // Messages are aligned to four bytes; the last may lack its padding.
            rest = rest.get(length.max(16).next_multiple_of(4)..).unwrap_or_default();
        }
        Ok(false)
    }
}

fn refused(subject: Subject<'_>, code: i32, message: &[u8]) -> NetlinkError {
    NetlinkError::Refused {
        operation: subject.operation,
        interface: subject.interface.to_owned(),
        errno: Errno::from_raw(code.saturating_neg()),
        said: kernels_words(message),
    }
}

/// The text attribute of an extended acknowledgement (`NLMSGERR_ATTR_MSG`).
///
/// After the header and the errno stands the refused message (only its header where NLM_F_CAPPED is
/// set), then attributes (where NLM_F_ACK_TLVS is set).
fn kernels_words(message: &[u8]) -> Option<String> {
    const CAPPED: u16 = 0x100;
    const ACK_TLVS: u16 = 0x200;
    let number16 = |at: usize| Some(u16::from_ne_bytes(message.get(at..at + 2)?.try_into().ok()?));
    let number32 = |at: usize| Some(u32::from_ne_bytes(message.get(at..at + 4)?.try_into().ok()?));
    let flags = number16(6)?;
    if flags & ACK_TLVS == 0 {
        return None;
    }
    let refused = if flags & CAPPED != 0 { 16 } else { usize::try_from(number32(20)?).ok()? };
    let mut at = 20_usize.checked_add(refused.next_multiple_of(4))?;
    loop {
        let length = usize::from(number16(at)?);
        let kind = number16(at + 2)? & 0x3fff;
        if length < 4 {
            return None;
        }
        if kind == 1 {
            let text = message.get(at + 4..at + length)?;
            return Some(String::from_utf8_lossy(text).trim_end_matches('\0').to_owned());
        }
        at += length.next_multiple_of(4);
    }
}
