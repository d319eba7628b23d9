//! One trial on this node, from prepared over running to finished.

use std::io;
use std::path::Path;

use vioperf_model::sample::{LoadOutcome, NodeReport, Sample};
use vioperf_model::units::{Ratio, TimeSpan};
use vioperf_model::wire::{MAX_BURNERS, MAX_LEGS, Prepare, Role};

use crate::burn::{Burned, Burner};
use crate::clock::process_cpu_ns;
use crate::load::{Load, LoadError, prepare};
use crate::sample::sampler::{Sampled, Sampler};
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
    #[error(
        "a node has a part in at most {MAX_LEGS} loads at once: Start, or Stop, before the next"
    )]
    TooManyLegs,
    #[error("cannot create the sampling or burning thread: {0}; too many processes (ulimit -u)?")]
    Thread(std::io::Error),
}

/// Connections stand, counters are open, nothing moves.
pub(crate) struct Prepared {
    loads: Vec<Box<dyn Load>>,
    sources: Sources,
    interval: TimeSpan,
    deadline: TimeSpan,
    burn: Option<Ratio>,
    burn_threads: u16,
}

impl Prepared {
    pub(crate) fn new(part: &Prepare) -> Result<Self, TrialError> {
        if part.sample_interval < SHORTEST_INTERVAL {
            return Err(TrialError::Interval(part.sample_interval));
        }
        let mut sources = Sources::open(Path::new("/proc"), &part.processes)?;
        // One node of a machine is enough, and who observes carries no load that it would disturb.
        if part.role == Role::Observer {
            sources.watch_speeds(Path::new("/sys"));
        }
        if let Some(database) = &part.open_vswitch {
            sources.watch_open_vswitch(database);
        }
        if part.counts_hardware {
            sources.count_hardware(Path::new("/proc"));
        }
        sources.note_packet_filter(Path::new("/proc"));
        let (interval, deadline) = (part.sample_interval, part.deadline);
        let burn = part.burn;
        let burn_threads = part.burn_threads.unwrap_or(1).clamp(1, MAX_BURNERS);
        let mut prepared =
            Self { loads: Vec::new(), sources, interval, deadline, burn, burn_threads };
        prepared.add(part)?;
        Ok(prepared)
    }

    /// Makes a further load ready. The others stand as they are, whatever becomes of it.
    pub(crate) fn add(&mut self, part: &Prepare) -> Result<(), TrialError> {
        match part.role {
            Role::Observer => {}
            _ if self.loads.len() < MAX_LEGS => self.loads.push(prepare(part)?),
            _ => return Err(TrialError::TooManyLegs),
        }
        Ok(())
    }

    /// Where the receiver listens that was made ready last.
    pub(crate) fn port(&self) -> Option<u16> {
        self.loads.last().and_then(|load| load.port())
    }

    /// Takes the first sample and sets the loads going, those that receive first.
    pub(crate) fn start(mut self) -> Result<Running, TrialError> {
        for load in &mut self.loads {
            load.await_peer()?;
        }
        let cpu_ns_at_start = process_cpu_ns();
        let controls = self.loads.iter().map(|load| load.control().clone()).collect();
        let burned = Burned::default();
        if self.burn.is_some() {
            self.sources.watch_burned(burned.clone());
        }
        let sampler = Sampler::start(self.sources, controls, self.interval, self.deadline)
            .map_err(TrialError::Thread)?;
        let threads = self.burn.iter().flat_map(|share| (0..self.burn_threads).map(|_| *share));
        let start = |share| Burner::start(share, self.deadline.as_duration(), burned.clone());
        let burners: io::Result<Vec<Burner>> = threads.map(start).collect();
        let burners = burners.map_err(TrialError::Thread)?;
        let (receivers, senders): (Vec<_>, Vec<_>) =
            self.loads.iter_mut().partition(|load| load.port().is_some());
        for load in receivers.into_iter().chain(senders) {
            load.begin()?;
        }
        Ok(Running { loads: self.loads, sampler, burners, cpu_ns_at_start, progress: None })
    }
}

/// Payload moves and samples are taken.
pub(crate) struct Running {
    loads: Vec<Box<dyn Load>>,
    sampler: Sampler,
    burners: Vec<Burner>,
    cpu_ns_at_start: u64,
    /// Opened when first asked for: the sampler has its own, on its own thread.
    progress: Option<Sources>,
}

impl Running {
    /// A sample for those who watch: of the loads, of TCP and of the cores.
    pub(crate) fn progress(&mut self) -> Sample {
        let loads: Vec<_> = self.loads.iter().map(|load| load.control().clone()).collect();
        if self.progress.is_none() {
            // Without processes to watch nothing is refused.
            self.progress = Sources::open(Path::new("/proc"), &[]).ok();
        }
        match &mut self.progress {
            Some(sources) => Sample { interfaces: None, ..sources.read(&loads) },
            None => Sample::default(),
        }
    }

    /// Ends the loads, then takes the last sample: it holds all that was moved.
    pub(crate) fn stop(mut self) -> Finished {
        // All at once: the end of one must not be time for the others to move on.
        for load in &self.loads {
            load.control().stop();
        }
        let mut outcomes = self.loads.iter_mut().map(|load| {
            let outcome = load.end();
            LoadOutcome { threads: load.control().ended_threads(), ..outcome }
        });
        let (load, further_loads) = (outcomes.next(), outcomes.collect());
        self.burners.clear();
        let Sampled { samples, layers, packet_filter, absent, cpu_ns, layers_cpu_ns } =
            self.sampler.stop();
        let report = NodeReport {
            ticks_per_second: ticks_per_second(),
            samples,
            layers,
            packet_filter: packet_filter.map(Box::new),
            absent,
            load,
            further_loads,
            node_cpu_ns: process_cpu_ns().saturating_sub(self.cpu_ns_at_start),
            sampler_cpu_ns: cpu_ns,
            layers_cpu_ns,
        };
        Finished { report, loads: self.loads }
    }
}

/// What was measured, ready to be handed over.
pub(crate) struct Finished {
    report: NodeReport,
    /// Its connections stay open until the results are asked for, when the other side has stopped
    /// too. So a connection that ends before Stop always tells of a peer that died.
    loads: Vec<Box<dyn Load>>,
}

impl Finished {
    /// The report with at most so many samples from one on, and where the next page begins.
    pub(crate) fn page(&mut self, from: usize, at_most: usize) -> (NodeReport, Option<usize>) {
        self.loads.clear();
        let all = &self.report.samples;
        let from = from.min(all.len());
        let to = from.saturating_add(at_most).min(all.len());
        let report = NodeReport {
            samples: all.get(from..to).unwrap_or_default().to_vec(),
            ticks_per_second: self.report.ticks_per_second,
            // The whole of it is made by adding the samples of further pages to the first.
            layers: if from == 0 { self.report.layers.clone() } else { Vec::new() },
            packet_filter: self.report.packet_filter.clone(),
            absent: self.report.absent.clone(),
            load: self.report.load.clone(),
            further_loads: self.report.further_loads.clone(),
            node_cpu_ns: self.report.node_cpu_ns,
            sampler_cpu_ns: self.report.sampler_cpu_ns,
            layers_cpu_ns: self.report.layers_cpu_ns,
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
