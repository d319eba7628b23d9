//! Opening the sockets of a datagram load; what the kernel refuses is named.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, bind, connect, setsockopt, socket, sockopt,
};
use vioperf_model::units::ByteSize;

use crate::load::LoadError;
use crate::load::socket_options::{
    Buffer, SocketOptions, number, set_number, size_buffer_as_far_as_possible,
};

/// What a receiver's buffer shall hold when nothing is asked for: 10 ms of a million small datagrams
/// a second, each of which takes some 768 bytes of it.
const RECEIVE_BUFFER: ByteSize = ByteSize::from_mib(8);

/// A socket that sends to `peer` alone and hears it alone; from an address, if one is given.
pub(super) fn connected(
    source: Option<IpAddr>,
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
    if let Some(address) = source {
        bind(socket.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(address, 0)))
            .map_err(|errno| LoadError::Listen { address, source: errno.into() })?;
    }
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

/// That the path swallows datagrams of the load's size without a word, though shorter ones pass.
pub(super) fn black_hole(peer: SocketAddr, payload_bytes: usize, passes: usize) -> LoadError {
    LoadError::Parameter {
        what: "payload",
        value: format!("{payload_bytes} B"),
        advice: format!(
            "datagrams that long do not arrive at {}, while those of {passes} B do: something on \
             the path has a smaller MTU and does not say so; ask for at most {passes} B, or widen it",
            peer.ip()
        ),
    }
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

/// Sets what a receiving socket shall have; without a size that was asked for, its buffer is as large
/// as the kernel gives. Returns how large that is.
pub(super) fn set_on_receiver(
    socket: &UdpSocket,
    options: &SocketOptions,
) -> Result<usize, LoadError> {
    options.set_on_udp(socket.as_fd())?;
    let size = options.buffer().unwrap_or(RECEIVE_BUFFER);
    size_buffer_as_far_as_possible(socket.as_fd(), Buffer::Receive, size)
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
