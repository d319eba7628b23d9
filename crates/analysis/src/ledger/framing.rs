//! How many datagrams packets are: one each, several joined in one (`UDP_SEGMENT`, GRO), or each datagram
//! cut into several (fragments).
//!
//! Counters of packets do not tell, those of bytes do: every datagram of a load is equally long, and
//! every packet has its headers once.

/// Ethernet's header (IEEE 802.3), in bytes.
const ETHERNET: f64 = 14.0;
/// UDP's (RFC 768).
const UDP: f64 = 8.0;
/// The least frame without its checksum; emulated cards fill shorter ones up.
const LEAST_FRAME: f64 = 60.0;
/// Some drivers count a frame's checksum.
const FRAME_CHECK: f64 = 4.0;
/// So near to a whole number the mean of datagrams in a packet is one: the rest is of other packets.
const NEARLY_WHOLE: f64 = 0.2;

/// Of one load, one way.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Framing {
    packing: Packing,
    /// Payload of a datagram in bytes.
    payload: f64,
    /// The header of IPv4 (RFC 791) or IPv6 (RFC 8200), without options.
    internet: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Packing {
    /// A packet is a datagram.
    One,
    /// A packet is one datagram or several, with one header.
    Joined,
    /// A packet is a fragment of a datagram, or a whole one.
    Pieces,
}

impl Framing {
    /// Of datagrams with so much payload that leave by an interface with that MTU.
    pub(super) fn of(segmentation: bool, payload_bytes: u64, is_ipv6: bool, mtu: u32) -> Self {
        let internet = if is_ipv6 { 40.0 } else { 20.0 };
        let payload = payload_bytes.max(1) as f64;
        let packing = match segmentation {
            true => Packing::Joined,
            false if mtu > 0 && payload + UDP + internet > f64::from(mtu) => Packing::Pieces,
            false => Packing::One,
        };
        Self { packing, payload, internet }
    }

    /// Whether a packet may be several datagrams.
    pub(super) fn is_joined(self) -> bool {
        self.packing == Packing::Joined
    }

    /// Whether a datagram is several packets.
    pub(super) fn is_pieces(self) -> bool {
        self.packing == Packing::Pieces
    }

    /// Datagrams in so many packets of an interface, whose bytes are those of whole frames.
    pub(super) fn of_frames(self, packets: u64, bytes: u64) -> u64 {
        self.datagrams(packets, bytes, ETHERNET)
    }

    /// In so many packets of IP, whose bytes are without Ethernet's header.
    pub(super) fn of_internet(self, packets: u64, bytes: u64) -> u64 {
        self.datagrams(packets, bytes, 0.0)
    }

    /// In what passed a queueing discipline: it counts the headers of each datagram that is joined
    /// (`qdisc_pkt_len_init`, net/core/dev.c).
    pub(super) fn of_queue(self, packets: u64, bytes: u64) -> u64 {
        match self.packing {
            Packing::Joined => {
                whole(bytes as f64 / (ETHERNET + self.internet + UDP + self.payload))
            }
            Packing::One | Packing::Pieces => self.of_frames(packets, bytes),
        }
    }

    fn datagrams(self, packets: u64, bytes: u64, link: f64) -> u64 {
        let (count, bytes) = (packets as f64, bytes as f64);
        match self.packing {
            Packing::One => packets,
            Packing::Joined => {
                let headers = link + self.internet + UDP;
                let single = headers + self.payload;
                let filled =
                    if link > 0.0 { (LEAST_FRAME - single).max(0.0) + FRAME_CHECK } else { 0.0 };
                if bytes <= (single + filled) * count {
                    return packets;
                }
                whole((bytes - headers * count) / self.payload)
            }
            // The first fragment alone has UDP's header.
            Packing::Pieces => {
                whole((bytes - (link + self.internet) * count) / (self.payload + UDP))
            }
        }
    }

    /// Datagrams of a packet, where so many packets were so many: as many are lost with a packet that is
    /// dropped there.
    pub(super) fn per_packet(self, packets: u64, datagrams: u64) -> f64 {
        if packets == 0 || self.packing == Packing::One {
            return 1.0;
        }
        let mean = datagrams as f64 / packets as f64;
        let nearest = mean.round();
        if nearest >= 1.0 && (mean - nearest).abs() < NEARLY_WHOLE { nearest } else { mean }
    }
}

/// So many packets of that many datagrams each.
pub(super) fn times(packets: u64, per_packet: f64) -> u64 {
    whole(packets as f64 * per_packet)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "never below zero; what is beyond what a float holds is beyond any counter"
)]
fn whole(number: f64) -> u64 {
    number.round().max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_are_told_by_bytes() {
        // Ten packets of 64 datagrams of 18 bytes, and nine single ones.
        let joined = Framing::of(true, 18, false, 1500);
        let bytes = 10 * (42 + 64 * 18) + 9 * 60;
        assert_eq!(joined.of_frames(19, bytes), 649);
        assert_eq!(joined.of_internet(19, bytes - 19 * 14), 649);
        assert_eq!(joined.of_queue(649, 649 * 60), 649);
        // All cut before they came here, with or without the frame's checksum.
        assert_eq!(joined.of_frames(640, 640 * 60), 640);
        assert_eq!(joined.of_frames(640, 640 * 64), 640);
        let ipv6 = Framing::of(true, 1000, true, 1500);
        assert_eq!(ipv6.of_frames(2, 2 * 62 + 60 * 1000), 60);
        // What is short is filled up to 60 bytes on a wire, but not inside of IP.
        let short = Framing::of(true, 10, false, 1500);
        assert_eq!((short.of_frames(100, 6000), short.of_internet(1, 28 + 640)), (100, 64));
    }

    #[test]
    fn one_datagram_is_several_fragments() {
        let pieces = Framing::of(false, 8192, false, 1500);
        assert!(pieces.is_pieces() && !Framing::of(false, 1472, false, 1500).is_pieces());
        // 8200 bytes in fragments of 1480: five, and one of 800.
        assert_eq!(pieces.of_frames(600, 100 * 8200 + 600 * 34), 100);
        assert!((pieces.per_packet(600, 100) - 1.0 / 6.0).abs() < 1e-12);
    }

    #[test]
    fn a_dropped_packet_is_as_many_as_the_others() {
        let joined = Framing::of(true, 18, false, 1500);
        assert_eq!(joined.per_packet(1002, 64_010), 64.0);
        assert_eq!(joined.per_packet(1000, 32_500), 32.5);
        assert_eq!((joined.per_packet(0, 0), times(3, 64.0)), (1.0, 192));
        let one = Framing::of(false, 18, false, 1500);
        assert_eq!((one.of_frames(7, 1), one.per_packet(7, 900)), (7, 1.0));
    }
}
