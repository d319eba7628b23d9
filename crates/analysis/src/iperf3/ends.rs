//! What the two ends of a load counted, summed up as iperf3 does.

use serde::Serialize;
use vioperf_model::record::{Party, TrialRecord};
use vioperf_model::sample::{DatagramOutcome, LoadOutcome, Sample};

use crate::flow::{Flow, View};
use crate::window::{Absent, percent};

/// Bytes in a stretch of time, in seconds from the begin of the load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Moved {
    start: f64,
    end: f64,
    seconds: f64,
    bytes: u64,
    bits_per_second: f64,
}

impl Moved {
    fn new(start: f64, seconds: f64, bytes: u64) -> Self {
        let bits_per_second = bytes as f64 * 8.0 / seconds;
        Self { start, end: start + seconds, seconds, bytes, bits_per_second }
    }
}

/// What one end moved in a stretch of time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Sum {
    #[serde(flatten)]
    moved: Moved,
    /// Of TCP: segments that the sender's machine sent again.
    #[serde(skip_serializing_if = "Option::is_none")]
    retransmits: Option<u64>,
    #[serde(flatten)]
    datagrams: Option<Datagrams>,
    sender: bool,
}

/// Of UDP. Packets are those of the window, losses those of the whole load, as each is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
struct Datagrams {
    #[serde(skip_serializing_if = "Option::is_none")]
    jitter_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lost_packets: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    packets: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lost_percent: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    out_of_order: Option<u64>,
}

impl Datagrams {
    fn with_losses(self, outcome: &DatagramOutcome) -> Self {
        let sent = outcome.received.saturating_add(outcome.lost);
        Self {
            jitter_ms: Some(outcome.jitter_ns as f64 / 1e6),
            lost_packets: Some(outcome.lost),
            lost_percent: Some(percent(outcome.lost as f64, sent as f64)),
            out_of_order: Some(outcome.reordered),
            ..self
        }
    }
}

/// A stretch of time, all streams together: vioperf does not count them one by one while they run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Interval {
    streams: Vec<Sum>,
    sum: Sum,
    #[serde(skip_serializing_if = "Option::is_none")]
    sum_bidir_reverse: Option<Sum>,
}

/// A connection at its end, over the whole load, its warm-up included.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct EndStream {
    #[serde(skip_serializing_if = "Option::is_none")]
    sender: Option<StreamEnd>,
    #[serde(skip_serializing_if = "Option::is_none")]
    receiver: Option<StreamEnd>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct StreamEnd {
    socket: usize,
    #[serde(flatten)]
    moved: Moved,
    #[serde(skip_serializing_if = "Option::is_none")]
    retransmits: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mean_rtt: Option<u32>,
    sender: bool,
}

/// Of the programs that made the load, in percent of a core; what they spent in user mode is not known apart.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Cpu {
    host_total: Option<f64>,
    host_user: Option<f64>,
    host_system: Option<f64>,
    remote_total: Option<f64>,
    remote_user: Option<f64>,
    remote_system: Option<f64>,
}

impl Cpu {
    pub(super) fn of(trial: &TrialRecord) -> Self {
        let of = |is_far: bool| {
            let ends = trial.parties.iter().filter(|party| party.report.load.is_some());
            let party = ends.into_iter().find(|party| party.place.is_far_end() == is_far)?;
            let seconds =
                seconds_between(party.report.samples.first()?, party.report.samples.last()?)?;
            Some(party.report.node_cpu_ns as f64 / 1e9 / seconds * 100.0)
        };
        Self {
            host_total: of(true),
            host_user: None,
            host_system: None,
            remote_total: of(false),
            remote_user: None,
            remote_system: None,
        }
    }
}

/// Both ends of a load that goes one way.
pub(super) struct FlowSums {
    pub(super) sent: Option<Sum>,
    pub(super) received: Sum,
    pub(super) streams: Vec<EndStream>,
    intervals: Vec<Sum>,
}

