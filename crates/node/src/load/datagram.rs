//! What the loads of UDP datagrams have in common: sockets, threads, and the words that are said
//! before and after.
//!
//! A flow is a connected socket of the sender. The flows are dealt to as many threads as there are
//! cores. Before a load is ready the receiver has shown for each flow that it listens (`hello`); every
//! datagram carries the token that was agreed on then, and its flow's number.

pub(super) mod batch;
pub(super) mod hello;
pub(super) mod outgoing;
pub(super) mod schedule;

mod incoming;
mod sockets;

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use vioperf_model::sample::{DatagramOutcome, LoadOutcome, StreamOutcome};
use vioperf_model::wire::Role;
use vioperf_model::workload::{Receivers, Workload};

use super::control::ThreadCounters;
use super::{Load, LoadControl, LoadError};
use crate::scheduling::normal_priority;
use batch::ReceiveBatch;
use hello::Guests;
use incoming::Incoming;
use outgoing::Outgoing;

/// How long a sender tries to reach its receiver.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
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

/// What one thread of a receiver has counted.
#[derive(Debug, Default)]
pub(super) struct Arrived {
    /// Bytes of each flow.
    pub(super) bytes: Vec<u64>,
    /// What became of the numbered datagrams, one entry for each flow that was seen.
    pub(super) numbered: Option<Vec<DatagramOutcome>>,
    /// Datagrams that are not of this load.
    pub(super) foreign: u64,
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

/// A receiver's sockets, and who answers on them.
struct Listening {
    sockets: Arc<Vec<UdpSocket>>,
    buffer_bytes: usize,
    guests: Arc<Guests>,
    threads: usize,
    answering: Option<JoinHandle<()>>,
    drops_before: Option<u64>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.stop_answering();
    }
}

