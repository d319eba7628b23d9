//! Many datagrams with one system call: sendmmsg(2) and recvmmsg(2) over memory that is taken once.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use nix::errno::Errno;

/// Room for the control messages of one datagram: a time stamp and a segment size.
const CONTROL_BYTES: usize = 64;

/// Memory of one datagram's control messages, aligned as `cmsg(3)` wants it.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

/// Messages ready to be sent.
pub(in crate::load) struct SendBatch {
    headers: Vec<libc::mmsghdr>,
    /// Pointed to by `headers`.
    _parts: Vec<libc::iovec>,
    /// Pointed to by `_parts`.
    memory: Vec<u8>,
    message_bytes: usize,
}

impl SendBatch {
    /// So many messages that are all one and the same memory.
    pub(in crate::load) fn of_one(messages: usize, message: Vec<u8>) -> Self {
        let message_bytes = message.len();
        Self::new(messages, 0, message_bytes, message)
    }

    /// So many messages, each with memory of its own that is like `message` at first.
    pub(in crate::load) fn of_each(messages: usize, message: &[u8]) -> Self {
        Self::new(messages, message.len(), message.len(), message.repeat(messages))
    }

    fn new(messages: usize, stride: usize, message_bytes: usize, mut memory: Vec<u8>) -> Self {
        let mut parts = Vec::with_capacity(messages);
        for number in 0..messages {
            let start = number * stride;
            let memory = memory.get_mut(start..start + message_bytes).unwrap_or_default();
            parts.push(libc::iovec { iov_base: memory.as_mut_ptr().cast(), iov_len: memory.len() });
        }
        let headers = parts.iter_mut().map(|part| header(part, None)).collect();
        Self { headers, _parts: parts, memory, message_bytes }
    }

    /// How many messages it holds.
    pub(in crate::load) fn len(&self) -> usize {
        self.headers.len()
    }

    /// The memory of a message; of the only one, where all are one.
    pub(in crate::load) fn message(&mut self, number: usize) -> &mut [u8] {
        let start = number * self.message_bytes;
        self.memory.get_mut(start..start + self.message_bytes).unwrap_or_default()
    }

    /// Sends the first so many; how many the kernel took. Never waits.
    pub(in crate::load) fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        most: usize,
    ) -> Result<usize, Errno> {
        let count = u32::try_from(most.min(self.headers.len())).unwrap_or(u32::MAX);
        const FLAGS: libc::c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: `headers` holds at least `count` headers, whose parts and memory live in `self`.
        let sent = unsafe {
            libc::sendmmsg(socket.as_raw_fd(), self.headers.as_mut_ptr(), count, FLAGS as _)
        };
        usize::try_from(sent).map_err(|_| Errno::last())
    }
}

/// Room for messages that arrive.
pub(in crate::load) struct ReceiveBatch {
    headers: Vec<libc::mmsghdr>,
    /// Pointed to by `headers`.
    _parts: Vec<libc::iovec>,
    /// Pointed to by `headers`; empty when no control messages are wanted.
    controls: Vec<Control>,
    /// Pointed to by `_parts`.
    memory: Vec<u8>,
    message_bytes: usize,
    /// How many headers the kernel wrote to the last time.
    used: usize,
}

impl ReceiveBatch {
    /// Room for so many messages, each of so many bytes; what is longer is cut.
    pub(in crate::load) fn new(messages: usize, message_bytes: usize, with_control: bool) -> Self {
        let mut memory = vec![0; messages * message_bytes];
        let mut parts: Vec<libc::iovec> = memory
            .chunks_exact_mut(message_bytes)
            .map(|memory| libc::iovec {
                iov_base: memory.as_mut_ptr().cast(),
                iov_len: memory.len(),
            })
            .collect();
        let wanted = if with_control { parts.len() } else { 0 };
        let mut controls = vec![Control([0; CONTROL_BYTES]); wanted];
        let mut each = controls.iter_mut();
        let headers = parts.iter_mut().map(|part| header(part, each.next())).collect();
        Self { headers, _parts: parts, controls, memory, message_bytes, used: 0 }
    }

