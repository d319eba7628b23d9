//! One trial on this node, from prepared over running to finished.

use std::path::Path;

use vioperf_model::sample::{NodeReport, Sample};
use vioperf_model::units::TimeSpan;
use vioperf_model::wire::{Prepare, Role};

use crate::clock::{monotonic_ns, process_cpu_ns};
use crate::load::{Load, LoadError, prepare};
use crate::sample::sampler::Sampler;
use crate::sample::{Sources, SourcesError};

/// The shortest time between samples that makes sense: reading them takes a good part of that.
const SHORTEST_INTERVAL: TimeSpan = TimeSpan::from_millis(1);

/// Why a trial could not be prepared or started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TrialError {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Sources(#[from] SourcesError),
    #[error("a sample every {0} is too often: ask for {SHORTEST_INTERVAL} or more")]
    Interval(TimeSpan),
    #[error("cannot create the sampling thread: {0}; too many processes (ulimit -u)?")]
    Thread(std::io::Error),
}

/// Connections stand, counters are open, nothing moves.
pub(crate) struct Prepared {
    load: Option<Box<dyn Load>>,
    sources: Sources,
    interval: TimeSpan,
    deadline: TimeSpan,
}

impl Prepared {
    pub(crate) fn new(part: &Prepare) -> Result<Self, TrialError> {
        if part.sample_interval < SHORTEST_INTERVAL {
            return Err(TrialError::Interval(part.sample_interval));
        }
        let sources = Sources::open(Path::new("/proc"), &part.processes)?;
        let load = match part.role {
            Role::Observer => None,
            Role::Sender { .. } | Role::Receiver { .. } => {
                Some(prepare(&part.role, &part.workload)?)
            }
        };
        Ok(Self { load, sources, interval: part.sample_interval, deadline: part.deadline })
    }

    /// Where a receiver listens.
    pub(crate) fn port(&self) -> Option<u16> {
        self.load.as_ref().and_then(|load| load.port())
    }

    /// Takes the first sample and sets the load going.
    pub(crate) fn start(mut self) -> Result<Running, TrialError> {
        if let Some(load) = &mut self.load {
            load.await_peer()?;
        }
        let cpu_ns_at_start = process_cpu_ns();
        let control = self.load.as_ref().map(|load| load.control().clone());
        let sampler = Sampler::start(self.sources, control, self.interval, self.deadline)
            .map_err(TrialError::Thread)?;
        if let Some(load) = &mut self.load {
            load.begin()?;
        }
        Ok(Running { load: self.load, sampler, cpu_ns_at_start, progress: None })
    }
}

/// Payload moves and samples are taken.
pub(crate) struct Running {
    load: Option<Box<dyn Load>>,
    sampler: Sampler,
    cpu_ns_at_start: u64,
    /// Opened when first asked for: the sampler has its own, on its own thread.
    progress: Option<Sources>,
}

impl Running {
    /// A sample for those who watch: of the load, of TCP and of the cores.
    pub(crate) fn progress(&mut self) -> Sample {
        let moved = self.load.as_ref().map(|load| load.control().moved());
        if self.progress.is_none() {
            // Without processes to watch nothing is refused.
            self.progress = Sources::open(Path::new("/proc"), &[]).ok();
        }
        match &mut self.progress {
            Some(sources) => Sample { interfaces: None, ..sources.read(moved) },
            None => Sample { monotonic_ns: monotonic_ns(), load: moved, ..Sample::default() },
        }
    }

    /// Ends the load, then takes the last sample: it holds all that was moved.
    pub(crate) fn stop(mut self) -> Finished {
        let outcome = self.load.as_mut().map(|load| load.end());
        let (samples, absent) = self.sampler.stop();
        let report = NodeReport {
            ticks_per_second: ticks_per_second(),
            samples,
            absent,
            load: outcome,
            node_cpu_ns: process_cpu_ns().saturating_sub(self.cpu_ns_at_start),
        };
        Finished { report, load: self.load }
    }
}

/// What was measured, ready to be handed over.
pub(crate) struct Finished {
    report: NodeReport,
    /// Its connections stay open until the results are asked for, when the other side has stopped
    /// too. So a connection that ends before Stop always tells of a peer that died.
    load: Option<Box<dyn Load>>,
}

impl Finished {
    /// The report with at most so many samples from one on, and where the next page begins.
    pub(crate) fn page(&mut self, from: usize, at_most: usize) -> (NodeReport, Option<usize>) {
        self.load = None;
        let all = &self.report.samples;
        let from = from.min(all.len());
        let to = from.saturating_add(at_most).min(all.len());
        let report = NodeReport {
            samples: all.get(from..to).unwrap_or_default().to_vec(),
            ticks_per_second: self.report.ticks_per_second,
            absent: self.report.absent.clone(),
            load: self.report.load.clone(),
            node_cpu_ns: self.report.node_cpu_ns,
        };
        (report, (to < all.len()).then_some(to))
    }
}

/// The unit of `/proc/stat`: 100 on every Linux that we know, but asked for all the same.
fn ticks_per_second() -> u32 {
    use nix::unistd::{SysconfVar, sysconf};
    sysconf(SysconfVar::CLK_TCK)
        .ok()
        .flatten()
        .and_then(|ticks| u32::try_from(ticks).ok())
        .unwrap_or(100)
}
