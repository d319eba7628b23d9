//! Requests answered one by one, over TCP or UDP: transactions and their latency.
//!
//! Each stream is one connection (or pair of UDP sockets) and has a thread of its own, which in the
//! plain case sleeps in `recv` itself: one system call less a transaction than with epoll. TCP
//! carries messages back to back and in order; over UDP they begin with as many bytes of a sequence
//! number as they have room for (up to eight), so that late answers are known and thrown away.
//!
//! In a closed loop a request follows an answer. In an open loop requests are due by the clock; one
//! that finds too many under way is sent as soon as there is room. Latency counts from when it was
//! due, so a stall shows in every request that it delayed, not only in those that were sent.
//!
//! Latency is recorded of what begins after the warm-up, by this node's own clock since Start, and
//! until Stop: the window in which samples are cut does not reach beyond that.

mod answering;
mod asking;
mod greeting;
mod options;
mod silence;

use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::socket::{MsgFlags, SockaddrStorage, getpeername, setsockopt, sockopt};
use nix::sys::time::{TimeVal, TimeValLike};
use vioperf_model::sample::{Exchanged, LoadOutcome, StreamOutcome};
use vioperf_model::wire::Role;
use vioperf_model::workload::{Transport, Workload};

use super::connections::{Accepting, connect_all, listen, reset};
use super::histogram::export;
use super::socket_options::{SocketOptions, drops, smallest_buffers};
use super::threads::{Threads, join_all};
use super::{Load, LoadControl, LoadError};
use crate::clock::monotonic_ns;
use crate::open_files::allow_open_files;
use answering::{Answered, Answering};
use asking::{Asked, Asking};
use options::Options;
pub(in crate::load) use options::{Sizes, stream_buffer};
pub(in crate::load) use silence::{SILENCE, Silence, TICK};

/// How long a sender tries to reach its receiver.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// How long Start waits for greetings that are sent already but not heard yet.
const START_WITHIN: Duration = Duration::from_secs(2);

/// This load at one end.
pub(crate) struct RequestResponse {
    control: Arc<LoadControl>,
    options: Arc<Options>,
    socket_options: SocketOptions,
    threads: Threads,
    asks: bool,
    port: Option<u16>,
    stage: Stage,
}

enum Stage {
    /// A receiver whose connections are being accepted.
    Accepting(Accepting),
    /// A receiver to whom the sender's UDP sockets make themselves known.
    Greeting {
        thread: JoinHandle<Vec<SocketAddr>>,
        door: UdpSocket,
        enough: Arc<EventFd>,
    },
    Connected(Vec<OwnedFd>),
    Asking(Vec<JoinHandle<Asked>>),
    Answering(Vec<JoinHandle<Answered>>),
    /// The sockets wait to be closed.
    Ended {
        held: Vec<OwnedFd>,
    },
}

impl RequestResponse {
    pub(crate) fn prepare(
        role: &Role,
        workload: &Workload,
        greets: bool,
    ) -> Result<Self, LoadError> {
        let options = Arc::new(Options::of(workload)?);
        let threads = Threads::of(role, workload)?;
        allow_open_files(options.streams);
        let control = Arc::new(LoadControl::new(options.streams)?.counting_transactions());
        let socket_options = SocketOptions::of(workload).without_delay().with_greeting(greets);
        let (streams, sockets) = (options.streams, &socket_options);
        let (asks, port, stage) = match (*role, options.transport) {
            (Role::Sender { peer }, Transport::Tcp) => {
                let connected = connect_all(peer, streams, sockets, CONNECT_WITHIN)?;
                (true, None, Stage::Connected(connected.into_iter().map(OwnedFd::from).collect()))
            }
            (Role::Sender { peer }, Transport::Udp) => {
                let greeted = greeting::greet_all(peer, streams, sockets, CONNECT_WITHIN)?;
                (true, None, Stage::Connected(greeted))
            }
            (Role::Receiver { bind }, Transport::Tcp) => {
                let (listener, port) = listen(bind, streams, sockets)?;
                let accepting = Accepting::start(listener, streams, greets, &control)?;
                (false, Some(port), Stage::Accepting(accepting))
            }
            (Role::Receiver { bind }, Transport::Udp) => {
                let (door, port) = greeting::open_door(bind, sockets)?;
                (false, Some(port), greet_in_background(door, streams, &control)?)
            }
            (Role::Observer | Role::Disk, _) => {
                let advice = "it asks and answers nothing".to_owned();
                let value = "observer".to_owned();
                return Err(LoadError::Parameter { what: "role", value, advice });
            }
        };
        Ok(Self { control, options, socket_options, threads, asks, port, stage })
    }

