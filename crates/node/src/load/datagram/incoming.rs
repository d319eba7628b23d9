//! Receiving until told to stop.

use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::batch::ReceiveBatch;
use crate::load::LoadControl;

/// How long datagrams may gather before they are fetched: a thread that sleeps in the kernel has to be
/// woken for every datagram, at the cost of who delivers it.
const GATHER: Duration = Duration::from_micros(100);
/// The smallest buffer in which they may gather without overflowing.
const GATHER_IN_AT_LEAST: usize = 1 << 20;
/// How long what had arrived before the end is still fetched.
const DRAIN_WITHIN: Duration = Duration::from_millis(200);

/// A receiving socket.
#[derive(Debug)]
pub(super) struct Incoming<'a> {
    pub(super) socket: &'a UdpSocket,
    /// The size of its buffer.
    pub(super) buffer_bytes: usize,
}

impl Incoming<'_> {
    /// Hands every batch that arrives to `take`, and at the end what is still in the buffer.
    pub(super) fn receive_until_stopped(
        &self,
        batch: &mut ReceiveBatch,
        control: &LoadControl,
        mut take: impl FnMut(&ReceiveBatch),
    ) {
        let gathers = self.buffer_bytes >= GATHER_IN_AT_LEAST;
        let mut idle = true;
        while !control.stopping() {
            match batch.receive(self.socket.as_fd()) {
                Ok(count) => {
                    take(batch);
                    idle = false;
                    if gathers && count < batch.len() / 2 {
                        std::thread::sleep(GATHER);
                    }
                }
                // Once more without sleep in between would find nothing either.
                Err(Errno::EAGAIN) if idle || !gathers => self.await_arrival(control),
                Err(Errno::EAGAIN) => {
                    idle = true;
                }
                // An error of something that we had sent.
                Err(Errno::EINTR | Errno::ECONNREFUSED | Errno::EHOSTUNREACH) => {}
                Err(errno) => {
                    return control.note_early_end(format!("recvmmsg: {}", errno.desc()));
                }
            }
        }
        let end = Instant::now() + DRAIN_WITHIN;
        while !control.abandoned() && Instant::now() < end {
            match batch.receive(self.socket.as_fd()) {
                Ok(_) => take(batch),
                Err(Errno::EINTR) => {}
                Err(_) => return,
            }
        }
    }

    fn await_arrival(&self, control: &LoadControl) {
        let mut fds = [
            PollFd::new(self.socket.as_fd(), PollFlags::POLLIN),
            PollFd::new(control.wake(), PollFlags::POLLIN),
        ];
        // Whatever it says: the next attempt to receive tells.
        let _ = poll(&mut fds, PollTimeout::NONE);
    }
}
