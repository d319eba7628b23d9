//! UDP flows whose datagrams are numbered, each sent in time with the clock or as fast as it goes.
//!
//! Every datagram carries its number in the flow and when it was sent, so that the receiver can tell
//! the lost from the duplicated and the reordered. At its end the sender tells how many there were
//! until the receiver has noted it: datagrams lost at the very end are counted too.

mod sequence;

use vioperf_model::wire::{Role, Spread};
use vioperf_model::workload::{Receivers, Workload};

use super::control::ThreadCounters;
use super::datagram::batch::{Arrival, ReceiveBatch, SendBatch};
use super::datagram::hello::Heard;
use super::datagram::outgoing::{Outgoing, Sending, send_at_full_speed};
use super::datagram::pacing::send_at_rate;
use super::datagram::{
    Arrivals, Arrived, DatagramLoad, Ends, MARK_BYTES, Shape, Traffic, flow_of, mark_flow, marked,
    payload_bytes,
};
use super::{LoadControl, LoadError};
use crate::clock::monotonic_ns;
use crate::load::schedule::Rate;
use sequence::Sequence;

/// Where the mark ends, with zeros up to the next eight bytes; number and time follow.
const NUMBER_AT: usize = 16;
/// Token, flow, number and time.
const HEADER_BYTES: u64 = 32;
/// Datagrams of one system call at most: a burst on the path, when they go as fast as they can.
const BATCH: usize = 64;
/// Room for what arrives between two turns of a receiving thread.
const ROOM: usize = 128;
/// The most memory that one thread takes for what it receives.
const MOST_ROOM_BYTES: usize = 1 << 20;

/// How this load is asked for.
pub(super) struct UdpStreams {
    payload_bytes: usize,
    flows: u16,
    /// Of each flow.
    rate: Option<Rate>,
}

impl UdpStreams {
    pub(super) fn prepare(
        role: &Role,
        workload: &Workload,
        spread: &Spread,
    ) -> Result<DatagramLoad<Self>, LoadError> {
        let payload_bytes = payload_bytes::<Self>(workload)?;
        let rate = Rate::of(workload, payload_bytes)?;
        let receivers = if workload.streams == 1 { Receivers::One } else { Receivers::Reuseport };
        // Without a rate, transit times are those of full queues, whoever tells them.
        let shape = Shape { payload_bytes, segmentation: false, stamps: rate.is_some(), receivers };
        let traffic = Self { payload_bytes, flows: workload.streams, rate };
        DatagramLoad::prepare(role, workload, spread, &shape, traffic)
    }
}

impl Traffic for UdpStreams {
    const LEAST_PAYLOAD: u64 = HEADER_BYTES;

    fn send(&self, flows: &mut [Outgoing], control: &LoadControl, counters: &ThreadCounters) {
        let Some(token) = flows.first().map(|flow| flow.token) else { return };
        let mut datagram = marked(token, self.payload_bytes);
        if let Some(zeros) = datagram.get_mut(MARK_BYTES..NUMBER_AT) {
            zeros.fill(0);
        }
        let mut batch = SendBatch::of_each(BATCH, &datagram);
        let payload_bytes = self.payload_bytes;
        let flows_in_all = self.flows;
        let sending =
            Sending { control, counters, payload_bytes, flows: flows_in_all, segments: 1 };
        match self.rate {
            Some(rate) => send_at_rate(flows, &mut batch, sending, rate, number),
            None => {
                send_at_full_speed(flows, &mut batch, sending, |batch, flow| {
                    number(batch, flow, BATCH, monotonic_ns());
                });
            }
        }
    }

    fn is_paced(&self) -> bool {
        self.rate.is_some()
    }

    fn numbers(&self) -> bool {
        true
    }

    fn room(&self) -> ReceiveBatch {
        // One byte more, so that a datagram that is too long is not taken for one of ours.
        let room = self.payload_bytes + 1;
        let messages = ROOM.min(MOST_ROOM_BYTES / room).max(1);
        ReceiveBatch::new(messages, room, self.rate.is_some())
    }

