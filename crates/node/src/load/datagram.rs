//! What the loads of UDP datagrams have in common: sockets, threads, and the words that are said
//! before and after.
//!
//! A flow is a connected socket of the sender. The flows are dealt to as many threads as there are
//! cores. Before a load is ready the receiver has shown for each flow that it listens (`hello`); every
//! datagram carries the token that was agreed on then, and its flow's number.

pub(super) mod batch;
pub(super) mod hello;
pub(super) mod outgoing;
pub(super) mod pacing;

mod flows;
mod incoming;
mod listening;
mod sockets;
mod spread;
mod tally;

use std::net::UdpSocket;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use vioperf_model::sample::LoadOutcome;
use vioperf_model::wire::{Role, Spread};
use vioperf_model::workload::{Receivers, Workload};

use super::control::ThreadCounters;
use super::threads::{Threads, join_all};
use super::{Load, LoadControl, LoadError};
use crate::open_files::allow_open_files;
use batch::ReceiveBatch;
use flows::{open_flows, sent, tell_ends};
use hello::Guests;
use incoming::Incoming;
use listening::{Listening, listen, of_thread};
use outgoing::Outgoing;
use spread::{Places, Routes};
pub(super) use tally::Arrived;
use tally::received;

/// How long Start waits for flows whose sender is ready already.
const START_WITHIN: Duration = Duration::from_secs(2);
/// The most payload that UDP over IPv4 can carry.
pub(super) const MOST_PAYLOAD: u64 = 65_507;
/// Token and flow number, with which every datagram begins.
pub(super) const MARK_BYTES: usize = 10;

/// What a load does with its threads' sockets.
pub(super) trait Traffic: Send + Sync + 'static {
    /// The least payload that it needs.
    const LEAST_PAYLOAD: u64;

    /// Sends on the flows of one thread until told to stop, or until all are over.
    fn send(&self, flows: &mut [Outgoing], control: &LoadControl, counters: &ThreadCounters);

    /// Whether datagrams are due at times, so that some may not be sent in time.
    fn is_paced(&self) -> bool;

    /// Whether a receiver is to be told how many datagrams each flow had.
    fn numbers(&self) -> bool;

    /// Room for what arrives at one thread.
    fn room(&self) -> ReceiveBatch;

    /// What one thread knows of what arrived, before anything did.
    fn nothing_arrived(&self, token: u64, flows: u16) -> Box<dyn Arrivals>;
}

/// What has arrived at one thread of a receiver.
pub(super) trait Arrivals: Send {
    /// Takes a batch; bytes and datagrams of the load in it.
    fn take(&mut self, batch: &ReceiveBatch, ends: &Ends<'_>) -> (u64, u64);

    /// What became of each flow.
    fn finish(self: Box<Self>) -> Arrived;
}

/// Hears how flows end.
pub(super) struct Ends<'a> {
    guests: &'a Guests,
    socket: &'a UdpSocket,
}

impl Ends<'_> {
    /// See [`Guests::hear`].
    pub(super) fn hear(&self, bytes: &[u8]) -> Option<hello::Heard> {
        self.guests.hear(bytes, self.socket)
    }
}

/// How the load's sockets shall be.
pub(super) struct Shape {
    pub(super) payload_bytes: usize,
    pub(super) segmentation: bool,
    pub(super) stamps: bool,
    pub(super) receivers: Receivers,
}

/// A load of datagrams at one end.
pub(super) struct DatagramLoad<T> {
    control: Arc<LoadControl>,
    traffic: Arc<T>,
    threads: Threads,
    streams: u16,
    port: Option<u16>,
    stage: Stage,
}

enum Stage {
    ReadyToSend(Vec<Vec<Outgoing>>),
    Sending(Vec<JoinHandle<Vec<Outgoing>>>),
    ReadyToReceive(Listening),
    Receiving(Listening, Vec<JoinHandle<Arrived>>),
    Ended,
}

