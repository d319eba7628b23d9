//! How both ends of a load over UDP find their pairs of sockets before it starts.
//!
//! Each of the sender's sockets sends a greeting until it is answered with a cookie, and then one with
//! that cookie until that is answered; so both know each other's address, and that it is where it
//! seems to be: nothing longer than a greeting is sent to somebody who did not ask. At the start the receiver opens a socket of its own for each
//! that greeted, on the same port and connected to it: the kernel then sorts the datagrams, and none
//! from anyone else comes through. A greeting is answered with as many bytes as it has, and only to
//! the host that greeted first, so that nobody can turn the receiver against others.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::EventFd;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, bind, connect, setsockopt, socket, sockopt,
};

use crate::load::connections::same_host;
use crate::load::socket_options::SocketOptions;
use crate::load::{LoadControl, LoadError};

const GREETING: &[u8; 8] = b"vioperf?";
const ANSWER: &[u8; 8] = b"vioperf!";
/// The length of either, its cookie included.
const WORD_BYTES: usize = 16;
/// In a greeting: none is known yet.
const NO_COOKIE: u64 = 0;
/// How long a greeting waits for its answer before it is sent again.
const AGAIN_AFTER: Duration = Duration::from_millis(100);

/// Opens the sender's sockets and greets with each.
pub(super) fn greet_all(
    peer: SocketAddr,
    streams: usize,
    options: &SocketOptions,
    within: Duration,
) -> Result<Vec<OwnedFd>, LoadError> {
    let deadline = Instant::now() + within;
    let any: IpAddr = match peer.ip() {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let mut greeted = Vec::with_capacity(streams);
    for number in 1..=streams {
        let socket = open(SocketAddr::new(any, 0), options)?;
        let failed = |source| LoadError::Connect { peer, number, streams, source };
        connect(socket.as_raw_fd(), &SockaddrStorage::from(peer))
            .map_err(|errno| failed(errno.into()))?;
        let socket = UdpSocket::from(socket);
        greet(&socket, deadline).map_err(failed)?;
        greeted.push(socket.into());
    }
    Ok(greeted)
}

fn greet(socket: &UdpSocket, deadline: Instant) -> io::Result<()> {
    let mut answer = [0; WORD_BYTES + 1];
    let mut cookie = NO_COOKIE;
    socket.set_read_timeout(Some(AGAIN_AFTER))?;
    while Instant::now() < deadline {
        socket.send(&word(GREETING, cookie))?;
        match socket.recv(&mut answer) {
            Ok(count) => match answer.get(..count).and_then(|bytes| cookie_in(bytes, ANSWER)) {
                Some(known) if known == cookie && cookie != NO_COOKIE => return Ok(()),
                Some(new) => cookie = new,
                None => {}
            },
            Err(error) if !waits(&error) => return Err(error),
            Err(_) => {}
        }
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time"))
}

fn word(magic: &[u8; 8], cookie: u64) -> [u8; WORD_BYTES] {
    let mut bytes = [0; WORD_BYTES];
    bytes[..8].copy_from_slice(magic);
    bytes[8..].copy_from_slice(&cookie.to_be_bytes());
    bytes
}

/// The cookie in such a word; nothing when it is none.
fn cookie_in(bytes: &[u8], magic: &[u8; 8]) -> Option<u64> {
    let cookie = bytes.strip_prefix(magic)?;
    Some(u64::from_be_bytes(cookie.try_into().ok()?))
}

fn waits(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Where greetings are awaited.
pub(super) fn open_door(
    address: IpAddr,
    options: &SocketOptions,
) -> Result<(UdpSocket, u16), LoadError> {
    let door = UdpSocket::from(open(SocketAddr::new(address, 0), options)?);
    share_port(&door)?;
    let port = door.local_addr().map_err(LoadError::system("ask for a socket's address"))?.port();
    Ok((door, port))
}

/// Answers greetings until told that it is enough; who greeted, in the order of the first time.
pub(super) fn answer_greetings(
    door: &UdpSocket,
    streams: usize,
    control: &LoadControl,
    enough: &EventFd,
) -> Vec<SocketAddr> {
    let mut guests: Vec<SocketAddr> = Vec::with_capacity(streams);
    let mut greeting = [0; WORD_BYTES + 1];
    // Random, and told to nobody.
    let secret = RandomState::new();
    loop {
        let mut fds = [
            PollFd::new(door.as_fd(), PollFlags::POLLIN),
            PollFd::new(control.wake(), PollFlags::POLLIN),
            PollFd::new(enough.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return guests,
        }
        let [at_door, stop, enough] = fds.map(|fd| fd.any().unwrap_or(true));
        if stop || enough {
            return guests;
        }
        if !at_door {
            continue;
        }
        // An error is what became of an answer, or a checksum that was wrong: nothing to do.
        let Ok((count, guest)) = door.recv_from(&mut greeting) else { continue };
        let Some(cookie) = greeting.get(..count).and_then(|bytes| cookie_in(bytes, GREETING))
        else {
            continue;
        };
        let own = secret.hash_one(guest);
        if cookie != own {
            // As long as what it answers, and remembered by nobody.
            let _ = door.send_to(&word(ANSWER, own), guest);
            continue;
        }
        let known = guests.contains(&guest);
        let welcome = guests.first().is_none_or(|first| same_host(first.ip(), guest.ip()));
        if !known && (!welcome || guests.len() >= streams) {
            continue;
        }
        if !known {
            guests.push(guest);
            control.note_arrived(guests.len());
        }
        let _ = door.send_to(&word(ANSWER, own), guest);
    }
}

/// A socket for each guest, on the door's port.
pub(super) fn seat(
    door: &UdpSocket,
    guests: &[SocketAddr],
    options: &SocketOptions,
) -> Result<Vec<OwnedFd>, LoadError> {
    let at = door.local_addr().map_err(LoadError::system("ask for a socket's address"))?;
    let streams = guests.len();
    let mut seats = Vec::with_capacity(streams);
    for (number, guest) in (1..).zip(guests) {
        let socket = open(at, options)?;
        connect(socket.as_raw_fd(), &SockaddrStorage::from(*guest)).map_err(|errno| {
            LoadError::Connect { peer: *guest, number, streams, source: errno.into() }
        })?;
        seats.push(socket);
    }
    Ok(seats)
}

/// A bound socket that is not connected.
fn open(at: SocketAddr, options: &SocketOptions) -> Result<OwnedFd, LoadError> {
    let family = match at {
        SocketAddr::V4(_) => AddressFamily::Inet,
        SocketAddr::V6(_) => AddressFamily::Inet6,
    };
    let socket = socket(family, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)
        .map_err(LoadError::system("open a UDP socket"))?;
    options.set_on_udp(socket.as_fd())?;
    // Only for a known port: of its own choice the kernel could else take one that is shared already.
    if at.port() != 0 {
        share_port(&socket)?;
    }
    bind(socket.as_raw_fd(), &SockaddrStorage::from(at))
        .map_err(|errno| LoadError::Listen { address: at.ip(), source: errno.into() })?;
    Ok(socket)
}

/// Lets several sockets have one port; a connected one gets what comes from its peer (udp(7)).
fn share_port(socket: &impl AsFd) -> Result<(), LoadError> {
    setsockopt(socket, sockopt::ReuseAddr, &true).map_err(LoadError::system("share a UDP port"))
}

#[cfg(test)]
mod tests {
    use vioperf_model::workload::{Workload, WorkloadKind};

    use super::*;

    #[test]
    fn a_greeting_is_a_greeting_and_nothing_else_is() {
        assert_eq!(cookie_in(&word(GREETING, 7), GREETING), Some(7));
        assert_eq!(cookie_in(&word(GREETING, 7), ANSWER), None);
        assert_eq!(cookie_in(GREETING, GREETING), None);
        assert_eq!(cookie_in(&[word(GREETING, 7).as_slice(), &[0]].concat(), GREETING), None);
    }

    #[test]
    fn who_does_not_hear_the_answer_is_no_guest() {
        let loopback: IpAddr = Ipv4Addr::LOCALHOST.into();
        let options = SocketOptions::of(&Workload::new(WorkloadKind::RequestResponse));
        let (door, port) = open_door(loopback, &options).unwrap();
        let enough = EventFd::new().unwrap();
        let control = LoadControl::new(1).unwrap();
        let guests = std::thread::scope(|scope| {
            let answering = scope.spawn(|| answer_greetings(&door, 2, &control, &enough));
            // A guess, as somebody would make it who writes another's address on his datagrams.
            let guessing = UdpSocket::bind((loopback, 0)).unwrap();
            guessing.connect((loopback, port)).unwrap();
            let mut answer = [0; WORD_BYTES + 1];
            for cookie in [NO_COOKIE, 1, u64::MAX] {
                guessing.send(&word(GREETING, cookie)).unwrap();
                assert_eq!(guessing.recv(&mut answer).unwrap(), WORD_BYTES);
            }
            let honest = UdpSocket::bind((loopback, 0)).unwrap();
            honest.connect((loopback, port)).unwrap();
            greet(&honest, Instant::now() + Duration::from_secs(10)).unwrap();
            enough.write(1).unwrap();
            (answering.join().unwrap(), honest.local_addr().unwrap())
        });
        assert_eq!(guests.0, [guests.1]);
    }
}
