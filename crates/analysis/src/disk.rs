//! What is read of a disk's load.

use std::collections::BTreeSet;

use vioperf_model::record::{Place, Purpose, StorageFacts, TrialRecord};
use vioperf_model::sample::{
    BlockDeviceCounters, DiskCounters, DiskOutcome, LatencyHistogram, LoadCounters,
};

use crate::cell::{CellTrials, latency, per_unit};
use crate::flow::Flow;
use crate::latency::{Latency, PERCENTILES};
use crate::layers::Span;
use crate::rates::{TrialReadings, total};
use crate::result::{Disk, OperationTimes, TransactionDemand};
use crate::window::{Absent, Reading, percent};

/// Why no device is told of a disk in memory.
const IN_MEMORY: &str = "its bytes are in memory: no device of the host's is below";

/// Bytes of a megabyte, as disks are sold.
pub(crate) const MB: f64 = 1e6;
/// Bytes of a mebibyte, as IOmeter and most tools count.
const MIB: f64 = 1_048_576.0;

/// One trial's view of its disk.
#[derive(Debug, Clone)]
pub struct DiskReading {
    reads_per_second: Reading,
    writes_per_second: Reading,
    bytes_read_per_second: Reading,
    bytes_written_per_second: Reading,
    reads: Result<Times, Absent>,
    writes: Result<Times, Absent>,
    given_up: Reading,
    pub(crate) device: Result<DeviceReading, Absent>,
    way: Option<Way>,
    /// Whether its bytes are in memory, where that is known.
    in_memory: Option<bool>,
}

/// How operations got to the kernel.
#[derive(Debug, Clone)]
struct Way {
    engine: &'static str,
    /// The version of fio, where it handed them over.
    fio: Option<String>,
    /// Whether past the page cache.
    direct: bool,
}

/// What the block device of the host did that the disk's bytes are on; where that is not known, the one that moved most
/// while the load ran.
#[derive(Debug, Clone)]
pub(crate) struct DeviceReading {
    pub(crate) name: String,
    /// Bytes that it moved, in percent of those of the load, and of a neighbour's.
    pub(crate) percent_of_load: f64,
    /// The part of the time in which it had an operation under way.
    pub(crate) busy_percent: f64,
    /// How many were under way, on average.
    pub(crate) in_flight: f64,
    /// The time that was counted over.
    pub(crate) seconds: f64,
}

impl DeviceReading {
    fn of(trial: &TrialRecord, loaded_bytes: u64) -> Result<Self, Absent> {
        if loaded_bytes == 0 {
            return Err("nothing was moved".into());
        }
        let span = Span::of_place(trial, "host", Place::Host)?;
        let [first, last] = span.both("disks", |layers| layers.disks.as_ref())?;
        let grown = |read: fn(&BlockDeviceCounters) -> u64, name: &str| {
            let before = first.get(name).map_or(0, read);
            last.get(name).map_or(0, read).saturating_sub(before) as f64
        };
        let moved = |name: &str| grown(|d| d.bytes_read, name) + grown(|d| d.bytes_written, name);
        let most = last.keys().max_by(|a, b| moved(a).total_cmp(&moved(b)));
        let name = match &trial.storage {
            Some(StorageFacts { in_memory: true, .. }) => return Err(IN_MEMORY.into()),
            // One that is not listed never did anything.
            Some(StorageFacts { device: Some(own), .. }) => own,
            _ => most.ok_or("the host has no block device that did anything")?,
        };
        let ms = span.seconds * 1e3;
        Ok(Self {
            name: name.clone(),
            percent_of_load: percent(moved(name), loaded_bytes as f64),
            busy_percent: percent(grown(|d| d.busy_ms, name), ms),
            in_flight: grown(|d| d.in_flight_ms, name) / ms,
            seconds: span.seconds,
        })
    }
}

/// How long operations of one sort took, in microseconds.
#[derive(Debug, Clone)]
struct Times {
    mean: f64,
    p99: Reading,
    max: f64,
}

impl Times {
    fn of(histogram: &LatencyHistogram, none: &'static str) -> Result<Self, Absent> {
        let latency = Latency::of_histogram(histogram);
        if latency.transactions() == 0 {
            return Err(none.into());
        }
        let wanted = PERCENTILES.iter().find(|wanted| wanted.name == "p99");
        Ok(Self {
            mean: latency.mean_us(),
            p99: wanted
                .ok_or_else(|| "not told".into())
                .and_then(|wanted| latency.percentile_us(wanted)),
            max: latency.max_us(),
        })
    }
}

