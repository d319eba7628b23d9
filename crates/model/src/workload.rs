//! What is put on the path: the workload of a trial.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::{ByteSize, TimeSpan};

/// The kinds of load. Each is one file in the node's `load/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WorkloadKind {
    /// N TCP connections that each send as fast as the path takes it.
    TcpStream,
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
    /// Parallel connections.
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
