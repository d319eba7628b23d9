//! The side that answers requests: one thread, one stream.

use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use nix::errno::Errno;
use nix::sys::socket::{recv, send};
use vioperf_model::sample::{Exchanged, StreamOutcome};
use vioperf_model::workload::Transport;

use super::options::Options;
use super::silence::{SILENCE, Silence};
use crate::load::control::ThreadCounters;
use crate::load::{LoadControl, tcp_info};

/// What became of one stream.
pub(super) struct Answered {
    pub(super) number: usize,
    pub(super) outcome: StreamOutcome,
    pub(super) exchanged: Exchanged,
    /// Still open, unless the load was abandoned.
    pub(super) socket: Option<OwnedFd>,
}

/// One stream that answers. It may always sleep in its calls: a sender that has much under way
/// goes on reading while it sends.
pub(super) struct Answering {
    number: usize,
    socket: OwnedFd,
    peer: Option<SocketAddr>,
    options: Arc<Options>,
    buffer: Vec<u8>,
    /// Bytes of a request whose rest is still to come (TCP).
    partial: usize,
    bytes: u64,
    silence: Silence,
    exchanged: Exchanged,
}

impl Answering {
    pub(super) fn new(
        number: usize,
        socket: OwnedFd,
        peer: Option<SocketAddr>,
        options: &Arc<Options>,
    ) -> Self {
        Self {
            number,
            socket,
            peer,
            options: options.clone(),
            buffer: vec![0x5a; options.buffer_bytes],
            partial: 0,
            bytes: 0,
            silence: Silence::default(),
            exchanged: Exchanged::default(),
        }
    }

    /// Answers until told to stop, or until the peer is gone.
    pub(super) fn run(mut self, control: &LoadControl) -> Answered {
        if let Some(counters) = control.counters().get(self.number)
            && let Err(reason) = self.answer_on(control, counters)
        {
            let peer = self.peer.map_or_else(|| "its peer".to_owned(), |peer| peer.to_string());
            let answered = counters.transactions();
            control.note_early_end(format!(
                "stream {} with {peer} ended after {answered} transactions: {reason}",
                self.number + 1
            ));
        }
        let tcp = tcp_info::read(self.socket.as_fd());
        let socket = super::kept(self.socket, self.options.transport, control);
        let outcome = StreamOutcome { bytes: self.bytes, tcp };
        Answered { number: self.number, outcome, exchanged: self.exchanged, socket }
    }

    fn answer_on(
        &mut self,
        control: &LoadControl,
        counters: &ThreadCounters,
    ) -> Result<(), String> {
        let transport = self.options.transport;
        while !control.stopping() {
            match recv(self.socket.as_raw_fd(), &mut self.buffer, super::flags(true)) {
                Ok(0) if transport == Transport::Tcp => {
                    return Err("the peer closed it".to_owned());
                }
                Ok(count) => {
                    self.silence.heard();
                    match transport {
                        Transport::Tcp => self.answer_bytes(count, control, counters)?,
                        Transport::Udp => self.answer_datagram(count, counters)?,
                    }
                }
                Err(Errno::EAGAIN) => self.listen_on()?,
                Err(Errno::EINTR) => {}
                Err(errno) if transport == Transport::Udp && super::loses_datagram(errno) => {}
                Err(errno) => return Err(errno.desc().to_owned()),
            }
        }
        Ok(())
    }

    /// A tick without a request. In an open loop they may be far apart.
    fn listen_on(&mut self) -> Result<(), String> {
        if self.silence.too_long() && self.options.requests_per_second.is_none() {
            return Err(format!("no request came for {SILENCE:?}: is the sender alive?"));
        }
        Ok(())
    }

    fn answer_bytes(
        &mut self,
        count: usize,
        control: &LoadControl,
        counters: &ThreadCounters,
    ) -> Result<(), String> {
        self.bytes += count as u64;
        counters.count(count as u64);
        self.partial += count;
        let asked = self.partial / self.options.sizes.request;
        self.partial %= self.options.sizes.request;
        let mut unsent = asked.saturating_mul(self.options.sizes.response);
        while unsent > 0 {
            let chunk = self.buffer.get(..unsent.min(self.buffer.len())).unwrap_or_default();
            match send(self.socket.as_raw_fd(), chunk, super::flags(true)) {
                Ok(count) => {
                    self.silence.heard();
                    unsent -= count.min(unsent);
                }
                Err(Errno::EAGAIN) if control.stopping() => return Ok(()),
                Err(Errno::EAGAIN) => self.listen_on()?,
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.desc().to_owned()),
            }
        }
        counters.count_transactions(asked as u64);
        Ok(())
    }

    /// The start of the request is still in the buffer: so the response has its sequence number.
    fn answer_datagram(&mut self, count: usize, counters: &ThreadCounters) -> Result<(), String> {
        if count != self.options.sizes.request {
            return Ok(());
        }
        self.bytes += count as u64;
        self.exchanged.received += 1;
        counters.count(count as u64);
        let response = self.buffer.get(..self.options.sizes.response).unwrap_or_default();
        match send(self.socket.as_raw_fd(), response, super::flags(true)) {
            Ok(_) => {
                self.exchanged.sent += 1;
                counters.count_transactions(1);
            }
            Err(errno) if super::loses_datagram(errno) => {}
            Err(errno) => return Err(errno.desc().to_owned()),
        }
        Ok(())
    }
}
