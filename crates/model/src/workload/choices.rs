//! The words a workload's options choose from.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a TCP stream's payload gets to the kernel.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum SendWay {
    /// The kernel copies it from the application's memory.
    Copy,
    /// `MSG_ZEROCOPY`: the application's pages go on the path as they are
    /// (Documentation/networking/msg_zerocopy.rst).
    Zerocopy,
    /// `sendfile` from a file in memory: pages of the page cache go on the path as they are.
    Sendfile,
    /// `vmsplice` and `splice`: the application's pages go on the path as they are, by way of a pipe.
    Splice,
}

impl fmt::Display for SendWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Copy => "copy",
            Self::Zerocopy => "zerocopy",
            Self::Sendfile => "sendfile",
            Self::Splice => "splice",
        })
    }
}

/// What becomes of the payload at a receiver of TCP streams.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum ReceiveWay {
    /// The kernel copies it to the application's memory.
    Copy,
    /// `MSG_TRUNC`: the kernel throws it away and tells how much it was (tcp(7)).
    Discard,
}

impl fmt::Display for ReceiveWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Copy => "copy",
            Self::Discard => "discard",
        })
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

/// What keeps the path busy while latency is measured.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Background {
    /// Nothing: the path is idle otherwise.
    None,
    /// TCP connections.
    TcpStream,
    /// UDP flows.
    UdpStream,
}

impl fmt::Display for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::None => "none",
            Self::TcpStream => "tcp-stream",
            Self::UdpStream => "udp-stream",
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

/// Which way the payload goes, seen from the guest; between two machines, which have no guest, from
/// the other one.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// The peer sends, the guest receives.
    #[serde(alias = "to")]
    ToGuest,
    /// The guest sends, the peer receives.
    #[serde(alias = "from")]
    FromGuest,
    /// Both send and receive at once, each way on connections of its own (`tcp-stream`).
    Both,
}

impl Direction {
    /// The ways that payload goes, one by one.
    pub fn ways(self) -> &'static [Self] {
        match self {
            Self::ToGuest => &[Self::ToGuest],
            Self::FromGuest => &[Self::FromGuest],
            Self::Both => &[Self::ToGuest, Self::FromGuest],
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::ToGuest => "to-guest",
            Self::FromGuest => "from-guest",
            Self::Both => "both",
        })
    }
}
