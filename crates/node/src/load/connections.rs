//! Opening the connections of a load, each step bounded in time.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, bind, connect, getsockopt,
    listen as listen_on, setsockopt, socket, sockopt,
};

use super::socket_options::SocketOptions;
use super::{LoadControl, LoadError};

/// What a connection begins with where that is wanted.
const GREETING: u8 = b'.';

/// Connects all streams to a receiver.
pub(super) fn connect_all(
    peer: SocketAddr,
    streams: usize,
    options: &SocketOptions,
    within: Duration,
) -> Result<Vec<TcpStream>, LoadError> {
    let deadline = Instant::now() + within;
    let mut connected = Vec::with_capacity(streams);
    for number in 1..=streams {
        let socket = new_socket(peer.ip())?;
        options.set_on_tcp(socket.as_fd())?;
        connect_until(&socket, peer, deadline).map_err(|source| LoadError::Connect {
            peer,
            number,
            streams,
            source,
        })?;
        options.verify_connected(socket.as_fd())?;
        let mut stream = TcpStream::from(socket);
        if options.greets {
            // A connection that was just made has room for a byte.
            let said = stream.write_all(&[GREETING]);
            said.map_err(|source| LoadError::Connect { peer, number, streams, source })?;
        }
        connected.push(stream);
    }
    Ok(connected)
}

fn connect_until(socket: &OwnedFd, peer: SocketAddr, deadline: Instant) -> io::Result<()> {
    match connect(socket.as_raw_fd(), &SockaddrStorage::from(peer)) {
        Ok(()) => return Ok(()),
        Err(Errno::EINPROGRESS) => {}
        Err(errno) => return Err(errno.into()),
    }
    let mut fds = [PollFd::new(socket.as_fd(), PollFlags::POLLOUT)];
    if !poll_until(&mut fds, deadline)? {
        return Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time"));
    }
    match getsockopt(socket, sockopt::SocketError)? {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// Listens for the streams of a sender; the port is the kernel's choice.
pub(super) fn listen(
    address: IpAddr,
    streams: usize,
    options: &SocketOptions,
) -> Result<(TcpListener, u16), LoadError> {
    let socket = new_socket(address)?;
    options.set_on_tcp(socket.as_fd())?;
    let refused = |source: io::Error| LoadError::Listen { address, source };
    let backlog = i32::try_from(streams).unwrap_or(i32::MAX).min(4096);
    bind(socket.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(address, 0)))
        .map_err(|errno| refused(errno.into()))?;
    Backlog::new(backlog)
        .and_then(|backlog| listen_on(&socket, backlog))
        .map_err(|errno| refused(errno.into()))?;
    let listener = TcpListener::from(socket);
    let port = listener.local_addr().map_err(refused)?.port();
    Ok((listener, port))
}

/// How long Start waits for connections that are made already but not accepted yet.
const START_WITHIN: Duration = Duration::from_secs(2);
/// How long a receiver waits for all connections after it is ready.
const ACCEPT_WITHIN: Duration = Duration::from_secs(60);

/// A receiver whose connections are being accepted.
pub(super) struct Accepting {
    thread: Option<JoinHandle<()>>,
    accepted: Receiver<Result<Vec<TcpStream>, LoadError>>,
    streams: usize,
    control: Arc<LoadControl>,
}

impl Accepting {
    /// Accepts so many connections in the background.
    pub(super) fn start(
        listener: TcpListener,
        streams: usize,
        greets: bool,
        control: &Arc<LoadControl>,
    ) -> Result<Self, LoadError> {
        let (sender, accepted) = channel();
        let told = control.clone();
        let thread = std::thread::Builder::new()
            .name("accept".to_owned())
            .spawn(move || {
                // Nobody listens any more when the load was dropped meanwhile: that is fine.
                let _ = sender.send(accept_all(&listener, streams, greets, &told, ACCEPT_WITHIN));
            })
            .map_err(LoadError::system("create a thread"))?;
        Ok(Self { thread: Some(thread), accepted, streams, control: control.clone() })
    }

    /// All of them, as the sender has connected already.
    pub(super) fn all(&mut self) -> Result<Vec<TcpStream>, LoadError> {
        match self.accepted.recv_timeout(START_WITHIN) {
            Ok(outcome) => {
                // It has said its last word.
                drop(self.thread.take().map(JoinHandle::join));
                outcome
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                let arrived = self.control.arrived();
                Err(LoadError::Missing { arrived, streams: self.streams, waited: START_WITHIN })
            }
        }
    }
}

impl Drop for Accepting {
    /// Whoever has not waited for all of them gives the load up.
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.control.stop();
            drop(thread.join());
        }
    }
}