    /// How many messages it has room for.
    pub(in crate::load) fn len(&self) -> usize {
        self.headers.len()
    }

    /// Takes what has arrived, without waiting; how many messages that is.
    pub(in crate::load) fn receive(&mut self, socket: BorrowedFd<'_>) -> Result<usize, Errno> {
        if !self.controls.is_empty() {
            for header in self.headers.iter_mut().take(self.used) {
                header.msg_hdr.msg_controllen = CONTROL_BYTES as _;
            }
        }
        let count = u32::try_from(self.headers.len()).unwrap_or(u32::MAX);
        // SAFETY: `headers` holds `count` headers, whose parts, control messages and memory live in
        // `self`; no time-out is given.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                count,
                libc::MSG_DONTWAIT as _,
                ptr::null_mut(),
            )
        };
        self.used = usize::try_from(received).map_err(|_| Errno::last())?;
        Ok(self.used)
    }

    /// What was taken the last time.
    pub(in crate::load) fn messages(&self) -> impl Iterator<Item = Arrival<'_>> {
        self.headers.iter().zip(self.memory.chunks_exact(self.message_bytes)).take(self.used).map(
            |(header, memory)| {
                let length = usize::try_from(header.msg_len).unwrap_or(usize::MAX);
                Arrival { bytes: memory.get(..length).unwrap_or(memory), header: &header.msg_hdr }
            },
        )
    }
}

/// A message that has arrived.
pub(in crate::load) struct Arrival<'a> {
    /// Its payload.
    pub(in crate::load) bytes: &'a [u8],
    header: &'a libc::msghdr,
}

impl Arrival<'_> {
    /// The size of the datagrams that `UDP_GRO` has put together to this message (udp(7)).
    pub(in crate::load) fn segment_bytes(&self) -> Option<usize> {
        let size: libc::c_int = self.control_message(libc::SOL_UDP, libc::UDP_GRO)?;
        usize::try_from(size).ok()
    }

    /// When the kernel took it from the interface: `SO_TIMESTAMPNS`, in nanoseconds of
    /// `CLOCK_REALTIME`.
    pub(in crate::load) fn arrived_ns(&self) -> Option<u64> {
        let time: libc::timespec = self.control_message(libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS)?;
        let seconds = u64::try_from(time.tv_sec).ok()?;
        let nanoseconds = u64::try_from(time.tv_nsec).ok()?;
        seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds)
    }

    /// `T` must be valid whatever its bytes are.
    fn control_message<T: Copy>(&self, level: libc::c_int, kind: libc::c_int) -> Option<T> {
        // SAFETY: the header was written by the kernel, and its control memory lives as long as
        // the batch that is borrowed here.
        let mut place = unsafe { libc::CMSG_FIRSTHDR(self.header) };
        while !place.is_null() {
            // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR give null or a header inside the memory.
            let found = unsafe { *place };
            if found.cmsg_level == level && found.cmsg_type == kind {
                // SAFETY: CMSG_LEN only computes.
                let needed = unsafe { libc::CMSG_LEN(u32::try_from(size_of::<T>()).ok()?) };
                if u64::try_from(found.cmsg_len).ok()? < u64::from(needed) {
                    return None;
                }
                // SAFETY: the kernel wrote a `T` behind this header, as its length says.
                return Some(unsafe { ptr::read_unaligned(libc::CMSG_DATA(place).cast()) });
            }
            // SAFETY: as for CMSG_FIRSTHDR.
            place = unsafe { libc::CMSG_NXTHDR(self.header, place) };
        }
        None
    }
}

fn header(part: &mut libc::iovec, control: Option<&mut Control>) -> libc::mmsghdr {
    // SAFETY: a header of zeros is one without address, parts and control messages.
    let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
    header.msg_hdr.msg_iov = part;
    header.msg_hdr.msg_iovlen = 1;
    if let Some(control) = control {
        header.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
        header.msg_hdr.msg_controllen = CONTROL_BYTES as _;
    }
    header
}
