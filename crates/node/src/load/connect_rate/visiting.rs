//! The side that connects: one thread, one connection at a time.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, SockaddrStorage, connect, recv, send, socket,
};

use super::Plan;
use crate::clock::monotonic_ns;
use crate::load::connections::reset;
use crate::load::control::ThreadCounters;
use crate::load::histogram::Latencies;
use crate::load::request_response::{SILENCE, sleep_in_calls};
use crate::load::{LoadControl, LoadError};

const SILENCE_NS: u64 = SILENCE.as_secs() * 1_000_000_000;

/// What became of one stream.
pub(super) struct Visited {
    pub(super) bytes: u64,
    pub(super) latencies: Latencies,
}

/// One stream of connections.
pub(super) struct Visiting {
    number: usize,
    peer: SocketAddr,
    address: SockaddrStorage,
    plan: Plan,
    measured_from_ns: u64,
    buffer: Vec<u8>,
    bytes: u64,
    latencies: Latencies,
}

/// Why a connection came to no transaction.
enum Failure {
    /// It shall end.
    Stopped,
    /// The peer or the path: the stream is over.
    Over(String),
}

impl Visiting {
    pub(super) fn new(
        number: usize,
        peer: SocketAddr,
        plan: Plan,
        measured_from_ns: u64,
    ) -> Result<Self, LoadError> {
        Ok(Self {
            number,
            peer,
            address: SockaddrStorage::from(peer),
            // Not zeros: pages that were never written share one, which no real payload does.
            buffer: vec![0x5a; plan.buffer_bytes],
            plan,
            measured_from_ns,
            bytes: 0,
            latencies: Latencies::new()?,
        })
    }

    /// Connects again and again until told to stop, or until the peer is gone.
    pub(super) fn run(mut self, control: &LoadControl) -> Visited {
        if let Some(counters) = control.counters().get(self.number) {
            while !control.stopping() {
                match self.visit(control, counters) {
                    Ok(()) => {}
                    Err(Failure::Stopped) => break,
                    Err(Failure::Over(reason)) => {
                        let (number, peer) = (self.number + 1, self.peer);
                        let ended = counters.transactions();
                        control.note_early_end(format!(
                            "stream {number} to {peer} ended after {ended} transactions: {reason}"
                        ));
                        break;
                    }
                }
            }
        }
        Visited { bytes: self.bytes, latencies: self.latencies }
    }

    fn visit(&mut self, control: &LoadControl, counters: &ThreadCounters) -> Result<(), Failure> {
        let family = match self.peer.ip() {
            IpAddr::V4(_) => AddressFamily::Inet,
            IpAddr::V6(_) => AddressFamily::Inet6,
        };
        let begun_ns = monotonic_ns();
        let patience = Patience { control, until_ns: begun_ns.saturating_add(SILENCE_NS) };
        let socket = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)
            .map_err(|errno| Failure::Over(format!("cannot open a socket: {}", errno.desc())))?;
        let exchanged = self.exchange(&socket, &patience, counters, begun_ns);
        if exchanged.is_err() {
            // Nothing of it shall stay, on neither side.
            reset(&socket);
        }
        exchanged
    }

    fn exchange(
        &mut self,
        socket: &OwnedFd,
        patience: &Patience<'_>,
        counters: &ThreadCounters,
        begun_ns: u64,
    ) -> Result<(), Failure> {
        sleep_in_calls(socket).map_err(|errno| Failure::Over(errno.desc().to_owned()))?;
        self.plan
            .socket_options
            .set_on_tcp(socket.as_fd())
            .map_err(|error| Failure::Over(error.to_string()))?;
        loop {
            match connect(socket.as_raw_fd(), &self.address) {
                Ok(()) | Err(Errno::EISCONN) => break,
                // The time-out of `send` is that of `connect` too (socket(7)); asking again goes on.
                Err(Errno::EINPROGRESS | Errno::EALREADY | Errno::EINTR) => patience.lasts()?,
                Err(errno) => return Err(Failure::Over(connect_reason(errno))),
            }
        }
        self.request(socket, patience, counters)?;
        self.response(socket, patience)?;
        let now_ns = monotonic_ns();
        counters.count_transactions(1);
        if begun_ns >= self.measured_from_ns {
            self.latencies.record(now_ns.saturating_sub(begun_ns));
        }
        self.await_close(socket, patience)
    }

    fn request(
        &mut self,
        socket: &OwnedFd,
        patience: &Patience<'_>,
        counters: &ThreadCounters,
    ) -> Result<(), Failure> {
        let mut unsent = self.plan.sizes.request;
        while unsent > 0 {
            let chunk = self.buffer.get(..unsent.min(self.buffer.len())).unwrap_or_default();
            match send(socket.as_raw_fd(), chunk, MsgFlags::MSG_NOSIGNAL) {
                Ok(count) => {
                    unsent -= count.min(unsent);
                    self.bytes += count as u64;
                    counters.count(count as u64);
                }
                Err(Errno::EAGAIN | Errno::EINTR) => patience.lasts()?,
                Err(errno) => return Err(Failure::Over(errno.desc().to_owned())),
            }
        }
        Ok(())
    }

    fn response(&mut self, socket: &OwnedFd, patience: &Patience<'_>) -> Result<(), Failure> {
        let mut missing = self.plan.sizes.response;
        while missing > 0 {
            match recv(socket.as_raw_fd(), &mut self.buffer, MsgFlags::empty()) {
                Ok(0) => return Err(Failure::Over("the peer closed it unanswered".to_owned())),
                Ok(count) => missing = missing.saturating_sub(count),
                Err(Errno::EAGAIN | Errno::EINTR) => patience.lasts()?,
                Err(errno) => return Err(Failure::Over(errno.desc().to_owned())),
            }
        }
        Ok(())
    }

    /// The receiver closes first, and has TIME_WAIT.
    fn await_close(&mut self, socket: &OwnedFd, patience: &Patience<'_>) -> Result<(), Failure> {
        loop {
            match recv(socket.as_raw_fd(), &mut self.buffer, MsgFlags::empty()) {
                Ok(0) => return Ok(()),
                Ok(_) => {
                    let reason = "the peer answers what was not asked".to_owned();
                    return Err(Failure::Over(reason));
                }
                Err(Errno::EAGAIN | Errno::EINTR) => patience.lasts()?,
                Err(errno) => return Err(Failure::Over(errno.desc().to_owned())),
            }
        }
    }
}

/// How long one connection may take.
struct Patience<'c> {
    control: &'c LoadControl,
    until_ns: u64,
}

impl Patience<'_> {
    fn lasts(&self) -> Result<(), Failure> {
        if self.control.stopping() {
            return Err(Failure::Stopped);
        }
        if monotonic_ns() < self.until_ns {
            return Ok(());
        }
        let reason = "is the peer alive, and the path up?";
        Err(Failure::Over(format!("no transaction within {SILENCE:?}: {reason}")))
    }
}

fn connect_reason(errno: Errno) -> String {
    match errno {
        Errno::EADDRNOTAVAIL => "every local port to that peer is in use or in TIME_WAIT: widen \
             sysctl net.ipv4.ip_local_port_range, or make fewer connections"
            .to_owned(),
        other => format!("cannot connect: {}", other.desc()),
    }
}
