//! What conductor and node say to each other, over any one byte channel (socket pair,
//! virtio-serial, ssh): a frame is a length (4 bytes, big endian) and so many bytes of JSON.
//!
//! The other side may be hostile: a frame is at most [`MAX_FRAME_BYTES`] long, memory is taken as
//! bytes arrive and never by the length that was announced, and what does not parse is an error.

mod disk;
mod forwarding;

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::interface_settings::InterfaceSettings;
use crate::sample::{InterfaceFacts, NodeReport, Sample};
use crate::units::{Ratio, TimeSpan};
use crate::workload::Workload;

pub use disk::DiskFacts;
pub use forwarding::{ForwardingConfig, ForwardingFacts, ForwardingWay, Route};

/// Raised when messages change so that an older side could not follow.
pub const PROTOCOL_VERSION: u32 = 5;

/// The longest frame either side accepts.
pub const MAX_FRAME_BYTES: usize = 16 << 20;

/// The most loads that a node has a part in at the same time.
pub const MAX_LEGS: usize = 8;

/// The most threads that burn CPU time on a node.
pub const MAX_BURNERS: u16 = 64;

/// The most samples a node keeps of one trial; what comes later is not sampled.
pub const MAX_SAMPLES: usize = 36_000;

/// The most samples in one [`Response::Report`]: keeps every frame far below the limit.
pub const SAMPLES_PER_REPORT: usize = 200;

/// From the conductor to a node. Each is answered by exactly one [`Response`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
pub enum Request {
    /// Who are you? Answered by [`Response::Hello`].
    Hello {
        /// The conductor's [`PROTOCOL_VERSION`].
        version: u32,
    },
    /// Answered by [`Response::Clock`] at once: relates the node's clock to the conductor's.
    ReadClock,
    /// Sets the wall clock, which stands still in a snapshot. Guests only.
    SetWallClock {
        /// Nanoseconds since the Unix epoch.
        unix_ns: u64,
    },
    /// Loads kernel modules with what they depend on, by the initramfs's manifest. Guests only.
    LoadModules {
        /// Module names (`virtio_net`).
        names: Vec<String>,
        /// Parameters by module (`napi_tx=0`), those of dependencies included.
        #[serde(default)]
        options: BTreeMap<String, String>,
    },
    /// Gives an interface its address, MTU and carrier. Answered by [`Response::Interface`].
    ConfigureInterface(InterfaceConfig),
    /// Reads the interface that has an address, and alters nothing. Answered by [`Response::Interface`].
    ReadInterface {
        /// One of the addresses of the node's machine.
        address: IpAddr,
    },
    /// Sets an interface of the node's machine up that is no end of the path, a port, and leaves its addresses and its MTU
    /// alone. Answered by [`Response::Interface`], when it is so.
    SetPort {
        /// Its name.
        interface: String,
        /// What it is to have.
        settings: InterfaceSettings,
    },
    /// Waits for the disk with that serial number, and alters nothing. Answered by [`Response::Disk`].
    FindDisk {
        /// Its serial number, as QEMU was given it.
        serial: String,
        /// How long it may take until it is there.
        timeout: TimeSpan,
    },
    /// Looks for the process of QEMU that runs a guest on the node's machine. Answered by
    /// [`Response::Guest`].
    FindGuest {
        /// The guest's UUID, as QEMU was given it.
        uuid: String,
    },
    /// Sleeps some times, and tells how late it woke up each time: what the node's own timers add to
    /// every delay. Answered by [`Response::SleptLate`]; a node sleeps at most 5 s in all.
    TimeSleeps {
        /// How long each time.
        sleep: TimeSpan,
        /// How often.
        count: u16,
    },
    /// Delays and drops what leaves an interface, in place of what was told before. Guests only.
    /// Answered by [`Response::Impaired`].
    Impair {
        /// Which interface.
        interface: InterfaceSelector,
        /// How; absent leaves it as it was.
        impairment: Option<Impairment>,
    },
    /// Hands packets on between two interfaces. Guests only. Answered by [`Response::Forwarding`].
    Forward(ForwardingConfig),
    /// Makes a load ready: sockets open, connections established, nothing moving.
    /// Answered by [`Response::Ready`]. Asked again before [`Request::Start`] it makes a further load
    /// ready, at most [`MAX_LEGS`] in all; interval, processes and deadline are those of the first.
    Prepare(Prepare),
    /// Starts what was prepared, and sampling.
    Start,
    /// Ends it.
    Stop,
    /// How far is it? Answered by [`Response::Progress`], at once, and only while a load runs.
    Progress,
    /// Hands over what was measured, from sample number `from_sample` on.
    Collect {
        /// Index of the first sample wanted.
        from_sample: usize,
    },
    /// Ends the node (a guest powers off).
    Shutdown,
}

