//! What is put on the path: the workload of a trial.

mod choices;
mod disk;
mod engine;
mod keys;
mod limits;
mod mix;
mod search;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::levels::Levels;
use crate::units::{BitRate, ByteSize, Ratio, TimeSpan};

pub use choices::{Background, Direction, ReceiveWay, Receivers, SendWay, Transport};
pub use disk::SECTOR_BYTES;
pub use engine::Engine;
pub use keys::{WorkloadKey, kinds_of, workload_keys};
pub use mix::{MixLine, OperationKind};
pub use search::Search;

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
    /// The highest rate of UDP datagrams that loses no more than a goal: many short loads in a trial.
    RateSearch,
    /// Reads and writes of a disk, past the page cache: operations and how long each takes.
    Disk,
}

impl WorkloadKind {
    /// Every kind.
    pub const ALL: [Self; 7] = [
        Self::TcpStream,
        Self::UdpStream,
        Self::PacketRate,
        Self::RequestResponse,
        Self::ConnectRate,
        Self::RateSearch,
        Self::Disk,
    ];

    /// The name users write.
    pub fn name(self) -> &'static str {
        match self {
            Self::TcpStream => "tcp-stream",
            Self::UdpStream => "udp-stream",
            Self::PacketRate => "packet-rate",
            Self::RequestResponse => "request-response",
            Self::ConnectRate => "connect-rate",
            Self::RateSearch => "rate-search",
            Self::Disk => "disk",
        }
    }

    /// Whether it is made of datagrams that nobody answers.
    pub fn is_of_datagrams(self) -> bool {
        matches!(self, Self::UdpStream | Self::PacketRate | Self::RateSearch)
    }

    /// That an option is for other kinds.
    pub(crate) fn lacks(self, kinds: &[Self]) -> String {
        let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
        format!("{} has no such option; it is for {}", self.name(), names.join(", "))
    }
}

