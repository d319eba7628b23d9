//! The socket options that a workload asks for: set in one place for all loads, and read back where
//! the kernel may take something else in silence.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::errno::Errno;
use nix::sys::socket::{SetSockOpt, getsockopt, setsockopt, sockopt};
use vioperf_model::sample::SocketBuffers;
use vioperf_model::units::ByteSize;
use vioperf_model::workload::Workload;

use super::LoadError;

/// The number of counters that `SO_MEMINFO` gives.
const MEMINFO_COUNTERS: usize = 9;

/// The largest buffer that the kernel can be asked for: it takes an int, and doubles it.
const LARGEST_BUFFER: usize = 0x3fff_ffff;
/// What the options of every segment (time stamps) take of a segment's size.
const SEGMENT_OPTIONS: u32 = 12;

/// What every socket of a load gets.
#[derive(Debug, Clone)]
pub(in crate::load) struct SocketOptions {
    /// A connection begins with a byte that is no payload.
    pub(in crate::load) greets: bool,
    buffer: Option<ByteSize>,
    dscp: Option<u8>,
    busy_poll_us: Option<libc::c_int>,
    mss: Option<u16>,
    congestion_control: Option<OsString>,
    nodelay: Option<bool>,
    /// Bytes per second.
    pacing: Option<u64>,
}

impl SocketOptions {
    pub(in crate::load) fn of(workload: &Workload) -> Self {
        let busy_poll = workload.busy_poll.map(|time| time.as_duration().as_micros());
        Self {
            greets: false,
            buffer: workload.socket_buffer,
            dscp: workload.dscp,
            busy_poll_us: busy_poll.map(|us| libc::c_int::try_from(us).unwrap_or(libc::c_int::MAX)),
            mss: workload.mss,
            congestion_control: workload.congestion_control.as_ref().map(OsString::from),
            nodelay: workload.nodelay,
            pacing: workload.pacing.map(|rate| rate.as_bits_per_second() / 8),
        }
    }

    /// Whether a connection begins with a byte that is no payload.
    pub(in crate::load) fn with_greeting(self, greets: bool) -> Self {
        Self { greets, ..self }
    }

    /// Requests and responses do not wait for more to send, unless that is asked for.
    pub(in crate::load) fn without_delay(mut self) -> Self {
        self.nodelay.get_or_insert(true);
        self
    }

    /// What was asked for as the size of both buffers.
    pub(in crate::load) fn buffer(&self) -> Option<ByteSize> {
        self.buffer
    }

    /// Sets what a TCP socket shall have. Before it connects or listens: what is accepted inherits
    /// all of it, and the buffer decides the window's scale.
    pub(in crate::load) fn set_on_tcp(&self, socket: BorrowedFd<'_>) -> Result<(), LoadError> {
        self.set_on_any(socket)?;
        if let Some(mss) = self.mss {
            set_number(socket, libc::IPPROTO_TCP, libc::TCP_MAXSEG, mss.into())
                .map_err(refused("TCP_MAXSEG (mss)", &mss, "the kernel takes 88 to 32767"))?;
        }
        if let Some(name) = &self.congestion_control {
            set_congestion_control(socket, name)?;
        }
        if let Some(nodelay) = self.nodelay {
            set(socket, sockopt::TcpNoDelay, "TCP_NODELAY (nodelay)", &nodelay)?;
        }
        if let Some(rate) = self.pacing {
            set_pacing(socket, rate)?;
        }
        Ok(())
    }

    /// Sets what a UDP socket shall have.
    pub(in crate::load) fn set_on_udp(&self, socket: BorrowedFd<'_>) -> Result<(), LoadError> {
        self.set_on_any(socket)
    }

    fn set_on_any(&self, socket: BorrowedFd<'_>) -> Result<(), LoadError> {
        if let Some(size) = self.buffer {
            size_buffer(socket, Buffer::Receive, size)?;
            size_buffer(socket, Buffer::Send, size)?;
        }
        if let Some(dscp) = self.dscp {
            set_dscp(socket, dscp)?;
        }
        if let Some(time) = self.busy_poll_us {
            let refused = || {
                let advice =
                    "polling for longer than sysctl net.core.busy_read needs CAP_NET_ADMIN";
                refused("SO_BUSY_POLL (busy_poll)", &format!("{time} µs"), advice)
            };
            set_number(socket, libc::SOL_SOCKET, libc::SO_BUSY_POLL, time).map_err(refused())?;
            let given = number(socket, libc::SOL_SOCKET, libc::SO_BUSY_POLL).map_err(refused())?;
            if given != time {
                return Err(refused()(Errno::EINVAL));
            }
        }
        Ok(())
    }