impl<T: Traffic> DatagramLoad<T> {
    pub(super) fn prepare(
        role: &Role,
        workload: &Workload,
        spread: &Spread,
        shape: &Shape,
        traffic: T,
    ) -> Result<Self, LoadError> {
        let streams = workload.streams;
        if streams == 0 {
            return Err(parameter("streams", &0, "at least 1 is needed"));
        }
        let traffic = Arc::new(traffic);
        allow_open_files(streams.into());
        let threads = Threads::of(role, workload)?;
        let (control, port, stage) = match *role {
            Role::Sender { peer } => {
                let threads = threads.count().min(streams.into());
                let control = LoadControl::new(threads)?.counting_datagrams();
                let routes = Routes::of(peer, workload, spread)?;
                let flows = open_flows(&routes, workload, shape, threads)?;
                (Arc::new(control), None, Stage::ReadyToSend(flows))
            }
            Role::Receiver { bind } => {
                let one = shape.receivers == Receivers::One;
                let threads = if one { 1 } else { threads.count() };
                let control = Arc::new(LoadControl::new(threads)?.counting_datagrams());
                let places = Places::of(bind, workload, spread)?;
                let (listening, port) = listen(&places, workload, shape, threads, &control)?;
                (control, Some(port), Stage::ReadyToReceive(listening))
            }
            Role::Observer | Role::Disk => {
                return Err(parameter("role", &"observer", "it moves no payload"));
            }
        };
        Ok(Self { control, traffic, threads, streams, port, stage })
    }
}

pub(super) fn parameter(what: &'static str, value: &dyn ToString, advice: &str) -> LoadError {
    LoadError::Parameter { what, value: value.to_string(), advice: advice.to_owned() }
}

/// The payload that is asked for, if the load can be made of such.
pub(super) fn payload_bytes<T: Traffic>(workload: &Workload) -> Result<usize, LoadError> {
    let payload = workload.payload_bytes();
    usize::try_from(payload)
        .ok()
        .filter(|_| (T::LEAST_PAYLOAD..=MOST_PAYLOAD).contains(&payload))
        .ok_or_else(|| {
            let advice = format!("ask for {} B to {MOST_PAYLOAD} B", T::LEAST_PAYLOAD);
            parameter("payload", &format!("{payload} B"), &advice)
        })
}

/// A datagram of a flow, its payload not yet numbered.
pub(super) fn marked(token: u64, payload_bytes: usize) -> Vec<u8> {
    let mut datagram = vec![0x5a; payload_bytes];
    if let Some(place) = datagram.first_chunk_mut::<8>() {
        *place = token.to_be_bytes();
    }
    datagram
}

/// Writes a flow's number to its place.
pub(super) fn mark_flow(datagram: &mut [u8], flow: u16) {
    if let Some(place) = datagram.get_mut(8..MARK_BYTES) {
        place.copy_from_slice(&flow.to_be_bytes());
    }
}

/// The flow of a datagram that carries this token.
pub(super) fn flow_of(datagram: &[u8], token: u64) -> Option<u16> {
    let (mark, rest) = datagram.split_first_chunk::<8>()?;
    let (flow, _) = rest.split_first_chunk::<2>()?;
    (u64::from_be_bytes(*mark) == token).then_some(u16::from_be_bytes(*flow))
}

