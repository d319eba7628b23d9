//! Opening the sockets of a datagram load; what the kernel refuses is named.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, bind, connect, getsockopt, setsockopt,
    socket, sockopt,
};
use vioperf_model::units::ByteSize;

use crate::load::LoadError;

/// What a receiver's buffer shall hold when nothing is asked for: 10 ms of a million small datagrams
/// a second, each of which takes some 768 bytes of it.
const RECEIVE_BUFFER: ByteSize = ByteSize::from_mib(8);
/// The number of counters that `SO_MEMINFO` gives.
const MEMINFO_COUNTERS: usize = 9;

/// Raises the limit of open files as far as we may, when so many flows need it. If that is not
/// enough, opening a socket fails and says so.
pub(super) fn allow_open_files(flows: u16) {
    let wanted = u64::from(flows) + 64;
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < wanted
    {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, wanted.min(hard), hard);
    }
}

/// A socket that sends to `peer` alone and hears it alone.
pub(super) fn connected(
    peer: SocketAddr,
    number: usize,
    streams: usize,
) -> Result<UdpSocket, LoadError> {
    let socket = new_socket(peer.ip())?;
    // Fragments would be measured in place of the datagrams that were asked for.
    let (level, option, never) = match peer {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO),
        SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_DO),
    };
    set_number(socket.as_fd(), level, option, never)
        .map_err(LoadError::refused("IP_MTU_DISCOVER"))?;
    connect(socket.as_raw_fd(), &SockaddrStorage::from(peer))
        .map_err(|errno| LoadError::Connect { peer, number, streams, source: errno.into() })?;
    Ok(UdpSocket::from(socket))
}

/// Refuses a payload that does not fit into a packet of the path, as far as it is known here.
pub(super) fn check_fits(
    socket: &UdpSocket,
    peer: SocketAddr,
    payload_bytes: usize,
) -> Result<(), LoadError> {
    let (level, option, headers) = match peer {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU, 20 + 8),
        SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU, 40 + 8),
    };
    let mtu = number(socket.as_fd(), level, option).map_err(LoadError::refused("IP_MTU"))?;
    let room = usize::try_from(mtu).unwrap_or(0).saturating_sub(headers);
    if payload_bytes <= room {
        return Ok(());
    }
    Err(LoadError::Parameter {
        what: "payload",
        value: format!("{payload_bytes} B"),
        advice: format!(
            "the MTU of the path to {} is {mtu}, so that {room} B is the most that goes in one packet",
            peer.ip()
        ),
    })
}

/// A socket that receives at `address`.
pub(super) fn receiving(address: SocketAddr, one_of_many: bool) -> Result<UdpSocket, LoadError> {
    let socket = new_socket(address.ip())?;
    if one_of_many {
        setsockopt(&socket, sockopt::ReusePort, &true)
            .map_err(LoadError::refused("SO_REUSEPORT"))?;
    }
    bind(socket.as_raw_fd(), &SockaddrStorage::from(address))
        .map_err(|errno| LoadError::Listen { address: address.ip(), source: errno.into() })?;
    Ok(UdpSocket::from(socket))
}

fn new_socket(address: IpAddr) -> Result<OwnedFd, LoadError> {
    let family = match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    };
    socket(family, SockType::Datagram, SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK, None)
        .map_err(LoadError::system("open a UDP socket"))
}

/// Sets the size of the send buffer, and verifies it.
pub(super) fn size_send_buffer(socket: &UdpSocket, asked: ByteSize) -> Result<(), LoadError> {
    let size = in_bytes(asked);
    // Beyond the sysctl only by force, which needs CAP_NET_ADMIN.
    if setsockopt(socket, sockopt::SndBufForce, &size).is_err() {
        setsockopt(socket, sockopt::SndBuf, &size).map_err(LoadError::refused("SO_SNDBUF"))?;
    }
    let given = getsockopt(socket, sockopt::SndBuf).map_err(LoadError::refused("SO_SNDBUF"))?;
    verify(asked, given, "SO_SNDBUF", "net.core.wmem_max")
}

