//! A flow that is sent, and what is made of the kernel's refusals.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::batch::SendBatch;
use crate::load::LoadControl;
use crate::load::control::ThreadCounters;

/// How long a path may be down before a flow gives up.
const DOWN_AT_MOST: Duration = Duration::from_secs(1);
/// How long is waited when a queue is full that poll(2) knows nothing of, or a path is down.
const REST: Duration = Duration::from_micros(200);
/// How often a call that was cut short is looked into, and how long an error is waited for then.
const LOOK_EVERY: Duration = Duration::from_millis(100);
const LOOK_FOR_MS: u8 = 5;

/// One flow: a connected socket, and so a source port.
#[derive(Debug)]
pub(in crate::load) struct Outgoing {
    pub(super) socket: UdpSocket,
    pub(super) peer: SocketAddr,
    pub(in crate::load) number: u16,
    /// What its datagrams carry.
    pub(in crate::load) token: u64,
    pub(in crate::load) bytes: u64,
    pub(in crate::load) datagrams: u64,
    /// Datagrams that were due but not sent in time.
    pub(in crate::load) not_sent: u64,
    pub(in crate::load) over: bool,
    down_since: Option<Instant>,
    /// Send one message, then wait for its error. sendmmsg(2) that is cut short by an error swallows
    /// it: a receiver that is gone would be heard of only when its answer came exactly between two
    /// calls.
    careful: bool,
    looked: Option<Instant>,
    swallowed: Option<Errno>,
}

/// What an attempt to send came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::load) enum Attempt {
    /// The kernel took so many messages.
    Took(usize),
    /// The socket's buffer is full: poll(2) tells when it is not.
    Full,
    /// Try again after a rest.
    Later,
    /// The flow is over; the reason is noted.
    Over,
}

impl Outgoing {
    pub(super) fn new(number: u16, socket: UdpSocket, peer: SocketAddr, token: u64) -> Self {
        Self {
            socket,
            peer,
            number,
            token,
            bytes: 0,
            datagrams: 0,
            not_sent: 0,
            over: false,
            down_since: None,
            careful: false,
            looked: None,
            swallowed: None,
        }
    }

    /// Sends the first `messages` of a batch, or fewer. The caller counts what was taken.
    fn send(&mut self, batch: &mut SendBatch, messages: usize, control: &LoadControl) -> Attempt {
        if let Some(errno) = self.swallowed.take() {
            return self.refused(errno, control);
        }
        let careful = std::mem::take(&mut self.careful);
        let messages = if careful { 1 } else { messages };
        match batch.send(self.socket.as_fd(), messages) {
            Ok(taken) => {
                self.down_since = None;
                if careful {
                    self.looked = Some(Instant::now());
                    // The datagrams went all the same: their count comes before the end.
                    self.swallowed = self.wait_for_error();
                } else if taken < messages {
                    self.careful = self.looked.is_none_or(|last| last.elapsed() >= LOOK_EVERY);
                }
                Attempt::Took(taken)
            }
            Err(errno) => {
                self.careful = careful;
                self.refused(errno, control)
            }
        }
    }

    /// An error of what was just sent, if one comes soon.
    fn wait_for_error(&self) -> Option<Errno> {
        let mut fds = [PollFd::new(self.socket.as_fd(), PollFlags::empty())];
        match poll(&mut fds, PollTimeout::from(LOOK_FOR_MS)) {
            Ok(1..) => {
                let error = self.socket.take_error().ok().flatten()?;
                error.raw_os_error().map(Errno::from_raw)
            }
            _ => None,
        }
    }

