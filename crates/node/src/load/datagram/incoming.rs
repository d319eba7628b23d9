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

/// The sockets that one thread receives from.
#[derive(Debug)]
pub(super) struct Incoming<'a> {
    pub(super) sockets: Vec<&'a UdpSocket>,
    /// The size of the smallest buffer.
    pub(super) buffer_bytes: usize,
}

/// What one look at every socket gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// Nothing.
    Empty,
    /// Something, and so many messages at most from one socket.
    Took(usize),
}

impl Incoming<'_> {
    /// Hands every batch that arrives to `take`, and at the end what is still in the buffers.
    pub(super) fn receive_until_stopped(
        &self,
        batch: &mut ReceiveBatch,
        control: &LoadControl,
        mut take: impl FnMut(&UdpSocket, &ReceiveBatch),
    ) {
        let gathers = self.buffer_bytes >= GATHER_IN_AT_LEAST;
        let mut idle = true;
        while !control.stopping() {
            match self.look(batch, &mut take) {
                Ok(Look::Took(most)) => {
                    idle = false;
                    if gathers && most < batch.len() / 2 {
                        std::thread::sleep(GATHER);
                    }
                }
                // Once more without sleep in between would find nothing either.
                Ok(Look::Empty) if idle || !gathers => self.await_arrival(control),
                Ok(Look::Empty) => idle = true,
                Err(errno) => {
                    return control.note_early_end(format!("recvmmsg: {}", errno.desc()));
                }
            }
        }
        let end = Instant::now() + DRAIN_WITHIN;
        while !control.abandoned() && Instant::now() < end {
            match self.look(batch, &mut take) {
                Ok(Look::Took(_)) => {}
                Ok(Look::Empty) | Err(_) => return,
            }
        }
    }

    /// Takes what is there, from one socket after the other.
    fn look(
        &self,
        batch: &mut ReceiveBatch,
        take: &mut impl FnMut(&UdpSocket, &ReceiveBatch),
    ) -> Result<Look, Errno> {
        let mut look = Look::Empty;
        for socket in &self.sockets {
            match batch.receive(socket.as_fd()) {
                Ok(count) => {
                    take(socket, batch);
                    look = match look {
                        Look::Took(most) => Look::Took(most.max(count)),
                        Look::Empty => Look::Took(count),
                    };
                }
                Err(Errno::EAGAIN) => {}
                // An error of something that we had sent: there may be more.
                Err(Errno::EINTR | Errno::ECONNREFUSED | Errno::EHOSTUNREACH) => {
                    look = if look == Look::Empty { Look::Took(0) } else { look };
                }
                Err(errno) => return Err(errno),
            }
        }
        Ok(look)
    }

    fn await_arrival(&self, control: &LoadControl) {
        let sockets = self.sockets.iter().map(|socket| socket.as_fd());
        let mut fds: Vec<PollFd<'_>> = sockets
            .chain([control.wake()])
            .map(|file| PollFd::new(file, PollFlags::POLLIN))
            .collect();
        // Whatever it says: the next attempt to receive tells.
        let _ = poll(&mut fds, PollTimeout::NONE);
    }
}