impl DiskReading {
    /// Of a trial's measured flows; every reading is absent where the load was none of a disk.
    pub(crate) fn of(trial: &TrialRecord, flows: &[Flow<'_>]) -> Self {
        let rate = |read: fn(&DiskCounters) -> u64| {
            total(flows, |flow| {
                flow.sender.count_rate(|load: &LoadCounters| load.disk.as_ref().map(read))
            })
        };
        let outcome = flows.iter().find_map(|flow| flow.sender.outcome()?.disk.as_deref());
        // A neighbour's disk is on the same device.
        let beside = Flow::all(trial, Purpose::Neighbour);
        let loaded = flows
            .iter()
            .chain(&beside)
            .filter_map(|flow| flow.sender.outcome())
            .filter(|load| load.disk.is_some());
        let loaded: u64 = loaded.flat_map(|load| &load.streams).map(|stream| stream.bytes).sum();
        let times = |of: fn(&DiskOutcome) -> &LatencyHistogram, none| {
            Times::of(of(outcome.ok_or("the load was none of a disk")?), none)
        };
        Self {
            reads_per_second: rate(|disk| disk.reads),
            writes_per_second: rate(|disk| disk.writes),
            bytes_read_per_second: rate(|disk| disk.bytes_read),
            bytes_written_per_second: rate(|disk| disk.bytes_written),
            reads: times(|outcome| &outcome.reads, "nothing was read"),
            writes: times(|outcome| &outcome.writes, "nothing was written"),
            given_up: outcome
                .map(|outcome| outcome.given_up as f64)
                .ok_or_else(|| "the load was none of a disk".into()),
            device: DeviceReading::of(trial, loaded),
            way: outcome.map(|outcome| Way {
                engine: outcome.engine.name(),
                fio: outcome.fio.clone(),
                direct: outcome.direct,
            }),
            in_memory: trial.storage.as_ref().map(|storage| storage.in_memory),
        }
    }

    fn bytes_per_second(&self) -> Reading {
        let read = self.bytes_read_per_second.as_ref().map_err(Clone::clone)?;
        let written = self.bytes_written_per_second.as_ref().map_err(Clone::clone)?;
        Ok(read + written)
    }
}

/// Gathers the trials of a cell.
pub(crate) fn gather(trials: &CellTrials, baseline: Option<&CellTrials>) -> Disk {
    let parts = |read: fn(&DiskReading) -> Reading, bytes: f64| {
        trials.metric_of(move |r| Ok(read(&r.disk)? / bytes))
    };
    let device = |read: fn(&DeviceReading) -> f64| {
        trials.metric_of(move |r| Ok(read(r.disk.device.as_ref().map_err(Clone::clone)?)))
    };
    let ways = || trials.completed.iter().filter_map(|readings| readings.disk.way.as_ref());
    let devices = trials.completed.iter().filter_map(|r| Some(&r.disk.device.as_ref().ok()?.name));
    let devices: BTreeSet<String> = devices.cloned().collect();
    let engines: BTreeSet<&'static str> = ways().map(|way| way.engine).collect();
    let fio: BTreeSet<&String> = ways().filter_map(|way| way.fio.as_ref()).collect();
    Disk {
        operations_per_second: trials.metric(|r| &r.headline),
        reads_per_second: trials.metric(|r| &r.disk.reads_per_second),
        writes_per_second: trials.metric(|r| &r.disk.writes_per_second),
        mb_per_second: parts(DiskReading::bytes_per_second, MB),
        mib_per_second: parts(DiskReading::bytes_per_second, MIB),
        mb_read_per_second: parts(|disk| disk.bytes_read_per_second.clone(), MB),
        mb_written_per_second: parts(|disk| disk.bytes_written_per_second.clone(), MB),
        latency: latency(trials, baseline),
        reads: times(trials, |disk| &disk.reads),
        writes: times(trials, |disk| &disk.writes),
        device_percent_of_load: device(|device| device.percent_of_load),
        device_busy_percent: device(|device| device.busy_percent),
        device_in_flight: device(|device| device.in_flight),
        given_up: trials.metric(|r| &r.disk.given_up),
        service_demand: TransactionDemand {
            host_us: trials.metric_of(per_unit(0, 1e6)),
            qemu_us: trials.metric_of(per_unit(1, 1e6)),
            guest_us: trials.metric_of(per_unit(2, 1e6)),
        },
        devices: devices.into_iter().collect(),
        in_memory: trials.completed.iter().any(|r| r.disk.in_memory == Some(true)),
        engines: engines.into_iter().collect(),
        fio: fio.into_iter().cloned().collect(),
        direct: ways().map(|way| way.direct).reduce(|all, one| all && one),
    }
}

fn times(trials: &CellTrials, of: fn(&DiskReading) -> &Result<Times, Absent>) -> OperationTimes {
    let metric = |read: fn(&Times) -> Reading| {
        trials.metric_of(move |r: &TrialReadings| read(of(&r.disk).as_ref().map_err(Clone::clone)?))
    };
    OperationTimes {
        mean_us: metric(|times| Ok(times.mean)),
        p99_us: metric(|times| times.p99.clone()),
        max_us: metric(|times| Ok(times.max)),
    }
}