/// From a node to the conductor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "response", rename_all = "kebab-case")]
pub enum Response {
    /// Answer to [`Request::Hello`].
    Hello(NodeIdentity),
    /// The node's `CLOCK_MONOTONIC`.
    Clock {
        /// In nanoseconds.
        monotonic_ns: u64,
    },
    /// Done; the node's `CLOCK_MONOTONIC` when it was.
    Done {
        /// In nanoseconds.
        monotonic_ns: u64,
    },
    /// Answer to [`Request::ConfigureInterface`] and [`Request::ReadInterface`]: the interface as it now is.
    Interface(InterfaceFacts),
    /// Answer to [`Request::FindDisk`].
    Disk(DiskFacts),
    /// Answer to [`Request::FindGuest`].
    Guest {
        /// QEMU's process.
        pid: i32,
        /// The kernel's threads that serve it and are none of its own: vhost workers before Linux 6.4.
        kernel_threads: Vec<i32>,
    },
    /// Answer to [`Request::TimeSleeps`].
    SleptLate {
        /// How much later than asked it woke up each time, in nanoseconds.
        late_ns: Vec<u64>,
    },
    /// Answer to [`Request::Impair`]: what the impairment that stood until then did.
    Impaired {
        /// Packets that it dropped; absent where there was none.
        dropped: Option<u64>,
    },
    /// Answer to [`Request::Forward`].
    Forwarding(ForwardingFacts),
    /// Answer to [`Request::Prepare`].
    Ready {
        /// Where a receiver listens; at the ports that follow too, where the workload says so.
        port: Option<u16>,
    },
    /// Answer to [`Request::Progress`]: a sample of the load and of TCP, and nothing else.
    Progress(Sample),
    /// Answer to [`Request::Collect`].
    Report {
        /// The report, its samples cut to at most [`SAMPLES_PER_REPORT`].
        report: Box<NodeReport>,
        /// Index to ask for next, if there are more samples.
        next_sample: Option<usize>,
    },
    /// The request could not be carried out.
    Failed {
        /// What went wrong and what to do, for a person.
        message: String,
    },
}

/// Who a node is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct NodeIdentity {
    /// The node's [`PROTOCOL_VERSION`].
    pub version: u32,
    /// Release of its kernel (`uname -r`).
    pub kernel_release: String,
    /// Online cores.
    pub cores: u32,
    /// Since which start of the machine (`/proc/sys/kernel/random/boot_id`, random(4)): nodes that tell
    /// the same share its cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// Whether its machine is a guest of some hypervisor, as CPU or firmware tell; absent where neither
    /// does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_virtual: Option<bool>,
}

/// How to find an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InterfaceSelector {
    /// By name.
    Name(String),
    /// By MAC address, lower case with colons; waits for it to appear.
    Mac(String),
}

/// What [`Request::ConfigureInterface`] asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceConfig {
    /// Which interface.
    pub interface: InterfaceSelector,
    /// Its address.
    pub address: IpAddr,
    /// Further ones in the same network.
    #[serde(default)]
    pub further_addresses: Vec<IpAddr>,
    /// Length of the network's prefix in bits.
    pub prefix_length: u8,
    /// Networks that are reached by others of this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Route>,
    /// MTU in bytes.
    pub mtu: u32,
    /// How it is set up otherwise than its driver does.
    #[serde(default)]
    pub settings: InterfaceSettings,
    /// The ports, first and last, that the machine gives to sockets by itself; absent leaves them as they
    /// are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<(u16, u16)>,
    /// How long it may take until the interface is there and has a carrier.
    pub timeout: TimeSpan,
}

/// What is done to the packets that leave an interface (tc-netem(8)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Impairment {
    /// How much later each leaves, a second at most.
    pub delay: TimeSpan,
    /// The part that is dropped, at random.
    pub loss: Ratio,
}

/// One node's part in a trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prepare {
    /// Its part.
    pub role: Role,
    /// The load.
    pub workload: Box<Workload>,
    /// Between which addresses it goes.
    #[serde(default)]
    pub spread: Spread,
    /// Time between samples.
    pub sample_interval: TimeSpan,
    /// Processes whose threads are sampled.
    pub processes: Vec<WatchedProcess>,
    /// A thread that burns so much of a core while samples are taken: a known CPU time to check readings
    /// by. Told with the first load only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burn: Option<Ratio>,
    /// So many threads burn as much each, [`MAX_BURNERS`] at most; absent: one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burn_threads: Option<u16>,
    /// The socket of the database (OVSDB) of the Open vSwitch between the endpoints, where its ports are to be
    /// read; ovs-vswitchd's own socket is beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_vswitch: Option<PathBuf>,
    /// Whether the processors' own counters are read: those of the whole machine, so that one node of each is
    /// enough. Told with the first load only.
    #[serde(default)]
    pub counts_hardware: bool,
    /// The file or block device that a [`Role::Disk`] reads and writes: what is on it is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<PathBuf>,
    /// The load ends by itself after this time, so that a lost conductor leaves no traffic.
    pub deadline: TimeSpan,
}

