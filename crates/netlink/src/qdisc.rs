//! Queueing disciplines that stand at the root of an interface's egress.
//!
//! Sources: tc-tbf(8), `net/sched/sch_tbf.c`, `linux/pkt_sched.h`.

use netlink_packet_core::{DefaultNla, NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage, TcOption};

use crate::Result;
use crate::socket::{Socket, Subject};

/// `TC_LINKLAYER_ETHERNET`: the kernel computes times itself and needs no rate tables.
const LINKLAYER_ETHERNET: u8 = 1;

/// Attributes of a token bucket (`TCA_TBF_…`).
const TBF_PARMS: u16 = 1;
const TBF_RATE64: u16 = 4;
const TBF_BURST: u16 = 6;

/// A token bucket filter: what leaves is held to a rate. Bytes count from the Ethernet header on,
/// without checksum, preamble and gap; a packet that is still to be cut into segments counts as they
/// will.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenBucket {
    /// The rate, in bytes a second.
    pub bytes_per_second: u64,
    /// What may leave at once after a pause, in bytes. A packet that is larger is cut into its segments
    /// where it has any, and dropped where it has none.
    pub burst_bytes: u32,
    /// What may wait, in bytes; more is dropped.
    pub limit_bytes: u32,
}

impl TokenBucket {
    fn options(&self) -> Vec<TcOption> {
        let mut options = vec![
            option(TBF_PARMS, self.parameters()),
            option(TBF_BURST, self.burst_bytes.to_ne_bytes().to_vec()),
        ];
        if u32::try_from(self.bytes_per_second).is_err() {
            options.push(option(TBF_RATE64, self.bytes_per_second.to_ne_bytes().to_vec()));
        }
        options
    }

    /// `struct tc_tbf_qopt`: two `tc_ratespec`, the second (the peak rate) empty, then limit, and two
    /// times for kernels that do not know `TCA_TBF_BURST`.
    fn parameters(&self) -> Vec<u8> {
        let rate = u32::try_from(self.bytes_per_second).unwrap_or(u32::MAX);
        let mut bytes = vec![0, LINKLAYER_ETHERNET];
        bytes.extend([0; 6]);
        bytes.extend(rate.to_ne_bytes());
        bytes.extend([0; 12]);
        bytes.extend(self.limit_bytes.to_ne_bytes());
        bytes.extend([0; 8]);
        bytes
    }
}

impl Socket {
    /// Puts a token bucket at the root of an interface's egress, in place of what was there.
    ///
    /// # Errors
    /// `ENOENT` where the kernel has no token bucket filter (`sch_tbf`).
    pub fn shape(&mut self, index: u32, bucket: &TokenBucket) -> Result<()> {
        self.replace_root("limit the rate of", index, "tbf", bucket.options())
    }

    fn replace_root(
        &mut self,
        operation: &'static str,
        index: u32,
        kind: &str,
        options: Vec<TcOption>,
    ) -> Result<()> {
        let mut message = TcMessage::with_index(index.cast_signed());
        message.header.parent = TcHandle::ROOT;
        message.header.handle = TcHandle { major: 1, minor: 0 };
        message.attributes.push(TcAttribute::Kind(kind.to_owned()));
        message.attributes.push(TcAttribute::Options(options));
        let interface = self.named(index);
        let subject = Subject { operation, interface: &interface };
        let request = RouteNetlinkMessage::NewQueueDiscipline(message);
        self.change(subject, request, NLM_F_CREATE | NLM_F_REPLACE)
    }
}

fn option(kind: u16, value: Vec<u8>) -> TcOption {
    TcOption::Other(DefaultNla::new(kind, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_have_the_kernels_layout() {
        let bucket =
            TokenBucket { bytes_per_second: 0x0102_0304, burst_bytes: 5, limit_bytes: 0x0a0b_0c0d };
        let bytes = bucket.parameters();
        assert_eq!(bytes.len(), 36);
        assert_eq!(bytes[8..12], 0x0102_0304_u32.to_ne_bytes());
        assert_eq!(bytes[24..28], 0x0a0b_0c0d_u32.to_ne_bytes());
        assert_eq!(bucket.options().len(), 2);
        let fast = TokenBucket { bytes_per_second: 12_500_000_000, ..bucket };
        assert_eq!(fast.options().len(), 3, "more than 32 bits hold");
    }
}
