//! The side that accepts: every thread takes connections from the same listening socket.

use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Arc, OnceLock};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv, send};
use vioperf_model::sample::StreamOutcome;

use super::Plan;
use crate::load::connections::{reset, same_host};
use crate::load::control::ThreadCounters;
use crate::load::request_response::{SILENCE, Silence, sleep_in_calls};
use crate::load::socket_options::set_number;
use crate::load::{LoadControl, LoadError};

/// In seconds, which the kernel makes a number of retransmissions of.
const DEFER_ACCEPT_FOR: libc::c_int = 1;

/// Sets time-outs on the listening socket: accepted connections inherit them. Nobody is woken for a
/// connection before its request has come (`TCP_DEFER_ACCEPT`, tcp(7)): to accept it and then to sleep
/// again for the request would be half of what a server does. On the path it changes nothing.
pub(super) fn adopt(listener: &TcpListener) -> Result<(), LoadError> {
    sleep_in_calls(listener).map_err(LoadError::system("set a socket's time-outs"))?;
    set_number(listener.as_fd(), libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, DEFER_ACCEPT_FOR)
        .map_err(LoadError::system("set TCP_DEFER_ACCEPT"))?;
    listener.set_nonblocking(false).map_err(LoadError::system("make a socket blocking"))
}

/// Whose connections are served: those of the host that came first.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    first: OnceLock<IpAddr>,
}

impl Hosts {
    fn serves(&self, peer: SocketAddr) -> bool {
        same_host(*self.first.get_or_init(|| peer.ip()), peer.ip())
    }
}

/// One thread that accepts and answers.
pub(super) struct Serving {
    number: usize,
    listener: Arc<TcpListener>,
    plan: Plan,
    hosts: Arc<Hosts>,
    buffer: Vec<u8>,
    bytes: u64,
}

impl Serving {
    pub(super) fn new(
        number: usize,
        listener: Arc<TcpListener>,
        plan: Plan,
        hosts: Arc<Hosts>,
    ) -> Self {
        let buffer = vec![0x5a; plan.buffer_bytes];
        Self { number, listener, plan, hosts, buffer, bytes: 0 }
    }

    /// Serves one connection after the other until told to stop, or until none comes any more.
    pub(super) fn run(mut self, control: &LoadControl) -> StreamOutcome {
        let mut silence = Silence::default();
        // Transactions of all threads: one may have nothing to do for long while others have.
        let mut known = Some(0);
        if let Some(counters) = control.counters().get(self.number) {
            while !control.stopping() {
                match self.listener.accept() {
                    Ok((connection, peer)) => {
                        if !self.hosts.serves(peer)
                            || self.serve(&connection, control, counters).is_none()
                        {
                            reset(&connection);
                        }
                    }
                    Err(error) => {
                        let all = control.moved().transactions;
                        if all != known {
                            known = all;
                            silence.heard();
                        }
                        if let Err(reason) = refusal(&error, &mut silence) {
                            control.note_early_end(format!(
                                "thread {} accepts no more after {} transactions: {reason}",
                                self.number + 1,
                                counters.transactions()
                            ));
                            break;
                        }
                    }
                }
            }
        }
        StreamOutcome { bytes: self.bytes, tcp: None }
    }

    /// One transaction; nothing when the peer did not keep to it.
    fn serve(
        &mut self,
        connection: &TcpStream,
        control: &LoadControl,
        counters: &ThreadCounters,
    ) -> Option<()> {
        let fd = connection.as_fd().as_raw_fd();
        let mut silence = Silence::default();
        silence.heard();
        let mut waits = |errno| {
            let waits = matches!(errno, Errno::EAGAIN | Errno::EINTR);
            (waits && !control.stopping() && !silence.too_long()).then_some(())
        };
        let mut missing = self.plan.sizes.request;
        while missing > 0 {
            match recv(fd, &mut self.buffer, MsgFlags::empty()) {
                Ok(0) => return None,
                Ok(count) => {
                    missing = missing.checked_sub(count)?;
                    self.bytes += count as u64;
                    counters.count(count as u64);
                }
                Err(errno) => waits(errno)?,
            }
        }
        let mut unsent = self.plan.sizes.response;
        while unsent > 0 {
            let chunk = self.buffer.get(..unsent.min(self.buffer.len())).unwrap_or_default();
            match send(fd, chunk, MsgFlags::MSG_NOSIGNAL) {
                Ok(count) => unsent -= count.min(unsent),
                Err(errno) => waits(errno)?,
            }
        }
        counters.count_transactions(1);
        Some(())
    }
}

/// What an error of `accept` means: of the one connection (accept(2)), a tick, or the end.
fn refusal(error: &std::io::Error, silence: &mut Silence) -> Result<(), String> {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EAGAIN) if silence.too_long() => {
            Err(format!("no connection came for {SILENCE:?}: is the sender alive?"))
        }
        Some(Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM | Errno::EINVAL | Errno::EBADF) => {
            Err(error.to_string())
        }
        _ => Ok(()),
    }
}