    /// Waits for the other side's connections or greetings.
    fn await_streams(&mut self) -> Result<Option<Vec<TcpStream>>, LoadError> {
        let streams = self.options.streams;
        let control = &self.control;
        let missing = || {
            let arrived = control.arrived();
            LoadError::Missing { arrived, streams, waited: START_WITHIN }
        };
        match &mut self.stage {
            Stage::Accepting(accepting) => accepting.all().map(Some),
            Stage::Greeting { .. } => {
                let deadline = Instant::now() + START_WITHIN;
                while control.arrived() < streams {
                    if Instant::now() >= deadline {
                        return Err(missing());
                    }
                    std::thread::sleep(Duration::from_millis(2));
                }
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    fn begin_asking(&mut self, sockets: Vec<OwnedFd>) -> Result<(), LoadError> {
        let start_ns = monotonic_ns();
        let mut streams = Vec::with_capacity(sockets.len());
        for (number, socket) in sockets.into_iter().enumerate() {
            let peer = peer_of(&socket)?;
            streams.push(Asking::new(number, socket, peer, &self.options, start_ns)?);
        }
        let mut threads = Vec::with_capacity(streams.len());
        for (number, stream) in streams.into_iter().enumerate() {
            threads.push(
                self.threads.spawn(number, &self.control, move |control| stream.run(control))?,
            );
        }
        self.stage = Stage::Asking(threads);
        Ok(())
    }

    fn begin_answering(&mut self, sockets: Vec<OwnedFd>) -> Result<(), LoadError> {
        let mut threads = Vec::with_capacity(sockets.len());
        for (number, socket) in sockets.into_iter().enumerate() {
            let peer = peer_of(&socket).ok();
            let stream = Answering::new(number, socket, peer, &self.options);
            threads.push(
                self.threads.spawn(number, &self.control, move |control| stream.run(control))?,
            );
        }
        self.stage = Stage::Answering(threads);
        Ok(())
    }
}

fn greet_in_background(
    door: UdpSocket,
    streams: usize,
    control: &Arc<LoadControl>,
) -> Result<Stage, LoadError> {
    let enough = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)
        .map_err(LoadError::system("create an eventfd"))?;
    let enough = Arc::new(enough);
    let (control, told) = (control.clone(), enough.clone());
    let own = door.try_clone().map_err(LoadError::system("duplicate a socket"))?;
    let thread = std::thread::Builder::new()
        .name("greet".to_owned())
        .spawn(move || greeting::answer_greetings(&own, streams, &control, &told))
        .map_err(LoadError::system("create a thread"))?;
    Ok(Stage::Greeting { thread, door, enough })
}

fn peer_of(socket: &OwnedFd) -> Result<SocketAddr, LoadError> {
    let address: SockaddrStorage = getpeername(socket.as_raw_fd())
        .map_err(LoadError::system("ask for a connection's peer"))?;
    let v4 = address.as_sockaddr_in().map(|v4| SocketAddr::from((v4.ip(), v4.port())));
    let v6 = address.as_sockaddr_in6().map(|v6| SocketAddr::from((v6.ip(), v6.port())));
    v4.or(v6).ok_or(LoadError::System {
        step: "read a peer's address",
        source: Errno::EAFNOSUPPORT.into(),
    })
}

/// Makes calls on a socket sleep, but never longer than a tick, and send at once.
pub(in crate::load) fn sleep_in_calls(socket: &impl AsFd) -> Result<(), Errno> {
    let tick = TimeVal::milliseconds(i64::try_from(TICK.as_millis()).unwrap_or(i64::MAX));
    setsockopt(socket, sockopt::ReceiveTimeout, &tick)?;
    setsockopt(socket, sockopt::SendTimeout, &tick)
}

/// What every connection of this load gets before it starts.
fn make_ready(socket: &OwnedFd) -> Result<(), LoadError> {
    sleep_in_calls(socket).map_err(LoadError::system("set a socket's time-outs"))?;
    let flags = nix::fcntl::OFlag::empty();
    nix::fcntl::fcntl(socket, nix::fcntl::FcntlArg::F_SETFL(flags))
        .map(drop)
        .map_err(LoadError::system("make a socket blocking"))
}

/// Of a call on a socket; a broken pipe is an errno, no signal.
fn flags(sleeps: bool) -> MsgFlags {
    let never_waits = if sleeps { MsgFlags::empty() } else { MsgFlags::MSG_DONTWAIT };
    MsgFlags::MSG_NOSIGNAL | never_waits
}

/// Whether an error of a UDP socket means that a datagram got lost, and no more: the path may be
/// up again in a moment, and time-outs tell if it is not.
fn loses_datagram(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::EAGAIN
            | Errno::EINTR
            | Errno::ENOBUFS
            | Errno::EPERM
            | Errno::EHOSTUNREACH
            | Errno::ENETUNREACH
            | Errno::ENETDOWN
    )
}

/// The socket to be held until the load is dropped; reset at once when nobody asked in time.
fn kept(socket: OwnedFd, transport: Transport, control: &LoadControl) -> Option<OwnedFd> {
    if !control.abandoned() {
        return Some(socket);
    }
    if transport == Transport::Tcp {
        reset(&socket);
    }
    None
}

impl Load for RequestResponse {
    fn port(&self) -> Option<u16> {
        self.port
    }

