//! What is put on the path: the workload of a trial.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::{BitRate, ByteSize, TimeSpan};

/// The kinds of load. Each is one file in the node's `load/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WorkloadKind {
    /// N TCP connections that each send as fast as the path takes it.
    TcpStream,
    /// N UDP flows, each paced at a rate; loss, duplicates, reordering and jitter at the receiver.
    UdpStream,
    /// As many small UDP packets as the path takes.
    PacketRate,
    /// Requests answered one by one (TCP or UDP): transactions and their latency.
    RequestResponse,
    /// Connect, request, response, close, over and over (TCP).
    ConnectRate,
}

impl WorkloadKind {
    /// The name users write.
    pub fn name(self) -> &'static str {
        match self {
            Self::TcpStream => "tcp-stream",
            Self::UdpStream => "udp-stream",
            Self::PacketRate => "packet-rate",
            Self::RequestResponse => "request-response",
            Self::ConnectRate => "connect-rate",
        }
    }
}

/// What carries a request and its response.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// One connection a stream.
    Tcp,
    /// One pair of sockets a stream; a lost datagram costs one time-out and is counted.
    Udp,
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}

/// How threads of a receiver share the datagrams of a port.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Receivers {
    /// One socket, one thread.
    One,
    /// One socket that several threads read.
    Shared,
    /// A socket a thread on the same port: `SO_REUSEPORT`; the kernel deals flows to them.
    Reuseport,
}

impl fmt::Display for Receivers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::One => "one",
            Self::Shared => "shared",
            Self::Reuseport => "reuseport",
        })
    }
}

/// Which way the payload goes, seen from the guest.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// The peer sends, the guest receives.
    ToGuest,
    /// The guest sends, the peer receives.
    FromGuest,
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::ToGuest => "to-guest",
            Self::FromGuest => "from-guest",
        })
    }
}

/// The load of one trial, and how long it is measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// The kind of load.
    pub kind: WorkloadKind,
    /// How long the load is measured, after the warm-up.
    #[serde(default = "default_duration")]
    pub duration: TimeSpan,
    /// How long the load runs before measuring begins.
    #[serde(default = "default_warmup")]
    pub warmup: TimeSpan,
    /// Parallel connections, or flows of datagrams (each with a source port of its own).
    #[serde(default = "default_streams")]
    pub streams: u16,
    /// Which way the payload goes.
    #[serde(default = "default_direction")]
    pub direction: Direction,
    /// Bytes handed to the kernel by one `send` call, and asked for by one `recv`.
    #[serde(default = "default_message_size")]
    pub message_size: ByteSize,
    /// `SO_SNDBUF`/`SO_RCVBUF` of every connection; absent leaves the kernel's auto-tuning on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket_buffer: Option<ByteSize>,
    /// Rate of each stream's payload, in time with the clock (`udp-stream`). Absent: as fast as the
    /// path takes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<BitRate>,
    /// UDP payload of a datagram in bytes (`udp-stream`, `packet-rate`): 18 bytes make an Ethernet
    /// frame of 64, 1472 one of 1518.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<ByteSize>,
    /// Datagrams handed to the kernel, and asked of it, by one system call (`packet-rate`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<u16>,
    /// How threads share the receiving port (`packet-rate`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receivers: Option<Receivers>,
    /// `UDP_SEGMENT` and `UDP_GRO` (`packet-rate`): many datagrams pass the stack as one. They are
    /// datagrams then, not packets on the wire, and reported as such.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub segmentation: bool,
    /// What carries requests (`request-response`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<Transport>,
    /// Size of a request (`request-response`, `connect-rate`); 1 byte where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_size: Option<ByteSize>,
    /// Size of a response (`request-response`, `connect-rate`); 1 byte where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_size: Option<ByteSize>,
    /// Requests that each stream keeps under way (`request-response`); 1 where absent. In an open
    /// loop the most that may be under way: as many as are possible where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outstanding: Option<u16>,
    /// Open loop (`request-response`): so many requests a second in all, sent when they are due
    /// whether or not earlier ones are answered; latency counts from when they were due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_second: Option<u32>,
}

impl Workload {
    /// A load of that kind with every option at its default.
    pub fn new(kind: WorkloadKind) -> Self {
        Self {
            kind,
            duration: default_duration(),
            warmup: default_warmup(),
            streams: default_streams(),
            direction: default_direction(),
            message_size: default_message_size(),
            socket_buffer: None,
            rate: None,
            payload: None,
            batch: None,
            receivers: None,
            segmentation: false,
            transport: None,
            request_size: None,
            response_size: None,
            outstanding: None,
            requests_per_second: None,
        }
    }

    /// UDP payload of a datagram: 18 bytes for `packet-rate`, 1470 for `udp-stream`, unless asked
    /// for otherwise.
    pub fn payload_bytes(&self) -> u64 {
        let default = if self.kind == WorkloadKind::PacketRate { 18 } else { 1470 };
        self.payload.map_or(default, ByteSize::as_bytes)
    }

    /// The optional keys that are set, each with the kinds it is for.
    pub fn keys_with_kinds(&self) -> Vec<(&'static str, &'static [WorkloadKind])> {
        use WorkloadKind::{ConnectRate, PacketRate, RequestResponse, UdpStream};
        const REQUESTS: &[WorkloadKind] = &[RequestResponse, ConnectRate];
        let keys: [(&'static str, bool, &'static [WorkloadKind]); 10] = [
            ("workload.rate", self.rate.is_some(), &[UdpStream]),
            ("workload.payload", self.payload.is_some(), &[UdpStream, PacketRate]),
            ("workload.batch", self.batch.is_some(), &[PacketRate]),
            ("workload.receivers", self.receivers.is_some(), &[PacketRate]),
            ("workload.segmentation", self.segmentation, &[PacketRate]),
            ("workload.transport", self.transport.is_some(), &[RequestResponse]),
            ("workload.request_size", self.request_size.is_some(), REQUESTS),
            ("workload.response_size", self.response_size.is_some(), REQUESTS),
            ("workload.outstanding", self.outstanding.is_some(), &[RequestResponse]),
            (
                "workload.requests_per_second",
                self.requests_per_second.is_some(),
                &[RequestResponse],
            ),
        ];
        keys.into_iter().filter(|(_, set, _)| *set).map(|(key, _, kinds)| (key, kinds)).collect()
    }
}

fn default_duration() -> TimeSpan {
    TimeSpan::from_millis(10_000)
}

fn default_warmup() -> TimeSpan {
    TimeSpan::from_millis(500)
}

fn default_streams() -> u16 {
    1
}

fn default_direction() -> Direction {
    Direction::ToGuest
}

fn default_message_size() -> ByteSize {
    ByteSize::from_kib(128)
}
