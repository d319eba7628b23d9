//! The flows of a sender: how they are opened, and how their end is told.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use vioperf_model::sample::{LoadOutcome, StreamOutcome};
use vioperf_model::workload::Workload;

use super::hello::{self, Unanswered};
use super::outgoing::Outgoing;
use super::spread::Routes;
use super::{Shape, sockets};
use crate::load::LoadError;
use crate::load::socket_options::{SocketOptions, smallest_buffers};

/// How long a sender tries to reach its receiver.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Opens the flows, dealt to threads; the receiver has answered on each.
pub(super) fn open_flows(
    routes: &Routes,
    workload: &Workload,
    shape: &Shape,
    threads: usize,
) -> Result<Vec<Vec<Outgoing>>, LoadError> {
    let deadline = Instant::now() + ANSWER_WITHIN;
    let options = SocketOptions::of(workload);
    let streams = usize::from(workload.streams);
    let mut hands = Vec::new();
    hands.resize_with(threads, Vec::new);
    for flow in 0..workload.streams {
        let number = usize::from(flow) + 1;
        let (source, peer) = routes.of_flow(flow);
        let socket = sockets::connected(source, peer, number, streams)?;
        sockets::check_fits(&socket, peer, shape.payload_bytes)?;
        options.set_on_udp(socket.as_fd())?;
        let token = match hello::introduce(&socket, flow, shape.payload_bytes, deadline) {
            Ok(token) => token,
            Err(Unanswered::Silence(source)) => {
                return Err(LoadError::NoAnswer { peer, number, streams, source });
            }
            Err(Unanswered::TooLong { passes }) => {
                return Err(sockets::black_hole(peer, shape.payload_bytes, passes));
            }
        };
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

/// Tells the receiver how many datagrams each flow had, as far as it can be told in time.
pub(super) fn tell_ends(flows: &[Outgoing]) {
    let deadline = hello::finish_deadline();
    for flow in flows.iter().filter(|flow| !flow.over) {
        hello::finish(&flow.socket, flow.number, flow.token, flow.datagrams, deadline);
    }
}

/// What all flows of a load come to at their end.
pub(super) fn sent(flows: &[Outgoing], streams: u16, is_paced: bool) -> LoadOutcome {
    let mut each = vec![StreamOutcome::default(); usize::from(streams)];
    for flow in flows {
        if let Some(place) = each.get_mut(usize::from(flow.number)) {
            place.bytes = flow.bytes;
        }
    }
    let socket_buffers = smallest_buffers(flows.iter().map(|flow| flow.socket.as_fd()));
    let not_sent = is_paced.then(|| flows.iter().map(|flow| flow.not_sent).sum());
    LoadOutcome { streams: each, socket_buffers, not_sent, ..LoadOutcome::default() }
}
