//! `vioperf serve`: lets clients in, up to a limit, and gives each a node of its own.

mod door;
pub mod limits;
mod session;

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{setsockopt, sockopt};

use self::limits::Limits;
use super::tls::Identity;
use super::token::Token;
use crate::interrupt::{Interrupt, Urgency};
use crate::output::Output;
use crate::report::text::clean;

/// Connections that have proved nothing yet; further ones are closed at once.
const MOST_STRANGERS: usize = 32;
/// The same from one address, so that one machine alone cannot keep all others out.
const MOST_STRANGERS_OF_ONE: usize = 8;
/// The longest segment on a control connection, in bytes: passes wherever IPv6 does (RFC 8200, section 5).
const CONTROL_SEGMENT_BYTES: u32 = 1_200;
/// How often a server that waits looks whether it shall end.
const LOOK: u16 = 100;
/// How long clients are given to hear that the server ends.
const FAREWELL: Duration = Duration::from_secs(3);
/// After an error of `accept` (no file descriptor left) it is not tried again at once.
const BREATH: Duration = Duration::from_millis(100);

/// What a server is started with.
#[derive(Debug)]
pub struct Config {
    /// Clients at once.
    pub max_clients: usize,
    /// Whether it ends after the first client that was served.
    pub one_off: bool,
    /// What each may ask for.
    pub limits: Limits,
    /// What both ends know.
    pub token: Option<Token>,
    /// Of a server that speaks TLS.
    pub identity: Option<Identity>,
}

/// What all sessions share.
#[derive(Debug)]
struct Shared {
    config: Config,
    interrupt: Interrupt,
    output: Output,
    /// Where connections come from that have proved nothing yet.
    strangers: Mutex<Vec<IpAddr>>,
    /// Clients that are being served.
    clients: AtomicUsize,
    /// Clients that were served to their end.
    served: AtomicUsize,
    /// Connections that were turned away, whatever the reason.
    turned_away: AtomicUsize,
    next_number: AtomicU32,
}

/// One more of something, as long as it lives.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    /// `None` when there are `most` already.
    fn below(count: &'a AtomicUsize, most: usize) -> Option<Self> {
        count
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| (n < most).then_some(n + 1))
            .ok()
            .map(|_| Self(count))
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A connection that has proved nothing yet.
struct Stranger<'a> {
    strangers: &'a Mutex<Vec<IpAddr>>,
    from: IpAddr,
}

impl<'a> Stranger<'a> {
    /// `None` when there are too many already.
    fn receive(strangers: &'a Mutex<Vec<IpAddr>>, from: IpAddr) -> Option<Self> {
        let mut there = strangers.lock().unwrap_or_else(PoisonError::into_inner);
        let of_one = there.iter().filter(|other| **other == from).count();
        if there.len() >= MOST_STRANGERS || of_one >= MOST_STRANGERS_OF_ONE {
            return None;
        }
        there.push(from);
        Some(Self { strangers, from })
    }
}

impl Drop for Stranger<'_> {
    fn drop(&mut self) {
        let mut there = self.strangers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = there.iter().position(|other| *other == self.from) {
            there.swap_remove(at);
        }
    }
}

/// Serves until it is interrupted, or the one client of a one-off server has been served.
///
/// # Errors
/// When the listening socket fails for good.
pub fn serve(
    listener: &TcpListener,
    config: Config,
    interrupt: &Interrupt,
    output: Output,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    // A path whose MTU is not what its ends believe swallows long segments without a word: what is said
    // beside the load has to come through, both ways, to tell of it. Longer ones are only faster.
    let _ = setsockopt(listener, sockopt::TcpMaxSeg, &CONTROL_SEGMENT_BYTES);
    let shared = Arc::new(Shared {
        config,
        interrupt: interrupt.clone(),
        output,
        strangers: Mutex::default(),
        clients: AtomicUsize::new(0),
        served: AtomicUsize::new(0),
        turned_away: AtomicUsize::new(0),
        next_number: AtomicU32::new(1),
    });
    while interrupt.urgency() == Urgency::None && !shared.is_done() {
        let mut fds = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
        // What failed here fails again in accept, and is told there.
        let _ = poll(&mut fds, PollTimeout::from(LOOK));
        match listener.accept() {
            Ok((stream, from)) => shared.clone().welcome(stream, from),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::ConnectionAborted | ErrorKind::Interrupted => {}
                _ => {
                    shared.output.warning(format_args!("cannot accept a connection: {error}"));
                    thread::sleep(BREATH);
                }
            },
        }
    }
    let until = Instant::now() + FAREWELL;
    while shared.clients.load(Ordering::Acquire) > 0 && Instant::now() < until {
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

impl Shared {
    fn is_done(&self) -> bool {
        self.config.one_off && self.served.load(Ordering::Acquire) > 0
    }

    /// Hands a connection to a thread of its own; a crash there is its own too.
    fn welcome(self: Arc<Self>, stream: TcpStream, from: SocketAddr) {
        let shared = self.clone();
        let named = thread::Builder::new().name("client".to_owned());
        let started = named.spawn(move || door::receive(&shared, stream, from));
        if let Err(error) = started {
            self.output.warning(format_args!("no thread for {from}: {error}; it was closed"));
        }
    }

    /// Says that somebody was turned away: the first few times, then ever more rarely, so that a
    /// stranger cannot fill a log.
    fn turn_away(&self, from: SocketAddr, reason: &dyn std::fmt::Display) {
        let number = self.turned_away.fetch_add(1, Ordering::AcqRel) + 1;
        if number <= 8 || number.is_power_of_two() {
            let reason = clean(&reason.to_string());
            self.output.note(format_args!("{from} turned away ({number} so far): {reason}"));
        }
    }
}
