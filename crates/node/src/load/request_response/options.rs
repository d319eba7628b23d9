//! What a workload of requests asks for, checked.

use std::time::Duration;

use vioperf_model::units::ByteSize;
use vioperf_model::workload::{Transport, Workload};

use crate::load::LoadError;

/// The largest message over TCP.
const LARGEST_OVER_TCP: ByteSize = ByteSize::from_mib(1);
/// The largest payload of a datagram over IPv4: 65,535 without the headers of IP and UDP.
const LARGEST_OVER_UDP: ByteSize = ByteSize::from_bytes(65_507);
/// What the buffers of all streams take together: a node stays small whatever it is asked for.
const ALL_BUFFERS: usize = 2 << 20;
/// The most requests that a stream keeps under way.
const MOST_OUTSTANDING: usize = 1024;
/// Bytes under way up to which neither side can find the other's socket buffers full.
const FITS_ANY_BUFFER: usize = 16 << 10;
/// A sequence number has at most so many bytes.
const SEQUENCE_BYTES: usize = 8;

/// Sizes of the two messages of a transaction, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::load) struct Sizes {
    pub(in crate::load) request: usize,
    pub(in crate::load) response: usize,
}

impl Sizes {
    pub(in crate::load) fn of(
        workload: &Workload,
        transport: Transport,
    ) -> Result<Self, LoadError> {
        let largest = match transport {
            Transport::Tcp => LARGEST_OVER_TCP,
            Transport::Udp => LARGEST_OVER_UDP,
        };
        let checked = |what, size: Option<ByteSize>| {
            let size = size.unwrap_or(ByteSize::from_bytes(1));
            usize::try_from(size.as_bytes())
                .ok()
                .filter(|bytes| *bytes > 0 && size <= largest)
                .ok_or_else(|| refused(what, &size, format!("ask for 1 B to {largest}")))
        };
        Ok(Self {
            request: checked("request_size", workload.request_size)?,
            response: checked("response_size", workload.response_size)?,
        })
    }

    pub(in crate::load) fn larger(self) -> usize {
        self.request.max(self.response)
    }

    /// Bytes of the sequence number in both messages.
    fn sequence_bytes(self) -> usize {
        SEQUENCE_BYTES.min(self.request).min(self.response)
    }
}

/// The buffer of one of so many streams that carry a stream of bytes: messages that are longer
/// take several calls.
pub(in crate::load) fn stream_buffer(sizes: Sizes, streams: usize) -> usize {
    sizes.larger().min((ALL_BUFFERS / streams.max(1)).max(4096))
}

/// A load of requests and responses.
#[derive(Debug, Clone)]
pub(super) struct Options {
    pub(super) transport: Transport,
    pub(super) streams: usize,
    pub(super) sizes: Sizes,
    /// The most requests under way in a stream.
    pub(super) outstanding: usize,
    /// In all streams together; none: as soon as an earlier one is answered.
    pub(super) requests_per_second: Option<u32>,
    pub(super) warmup: Duration,
    pub(super) buffer_bytes: usize,
}

impl Options {
    pub(super) fn of(workload: &Workload) -> Result<Self, LoadError> {
        let transport = workload.transport.unwrap_or(Transport::Tcp);
        let streams = usize::from(workload.streams);
        if streams == 0 {
            return Err(refused("streams", &0, "at least 1 is needed".to_owned()));
        }
        if workload.requests_per_second == Some(0) {
            let advice = "leave it out for as many as are answered".to_owned();
            return Err(refused("requests_per_second", &0, advice));
        }
        let sizes = Sizes::of(workload, transport)?;
        let buffer_bytes = match transport {
            Transport::Tcp => stream_buffer(sizes, streams),
            // One more, so that a datagram that is too long shows.
            Transport::Udp => sizes.larger() + 1,
        };
        if buffer_bytes.saturating_mul(streams) > 2 * ALL_BUFFERS {
            let advice = format!("datagrams of {buffer_bytes} bytes take fewer streams");
            return Err(refused("streams", &streams, advice));
        }
        let outstanding = outstanding(workload, transport, sizes)?;
        Ok(Self {
            transport,
            streams,
            sizes,
            outstanding,
            requests_per_second: workload.requests_per_second,
            warmup: workload.warmup.as_duration(),
            buffer_bytes,
        })
    }

