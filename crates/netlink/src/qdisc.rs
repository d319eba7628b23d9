//! Queueing disciplines that stand at the root of an interface's egress.
//!
//! Sources: tc-tbf(8), tc-netem(8), `net/sched/sch_tbf.c`, `net/sched/sch_netem.c`, `linux/pkt_sched.h`.

use std::time::Duration;

use netlink_packet_core::{DefaultNla, NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage, TcOption, TcStats2};
use nix::errno::Errno;

use crate::socket::{Socket, Subject};
use crate::{NetlinkError, Result};

/// `TC_LINKLAYER_ETHERNET`: the kernel computes times itself and needs no rate tables.
const LINKLAYER_ETHERNET: u8 = 1;

/// `TCA_OPTIONS`, and of an emulated network `TCA_NETEM_LATENCY64`.
const OPTIONS: u16 = 2;
const NETEM_LATENCY64: u16 = 10;

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

/// An emulated network (`netem`): what leaves is delayed, and some of it dropped.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Netem {
    /// How much later each packet leaves.
    pub delay: Duration,
    /// The part that is dropped at random, 0 to 1.
    pub loss: f64,
    /// How many packets may wait; more are dropped.
    pub limit_packets: u32,
}

impl Netem {
    /// `struct tc_netem_qopt`, its delay left to `TCA_NETEM_LATENCY64`, then that attribute.
    fn options(&self) -> Vec<u8> {
        let share = self.loss.clamp(0.0, 1.0) * f64::from(u32::MAX);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        // within 0 and its maximum
        let loss = share.round() as u32;
        let delay = i64::try_from(self.delay.as_nanos()).unwrap_or(i64::MAX);
        let mut bytes = Vec::new();
        for number in [0, self.limit_packets, loss, 0, 0, 0] {
            bytes.extend(number.to_ne_bytes());
        }
        bytes.extend(12_u16.to_ne_bytes());
        bytes.extend(NETEM_LATENCY64.to_ne_bytes());
        bytes.extend(delay.to_ne_bytes());
        bytes
    }
}

impl Socket {
    /// Puts an emulated network at the root of an interface's egress, in place of what was there.
    ///
    /// # Errors
    /// `ENOENT` where the kernel has no `sch_netem`.
    pub fn impair(&mut self, index: u32, netem: &Netem) -> Result<()> {
        let options = TcAttribute::Other(DefaultNla::new(OPTIONS, netem.options()));
        self.replace_root("impair", index, "netem", options)
    }

    /// Gives an interface the queueing discipline back that the kernel gives it by itself.
    ///
    /// # Errors
    /// When the kernel refuses; that there was none of ours is no error.
    pub fn reset_root(&mut self, index: u32) -> Result<()> {
        let interface = self.named(index);
        let subject =
            Subject { operation: "reset the queueing discipline of", interface: &interface };
        let request = RouteNetlinkMessage::DelQueueDiscipline(root_of(index));
        match self.change(subject, request, 0) {
            Err(NetlinkError::Refused { errno: Errno::ENOENT | Errno::EINVAL, .. }) => Ok(()),
            other => other,
        }
    }

    /// How many packets the root of an interface's egress has dropped, where it is of that kind.
    ///
    /// # Errors
    /// When the kernel refuses or its answer cannot be read.
    pub fn dropped_by_root(&mut self, index: u32, kind: &str) -> Result<Option<u64>> {
        let request =
            RouteNetlinkMessage::GetQueueDiscipline(TcMessage::with_index(index.cast_signed()));
        let answers = self.dump("read the queueing disciplines", request)?;
        Ok(answers.into_iter().find_map(|answer| match answer {
            RouteNetlinkMessage::NewQueueDiscipline(message)
                if message.header.index == index.cast_signed()
                    && message.header.parent == TcHandle::ROOT =>
            {
                dropped(&message.attributes, kind)
            }
            _ => None,
        }))
    }

    /// Puts a token bucket at the root of an interface's egress, in place of what was there.
    ///
    /// # Errors
    /// `ENOENT` where the kernel has no token bucket filter (`sch_tbf`).
    pub fn shape(&mut self, index: u32, bucket: &TokenBucket) -> Result<()> {
        self.replace_root("limit the rate of", index, "tbf", TcAttribute::Options(bucket.options()))
    }

    fn replace_root(
        &mut self,
        operation: &'static str,
        index: u32,
        kind: &str,
        options: TcAttribute,
    ) -> Result<()> {
        let mut message = root_of(index);
        message.header.handle = TcHandle { major: 1, minor: 0 };
        message.attributes.push(TcAttribute::Kind(kind.to_owned()));
        message.attributes.push(options);
        let interface = self.named(index);
        let subject = Subject { operation, interface: &interface };
        let request = RouteNetlinkMessage::NewQueueDiscipline(message);
        self.change(subject, request, NLM_F_CREATE | NLM_F_REPLACE)
    }
}

fn root_of(index: u32) -> TcMessage {
    let mut message = TcMessage::with_index(index.cast_signed());
    message.header.parent = TcHandle::ROOT;
    message
}

fn dropped(attributes: &[TcAttribute], wanted: &str) -> Option<u64> {
    let is_it =
        |attribute: &TcAttribute| matches!(attribute, TcAttribute::Kind(kind) if kind == wanted);
    attributes.iter().any(is_it).then_some(())?;
    attributes.iter().find_map(|attribute| match attribute {
        TcAttribute::Stats2(stats) => stats.iter().find_map(|part| match part {
            TcStats2::Queue(queue) => Some(u64::from(queue.drops)),
            _ => None,
        }),
        _ => None,
    })
}

fn option(kind: u16, value: Vec<u8>) -> TcOption {
    TcOption::Other(DefaultNla::new(kind, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_emulated_network_has_the_kernels_layout() {
        let netem = Netem { delay: Duration::from_micros(1), loss: 0.5, limit_packets: 7 };
        let bytes = netem.options();
        assert_eq!(bytes.len(), 24 + 12);
        assert_eq!(bytes[4..8], 7_u32.to_ne_bytes());
        assert_eq!(bytes[8..12], (u32::MAX / 2 + 1).to_ne_bytes());
        assert_eq!(bytes[28..], 1000_i64.to_ne_bytes());
    }

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