    /// Whether a connection uses what was asked for: its path may be too narrow for the segment size,
    /// which the kernel then lowers in silence.
    pub(in crate::load) fn verify_connected(
        &self,
        socket: BorrowedFd<'_>,
    ) -> Result<(), LoadError> {
        let Some(asked) = self.mss else { return Ok(()) };
        let given = number(socket, libc::IPPROTO_TCP, libc::TCP_MAXSEG).map_err(refused(
            "TCP_MAXSEG (mss)",
            &asked,
            "it cannot be read back",
        ))?;
        let given = u32::try_from(given).unwrap_or(0).saturating_add(SEGMENT_OPTIONS);
        if given >= u32::from(asked) {
            return Ok(());
        }
        let advice = format!("the path's MTU leaves {given} bytes: ask for no more, or widen it");
        Err(LoadError::Parameter { what: "mss", value: asked.to_string(), advice })
    }
}

/// Which of a socket's two buffers.
#[derive(Debug, Clone, Copy)]
pub(in crate::load) enum Buffer {
    Send,
    Receive,
}

/// Sets a buffer's size, and verifies it: the kernel cuts silently to the sysctl's maximum
/// (socket(7)). Beyond that only by force, which needs `CAP_NET_ADMIN`.
pub(in crate::load) fn size_buffer(
    socket: BorrowedFd<'_>,
    buffer: Buffer,
    asked: ByteSize,
) -> Result<(), LoadError> {
    let (option, sysctl) = match buffer {
        Buffer::Send => ("SO_SNDBUF", "net.core.wmem_max"),
        Buffer::Receive => ("SO_RCVBUF", "net.core.rmem_max"),
    };
    let doubled = size_buffer_as_far_as_possible(socket, buffer, asked)?;
    let given = ByteSize::from_bytes(u64::try_from(doubled / 2).unwrap_or(u64::MAX));
    if given < asked {
        return Err(LoadError::SocketBuffer { option, asked, given, sysctl });
    }
    Ok(())
}

/// Sets a buffer's size to as much of it as the kernel allows. Returns what it is then: twice what was
/// asked for, as the kernel's own bookkeeping is kept in it too.
pub(in crate::load) fn size_buffer_as_far_as_possible(
    socket: BorrowedFd<'_>,
    buffer: Buffer,
    asked: ByteSize,
) -> Result<usize, LoadError> {
    let size = usize::try_from(asked.as_bytes()).unwrap_or(usize::MAX).min(LARGEST_BUFFER);
    match buffer {
        Buffer::Send => {
            if setsockopt(&socket, sockopt::SndBufForce, &size).is_err() {
                set(socket, sockopt::SndBuf, "SO_SNDBUF (socket_buffer)", &size)?;
            }
        }
        Buffer::Receive => {
            if setsockopt(&socket, sockopt::RcvBufForce, &size).is_err() {
                set(socket, sockopt::RcvBuf, "SO_RCVBUF (socket_buffer)", &size)?;
            }
        }
    }
    let given = match buffer {
        Buffer::Send => getsockopt(&socket, sockopt::SndBuf),
        Buffer::Receive => getsockopt(&socket, sockopt::RcvBuf),
    };
    given.map_err(LoadError::system("ask for the size of a socket's buffer"))
}

/// Datagrams that the socket had no room for since it was opened; `None` where the kernel does not
/// tell. It counts in 32 bits.
pub(in crate::load) fn drops(socket: BorrowedFd<'_>) -> Option<u32> {
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

/// The smallest buffers that any of the sockets has; `None` without sockets.
pub(in crate::load) fn smallest_buffers<'a>(
    sockets: impl Iterator<Item = BorrowedFd<'a>>,
) -> Option<SocketBuffers> {
    let in_bytes = |size: usize| u64::try_from(size).unwrap_or(u64::MAX);
    let each = sockets.filter_map(|socket| {
        Some(SocketBuffers {
            send_bytes: in_bytes(getsockopt(&socket, sockopt::SndBuf).ok()?),
            receive_bytes: in_bytes(getsockopt(&socket, sockopt::RcvBuf).ok()?),
        })
    });
    each.reduce(|a, b| SocketBuffers {
        send_bytes: a.send_bytes.min(b.send_bytes),
        receive_bytes: a.receive_bytes.min(b.receive_bytes),
    })
}