impl FlowSums {
    /// What was received is known, or there is nothing to tell.
    pub(super) fn of(flow: &Flow<'_>, is_udp: bool) -> Result<Self, Absent> {
        let receiver = flow.receiver.window()?.samples();
        let (first, last) = (receiver[0], receiver[receiver.len() - 1]);
        let received = between(&flow.receiver, first, first, last, is_udp, false);
        let mut received = received.ok_or("the receiver's counters cannot be read")?;
        let outcome = flow.receiver.outcome();
        if let (Some(datagrams), Some(of_load)) =
            (received.datagrams, outcome.and_then(|load| load.datagrams.as_ref()))
        {
            received.datagrams = Some(datagrams.with_losses(of_load));
        }
        let sent = flow.sender.window().ok().and_then(|window| {
            let samples = window.samples();
            let (first, last) = (samples[0], samples[samples.len() - 1]);
            between(&flow.sender, first, first, last, is_udp, true)
        });
        let pairs = receiver.windows(2);
        let intervals = pairs
            .filter_map(|pair| between(&flow.receiver, first, pair[0], pair[1], is_udp, false));
        Ok(Self { sent, intervals: intervals.collect(), streams: streams(flow), received })
    }
}

/// What was moved at an end from one sample to another; times are since `zero`.
fn between(
    view: &View<'_>,
    zero: &Sample,
    from: &Sample,
    to: &Sample,
    is_udp: bool,
    sender: bool,
) -> Option<Sum> {
    let bytes = view.moved(to)?.bytes.checked_sub(view.moved(from)?.bytes)?;
    let packets = || view.moved(to)?.datagrams?.checked_sub(view.moved(from)?.datagrams?);
    let again = |sample: &Sample| Some(sample.tcp.as_ref()?.segments_retransmitted);
    let seconds = seconds_between(from, to)?;
    let start = seconds_between(zero, from).unwrap_or(0.0);
    Some(Sum {
        moved: Moved::new(start, seconds, bytes),
        retransmits: match sender && !is_udp {
            true => again(to).zip(again(from)).and_then(|(to, from)| to.checked_sub(from)),
            false => None,
        },
        datagrams: is_udp.then(|| Datagrams { packets: packets(), ..Datagrams::default() }),
        sender,
    })
}

/// Above zero.
fn seconds_between(from: &Sample, to: &Sample) -> Option<f64> {
    let ns = to.monotonic_ns.checked_sub(from.monotonic_ns).filter(|ns| *ns > 0)?;
    Some(ns as f64 / 1e9)
}

fn streams(flow: &Flow<'_>) -> Vec<EndStream> {
    let end = |view: &View<'_>, sender: bool| -> Vec<StreamEnd> {
        let (Some(party), Some(outcome)) = (view.party, view.outcome()) else { return Vec::new() };
        of_streams(party, outcome, sender)
    };
    let (mut senders, mut receivers) =
        (end(&flow.sender, true).into_iter(), end(&flow.receiver, false).into_iter());
    let pairs = std::iter::from_fn(|| match (senders.next(), receivers.next()) {
        (None, None) => None,
        (sender, receiver) => Some(EndStream { sender, receiver }),
    });
    pairs.collect()
}

fn of_streams(party: &Party, outcome: &LoadOutcome, sender: bool) -> Vec<StreamEnd> {
    let samples = &party.report.samples;
    let whole = samples.first().zip(samples.last());
    let Some(seconds) = whole.and_then(|(first, last)| seconds_between(first, last)) else {
        return Vec::new();
    };
    let of = |(number, stream): (usize, &vioperf_model::sample::StreamOutcome)| StreamEnd {
        socket: number + 1,
        moved: Moved::new(0.0, seconds, stream.bytes),
        retransmits: stream.tcp.filter(|_| sender).map(|tcp| tcp.retransmissions),
        mean_rtt: stream.tcp.filter(|_| sender).map(|tcp| tcp.rtt_us),
        sender,
    };
    outcome.streams.iter().enumerate().map(of).collect()
}

/// Stretches of the one load beside those of the other, which goes the other way.
pub(super) fn intervals(first: &FlowSums, second: Option<&FlowSums>) -> Vec<Interval> {
    let mut others = second.map(|sums| sums.intervals.iter()).into_iter().flatten();
    let of = |sum: &Sum| Interval {
        streams: Vec::new(),
        sum: sum.clone(),
        sum_bidir_reverse: others.next().cloned(),
    };
    first.intervals.iter().map(of).collect()
}