/// Sets the size of the receive buffer, and verifies it if it was asked for; without, it is as large as
/// the kernel gives. Returns what it is.
pub(super) fn size_receive_buffer(
    socket: &UdpSocket,
    asked: Option<ByteSize>,
) -> Result<usize, LoadError> {
    let size = in_bytes(asked.unwrap_or(RECEIVE_BUFFER));
    if setsockopt(socket, sockopt::RcvBufForce, &size).is_err() {
        setsockopt(socket, sockopt::RcvBuf, &size).map_err(LoadError::refused("SO_RCVBUF"))?;
    }
    let given = getsockopt(socket, sockopt::RcvBuf).map_err(LoadError::refused("SO_RCVBUF"))?;
    if let Some(asked) = asked {
        verify(asked, given, "SO_RCVBUF", "net.core.rmem_max")?;
    }
    Ok(given)
}

/// The kernel doubles what was asked for, for its own bookkeeping, and cuts it silently (socket(7)).
fn verify(
    asked: ByteSize,
    given: usize,
    option: &'static str,
    sysctl: &'static str,
) -> Result<(), LoadError> {
    let given = ByteSize::from_bytes(u64::try_from(given / 2).unwrap_or(u64::MAX));
    if given < asked {
        return Err(LoadError::SocketBuffer { option, asked, given, sysctl });
    }
    Ok(())
}

fn in_bytes(size: ByteSize) -> usize {
    // The kernel takes an int, and doubles it.
    usize::try_from(size.as_bytes()).unwrap_or(usize::MAX).min(0x3fff_ffff)
}

/// Lets the kernel cut what is sent into datagrams of so many bytes (`UDP_SEGMENT`, udp(7)).
pub(super) fn segment(socket: &UdpSocket, payload_bytes: usize) -> Result<(), LoadError> {
    let size = libc::c_int::try_from(payload_bytes).unwrap_or(libc::c_int::MAX);
    set_number(socket.as_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, size)
        .map_err(LoadError::refused("UDP_SEGMENT (segmentation)"))
}

/// Lets the kernel hand over many datagrams as one message (`UDP_GRO`, udp(7)).
pub(super) fn join_segments(socket: &UdpSocket) -> Result<(), LoadError> {
    set_number(socket.as_fd(), libc::SOL_UDP, libc::UDP_GRO, 1)
        .map_err(LoadError::refused("UDP_GRO (segmentation)"))
}

/// Lets the kernel tell when each datagram arrived.
pub(super) fn stamp_arrivals(socket: &UdpSocket) -> Result<(), LoadError> {
    setsockopt(socket, sockopt::ReceiveTimestampns, &true)
        .map_err(LoadError::refused("SO_TIMESTAMPNS"))
}

/// Datagrams that the socket had no room for since it was opened; `None` where the kernel does not
/// tell. It counts in 32 bits.
pub(super) fn drops(socket: BorrowedFd<'_>) -> Option<u32> {
    let mut counters = [0_u32; MEMINFO_COUNTERS];
    let mut length = libc::socklen_t::try_from(size_of_val(&counters)).ok()?;
    // SAFETY: the kernel writes at most `length` bytes to `counters`.
    let outcome = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            counters.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    let place = usize::try_from(libc::SK_MEMINFO_DROPS).ok()?;
    let told = usize::try_from(length).ok()? / size_of::<u32>();
    (outcome == 0 && told > place).then(|| counters.get(place).copied()).flatten()
}

fn set_number(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> Result<(), Errno> {
    let length = libc::socklen_t::try_from(size_of_val(&value)).unwrap_or(0);
    // SAFETY: the kernel reads `length` bytes of `value`.
    let outcome = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), length)
    };
    Errno::result(outcome).map(drop)
}

fn number(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
) -> Result<libc::c_int, Errno> {
    let mut value: libc::c_int = 0;
    let mut length = libc::socklen_t::try_from(size_of_val(&value)).unwrap_or(0);
    // SAFETY: the kernel writes at most `length` bytes to `value`.
    let outcome = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    Errno::result(outcome).map(|_| value)
}