/// The load of one trial, and how long it is measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// The kind of load.
    pub kind: WorkloadKind,
    /// How long the load is measured, after the warm-up; of a `rate-search` the most time that the whole search may
    /// take.
    #[serde(default = "default_duration")]
    pub duration: TimeSpan,
    /// How long the load runs before measuring begins.
    #[serde(default = "default_warmup")]
    pub warmup: TimeSpan,
    /// Parallel connections, or flows of datagrams, each from a source port of its own; 1 to 256. Of `disk` workers,
    /// each a thread with a place of its own in the file; 1 to 64.
    #[serde(default = "default_streams")]
    pub streams: u16,
    /// Which way the payload goes; without meaning for `disk`.
    #[serde(default = "default_direction")]
    pub direction: Direction,
    /// Bytes handed to the kernel by one `send` call, and asked for by one `recv`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "128 KiB; 1 MiB with `send = \"splice\"`"))]
    pub message_size: Option<ByteSize>,
    /// `SO_SNDBUF` and `SO_RCVBUF` of every socket; by force beyond `net.core.wmem_max` and `rmem_max` where that
    /// is allowed, and an error where less is given. What the kernel gave is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "the kernel tunes them"))]
    pub socket_buffer: Option<ByteSize>,
    /// Rate of each stream's payload, in time with the clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "as fast as the path takes it"))]
    pub rate: Option<BitRate>,
    /// UDP payload of a datagram: 18 bytes make an Ethernet frame of 64, 1472 one of 1518.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "18 B; of `udp-stream` 1470 B, and 1450 B over IPv6"))]
    pub payload: Option<ByteSize>,
    /// Datagrams a second, all flows together, in time with the clock. Who is behind makes up for at most 20 ms, at
    /// no more than twice the rate; what was not sent in time is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "as many as the path takes"))]
    pub datagrams_per_second: Option<u32>,
    /// Addresses that datagrams are sent from, so that receive hashing can spread them. Flows take them in turn,
    /// then the next destination address, then the next port; there have to be enough streams for every
    /// combination. A lab configures the addresses; between two machines there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "1"))]
    pub source_addresses: Option<u16>,
    /// Addresses that they are sent to; between two machines there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "1"))]
    pub destination_addresses: Option<u16>,
    /// Ports in a row that they are sent to, of each address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "1"))]
    pub destination_ports: Option<u16>,
    /// Datagrams handed to the kernel, and asked of it, by one system call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "1024"))]
    pub batch: Option<u16>,
    /// How threads share the receiving port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "`one`"))]
    pub receivers: Option<Receivers>,
    /// `UDP_SEGMENT` and `UDP_GRO`: many datagrams pass the stack as one. They are datagrams then, not packets on
    /// the wire, and reported as such.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(extend("x-absent" = "`false`"))]
    pub segmentation: bool,
    /// What carries requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "`tcp`"))]
    pub transport: Option<Transport>,
    /// Size of a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "1 B"))]
    pub request_size: Option<ByteSize>,
    /// Size of a response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "1 B"))]
    pub response_size: Option<ByteSize>,
    /// Requests that each stream keeps under way. In an open loop the most that may be under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "1; in an open loop as many as are possible"))]
    pub outstanding: Option<u16>,
    /// Open loop: so many requests a second in all, sent when they are due whether or not earlier ones are
    /// answered; latency counts from when they were due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "closed loop: the next request follows the last response"))]
    pub requests_per_second: Option<u32>,
    /// Threads that share the streams at each end; never more than streams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "as many as cores"))]
    pub threads: Option<u16>,
    /// Cores that the sender's threads are pinned to, in turn.
    #[serde(default, skip_serializing_if = "Levels::is_empty")]
    #[schemars(extend("x-absent" = "the scheduler's choice"))]
    pub sender_cpus: Levels<u16>,
    /// Cores that the receiver's threads are pinned to, in turn.
    #[serde(default, skip_serializing_if = "Levels::is_empty")]
    #[schemars(extend("x-absent" = "the scheduler's choice"))]
    pub receiver_cpus: Levels<u16>,
    /// How payload gets to the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "`copy`"))]
    pub send: Option<SendWay>,
    /// What the receiver does with payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "`copy`"))]
    pub receive: Option<ReceiveWay>,
    /// `TCP_MAXSEG` in bytes; more than the path's MTU leaves is an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "the path's"))]
    pub mss: Option<u16>,
    /// `TCP_CONGESTION`: `cubic`, `bbr`, or another that both kernels have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "the kernel's"))]
    pub congestion_control: Option<String>,
    /// `TCP_NODELAY`: no waiting for more to send (RFC 896).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "`true` for requests, `false` for streams"))]
    pub nodelay: Option<bool>,
    /// `SO_MAX_PACING_RATE` of each stream: the kernel spreads its packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "none"))]
    pub pacing: Option<BitRate>,
    /// Messages or datagrams that go out back to back whenever a load with a rate is due; of `disk` operations
    /// between two pauses (`delay`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "1"))]
    pub burst: Option<u16>,
    /// Differentiated services code point of every packet (RFC 2474), 0 to 63.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "0"))]
    pub dscp: Option<u8>,
    /// What else is on the path meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "`none`"))]
    pub background: Option<Background>,
    /// Connections or flows of the background, 1 to 256.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "1"))]
    pub background_streams: Option<u16>,
    /// Which way the background goes; `both` for `tcp-stream` alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "as the requests"))]
    pub background_direction: Option<Direction>,
    /// Rate of each of its streams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "as fast as the path takes it"))]
    pub background_rate: Option<BitRate>,
    /// `SO_BUSY_POLL`: how long a receiving call polls the device before it sleeps (socket(7)).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "none"))]
    pub busy_poll: Option<TimeSpan>,
    /// Who reads and writes the disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "`vioperf`"))]
    pub engine: Option<Engine>,
    /// Bytes that one operation reads or writes, in whole sectors of 512 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "4 KiB"))]
    pub block_size: Option<ByteSize>,
    /// The part of the operations that read; the others write. Drawn anew for each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "100 %"))]
    pub read_share: Option<Ratio>,
    /// The part of the operations that go to a random place; the others go on where the last one ended. Reads and
    /// writes share that one place, as in IOmeter; fio keeps one for each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "0 %"))]
    pub random_share: Option<Ratio>,
    /// Operations that each worker keeps under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "1"))]
    pub queue_depth: Option<u16>,
    /// Every operation begins at a multiple of so many bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "the block size"))]
    pub alignment: Option<ByteSize>,
    /// How long a worker pauses when the last operation of a burst has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "none"))]
    pub delay: Option<TimeSpan>,
    /// How much of the disk, from its beginning, is read and written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "256 MiB"))]
    pub file_size: Option<ByteSize>,
    /// Operations of several kinds at once, each a table with `share`, `block_size`, `read_share`, `random_share` and
    /// `alignment`, in place of those keys here; drawn anew for each operation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-absent" = "one kind"))]
    pub mix: Vec<MixLine>,
    /// What is searched, and how well.
    #[serde(default, skip_serializing_if = "Search::is_default")]
    #[schemars(extend("x-absent" = "as its keys say"))]
    pub search: Search,
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
            message_size: None,
            socket_buffer: None,
            rate: None,
            payload: None,
            datagrams_per_second: None,
            source_addresses: None,
            destination_addresses: None,
            destination_ports: None,
            batch: None,
            receivers: None,
            segmentation: false,
            transport: None,
            request_size: None,
            response_size: None,
            outstanding: None,
            requests_per_second: None,
            threads: None,
            sender_cpus: Levels::default(),
            receiver_cpus: Levels::default(),
            send: None,
            receive: None,
            mss: None,
            congestion_control: None,
            nodelay: None,
            pacing: None,
            burst: None,
            dscp: None,
            background: None,
            background_streams: None,
            background_direction: None,
            background_rate: None,
            busy_poll: None,
            engine: None,
            block_size: None,
            read_share: None,
            random_share: None,
            queue_depth: None,
            alignment: None,
            delay: None,
            file_size: None,
            mix: Vec::new(),
            search: Search::default(),
        }
    }

    /// How many addresses each end has in a lab: as many as the load wants at either.
    pub fn addresses_per_end(&self) -> u16 {
        let wanted = [self.source_addresses, self.destination_addresses];
        wanted.into_iter().flatten().max().unwrap_or(1).max(1)
    }

    /// UDP payload of a datagram: 1470 bytes for `udp-stream`, else 18, unless asked for otherwise.
    pub fn payload_bytes(&self) -> u64 {
        let default = if self.kind == WorkloadKind::UdpStream { 1470 } else { 18 };
        self.payload.map_or(default, ByteSize::as_bytes)
    }

    /// Bytes of one `send` or `recv` of a `tcp-stream`: 128 KiB, or 1 MiB with `splice`, where nothing
    /// is copied that would have to fit a cache, unless asked for otherwise.
    pub fn message_bytes(&self) -> ByteSize {
        let default = match self.send {
            Some(SendWay::Splice) => ByteSize::from_mib(1),
            _ => ByteSize::from_kib(128),
        };
        self.message_size.unwrap_or(default)
    }

    /// The load that keeps the path busy meanwhile, if one does.
    pub fn background_load(&self) -> Option<Self> {
        let kind = match self.background? {
            Background::None => return None,
            Background::TcpStream => WorkloadKind::TcpStream,
            Background::UdpStream => WorkloadKind::UdpStream,
        };
        Some(Self {
            duration: self.duration,
            warmup: self.warmup,
            streams: self.background_streams.unwrap_or(1),
            direction: self.background_direction.unwrap_or(self.direction),
            rate: self.background_rate,
            ..Self::new(kind)
        })
    }

    /// The same load as one of another kind: keys that this one has no use for are left out.
    pub(crate) fn for_kind(&self, kind: WorkloadKind) -> Self {
        let useless = self.keys_set().into_iter().filter(|(_, kinds)| !kinds.contains(&kind));
        let mut table = serde_json::to_value(self).unwrap_or_default();
        if let Some(table) = table.as_object_mut() {
            for (key, _) in useless {
                table.remove(key.trim_start_matches("workload."));
            }
        }
        // What was a workload without one of its optional keys is one.
        serde_json::from_value(table).map_or_else(|_| Self::new(kind), |own| Self { kind, ..own })
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