    fn nothing_arrived(&self, token: u64, flows: u16) -> Box<dyn Arrivals> {
        let mut sequences = Vec::new();
        sequences.resize_with(flows.into(), || None);
        Box::new(Numbered {
            token,
            payload_bytes: self.payload_bytes,
            stamped: self.rate.is_some(),
            window: sequence::window_for(flows),
            sequences,
            bytes: vec![0; flows.into()],
            foreign: 0,
        })
    }
}

/// Writes flow, numbers and time to the first messages of a batch.
fn number(batch: &mut SendBatch, flow: &Outgoing, messages: usize, now_ns: u64) {
    for (place, number) in (0..messages).zip(flow.datagrams..) {
        let datagram = batch.message(place);
        mark_flow(datagram, flow.number);
        let fields = datagram.get_mut(NUMBER_AT..).and_then(<[u8]>::first_chunk_mut::<16>);
        if let Some(fields) = fields {
            *fields = (u128::from(number) << 64 | u128::from(now_ns)).to_be_bytes();
        }
    }
}

/// Number and time of a datagram.
fn numbered(datagram: &[u8]) -> Option<(u64, u64)> {
    let fields = datagram.get(NUMBER_AT..)?;
    let (number, rest) = fields.split_first_chunk::<8>()?;
    let (time, _) = rest.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*number), u64::from_be_bytes(*time)))
}

/// Hears a datagram as each place does that one may arrive at.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn hear_anything(bytes: &[u8]) {
    super::datagram::hello::hear_anything(bytes);
    let mut sequence = Sequence::new(sequence::window_for(4));
    for datagram in bytes.chunks(NUMBER_AT + 16) {
        if let Some((number, time)) = numbered(datagram) {
            sequence.arrive(number, Some((time, 1)));
        }
    }
    sequence.end_at(u64::MAX);
    let _ = sequence.outcome();
}

/// Follows the numbers of the flows that arrive at one thread.
struct Numbered {
    token: u64,
    payload_bytes: usize,
    stamped: bool,
    window: usize,
    sequences: Vec<Option<Sequence>>,
    bytes: Vec<u64>,
    foreign: u64,
}

impl Arrivals for Numbered {
    fn take(&mut self, batch: &ReceiveBatch, ends: &Ends<'_>) -> (u64, u64) {
        let now_ns = monotonic_ns();
        let mut datagrams = 0;
        for message in batch.messages() {
            // The kernel's stamp is of another clock, but only differences count. Never mixed.
            let arrived_ns = if self.stamped { message.arrived_ns() } else { Some(now_ns) };
            match self.follow(&message, arrived_ns) {
                Some(()) => datagrams += 1,
                None => self.hear(&message, ends),
            }
        }
        (datagrams * self.payload_bytes as u64, datagrams)
    }

    fn finish(self: Box<Self>) -> Arrived {
        let numbered = self.sequences.into_iter().flatten().map(|flow| flow.outcome()).collect();
        Arrived { bytes: self.bytes, numbered: Some(numbered), foreign: self.foreign }
    }
}

impl Numbered {
    /// Counts a datagram; `None` when it is none of this load.
    fn follow(&mut self, message: &Arrival<'_>, arrived_ns: Option<u64>) -> Option<()> {
        let flow = usize::from(flow_of(message.bytes, self.token)?);
        let (number, sent_ns) = numbered(message.bytes)?;
        let bytes =
            self.bytes.get_mut(flow).filter(|_| message.bytes.len() == self.payload_bytes)?;
        let sequence = self.sequences.get_mut(flow)?;
        let sequence = sequence.get_or_insert_with(|| Sequence::new(self.window));
        sequence.arrive(number, arrived_ns.map(|arrived_ns| (sent_ns, arrived_ns)))?;
        *bytes += self.payload_bytes as u64;
        Some(())
    }

    fn hear(&mut self, message: &Arrival<'_>, ends: &Ends<'_>) {
        match ends.hear(message.bytes) {
            Some(Heard::Finished { flow, sent }) => {
                if let Some(sequence) = self.sequences.get_mut(usize::from(flow)) {
                    sequence.get_or_insert_with(|| Sequence::new(self.window)).end_at(sent);
                }
            }
            Some(Heard::Nothing) => {}
            None => self.foreign += 1,
        }
    }
}