    /// Whether a sender may sleep in `send` and `recv` themselves: all that is under way fits the
    /// smallest buffers, and nothing is to be sent while waiting for an answer.
    pub(super) fn may_block(&self) -> bool {
        let under_way = self.outstanding.saturating_mul(self.sizes.larger());
        self.requests_per_second.is_none() && under_way <= FITS_ANY_BUFFER
    }

    /// Which bits of a sequence number the messages have room for.
    pub(super) fn sequence_mask(&self) -> u64 {
        match self.sizes.sequence_bytes() {
            SEQUENCE_BYTES.. => u64::MAX,
            bytes => (1 << (8 * bytes)) - 1,
        }
    }

    /// How many bytes of it they carry.
    pub(super) fn sequence_bytes(&self) -> usize {
        self.sizes.sequence_bytes()
    }
}

/// A datagram of one byte numbers 256 requests: with at most half of them under way, a late answer
/// is told from one that is awaited.
fn outstanding(
    workload: &Workload,
    transport: Transport,
    sizes: Sizes,
) -> Result<usize, LoadError> {
    let most = match (transport, sizes.sequence_bytes()) {
        (Transport::Udp, 1) => 128,
        _ => MOST_OUTSTANDING,
    };
    let by_default = if workload.requests_per_second.is_some() { most } else { 1 };
    let asked = workload.outstanding.map_or(by_default, usize::from);
    if (1..=most).contains(&asked) {
        return Ok(asked);
    }
    let advice = format!("a stream keeps 1 to {most} requests of that size under way");
    Err(refused("outstanding", &asked, advice))
}

fn refused(what: &'static str, value: &dyn ToString, advice: String) -> LoadError {
    LoadError::Parameter { what, value: value.to_string(), advice }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(adapt: serde_json::Value) -> Result<Options, String> {
        let mut workload = serde_json::json!({ "kind": "request-response" });
        let (serde_json::Value::Object(to), serde_json::Value::Object(from)) =
            (&mut workload, adapt)
        else {
            panic!("objects");
        };
        to.extend(from);
        Options::of(&serde_json::from_value(workload).unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn one_byte_is_asked_and_answered_unless_told_otherwise() {
        let plain = options(serde_json::json!({})).unwrap();
        assert_eq!(plain.sizes, Sizes { request: 1, response: 1 });
        assert_eq!((plain.transport, plain.outstanding), (Transport::Tcp, 1));
        assert!(plain.may_block());
        assert_eq!(plain.sequence_mask(), 0xff);
        let long = serde_json::json!({ "request_size": "8 B", "response_size": "64 KiB" });
        let long = options(long).unwrap();
        assert!(!long.may_block());
        assert_eq!(long.sequence_mask(), u64::MAX);
        let open = options(serde_json::json!({ "requests_per_second": 10 })).unwrap();
        assert_eq!((open.outstanding, open.may_block()), (1024, false));
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_can() {
        for (asked, named) in [
            (serde_json::json!({ "request_size": "2 MiB" }), "request_size"),
            (serde_json::json!({ "request_size": "0 B" }), "1 B to"),
            (serde_json::json!({ "transport": "udp", "response_size": "64 KiB" }), "65507"),
            (serde_json::json!({ "transport": "udp", "outstanding": 129 }), "128"),
            (serde_json::json!({ "outstanding": 0 }), "outstanding"),
            (serde_json::json!({ "streams": 0 }), "streams"),
            (serde_json::json!({ "requests_per_second": 0 }), "requests_per_second"),
            (
                serde_json::json!({ "transport": "udp", "request_size": "65507 B", "streams": 200 }),
                "fewer streams",
            ),
        ] {
            let message = options(asked.clone()).unwrap_err();
            assert!(message.contains(named), "{asked}: {message}");
        }
    }
}
