//! The kernel's view of a TCP connection: `TCP_INFO` (tcp(7)).

use std::os::fd::{AsRawFd, BorrowedFd};

use vioperf_model::sample::{TcpLimits, TcpStreamInfo};

/// As long as `struct tcp_info` has ever been, and some more: newer kernels give more of it.
const LARGEST: usize = 512;

/// Reads `TCP_INFO`; nothing when the kernel refuses or is too old to count acknowledged bytes (4.1).
pub(crate) fn read(socket: BorrowedFd<'_>) -> Option<TcpStreamInfo> {
    let mut info = [0_u8; LARGEST];
    let mut length = libc::socklen_t::try_from(info.len()).ok()?;
    // SAFETY: the kernel writes at most `length` bytes into `info`, which is that long, and stores
    // how many it wrote in `length`; both live across the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return None;
    }
    parse(info.get(..usize::try_from(length).ok()?)?)
}

/// Reads the fields by their places in `struct tcp_info` (linux/tcp.h), which only ever grows.
fn parse(info: &[u8]) -> Option<TcpStreamInfo> {
    Some(TcpStreamInfo {
        send_mss_bytes: u32_at(info, 16)?,
        path_mtu_bytes: u32_at(info, 60)?,
        rtt_us: u32_at(info, 68)?,
        rtt_variation_us: u32_at(info, 72)?,
        congestion_window_segments: u32_at(info, 80)?,
        retransmissions: u32_at(info, 100)?,
        bytes_acked: u64_at(info, 120)?,
        receive_mss_bytes: u32_at(info, 20)?,
        // The kernel says that it has measured none by the largest number there is.
        least_rtt_us: u32_at(info, 148).filter(|us| *us != u32::MAX),
        limits: limits(info),
    })
}

fn limits(info: &[u8]) -> Option<TcpLimits> {
    Some(TcpLimits {
        busy_us: u64_at(info, 168)?,
        receive_window_us: u64_at(info, 176)?,
        send_buffer_us: u64_at(info, 184)?,
    })
}

fn u64_at(info: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(info.get(at..at + 8)?.try_into().ok()?))
}

fn u32_at(info: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(info.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn tells_what_a_connection_did() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut receiver, _) = listener.accept().unwrap();
        sender.write_all(&[1; 10_000]).unwrap();
        receiver.read_exact(&mut [0; 10_000]).unwrap();
        // The last acknowledgement may still be delayed; the first bytes' is not.
        let info = read(sender.as_fd()).unwrap();
        assert!(info.send_mss_bytes > 500, "{info:?}");
        assert!(info.path_mtu_bytes > info.send_mss_bytes, "{info:?}");
        assert!(info.congestion_window_segments > 0 && info.rtt_us > 0, "{info:?}");
        assert_eq!(info.retransmissions, 0);
        assert!(info.least_rtt_us.is_some_and(|us| us <= info.rtt_us), "{info:?}");
        assert!(info.limits.is_some(), "{info:?}");
    }

    #[test]
    fn what_an_older_kernel_does_not_tell_is_absent() {
        let old = parse(&[0; 128]).unwrap();
        assert_eq!((old.least_rtt_us, old.limits), (None, None));
    }

    #[test]
    fn an_old_kernels_short_answer_is_nothing() {
        assert_eq!(parse(&[0; 104]), None);
        assert_eq!(parse(&[]), None);
    }
}