/// The addresses that flows go between, where there is more than one at an end; both ends are told the
/// same. Empty: the one of the role. A receiver listens at as many ports in a row as the workload says,
/// from the one that [`Response::Ready`] tells.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spread {
    /// Each connection begins with a byte, which is no payload: what ends connections in between may
    /// finish the handshake with the receiver only then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub greets: bool,
    /// Of the sender.
    #[serde(default)]
    pub sources: Vec<IpAddr>,
    /// Of the receiver.
    #[serde(default)]
    pub destinations: Vec<IpAddr>,
}

/// A node's part in a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "role")]
pub enum Role {
    /// Sends to a receiver that is ready.
    Sender {
        /// Where the receiver listens.
        peer: SocketAddr,
    },
    /// Listens on an address; the port is the kernel's choice.
    Receiver {
        /// Address to listen on.
        bind: IpAddr,
    },
    /// Reads and writes a disk of its own machine ([`Prepare::disk`]); there is no other end.
    Disk,
    /// Samples only.
    Observer,
}

/// A process whose threads are sampled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedProcess {
    /// What to call it (`qemu`, `peer`).
    pub label: String,
    /// Its id in the node's process namespace.
    pub pid: i32,
}

/// Why a message could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The channel failed.
    #[error("control channel: {0}")]
    Io(#[from] io::Error),
    /// The other side ended.
    #[error("control channel: the other side closed it")]
    Closed,
    /// The frame is longer than accepted.
    #[error("control channel: a frame of {announced} bytes was announced, {most} is the most")]
    TooLong {
        /// The length that was announced.
        announced: usize,
        /// The longest that is taken.
        most: usize,
    },
    /// The frame does not parse.
    #[error("control channel: a message does not parse: {0}")]
    Malformed(#[from] serde_json::Error),
}

/// Writes one frame and flushes it.
///
/// # Errors
/// [`WireError::TooLong`] before anything is written, or the channel's error.
pub fn write_frame<T: Serialize>(channel: &mut impl Write, message: &T) -> Result<(), WireError> {
    let body = serde_json::to_vec(message)?;
    let length = u32::try_from(body.len())
        .ok()
        .filter(|_| body.len() <= MAX_FRAME_BYTES)
        .ok_or(WireError::TooLong { announced: body.len(), most: MAX_FRAME_BYTES })?;
    let mut frame = Vec::with_capacity(body.len() + 4);
    frame.extend_from_slice(&length.to_be_bytes());
    frame.extend_from_slice(&body);
    channel.write_all(&frame)?;
    channel.flush()?;
    Ok(())
}

/// Reads one frame.
///
/// # Errors
/// [`WireError::Closed`] when the channel ends between frames or inside one, [`WireError::TooLong`]
/// and [`WireError::Malformed`] when the other side misbehaves, else the channel's error.
pub fn read_frame<T: DeserializeOwned>(channel: &mut impl Read) -> Result<T, WireError> {
    read_frame_within(channel, MAX_FRAME_BYTES)
}

/// Reads one frame of at most `most` bytes ([`MAX_FRAME_BYTES`] in any case).
///
/// # Errors
/// As those of [`read_frame`].
pub fn read_frame_within<T: DeserializeOwned>(
    channel: &mut impl Read,
    most: usize,
) -> Result<T, WireError> {
    let mut length = [0; 4];
    read_whole(channel, &mut length)?;
    let announced = u32::from_be_bytes(length) as usize;
    let most = most.min(MAX_FRAME_BYTES);
    if announced > most {
        return Err(WireError::TooLong { announced, most });
    }
    // `take` and `read_to_end` grow the buffer with what has arrived, not with what was announced.
    let mut body = Vec::new();
    channel.take(announced as u64).read_to_end(&mut body)?;
    if body.len() < announced {
        return Err(WireError::Closed);
    }
    Ok(serde_json::from_slice(&body)?)
}

fn read_whole(channel: &mut impl Read, buffer: &mut [u8]) -> Result<(), WireError> {
    channel.read_exact(buffer).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => WireError::Closed,
        _ => WireError::Io(error),
    })
}

#[cfg(test)]
mod tests;
