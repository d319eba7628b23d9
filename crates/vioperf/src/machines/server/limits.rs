//! What a client may ask a server for: nothing that only a lab may, and of the rest so much.

use std::net::SocketAddr;

use vioperf_model::units::{BitRate, ByteSize, TimeSpan};
use vioperf_model::wire::{Prepare, Request, Role};
use vioperf_model::workload::Workload;

/// How much longer than its load a trial may take: connecting, collecting.
const BESIDE_THE_LOAD_MS: u64 = 60_000;
/// The most samples of a trial that a server keeps in memory.
const MOST_SAMPLES: u64 = 4_000;

/// What a node takes beside what its client asks for: stacks of threads, samples.
const NODE_BYTES: u64 = 1 << 30;

/// How much one client may ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Warm-up and duration of a trial together.
    pub duration: TimeSpan,
    /// Streams of a trial.
    pub streams: u16,
    /// Rate of all streams together; then only loads that have a rate are taken.
    pub rate: Option<BitRate>,
    /// Memory of messages and socket buffers that a load asks for.
    pub memory: ByteSize,
}

impl Limits {
    /// How long a client may take at most until it makes room.
    pub fn longest_trial(&self) -> TimeSpan {
        let load = self.duration.as_duration().as_millis();
        TimeSpan::from_millis(u64::try_from(load).unwrap_or(u64::MAX) + BESIDE_THE_LOAD_MS)
    }

    /// The most memory of a client's node, for its data.
    pub fn node_memory(&self) -> u64 {
        self.memory.as_bytes().saturating_add(NODE_BYTES)
    }

    /// A request as the node gets it, or why it does not. `from` is the client's address, `local` the
    /// server's own that the client came to; `legs` are those that it has prepared already.
    ///
    /// # Errors
    /// What the client is told.
    pub fn admit(
        &self,
        request: Request,
        from: SocketAddr,
        local: SocketAddr,
        legs: &[Prepare],
    ) -> Result<Request, String> {
        match request {
            Request::Prepare(part) => {
                self.admit_part(part, from, local, legs).map(Request::Prepare)
            }
            Request::SetWallClock { .. }
            | Request::LoadModules { .. }
            | Request::TimeSleeps { .. }
            | Request::Impair { .. }
            | Request::SetPort { .. }
            | Request::Forward(_)
            | Request::FindGuest { .. }
            | Request::ConfigureInterface(_) => {
                Err("only a lab's own guest is asked for that: a server alters nothing on its \
                     machine"
                    .into())
            }
            // Wherever the client thinks that we are.
            Request::ReadInterface { .. } => Ok(Request::ReadInterface { address: local.ip() }),
            other => Ok(other),
        }
    }

    fn admit_part(
        &self,
        mut part: Prepare,
        from: SocketAddr,
        local: SocketAddr,
        legs: &[Prepare],
    ) -> Result<Prepare, String> {
        if !part.processes.is_empty() {
            return Err("a server lets nobody watch its machine's processes".into());
        }
        if part.open_vswitch.is_some() {
            return Err("a server lets nobody ask its machine's switches".into());
        }
        if part.burn.is_some() {
            return Err("a server burns no CPU time for its clients".into());
        }
        if !part.spread.sources.is_empty() || !part.spread.destinations.is_empty() {
            return Err("a server uses one address at each end: spread a load by \
                        workload.destination_ports instead"
                .into());
        }
        match &mut part.role {
            // Wherever the client thinks that we are: we listen where it found us.
            Role::Receiver { bind } => *bind = local.ip(),
            Role::Sender { peer } if !same_host(*peer, from) => {
                return Err(format!(
                    "this server sends only to the address that its client comes from, {}, and not \
                     to {}: is there address translation between the two? Then measure --direction \
                     to",
                    from.ip(),
                    peer.ip()
                ));
            }
            Role::Disk => return Err("a server lets nobody read or write its disks".into()),
            Role::Sender { .. } | Role::Observer => {}
        }
        if let Some(wrong) = part.workload.contradictions().first() {
            return Err(format!("`{}`: {}", wrong.key, wrong.message));
        }
        let others: Vec<&Workload> = legs.iter().map(|leg| &*leg.workload).collect();
        self.check_amounts(&part.workload, &others)?;
        let planned = part.workload.warmup.as_duration() + part.workload.duration.as_duration();
        let longest = self.longest_trial();
        part.deadline = part.deadline.min(longest);
        let least_interval = planned.as_millis() / u128::from(MOST_SAMPLES);
        let least_interval = TimeSpan::from_millis(u64::try_from(least_interval).unwrap_or(0));
        part.sample_interval = part.sample_interval.max(least_interval);
        Ok(part)
    }