/// Accepts so many connections, all from the host that the first one came from; others are closed.
fn accept_all(
    listener: &TcpListener,
    streams: usize,
    greets: bool,
    control: &LoadControl,
    within: Duration,
) -> Result<Vec<TcpStream>, LoadError> {
    let deadline = Instant::now() + within;
    let mut accepted: Vec<TcpStream> = Vec::new();
    let mut first_peer = None;
    while accepted.len() < streams {
        let number = accepted.len() + 1;
        let failed = |source: io::Error| LoadError::Accept { number, streams, source };
        let mut fds = [
            PollFd::new(listener.as_fd(), PollFlags::POLLIN),
            PollFd::new(control.wake(), PollFlags::POLLIN),
        ];
        if !poll_until(&mut fds, deadline).map_err(failed)? || control.stopping() {
            return Err(LoadError::Missing { arrived: accepted.len(), streams, waited: within });
        }
        match listener.accept() {
            Ok((stream, peer)) => {
                if same_host(*first_peer.get_or_insert(peer.ip()), peer.ip()) {
                    if greets {
                        hear_greeting(&stream, control, deadline).map_err(failed)?;
                    }
                    accepted.push(stream);
                    control.note_arrived(accepted.len());
                }
            }
            // The connection was aborted before we came to it (accept(2)).
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock
                        | io::ErrorKind::ConnectionAborted
                        | io::ErrorKind::Interrupted
                ) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(accepted)
}

/// Reads the byte that a connection begins with.
fn hear_greeting(
    mut stream: &TcpStream,
    control: &LoadControl,
    deadline: Instant,
) -> io::Result<()> {
    let mut fds = [
        PollFd::new(stream.as_fd(), PollFlags::POLLIN),
        PollFd::new(control.wake(), PollFlags::POLLIN),
    ];
    if !poll_until(&mut fds, deadline)? || control.stopping() {
        return Err(io::Error::new(io::ErrorKind::TimedOut, "it says nothing"));
    }
    stream.read_exact(&mut [0])
}

/// Makes that closing the connection resets it: what is still buffered is thrown away.
pub(super) fn reset(stream: &impl AsFd) {
    let at_once = libc::linger { l_onoff: 1, l_linger: 0 };
    let _ = setsockopt(stream, sockopt::Linger, &at_once);
}

fn new_socket(address: IpAddr) -> Result<OwnedFd, LoadError> {
    let family = match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    };
    socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK, None)
        .map_err(LoadError::system("open a TCP socket"))
}

/// Same host, whatever the port; an IPv4 address mapped into IPv6 is the IPv4 one.
pub(super) fn same_host(a: IpAddr, b: IpAddr) -> bool {
    a.to_canonical() == b.to_canonical()
}

/// Whether one of them became ready before the deadline.
fn poll_until(fds: &mut [PollFd<'_>], deadline: Instant) -> io::Result<bool> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        // Rounded up, so as not to spin through the last millisecond.
        let left = left + Duration::from_millis(u64::from(!left.is_zero()));
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        match poll(fds, timeout) {
            Ok(0) if left.is_zero() => return Ok(false),
            Ok(0) | Err(Errno::EINTR) => {}
            Ok(_) => return Ok(true),
            Err(errno) => return Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::socket::SockaddrIn;
    use vioperf_model::workload::{Workload, WorkloadKind};

    use super::*;

    fn plain() -> SocketOptions {
        SocketOptions::of(&Workload::new(WorkloadKind::TcpStream))
    }

    /// Connects from one of loopback's many addresses.
    fn connect_from(source: [u8; 4], port: u16) -> OwnedFd {
        let socket =
            socket(AddressFamily::Inet, SockType::Stream, SockFlag::empty(), None).unwrap();
        let [a, b, c, d] = source;
        bind(socket.as_raw_fd(), &SockaddrIn::new(a, b, c, d, 0)).unwrap();
        connect(socket.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, port)).unwrap();
        socket
    }

    #[test]
    fn a_stranger_does_not_take_a_streams_place() {
        let (listener, port) = listen("127.0.0.1".parse().unwrap(), 2, &plain()).unwrap();
        let control = LoadControl::new(1).unwrap();
        let sources = [[127, 0, 0, 1], [127, 0, 0, 2], [127, 0, 0, 1]];
        let _open = sources.map(|source| connect_from(source, port));
        let accepted = accept_all(&listener, 2, false, &control, Duration::from_secs(5)).unwrap();
        let peers = accepted.iter().map(|stream| stream.peer_addr().unwrap().ip().to_string());
        assert_eq!(peers.collect::<Vec<_>>(), ["127.0.0.1", "127.0.0.1"]);
    }

    #[test]
    fn a_greeting_is_heard_and_is_no_payload() {
        let greeting = plain().with_greeting(true);
        let (listener, port) = listen("127.0.0.1".parse().unwrap(), 1, &greeting).unwrap();
        let control = LoadControl::new(1).unwrap();
        let peer = SocketAddr::from(([127, 0, 0, 1], port));
        let mut sent = connect_all(peer, 1, &greeting, Duration::from_secs(5)).unwrap();
        sent[0].write_all(b"payload").unwrap();
        let mut got = accept_all(&listener, 1, true, &control, Duration::from_secs(5)).unwrap();
        let mut bytes = [0; 7];
        got[0].read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"payload");
    }

    #[test]
    fn too_few_connections_are_counted() {
        let (listener, port) = listen("127.0.0.1".parse().unwrap(), 2, &plain()).unwrap();
        let control = LoadControl::new(1).unwrap();
        let _open = connect_from([127, 0, 0, 1], port);
        let error =
            accept_all(&listener, 2, false, &control, Duration::from_millis(50)).unwrap_err();
        assert!(error.to_string().contains("1 of 2 connections"), "{error}");
    }
}