    fn control(&self) -> &Arc<LoadControl> {
        &self.control
    }

    fn await_peer(&mut self) -> Result<(), LoadError> {
        let accepted = self.await_streams()?;
        let ended = Stage::Ended { held: Vec::new() };
        match std::mem::replace(&mut self.stage, ended) {
            Stage::Accepting(_) => {
                let accepted = accepted.unwrap_or_default();
                self.stage = Stage::Connected(accepted.into_iter().map(OwnedFd::from).collect());
            }
            Stage::Greeting { thread, door, enough } => {
                // Fails only when the counter is full, and then it is readable as wanted.
                let _ = enough.write(1);
                let guests = thread.join().unwrap_or_default();
                let seats = greeting::seat(&door, &guests, &self.socket_options)?;
                self.stage = Stage::Connected(seats);
            }
            other => self.stage = other,
        }
        Ok(())
    }

    fn begin(&mut self) -> Result<(), LoadError> {
        let stage = std::mem::replace(&mut self.stage, Stage::Ended { held: Vec::new() });
        let Stage::Connected(sockets) = stage else {
            self.stage = stage;
            return Ok(());
        };
        for socket in &sockets {
            make_ready(socket)?;
        }
        let begun =
            if self.asks { self.begin_asking(sockets) } else { self.begin_answering(sockets) };
        if begun.is_err() {
            // Those threads that there are end by themselves.
            self.control.stop();
        }
        begun
    }

    fn end(&mut self) -> LoadOutcome {
        self.control.stop();
        let mut streams = vec![StreamOutcome::default(); self.options.streams];
        let mut outcome = LoadOutcome::default();
        let mut held = Vec::new();
        let mut exchanged = Exchanged::default();
        let mut keep = |number: usize, stream, of_stream: Exchanged, socket: Option<OwnedFd>| {
            exchanged.sent += of_stream.sent;
            exchanged.received += of_stream.received;
            if let Some(place) = streams.get_mut(number) {
                *place = stream;
            }
            held.extend(socket);
        };
        match std::mem::replace(&mut self.stage, Stage::Ended { held: Vec::new() }) {
            Stage::Asking(threads) => {
                let all = join_all(threads, &self.control);
                outcome = summary(&all, &self.options);
                all.into_iter().for_each(|one| {
                    keep(one.number, one.outcome, one.exchanged, one.socket);
                });
            }
            Stage::Answering(threads) => join_all(threads, &self.control)
                .into_iter()
                .for_each(|one| keep(one.number, one.outcome, one.exchanged, one.socket)),
            other => self.stage = other,
        }
        let socket_buffers = smallest_buffers(held.iter().map(AsFd::as_fd));
        let is_udp = self.options.transport == Transport::Udp;
        let socket_drops = held.iter().map(|socket| drops(socket.as_fd()).map(u64::from)).sum();
        if !held.is_empty() {
            self.stage = Stage::Ended { held };
        }
        LoadOutcome {
            streams,
            socket_buffers,
            exchanged: is_udp.then_some(exchanged),
            socket_drops: if is_udp { socket_drops } else { None },
            ended_early: self.control.ended_early(),
            ..outcome
        }
    }
}

/// What all streams that asked come to.
fn summary(all: &[Asked], options: &Options) -> LoadOutcome {
    let latency = Some(export(all.iter().map(|one| &one.latencies)));
    let timeouts = all.iter().map(|one| one.timeouts).sum();
    let not_sent = all.iter().map(|one| one.not_sent).sum();
    LoadOutcome {
        latency,
        timeouts: (options.transport == Transport::Udp).then_some(timeouts),
        not_sent: options.requests_per_second.map(|_| not_sent),
        ..LoadOutcome::default()
    }
}

impl Drop for RequestResponse {
    fn drop(&mut self) {
        self.control.stop();
        let held = match std::mem::replace(&mut self.stage, Stage::Ended { held: Vec::new() }) {
            Stage::Accepting(accepting) => return drop(accepting),
            Stage::Greeting { thread, .. } => return drop(thread.join()),
            Stage::Asking(threads) => return drop(join_all(threads, &self.control)),
            Stage::Answering(threads) => return drop(join_all(threads, &self.control)),
            Stage::Connected(held) | Stage::Ended { held } => held,
        };
        if self.options.transport == Transport::Tcp {
            held.iter().for_each(reset);
        }
    }
}
