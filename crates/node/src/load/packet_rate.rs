//! Small UDP datagrams: as many as the path takes, or so many a second in time with the clock.
//!
//! All messages of a call are one and the same memory. With `segmentation` a message is as many
//! datagrams as the kernel takes for one: it is cut (`UDP_SEGMENT`) as late as the path allows, and
//! put together (`UDP_GRO`) as early.

use vioperf_model::wire::{Role, Spread};
use vioperf_model::workload::{Receivers, Workload};

use super::control::ThreadCounters;
use super::datagram::batch::{ReceiveBatch, SendBatch};
use super::datagram::outgoing::{Outgoing, Sending, send_at_full_speed};
use super::datagram::pacing::send_at_rate;
use super::datagram::{
    Arrivals, Arrived, DatagramLoad, Ends, MARK_BYTES, MOST_PAYLOAD, Shape, Traffic, flow_of,
    mark_flow, marked, parameter, payload_bytes,
};
use super::schedule::Rate;
use super::{LoadControl, LoadError};

/// Datagrams a system call, where nothing is asked for; and the most: what `IOV_MAX` lets the kernel
/// take at once.
const DEFAULT_BATCH: u16 = 1024;
/// The most datagrams that every kernel cuts from one message (`UDP_MAX_SEGMENTS`; later ones: 128).
const MOST_SEGMENTS: usize = 64;
/// The most that one message can be of, with `UDP_GRO`.
const MOST_JOINED_BYTES: usize = 1 << 16;
/// The most memory that one thread takes for what it receives.
const MOST_ROOM_BYTES: usize = 2 << 20;

/// How this load is asked for.
pub(super) struct PacketRate {
    payload_bytes: usize,
    batch: usize,
    segmentation: bool,
    flows: u16,
    /// Of each flow.
    rate: Option<Rate>,
}

impl PacketRate {
    pub(super) fn prepare(
        role: &Role,
        workload: &Workload,
        spread: &Spread,
    ) -> Result<DatagramLoad<Self>, LoadError> {
        let payload_bytes = payload_bytes::<Self>(workload)?;
        let batch = workload.batch.unwrap_or(DEFAULT_BATCH);
        if !(1..=DEFAULT_BATCH).contains(&batch) {
            let advice = format!("ask for 1 to {DEFAULT_BATCH}, the most that the kernel takes");
            return Err(parameter("batch", &batch, &advice));
        }
        let shape = Shape {
            payload_bytes,
            segmentation: workload.segmentation,
            stamps: false,
            receivers: workload.receivers.unwrap_or(Receivers::One),
        };
        let rate = Rate::of_datagrams(workload)?;
        let (segmentation, flows) = (workload.segmentation, workload.streams);
        let traffic = Self { payload_bytes, batch: batch.into(), segmentation, flows, rate };
        DatagramLoad::prepare(role, workload, spread, &shape, traffic)
    }

    /// Datagrams of one message.
    fn segments(&self) -> usize {
        if !self.segmentation {
            return 1;
        }
        let most = usize::try_from(MOST_PAYLOAD).unwrap_or(usize::MAX) / self.payload_bytes;
        most.clamp(1, MOST_SEGMENTS).min(self.batch)
    }
}

impl Traffic for PacketRate {
    const LEAST_PAYLOAD: u64 = MARK_BYTES as u64;

    fn send(&self, flows: &mut [Outgoing], control: &LoadControl, counters: &ThreadCounters) {
        let Some(token) = flows.first().map(|flow| flow.token) else { return };
        let segments = self.segments();
        let datagram = marked(token, self.payload_bytes);
        let mut batch = SendBatch::of_one(self.batch / segments, datagram.repeat(segments));
        let (payload_bytes, in_all) = (self.payload_bytes, self.flows);
        let load = Sending { control, counters, payload_bytes, flows: in_all, segments };
        let mut marked_for = None;
        let mut mark = |batch: &mut SendBatch, flow: &Outgoing| {
            if marked_for.replace(flow.number) != Some(flow.number) {
                let segments = batch.message(0).chunks_exact_mut(self.payload_bytes);
                segments.for_each(|segment| mark_flow(segment, flow.number));
            }
        };
        match self.rate {
            None => send_at_full_speed(flows, &mut batch, load, mark),
            Some(rate) => {
                // What is cut from one message goes at once.
                let rate = rate.in_multiples_of(segments as u64);
                send_at_rate(flows, &mut batch, load, rate, |batch, flow, _, _| mark(batch, flow));
            }
        }
    }

    fn is_paced(&self) -> bool {
        self.rate.is_some()
    }

    fn numbers(&self) -> bool {
        false
    }

    fn room(&self) -> ReceiveBatch {
        if self.segmentation {
            let messages = (self.batch / self.segments()).min(MOST_ROOM_BYTES / MOST_JOINED_BYTES);
            return ReceiveBatch::new(messages.max(1), MOST_JOINED_BYTES, true);
        }
        // One byte more, so that a datagram that is too long is not taken for one of ours.
        let room = self.payload_bytes + 1;
        ReceiveBatch::new(self.batch.min(MOST_ROOM_BYTES / room).max(1), room, false)
    }

    fn nothing_arrived(&self, token: u64, flows: u16) -> Box<dyn Arrivals> {
        Box::new(Counted {
            token,
            payload_bytes: self.payload_bytes,
            arrived: Arrived { bytes: vec![0; flows.into()], ..Arrived::default() },
        })
    }
}

/// Counts datagrams by their mark.
struct Counted {
    token: u64,
    payload_bytes: usize,
    arrived: Arrived,
}

impl Arrivals for Counted {
    fn take(&mut self, batch: &ReceiveBatch, _: &Ends<'_>) -> (u64, u64) {
        let mut datagrams = 0;
        for message in batch.messages() {
            let size = message.segment_bytes().unwrap_or(message.bytes.len()).max(1);
            for datagram in message.bytes.chunks(size) {
                datagrams += u64::from(self.count(datagram));
            }
        }
        (datagrams * self.payload_bytes as u64, datagrams)
    }

    fn finish(self: Box<Self>) -> Arrived {
        self.arrived
    }
}

impl Counted {
    /// Whether it is of this load.
    fn count(&mut self, datagram: &[u8]) -> bool {
        let flow = flow_of(datagram, self.token)
            .filter(|_| datagram.len() == self.payload_bytes)
            .and_then(|flow| self.arrived.bytes.get_mut(usize::from(flow)));
        if let Some(bytes) = flow {
            *bytes += datagram.len() as u64;
            return true;
        }
        self.arrived.foreign += 1;
        false
    }
}