fn set<O: SetSockOpt + Copy>(
    socket: BorrowedFd<'_>,
    option: O,
    name: &'static str,
    value: &O::Val,
) -> Result<(), LoadError>
where
    O::Val: Sized,
{
    setsockopt(&socket, option, value).map_err(LoadError::refused(name))
}

/// The code point is the upper six bits of IPv4's type of service and IPv6's traffic class (RFC 2474).
fn set_dscp(socket: BorrowedFd<'_>, dscp: u8) -> Result<(), LoadError> {
    let family = number(socket, libc::SOL_SOCKET, libc::SO_DOMAIN)
        .map_err(LoadError::system("ask for a socket's address family"))?;
    let (level, option, name) = if family == libc::AF_INET6 {
        (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, "IPV6_TCLASS (dscp)")
    } else {
        (libc::IPPROTO_IP, libc::IP_TOS, "IP_TOS (dscp)")
    };
    set_number(socket, level, option, libc::c_int::from(dscp) << 2).map_err(refused(
        name,
        &dscp,
        "a code point is 0 to 63",
    ))
}

fn set_congestion_control(socket: BorrowedFd<'_>, name: &OsStr) -> Result<(), LoadError> {
    let shown = name.to_string_lossy();
    let failed = || {
        let advice = "sysctl net.ipv4.tcp_available_congestion_control lists what this kernel has \
                      (modprobe tcp_NAME may add it), net.ipv4.tcp_allowed_congestion_control what \
                      others than root may use";
        refused("TCP_CONGESTION (congestion_control)", &shown, advice)
    };
    setsockopt(&socket, sockopt::TcpCongestion, &name.to_owned()).map_err(failed())?;
    let given = getsockopt(&socket, sockopt::TcpCongestion).map_err(failed())?;
    if given == name { Ok(()) } else { Err(failed()(Errno::ENOENT)) }
}

/// `SO_MAX_PACING_RATE` in bytes per second, as the `unsigned long` that kernels since 4.20 take.
fn set_pacing(socket: BorrowedFd<'_>, rate: u64) -> Result<(), LoadError> {
    const OPTION: libc::c_int = libc::SO_MAX_PACING_RATE;
    let given = set_value(socket, libc::SOL_SOCKET, OPTION, &rate)
        .and_then(|()| value::<u64>(socket, libc::SOL_SOCKET, OPTION));
    let advice = "give a lower rate, or use `rate`, which needs no help of the kernel";
    let failed = || refused("SO_MAX_PACING_RATE (pacing)", &format!("{rate} B/s"), advice);
    if given.map_err(failed())? == rate { Ok(()) } else { Err(failed()(Errno::ERANGE)) }
}

/// For `map_err`: the kernel does not take this value of an option.
fn refused(
    option: &'static str,
    value: &dyn ToString,
    advice: &'static str,
) -> impl FnOnce(Errno) -> LoadError + use<> {
    let value = value.to_string();
    move |errno| LoadError::Option { option, value, source: errno.into(), advice }
}

/// Sets an option that is an int.
pub(in crate::load) fn set_number(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> Result<(), Errno> {
    set_value(socket, level, option, &value)
}

/// Reads an option that is an int.
pub(in crate::load) fn number(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
) -> Result<libc::c_int, Errno> {
    value(socket, level, option)
}

/// Sets an option that is a plain number of any width.
fn set_value<T: Copy>(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> Result<(), Errno> {
    let length = libc::socklen_t::try_from(size_of::<T>()).unwrap_or(0);
    // SAFETY: the kernel reads `length` bytes of `value`.
    let outcome = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const *value).cast(), length)
    };
    Errno::result(outcome).map(drop)
}

/// Reads an option that is a plain number; `T` must be valid whatever its bytes are.
fn value<T: Copy + Default>(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
) -> Result<T, Errno> {
    let mut value = T::default();
    let mut length = libc::socklen_t::try_from(size_of::<T>()).unwrap_or(0);
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
