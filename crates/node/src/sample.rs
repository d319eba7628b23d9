//! What a node reads while the load runs. Each group of counters is a reader that keeps its files
//! open, and a pure function of what they say.

mod core_files;
mod cores;
mod frequencies;
mod hardware;
mod interfaces;
mod kept_file;
mod layers;
mod packet_filter;
pub(crate) mod sampler;
mod tcp;
mod threads;
mod throttles;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use vioperf_model::sample::{LayerCounters, PacketFilter, Sample};
use vioperf_model::wire::WatchedProcess;

use crate::burn::Burned;
use crate::clock::monotonic_ns;
use crate::load::LoadControl;

/// Why a group of counters cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{}: not understood: `{line}`", path.display())]
    Format { path: PathBuf, line: String },
    #[error("{}: no core tells it ({file}); virtual machines mostly do not", folder.display())]
    NoCore { folder: PathBuf, file: &'static str },
}

/// Why sampling cannot be set up at all.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SourcesError {
    #[error("cannot watch process {pid} (`{label}`): {source}; is it still running?")]
    Process { label: String, pid: i32, source: ReadError },
}

/// Every group of counters, each with its files open.
pub(crate) struct Sources {
    cores: Option<cores::Reader>,
    interfaces: Option<interfaces::Reader>,
    tcp: Option<tcp::Reader>,
    threads: Option<threads::Reader>,
    layers: layers::Layers,
    packet_filter: Option<PacketFilter>,
    hardware: Option<hardware::Reader>,
    frequencies: Option<frequencies::Reader>,
    throttles: Option<throttles::Reader>,
    burned: Option<Burned>,
    absent: BTreeMap<String, String>,
}

impl Sources {
    /// Opens what is there; what is not is noted with its reason. `proc` is `/proc` but in tests.
    ///
    /// Network counters are those of the calling thread's network namespace, for good.
    pub(crate) fn open(proc: &Path, processes: &[WatchedProcess]) -> Result<Self, SourcesError> {
        let mut absent = BTreeMap::new();
        let threads = match processes {
            [] => None,
            _ => Some(threads::Reader::open(proc, processes, &mut absent)?),
        };
        Ok(Self {
            cores: noting("cores", cores::Reader::open(proc), &mut absent),
            interfaces: noting("interfaces", interfaces::Reader::open(proc), &mut absent),
            tcp: noting("tcp", tcp::Reader::open(proc), &mut absent),
            threads,
            layers: layers::Layers::new(proc, processes),
            packet_filter: None,
            hardware: None,
            frequencies: None,
            throttles: None,
            burned: None,
            absent,
        })
    }

    /// From now on it is read too how fast the cores run. `sys` is `/sys` but in tests.
    pub(crate) fn watch_speeds(&mut self, sys: &Path) {
        let absent = &mut self.absent;
        self.frequencies = noting("frequencies", frequencies::Reader::open(sys), absent);
        self.throttles = noting("throttles", throttles::Reader::open(sys), absent);
    }

    /// From now on the ports of an Open vSwitch are read too.
    pub(crate) fn watch_open_vswitch(&mut self, database: &Path) {
        self.layers.watch_open_vswitch(database);
    }

    /// From now on the processors count. `proc` is `/proc` but in tests.
    pub(crate) fn count_hardware(&mut self, proc: &Path) {
        self.hardware = noting("layers.hardware", hardware::Reader::open(proc), &mut self.absent);
    }

    /// Takes note of the rules that packets are held against: once, as they are many on some machines.
    pub(crate) fn note_packet_filter(&mut self, proc: &Path) {
        self.packet_filter = noting("packet_filter", packet_filter::read(proc), &mut self.absent);
    }

    /// From now on what is burned on purpose is read too.
    pub(crate) fn watch_burned(&mut self, burned: Burned) {
        self.burned = Some(burned);
    }

    /// Reads everything once, and what the loads of the node's legs have moved.
    pub(crate) fn read(&mut self, loads: &[Arc<LoadControl>]) -> Sample {
        let mut moved = loads.iter().map(|load| load.moved());
        let absent = &mut self.absent;
        Sample {
            monotonic_ns: monotonic_ns(),
            load: moved.next(),
            further_loads: moved.collect(),
            interfaces: self
                .interfaces
                .as_mut()
                .and_then(|reader| noting("interfaces", reader.read(), absent)),
            cores: self.cores.as_mut().and_then(|reader| noting("cores", reader.read(), absent)),
            frequencies: self
                .frequencies
                .as_mut()
                .and_then(|reader| noting("frequencies", reader.read(), absent)),
            throttles: self
                .throttles
                .as_mut()
                .and_then(|reader| noting("throttles", reader.read(), absent)),
            tcp: self.tcp.as_mut().and_then(|reader| noting("tcp", reader.read(), absent)),
            burned_ns: self.burned.as_ref().map(|burned| burned.load(Ordering::Relaxed)),
            threads: self.threads.as_mut().map(threads::Reader::read),
        }
    }

    /// Reads the counters of every layer: at the two ends of a trial, when nothing moves, so that what
    /// they cost is not the load's.
    pub(crate) fn read_layers(&mut self) -> LayerCounters {
        let absent = &mut self.absent;
        let hardware = self.hardware.as_mut();
        LayerCounters {
            hardware: hardware.and_then(|reader| noting("layers.hardware", reader.read(), absent)),
            ..self.layers.read(absent)
        }
    }

    /// Rules that packets are held against; what could not be read, and why.
    pub(crate) fn into_rest(self) -> (Option<PacketFilter>, BTreeMap<String, String>) {
        (self.packet_filter, self.absent)
    }
}

/// What was read, or nothing and the reason noted once.
fn noting<T>(
    group: &str,
    outcome: Result<T, impl std::fmt::Display>,
    absent: &mut BTreeMap<String, String>,
) -> Option<T> {
    outcome
        .map_err(|error| absent.entry(group.to_owned()).or_insert_with(|| error.to_string()))
        .ok()
}