    fn refused(&mut self, errno: Errno, control: &LoadControl) -> Attempt {
        match errno {
            Errno::EAGAIN => Attempt::Full,
            Errno::EINTR => Attempt::Took(0),
            Errno::ENOBUFS | Errno::ENOMEM => Attempt::Later,
            Errno::ENETUNREACH | Errno::EHOSTUNREACH | Errno::ENETDOWN | Errno::EADDRNOTAVAIL => {
                let since = *self.down_since.get_or_insert_with(Instant::now);
                if since.elapsed() < DOWN_AT_MOST {
                    return Attempt::Later;
                }
                let why = format!("the path was down for {DOWN_AT_MOST:?}: {}", errno.desc());
                self.give_up(&why, control)
            }
            Errno::ECONNREFUSED => self.give_up("nobody receives there any more", control),
            Errno::EMSGSIZE => {
                self.give_up("a datagram does not fit into the path's MTU any more", control)
            }
            // Refused before the first datagram went: it is the way of sending that is refused.
            Errno::EINVAL | Errno::EIO | Errno::EOPNOTSUPP if self.datagrams == 0 => {
                let why = format!("the kernel does not send it so: {}", errno.desc());
                self.give_up(&why, control)
            }
            errno => self.give_up(errno.desc(), control),
        }
    }

    fn give_up(&mut self, why: &str, control: &LoadControl) -> Attempt {
        self.over = true;
        let (number, peer) = (u32::from(self.number) + 1, self.peer);
        let datagrams = self.datagrams;
        control.note_early_end(format!(
            "flow {number} to {peer} ended after {datagrams} datagrams: {why}"
        ));
        Attempt::Over
    }
}

/// What sending is counted by, and stopped.
#[derive(Clone, Copy)]
pub(in crate::load) struct Sending<'a> {
    pub(in crate::load) control: &'a LoadControl,
    pub(in crate::load) counters: &'a ThreadCounters,
    pub(in crate::load) payload_bytes: usize,
    /// Flows of the load, of all threads together.
    pub(in crate::load) flows: u16,
    /// Datagrams of one message.
    pub(in crate::load) segments: usize,
}

impl Sending<'_> {
    /// Sends messages of a flow, and counts them.
    pub(in crate::load) fn send(
        self,
        flow: &mut Outgoing,
        batch: &mut SendBatch,
        messages: usize,
    ) -> Attempt {
        let attempt = flow.send(batch, messages, self.control);
        if let Attempt::Took(taken @ 1..) = attempt {
            let datagrams = (taken * self.segments) as u64;
            let bytes = datagrams * self.payload_bytes as u64;
            flow.datagrams += datagrams;
            flow.bytes += bytes;
            self.counters.count_datagrams(bytes, datagrams);
        }
        attempt
    }
}

/// Sends on all flows in turn, as fast as it goes, until told to stop or until all are over. What a
/// batch holds is made by `fill` before each call.
pub(in crate::load) fn send_at_full_speed(
    flows: &mut [Outgoing],
    batch: &mut SendBatch,
    sending: Sending<'_>,
    mut fill: impl FnMut(&mut SendBatch, &Outgoing),
) {
    let messages = batch.len();
    while flows.iter().any(|flow| !flow.over) {
        let (mut moved, mut full) = (false, false);
        for flow in flows.iter_mut().filter(|flow| !flow.over) {
            if sending.control.stopping() {
                return;
            }
            fill(batch, flow);
            match sending.send(flow, batch, messages) {
                Attempt::Took(_) => moved = true,
                Attempt::Full => full = true,
                Attempt::Later | Attempt::Over => {}
            }
        }
        match (moved, full) {
            (true, _) => {}
            (false, true) => await_room(flows, sending.control),
            (false, false) => std::thread::sleep(REST),
        }
    }
}

/// Waits until one of the flows can be written to again, or it is time to stop; at most 100 ms.
fn await_room(flows: &[Outgoing], control: &LoadControl) {
    let alive = flows.iter().filter(|flow| !flow.over);
    let mut fds: Vec<PollFd<'_>> =
        alive.map(|flow| PollFd::new(flow.socket.as_fd(), PollFlags::POLLOUT)).collect();
    fds.push(PollFd::new(control.wake(), PollFlags::POLLIN));
    // Whatever it says: the next attempt to send tells.
    let _ = poll(&mut fds, PollTimeout::from(100_u8));
}