impl<T: Traffic> DatagramLoad<T> {
    fn spawn<R: Default + Send + 'static>(
        &self,
        index: usize,
        work: impl FnOnce(&T, &LoadControl, &ThreadCounters) -> R + Send + 'static,
    ) -> Result<JoinHandle<R>, LoadError> {
        let traffic = self.traffic.clone();
        self.threads.spawn(index, &self.control, move |control| {
            match control.counters().get(index) {
                Some(counters) => work(&traffic, control, counters),
                None => R::default(),
            }
        })
    }

    fn begin_sending(&mut self, hands: Vec<Vec<Outgoing>>) -> Result<(), LoadError> {
        let mut threads = Vec::with_capacity(hands.len());
        for (index, mut flows) in hands.into_iter().enumerate() {
            let thread = self.spawn(index, move |traffic, control, counters| {
                traffic.send(&mut flows, control, counters);
                if traffic.numbers() && !control.abandoned() {
                    tell_ends(&flows);
                }
                flows
            });
            match thread {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    self.stage = Stage::Sending(threads);
                    return Err(error);
                }
            }
        }
        self.stage = Stage::Sending(threads);
        Ok(())
    }

    fn begin_receiving(&mut self, mut listening: Listening) -> Result<(), LoadError> {
        listening.begin();
        let mut threads = Vec::with_capacity(listening.threads);
        for index in 0..listening.threads {
            let (sockets, guests) = (listening.sockets.clone(), listening.guests.clone());
            let (streams, buffer_bytes) = (self.streams, listening.buffer_bytes);
            let thread = self.spawn(index, move |traffic, control, counters| {
                let sockets = of_thread(&sockets, index);
                let mut arrivals = traffic.nothing_arrived(guests.token(), streams);
                let mut room = traffic.room();
                Incoming { sockets, buffer_bytes }.receive_until_stopped(
                    &mut room,
                    control,
                    |socket, batch| {
                        let ends = Ends { guests: &guests, socket };
                        let (bytes, datagrams) = arrivals.take(batch, &ends);
                        counters.count_datagrams(bytes, datagrams);
                    },
                );
                arrivals.finish()
            });
            match thread {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    self.stage = Stage::Receiving(listening, threads);
                    return Err(error);
                }
            }
        }
        self.stage = Stage::Receiving(listening, threads);
        Ok(())
    }
}

impl<T: Traffic> Load for DatagramLoad<T> {
    fn port(&self) -> Option<u16> {
        self.port
    }

    fn control(&self) -> &Arc<LoadControl> {
        &self.control
    }

    fn await_peer(&mut self) -> Result<(), LoadError> {
        let Stage::ReadyToReceive(listening) = &self.stage else { return Ok(()) };
        listening.guests.await_all(START_WITHIN).map_err(|arrived| LoadError::MissingFlows {
            arrived,
            streams: self.streams.into(),
            waited: START_WITHIN,
        })
    }

    fn begin(&mut self) -> Result<(), LoadError> {
        match std::mem::replace(&mut self.stage, Stage::Ended) {
            Stage::ReadyToSend(hands) => self.begin_sending(hands),
            Stage::ReadyToReceive(listening) => self.begin_receiving(listening),
            other => {
                self.stage = other;
                Ok(())
            }
        }
    }

    fn end(&mut self) -> LoadOutcome {
        self.control.stop();
        let outcome = match std::mem::replace(&mut self.stage, Stage::Ended) {
            Stage::Sending(threads) => {
                let shares = join_all(threads, &self.control);
                let flows: Vec<Outgoing> = shares.into_iter().flatten().collect();
                sent(&flows, self.streams, self.traffic.is_paced())
            }
            Stage::Receiving(listening, threads) => {
                let shares = join_all(threads, &self.control);
                LoadOutcome {
                    socket_drops: listening.drops_of_load(),
                    socket_buffers: listening.buffers(),
                    ..received(shares, self.streams)
                }
            }
            Stage::ReadyToSend(_) | Stage::ReadyToReceive(_) | Stage::Ended => {
                LoadOutcome::default()
            }
        };
        LoadOutcome { ended_early: self.control.ended_early(), ..outcome }
    }
}

impl<T> Drop for DatagramLoad<T> {
    fn drop(&mut self) {
        self.control.stop();
        match std::mem::replace(&mut self.stage, Stage::Ended) {
            Stage::Sending(threads) => drop(join_all(threads, &self.control)),
            Stage::Receiving(_, threads) => drop(join_all(threads, &self.control)),
            Stage::ReadyToSend(_) | Stage::ReadyToReceive(_) | Stage::Ended => {}
        }
    }
}
