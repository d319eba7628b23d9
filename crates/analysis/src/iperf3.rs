//! One trial as `iperf3 --json` would have told it, for programs that read that. The far end is iperf3's client, the
//! guest its server, and the common window is the time that iperf3 counts after its `--omit`.
//!
//! What iperf3 has no word for is left out, and what vioperf does not know is `null`: no counter is made up.

mod ends;

use serde::Serialize;
use vioperf_model::plan::Cell;
use vioperf_model::record::{Purpose, RunInfo, TrialRecord};
use vioperf_model::units::{ByteSize, TimeSpan};
use vioperf_model::wire::Role;
use vioperf_model::workload::{Direction, Workload, WorkloadKind};

use self::ends::{Cpu, EndStream, FlowSums, Interval, Sum};
use crate::flow::Flow;
use crate::window::Absent;

/// The document, its keys in iperf3's order.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Document {
    /// The cell, as iperf3's `--title` would say it.
    pub title: String,
    start: Start,
    intervals: Vec<Interval>,
    end: End,
    vioperf: Origin,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Start {
    connected: Vec<Connected>,
    version: String,
    system_info: String,
    timestamp: Timestamp,
    connecting_to: Option<ConnectingTo>,
    test_start: TestStart,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Timestamp {
    /// RFC 3339 where iperf3 has the form of RFC 1123.
    time: String,
    timesecs: Option<i64>,
}

/// A connection, of which only one end is stored.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Connected {
    socket: u16,
    local_host: Option<String>,
    local_port: Option<u16>,
    remote_host: Option<String>,
    remote_port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct ConnectingTo {
    host: String,
    port: u16,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct TestStart {
    protocol: &'static str,
    num_streams: u16,
    blksize: Option<u64>,
    omit: f64,
    duration: f64,
    reverse: u8,
    bidir: u8,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct End {
    streams: Vec<EndStream>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sum: Option<Sum>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sum_sent: Option<Sum>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sum_received: Option<Sum>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sum_sent_bidir_reverse: Option<Sum>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sum_received_bidir_reverse: Option<Sum>,
    cpu_utilization_percent: Cpu,
}

/// What iperf3 has no place for.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Origin {
    scenario: String,
    cell: String,
    sequence: u32,
    block: u32,
    workload: &'static str,
}

/// Tells `trial` of `cell` in iperf3's words.
///
/// # Errors
/// When iperf3 has no such load, or the load was never measured.
pub fn of_trial(run: &RunInfo, cell: &Cell, trial: &TrialRecord) -> Result<Document, Absent> {
    let workload = &cell.workload;
    let is_udp = match workload.kind {
        WorkloadKind::TcpStream => false,
        WorkloadKind::UdpStream | WorkloadKind::PacketRate => true,
        kind => {
            let name = kind.name();
            return Err(format!("iperf3 has no load like {name}: take `--format json`").into());
        }
    };
    let mut flows = Flow::all(trial, Purpose::Measured);
    // iperf3's client sends first of all.
    flows.sort_by_key(|flow| flow.direction != Direction::ToGuest);
    let sums =
        flows.iter().map(|flow| FlowSums::of(flow, is_udp)).collect::<Result<Vec<_>, _>>()?;
    let mut sums = sums.into_iter();
    let first = sums.next().ok_or("there is no load in the record")?;
    let second = sums.next();
    Ok(Document {
        title: cell.id.0.clone(),
        start: start(run, workload, trial, &flows, is_udp),
        intervals: ends::intervals(&first, second.as_ref()),
        end: End {
            streams: first
                .streams
                .iter()
                .chain(second.iter().flat_map(|s| &s.streams))
                .cloned()
                .collect(),
            sum: is_udp.then(|| first.received.clone()),
            sum_sent: first.sent,
            sum_received: Some(first.received),
            sum_sent_bidir_reverse: second.as_ref().and_then(|sums| sums.sent.clone()),
            sum_received_bidir_reverse: second.map(|sums| sums.received),
            cpu_utilization_percent: Cpu::of(trial),
        },
        vioperf: Origin {
            scenario: run.scenario.name.clone(),
            cell: cell.id.0.clone(),
            sequence: trial.sequence,
            block: trial.block,
            workload: workload.kind.name(),
        },
    })
}

fn start(
    run: &RunInfo,
    workload: &Workload,
    trial: &TrialRecord,
    flows: &[Flow<'_>],
    is_udp: bool,
) -> Start {
    let towards = flows.iter().find_map(|flow| match flow.sender.role()? {
        Role::Sender { peer } => Some(peer),
        _ => None,
    });
    let seconds = |span: TimeSpan| span.as_duration().as_secs_f64();
    let connected = |socket| Connected {
        socket,
        local_host: None,
        local_port: None,
        remote_host: towards.map(|peer| peer.ip().to_string()),
        remote_port: towards.map(|peer| peer.port()),
    };
    let started: Option<jiff::Timestamp> = trial.started_at.parse().ok();
    Start {
        connected: (1..=workload.streams).map(connected).collect(),
        version: format!("vioperf {}", run.vioperf_version),
        system_info: format!("Linux {} {}", run.host.name, run.host.kernel_release),
        timestamp: Timestamp {
            time: trial.started_at.clone(),
            timesecs: started.map(jiff::Timestamp::as_second),
        },
        connecting_to: towards
            .map(|peer| ConnectingTo { host: peer.ip().to_string(), port: peer.port() }),
        test_start: TestStart {
            protocol: if is_udp { "UDP" } else { "TCP" },
            num_streams: workload.streams,
            blksize: workload.message_size.or(workload.payload).map(ByteSize::as_bytes),
            omit: seconds(workload.warmup),
            duration: seconds(workload.duration),
            reverse: u8::from(workload.direction == Direction::FromGuest),
            bidir: u8::from(workload.direction == Direction::Both),
        },
    }
}