impl<T: Traffic> DatagramLoad<T> {
    pub(super) fn prepare(
        role: &Role,
        workload: &Workload,
        shape: &Shape,
        traffic: T,
    ) -> Result<Self, LoadError> {
        let streams = workload.streams;
        if streams == 0 {
            return Err(parameter("streams", &0, "at least 1 is needed"));
        }
        let traffic = Arc::new(traffic);
        sockets::allow_open_files(streams);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let (control, port, stage) = match *role {
            Role::Sender { peer } => {
                let threads = usize::from(streams).min(cores);
                let control = LoadControl::new(threads)?.counting_datagrams();
                let flows = open_flows(peer, workload, shape, threads)?;
                (Arc::new(control), None, Stage::ReadyToSend(flows))
            }
            Role::Receiver { bind } => {
                let threads = if shape.receivers == Receivers::One { 1 } else { cores };
                let control = Arc::new(LoadControl::new(threads)?.counting_datagrams());
                let address = SocketAddr::new(bind, 0);
                let (listening, port) = listen(address, workload, shape, threads, &control)?;
                (control, Some(port), Stage::ReadyToReceive(listening))
            }
            Role::Observer => return Err(parameter("role", &"observer", "it moves no payload")),
        };
        Ok(Self { control, traffic, streams, port, stage })
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

/// How many datagrams go back to back when a load with a rate is due.
pub(super) fn burst(workload: &Workload) -> Result<u64, LoadError> {
    match workload.burst.unwrap_or(1) {
        0 => Err(parameter("burst", &0, "ask for 1 or more, or leave it out")),
        burst => Ok(burst.into()),
    }
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

/// Opens the flows, dealt to threads; the receiver has answered on each.
fn open_flows(
    peer: SocketAddr,
    workload: &Workload,
    shape: &Shape,
    threads: usize,
) -> Result<Vec<Vec<Outgoing>>, LoadError> {
    let deadline = Instant::now() + ANSWER_WITHIN;
    let streams = usize::from(workload.streams);
    let mut hands = Vec::new();
    hands.resize_with(threads, Vec::new);
    for flow in 0..workload.streams {
        let number = usize::from(flow) + 1;
        let socket = sockets::connected(peer, number, streams)?;
        sockets::check_fits(&socket, peer, shape.payload_bytes)?;
        if let Some(size) = workload.socket_buffer {
            sockets::size_send_buffer(&socket, size)?;
        }
        let token = hello::introduce(&socket, flow, deadline)
            .map_err(|source| LoadError::NoAnswer { peer, number, streams, source })?;
        if shape.segmentation {
            sockets::segment(&socket, shape.payload_bytes)?;
        }
        let hand: Option<&mut Vec<Outgoing>> = hands.get_mut(usize::from(flow) % threads);
        if let Some(hand) = hand {
            hand.push(Outgoing::new(flow, socket, peer, token));
        }
    }
    Ok(hands)
}

fn listen(
    address: SocketAddr,
    workload: &Workload,
    shape: &Shape,
    threads: usize,
    control: &Arc<LoadControl>,
) -> Result<(Listening, u16), LoadError> {
    let many = shape.receivers == Receivers::Reuseport;
    let mut address = address;
    let mut sockets = Vec::new();
    let mut buffer_bytes = usize::MAX;
    for _ in 0..if many { threads } else { 1 } {
        let socket = sockets::receiving(address, many)?;
        let given = sockets::size_receive_buffer(&socket, workload.socket_buffer)?;
        buffer_bytes = buffer_bytes.min(given);
        if shape.segmentation {
            sockets::join_segments(&socket)?;
        }
        if shape.stamps {
            sockets::stamp_arrivals(&socket)?;
        }
        // The port is the kernel's choice; all further sockets share it.
        let local = socket.local_addr().map_err(LoadError::system("ask for a socket's port"))?;
        address.set_port(local.port());
        sockets.push(socket);
    }
    let mut listening = Listening {
        sockets: Arc::new(sockets),
        buffer_bytes,
        guests: Arc::new(Guests::new(workload.streams)?),
        threads,
        answering: None,
        drops_before: None,
    };
    listening.answer_in_background(control)?;
    Ok((listening, address.port()))
}

impl Listening {
    fn answer_in_background(&mut self, control: &Arc<LoadControl>) -> Result<(), LoadError> {
        let (guests, sockets) = (self.guests.clone(), self.sockets.clone());
        let control = control.clone();
        let thread = std::thread::Builder::new()
            .name("answer".to_owned())
            .spawn(move || guests.welcome(&sockets, control.wake()))
            .map_err(LoadError::system("create a thread"))?;
        self.answering = Some(thread);
        Ok(())
    }

    fn stop_answering(&mut self) {
        self.guests.close_door();
        if let Some(thread) = self.answering.take() {
            drop(thread.join());
        }
    }

    /// Datagrams that there was no room for, in all sockets together.
    fn drops(&self) -> Option<u64> {
        let each = self.sockets.iter().map(|socket| sockets::drops(socket.as_fd()));
        each.map(|drops| drops.map(u64::from)).sum()
    }
}

impl<T: Traffic> DatagramLoad<T> {
    fn spawn<R: Default + Send + 'static>(
        &self,
        index: usize,
        work: impl FnOnce(&T, &LoadControl, &ThreadCounters) -> R + Send + 'static,
    ) -> Result<JoinHandle<R>, LoadError> {
        let (control, traffic) = (self.control.clone(), self.traffic.clone());
        std::thread::Builder::new()
            .name(format!("load-{index}"))
            .spawn(move || {
                normal_priority();
                match control.counters().get(index) {
                    Some(counters) => work(&traffic, &control, counters),
                    None => R::default(),
                }
            })
            .map_err(LoadError::system("create a thread"))
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
        listening.stop_answering();
        listening.drops_before = listening.drops();
        let mut threads = Vec::with_capacity(listening.threads);
        for index in 0..listening.threads {
            let (sockets, guests) = (listening.sockets.clone(), listening.guests.clone());
            let (streams, buffer_bytes) = (self.streams, listening.buffer_bytes);
            let thread = self.spawn(index, move |traffic, control, counters| {
                let Some(socket) = sockets.get(index % sockets.len()) else {
                    return Arrived::default();
                };
                let mut arrivals = traffic.nothing_arrived(guests.token(), streams);
                let ends = Ends { guests: &guests, socket };
                let mut room = traffic.room();
                Incoming { socket, buffer_bytes }.receive_until_stopped(
                    &mut room,
                    control,
                    |batch| {
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

    fn sent(&self, flows: Vec<Outgoing>) -> LoadOutcome {
        let mut streams = vec![StreamOutcome::default(); usize::from(self.streams)];
        let not_sent = self.traffic.is_paced().then(|| flows.iter().map(|f| f.not_sent).sum());
        for flow in flows {
            if let Some(place) = streams.get_mut(usize::from(flow.number)) {
                place.bytes = flow.bytes;
            }
        }
        LoadOutcome { streams, not_sent, ..LoadOutcome::default() }
    }

    fn received(&self, shares: Vec<Arrived>) -> LoadOutcome {
        let mut streams = vec![StreamOutcome::default(); usize::from(self.streams)];
        let mut foreign = 0;
        let mut numbered: Option<Vec<DatagramOutcome>> = None;
        for share in shares {
            for (place, bytes) in streams.iter_mut().zip(share.bytes) {
                place.bytes += bytes;
            }
            foreign += share.foreign;
            if let Some(more) = share.numbered {
                numbered.get_or_insert_default().extend(more);
            }
        }
        LoadOutcome {
            streams,
            datagrams: numbered.map(|flows| together(&flows)),
            foreign_datagrams: Some(foreign),
            ..LoadOutcome::default()
        }
    }
}

/// Tells the receiver how many datagrams each flow had, as far as it can be told in time.
fn tell_ends(flows: &[Outgoing]) {
    let deadline = hello::finish_deadline();
    for flow in flows.iter().filter(|flow| !flow.over) {
        hello::finish(&flow.socket, flow.number, flow.token, flow.datagrams, deadline);
    }
}

/// All flows as one: sums, and the mean of the jitter.
fn together(flows: &[DatagramOutcome]) -> DatagramOutcome {
    let mut sum = DatagramOutcome::default();
    for flow in flows {
        sum.received += flow.received;
        sum.lost += flow.lost;
        sum.duplicated += flow.duplicated;
        sum.reordered += flow.reordered;
        sum.late += flow.late;
        sum.jitter_ns += flow.jitter_ns;
    }
    sum.jitter_ns /= u64::try_from(flows.len()).unwrap_or(1).max(1);
    sum
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
                self.sent(shares.into_iter().flatten().collect())
            }
            Stage::Receiving(listening, threads) => {
                let shares = join_all(threads, &self.control);
                let before = listening.drops_before;
                let drops = listening.drops().zip(before);
                let socket_drops = drops.map(|(now, before)| now.saturating_sub(before));
                LoadOutcome { socket_drops, ..self.received(shares) }
            }
            Stage::ReadyToSend(_) | Stage::ReadyToReceive(_) | Stage::Ended => {
                LoadOutcome::default()
            }
        };
        LoadOutcome { ended_early: self.control.ended_early(), ..outcome }
    }
}

fn join_all<R>(threads: Vec<JoinHandle<R>>, control: &LoadControl) -> Vec<R> {
    let mut shares = Vec::with_capacity(threads.len());
    for thread in threads {
        match thread.join() {
            Ok(share) => shares.push(share),
            Err(_) => control.note_early_end("a thread of the load died".to_owned()),
        }
    }
    shares
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
