//! A link of known rate: token buckets towards and from the peer, whom every path of a lab passes
//! once each way, with a guest and without.
//!
//! Sources: tc-tbf(8); the kernel's `qdisc_pkt_len_init` for what a packet counts.

use vioperf_model::units::BitRate;
use vioperf_netlink::{NamespaceRef, NetlinkError, Socket, TokenBucket, VethEnd};

/// Bytes before the payload of a frame that the bucket counts too.
const ETHERNET_HEADER_BYTES: u32 = 14;

/// For how long a link that was idle may send without a pause, and so how much later than due the
/// kernel may wake up without rate being lost, in seconds.
const BURST_SECONDS: f64 = 0.005;

/// How long a packet waits at most, in seconds, where that is more than [`LEAST_QUEUE_FRAMES`].
const QUEUE_SECONDS: f64 = 0.05;

/// The least that may wait, in frames of full size: what a TCP connection begins with (RFC 6928), and
/// some more.
const LEAST_QUEUE_FRAMES: u32 = 16;

/// The largest bucket: a second at more than 8 Gbit/s.
const MOST_BYTES: u32 = 1 << 30;

/// Holds a link of its own, in a namespace that has nothing else, to see whether the kernel can.
pub(crate) fn try_one(socket: &mut Socket) -> Result<(), NetlinkError> {
    socket.create_veth(&VethEnd::new("held"), &VethEnd::new("other"))?;
    let link = socket.link_by_name("held")?;
    socket.shape(link.index, &bucket(BitRate::from_bits_per_second(1_000_000), link.mtu))
}

/// Holds both ends of a veth pair to `rate`, each for what it sends: `port` in the socket's namespace,
/// `interface` in the other.
///
/// # Errors
/// The kernel's.
pub(crate) fn shape(
    socket: &mut Socket,
    port: &str,
    namespace: NamespaceRef<'_>,
    interface: &str,
    rate: BitRate,
) -> Result<(), NetlinkError> {
    shape_end(socket, port, rate)?;
    shape_end(&mut Socket::open_in(namespace)?, interface, rate)
}

fn shape_end(socket: &mut Socket, name: &str, rate: BitRate) -> Result<(), NetlinkError> {
    let link = socket.link_by_name(name)?;
    socket.shape(link.index, &bucket(rate, link.mtu))
}

/// The bucket for a rate: a burst of [`BURST_SECONDS`], but of two frames at least, and a queue of
/// [`QUEUE_SECONDS`], but of [`LEAST_QUEUE_FRAMES`] at least.
fn bucket(rate: BitRate, mtu: u32) -> TokenBucket {
    let bytes_per_second = rate.as_bits_per_second() / 8;
    let within = |seconds: f64| {
        let bytes = (bytes_per_second as f64 * seconds).min(f64::from(MOST_BYTES));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // limited just above
        let bytes = bytes as u32;
        bytes
    };
    let frame = mtu.saturating_add(ETHERNET_HEADER_BYTES);
    let burst_bytes = within(BURST_SECONDS).max(frame.saturating_mul(2));
    let queue_bytes = within(QUEUE_SECONDS).max(frame.saturating_mul(LEAST_QUEUE_FRAMES));
    let limit_bytes = queue_bytes.saturating_add(burst_bytes);
    TokenBucket { bytes_per_second, burst_bytes, limit_bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_two_frames_and_some_time() {
        let of = |mbit: u64, mtu| bucket(BitRate::from_bits_per_second(mbit * 1_000_000), mtu);
        let slow = of(1, 1500);
        assert_eq!((slow.bytes_per_second, slow.burst_bytes), (125_000, 3028));
        assert_eq!(slow.limit_bytes, 16 * 1514 + 3028);
        assert_eq!(of(1, 65_521).burst_bytes, 131_070);
        let fast = of(1000, 1500);
        assert_eq!((fast.burst_bytes, fast.limit_bytes), (625_000, 6_250_000 + 625_000));
        assert!(of(1_000_000, 1500).limit_bytes <= 2 * MOST_BYTES);
    }
}
