//! What a client may ask a server for: nothing that only a lab may, and of the rest so much.

use std::net::SocketAddr;

use vioperf_model::units::{BitRate, ByteSize, TimeSpan};
use vioperf_model::wire::{Prepare, Request, Role};
use vioperf_model::workload::Workload;

/// How much longer than its load a trial may take: connecting, collecting.
const BESIDE_THE_LOAD_MS: u64 = 60_000;
/// The most samples of a trial that a server keeps in memory.
const MOST_SAMPLES: u64 = 4_000;

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

    /// A request as the node gets it, or why it does not. `from` is the client's address, `local` the
    /// server's own that the client came to.
    ///
    /// # Errors
    /// What the client is told.
    pub fn admit(
        &self,
        request: Request,
        from: SocketAddr,
        local: SocketAddr,
    ) -> Result<Request, String> {
        match request {
            Request::Prepare(part) => self.admit_part(part, from, local).map(Request::Prepare),
            Request::SetWallClock { .. }
            | Request::LoadModules { .. }
            | Request::ConfigureInterface(_) => {
                Err("only a lab's own guest is asked for that: a server alters nothing on its \
                     machine"
                    .into())
            }
            other => Ok(other),
        }
    }

    fn admit_part(
        &self,
        mut part: Prepare,
        from: SocketAddr,
        local: SocketAddr,
    ) -> Result<Prepare, String> {
        if !part.processes.is_empty() {
            return Err("a server lets nobody watch its machine's processes".into());
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
            Role::Sender { .. } | Role::Observer => {}
        }
        if let Some(wrong) = part.workload.contradictions().first() {
            return Err(format!("`{}`: {}", wrong.key, wrong.message));
        }
        self.check_amounts(&part.workload)?;
        let planned = part.workload.warmup.as_duration() + part.workload.duration.as_duration();
        let longest = self.longest_trial();
        part.deadline = part.deadline.min(longest);
        let least_interval = planned.as_millis() / u128::from(MOST_SAMPLES);
        let least_interval = TimeSpan::from_millis(u64::try_from(least_interval).unwrap_or(0));
        part.sample_interval = part.sample_interval.max(least_interval);
        Ok(part)
    }

    fn check_amounts(&self, workload: &Workload) -> Result<(), String> {
        let planned = workload.warmup.as_duration() + workload.duration.as_duration();
        if planned > self.duration.as_duration() {
            return Err(format!(
                "{} of load after {} of warm-up are more than this server gives a client ({}, \
                 --max-duration there): ask for less",
                workload.duration, workload.warmup, self.duration
            ));
        }
        if workload.streams > self.streams {
            return Err(format!(
                "{} streams are more than this server gives a client ({}, --max-streams there): ask \
                 for less",
                workload.streams, self.streams
            ));
        }
        self.check_rate(workload)?;
        self.check_memory(workload)
    }

    fn check_rate(&self, workload: &Workload) -> Result<(), String> {
        let Some(most) = self.rate else { return Ok(()) };
        let asked = workload
            .rate
            .or(workload.pacing)
            .map(|rate| rate.as_bits_per_second().saturating_mul(u64::from(workload.streams)));
        match asked {
            Some(asked) if asked <= most.as_bits_per_second() => Ok(()),
            Some(asked) => Err(format!(
                "{} in all are more than this server gives a client ({most}, --max-rate there): ask \
                 for a lower --rate",
                BitRate::from_bits_per_second(asked)
            )),
            None => Err(format!(
                "this server gives a client at most {most} (--max-rate there), and this load has no \
                 rate of its own: give --rate, with tcp-stream or udp-stream"
            )),
        }
    }

    /// What the load asks for by its own words; how much a node takes in all is bounded besides.
    fn check_memory(&self, workload: &Workload) -> Result<(), String> {
        let streams = u64::from(workload.streams);
        let each = |size: Option<ByteSize>| size.map_or(0, ByteSize::as_bytes);
        let per_stream = [
            // The kernel takes twice of it (socket(7)).
            each(workload.socket_buffer).saturating_mul(2),
            each(workload.message_size),
            each(workload.request_size),
            each(workload.response_size),
        ];
        let sum = per_stream.into_iter().fold(0, u64::saturating_add).saturating_mul(streams);
        if sum > self.memory.as_bytes() {
            return Err(format!(
                "buffers and messages of {} are more than this server gives a client ({}, \
                 --max-memory there): ask for smaller ones or fewer streams",
                ByteSize::from_bytes(sum),
                self.memory
            ));
        }
        Ok(())
    }
}

/// Same host, whatever the port; an IPv4 address mapped into IPv6 is the IPv4 one.
fn same_host(a: SocketAddr, b: SocketAddr) -> bool {
    a.ip().to_canonical() == b.ip().to_canonical()
}
