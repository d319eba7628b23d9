//! Opening the connections of a load, each step bounded in time.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, bind, connect, getsockopt,
    listen as listen_on, setsockopt, socket, sockopt,
};
use vioperf_model::units::ByteSize;

use crate::load::{LoadControl, LoadError};

/// Which of a socket's two buffers.
#[derive(Debug, Clone, Copy)]
pub(in crate::load) enum Buffer {
    Send,
    Receive,
}

/// Raises the limit of open files as far as we may, when so many streams need it. If that is not
/// enough, opening a socket fails and says so.
pub(in crate::load) fn allow_open_files(streams: usize) {
    let wanted = u64::try_from(streams).unwrap_or(u64::MAX).saturating_add(64);
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < wanted
    {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, wanted.min(hard), hard);
    }
}

/// Connects all streams to a receiver.
pub(in crate::load) fn connect_all(
    peer: SocketAddr,
    streams: usize,
    buffer: Option<(Buffer, ByteSize)>,
    within: Duration,
) -> Result<Vec<TcpStream>, LoadError> {
    let deadline = Instant::now() + within;
    let mut connected = Vec::with_capacity(streams);
    for number in 1..=streams {
        let socket = new_socket(peer.ip())?;
        if let Some((buffer, size)) = buffer {
            set_buffer(&socket, buffer, size)?;
        }
        connect_until(&socket, peer, deadline).map_err(|source| LoadError::Connect {
            peer,
            number,
            streams,
            source,
        })?;
        connected.push(TcpStream::from(socket));
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
pub(in crate::load) fn listen(
    address: IpAddr,
    streams: usize,
    buffer: Option<(Buffer, ByteSize)>,
) -> Result<(TcpListener, u16), LoadError> {
    let socket = new_socket(address)?;
    if let Some((buffer, size)) = buffer {
        // Before listening: accepted connections inherit it, and it decides the window's scale.
        set_buffer(&socket, buffer, size)?;
    }
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

/// Accepts so many connections, all from the host that the first one came from; others are closed.
pub(in crate::load) fn accept_all(
    listener: &TcpListener,
    streams: usize,
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

/// Makes that closing the connection resets it: what is still buffered is thrown away.
pub(in crate::load) fn reset(stream: &impl AsFd) {
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

/// Sets a buffer's size and verifies it. The kernel doubles what was asked for, for its own
/// bookkeeping, and cuts it silently to the sysctl's maximum (socket(7)).
pub(in crate::load) fn set_buffer(
    socket: &OwnedFd,
    buffer: Buffer,
    asked: ByteSize,
) -> Result<(), LoadError> {
    let (option, sysctl) = match buffer {
        Buffer::Send => ("SO_SNDBUF", "net.core.wmem_max"),
        Buffer::Receive => ("SO_RCVBUF", "net.core.rmem_max"),
    };
    let refused = |given| LoadError::SocketBuffer { option, asked, given, sysctl };
    let size = usize::try_from(asked.as_bytes())
        .ok()
        .filter(|size| i32::try_from(*size).is_ok())
        .ok_or_else(|| refused(ByteSize::from_bytes(i32::MAX.unsigned_abs().into())))?;
    let given = match buffer {
        Buffer::Send => setsockopt(socket, sockopt::SndBuf, &size)
            .and_then(|()| getsockopt(socket, sockopt::SndBuf)),
        Buffer::Receive => setsockopt(socket, sockopt::RcvBuf, &size)
            .and_then(|()| getsockopt(socket, sockopt::RcvBuf)),
    }
    .map_err(LoadError::system("set the size of a socket's buffer"))?;
    if given / 2 < size {
        let given = u64::try_from(given / 2).unwrap_or(u64::MAX);
        return Err(refused(ByteSize::from_bytes(given)));
    }
    Ok(())
}

/// Same host, whatever the port; an IPv4 address mapped into IPv6 is the IPv4 one.
pub(in crate::load) fn same_host(a: IpAddr, b: IpAddr) -> bool {
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

    use super::*;

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
        let (listener, port) = listen("127.0.0.1".parse().unwrap(), 2, None).unwrap();
        let control = LoadControl::new(1).unwrap();
        let sources = [[127, 0, 0, 1], [127, 0, 0, 2], [127, 0, 0, 1]];
        let _open = sources.map(|source| connect_from(source, port));
        let accepted = accept_all(&listener, 2, &control, Duration::from_secs(5)).unwrap();
        let peers = accepted.iter().map(|stream| stream.peer_addr().unwrap().ip().to_string());
        assert_eq!(peers.collect::<Vec<_>>(), ["127.0.0.1", "127.0.0.1"]);
    }

    #[test]
    fn too_few_connections_are_counted() {
        let (listener, port) = listen("127.0.0.1".parse().unwrap(), 2, None).unwrap();
        let control = LoadControl::new(1).unwrap();
        let _open = connect_from([127, 0, 0, 1], port);
        let error = accept_all(&listener, 2, &control, Duration::from_millis(50)).unwrap_err();
        assert!(error.to_string().contains("1 of 2 connections"), "{error}");
    }
}