    /// `others` are the loads that run beside it.
    fn check_amounts(&self, workload: &Workload, others: &[&Workload]) -> Result<(), String> {
        let planned = workload.warmup.as_duration() + workload.duration.as_duration();
        if planned > self.duration.as_duration() {
            return Err(format!(
                "{} of load after {} of warm-up are more than this server gives a client ({}, \
                 --max-duration there): ask for less",
                workload.duration, workload.warmup, self.duration
            ));
        }
        let all = || others.iter().copied().chain([workload]);
        let streams: u32 = all().map(|load| u32::from(load.streams)).sum();
        if streams > u32::from(self.streams) {
            return Err(format!(
                "{streams} streams in all are more than this server gives a client ({}, \
                 --max-streams there): ask for less",
                self.streams
            ));
        }
        let memory = all().map(memory_bytes).fold(0, u64::saturating_add);
        if memory > self.memory.as_bytes() {
            return Err(format!(
                "buffers and messages of {} are more than this server gives a client ({}, \
                 --max-memory there): ask for smaller ones or fewer streams",
                ByteSize::from_bytes(memory),
                self.memory
            ));
        }
        let Some(most) = self.rate else { return Ok(()) };
        let rates: Option<Vec<u64>> = all().map(bits_per_second).collect();
        match rates.map(|rates| rates.into_iter().fold(0, u64::saturating_add)) {
            Some(asked) if asked <= most.as_bits_per_second() => Ok(()),
            Some(asked) => Err(format!(
                "{} in all are more than this server gives a client ({most}, --max-rate there): ask \
                 for a lower rate",
                BitRate::from_bits_per_second(asked)
            )),
            None => Err(format!(
                "this server gives a client at most {most} (--max-rate there), and this load has no \
                 rate of its own: give --rate (tcp-stream, udp-stream), --datagrams-per-second \
                 (packet-rate) or --requests-per-second (request-response)"
            )),
        }
    }
}

/// The rate of a load's payload that it will not exceed, if it has one.
fn bits_per_second(load: &Workload) -> Option<u64> {
    let streams = u64::from(load.streams);
    let each = |size: Option<ByteSize>| size.map_or(1, ByteSize::as_bytes);
    let by_streams = load.rate.or(load.pacing).map(BitRate::as_bits_per_second);
    let datagrams = load.datagrams_per_second.map(|rate| (rate, load.payload_bytes()));
    let larger = each(load.request_size).max(each(load.response_size));
    let requests = load.requests_per_second.map(|rate| (rate, larger));
    let bits = |(rate, bytes): (u32, u64)| u64::from(rate).saturating_mul(bytes).saturating_mul(8);
    by_streams
        .map(|rate| rate.saturating_mul(streams))
        .or(datagrams.map(bits))
        .or(requests.map(bits))
}

/// What a load asks for by its own words; how much a node takes in all is bounded besides.
fn memory_bytes(load: &Workload) -> u64 {
    let each = |size: Option<ByteSize>| size.map_or(0, ByteSize::as_bytes);
    let per_stream = [
        // The kernel takes twice of it (socket(7)).
        each(load.socket_buffer).saturating_mul(2),
        each(load.message_size),
        each(load.request_size),
        each(load.response_size),
    ];
    let sum = per_stream.into_iter().fold(0, u64::saturating_add);
    sum.saturating_mul(u64::from(load.streams))
}

/// Same host, whatever the port; an IPv4 address mapped into IPv6 is the IPv4 one.
fn same_host(a: SocketAddr, b: SocketAddr) -> bool {
    a.ip().to_canonical() == b.ip().to_canonical()
}
