//! The same loads by fio, the program of the distribution, where they mean the same to it: what our own engine is checked
//! against.
//!
//! fio opens the file that we have open, keeps as many operations under way, and tells of itself when it is asked. What it
//! tells becomes the counters of this load, with the time at which it told them; its histogram, less that of the
//! first status after the warm-up, becomes ours. Which loads it is not for says `Workload::unlike_fio`.

mod job;
mod process;
mod questions;
mod told;
mod watch;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use vioperf_model::sample::{DiskEngine, DiskOutcome, LoadOutcome, LoadThread, StreamOutcome};
use vioperf_model::units::TimeSpan;
use vioperf_model::wire::Role;
use vioperf_model::workload::Workload;

use super::ring::Ring;
use super::target::Target;
use crate::load::threads::Threads;
use crate::load::{Load, LoadControl, LoadError};
use process::{Prints, Process};
use told::Told;
use watch::{Beginning, Watch, Watched};

/// How long fio may take from its job to its first operation: a program in an emulated guest is slow.
const BEGINS_WITHIN: Duration = Duration::from_secs(8);

/// A load of a disk that fio does.
pub(crate) struct Fio {
    control: Arc<LoadControl>,
    target: Target,
    way: DiskEngine,
    way_because: Option<String>,
    job: String,
    workload: Workload,
    /// What is read and written, by the name that it was asked for.
    path: PathBuf,
    stage: Stage,
}

enum Stage {
    Ready(Process, Prints),
    Watching(JoinHandle<Watched>),
    Ended,
}

impl Fio {
    pub(crate) fn prepare(
        role: &Role,
        workload: &Workload,
        path: Option<&Path>,
        deadline: TimeSpan,
    ) -> Result<Self, LoadError> {
        let target = super::open(workload, path)?;
        let path = path.map(Path::to_owned).unwrap_or_default();
        if let Some(advice) = workload.unlike_fio() {
            let value = "of fio".to_owned();
            return Err(LoadError::Parameter { what: "engine", value, advice });
        }
        // The cores that it shall be pinned to are tried here.
        Threads::of(role, workload)?;
        let (way, way_because) = way(&target.file)?;
        let job = job::job(workload, &target, way, deadline.as_duration());
        let control = LoadControl::new(0)?.counting_operations().told_by_another();
        let (process, prints) = Process::start(&target.file)
            .map_err(|error| LoadError::Disk { path: path.clone(), why: cannot_start(&error) })?;
        Ok(Self {
            control: Arc::new(control),
            target,
            way,
            way_because,
            job,
            workload: workload.clone(),
            path,
            stage: Stage::Ready(process, prints),
        })
    }

    fn outcome(&self, watched: &Watched) -> LoadOutcome {
        let (last, base) = (&watched.last, watched.base.as_ref());
        let since = |of: fn(&Told) -> told::Times| {
            base.map_or_else(Default::default, |base| of(last).since(&of(base)))
        };
        let mut streams = vec![StreamOutcome::default(); self.workload.streams.into()];
        for (stream, job) in streams.iter_mut().zip(&last.jobs) {
            stream.bytes = job.bytes();
        }
        LoadOutcome {
            streams,
            latency: Some(since(|told| told.reads().with(&told.writes()))),
            disk: Some(Box::new(DiskOutcome {
                engine: self.way,
                fio: Some(last.version()),
                engine_because: self.way_because.clone(),
                direct: self.target.direct,
                reach_bytes: self.target.reach_bytes,
                size_bytes: self.target.size_bytes,
                reads: since(Told::reads),
                writes: since(Told::writes),
                given_up: 0,
            })),
            ended_early: self.control.ended_early(),
            ..LoadOutcome::default()
        }
    }
}

/// By what operations get to the kernel: fio's io_uring, where the kernel has one.
fn way(file: &File) -> Result<(DiskEngine, Option<String>), LoadError> {
    let file = file.try_clone().map_err(LoadError::system("duplicate a file"))?;
    Ok(match Ring::new(Arc::new(file), 1) {
        Ok(_) => (DiskEngine::IoUring, None),
        Err(why) => (DiskEngine::Libaio, Some(format!("the kernel refuses io_uring: {why}"))),
    })
}

fn cannot_start(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => {
            "there is no program fio beside it: install it (Debian: apt-get install fio), or take engine = \
             \"vioperf\""
                .to_owned()
        }
        _ => format!("cannot start fio: {error}"),
    }
}

impl Load for Fio {
    fn port(&self) -> Option<u16> {
        None
    }

    fn control(&self) -> &Arc<LoadControl> {
        &self.control
    }

    fn await_peer(&mut self) -> Result<(), LoadError> {
        Ok(())
    }

    /// Gives fio its job, and waits, bounded, until operations have ended.
    fn begin(&mut self) -> Result<(), LoadError> {
        let Stage::Ready(mut process, prints) = std::mem::replace(&mut self.stage, Stage::Ended)
        else {
            return Ok(());
        };
        process.begin(&self.job).map_err(LoadError::system("give fio its job"))?;
        let (watch, began) = Watch::of(process, prints, &self.workload);
        let control = self.control.clone();
        let watching = std::thread::Builder::new()
            .name("fio".to_owned())
            .spawn(move || watch.run(&control))
            .map_err(LoadError::system("create a thread"))?;
        self.stage = Stage::Watching(watching);
        match began.recv_timeout(BEGINS_WITHIN) {
            Ok(Beginning) => Ok(()),
            Err(_) => {
                let late = format!("fio did nothing for {} s", BEGINS_WITHIN.as_secs());
                self.end();
                let why = self.control.ended_early().unwrap_or(late);
                Err(LoadError::Disk { path: self.path.clone(), why })
            }
        }
    }

    fn end(&mut self) -> LoadOutcome {
        self.control.stop();
        let Stage::Watching(thread) = std::mem::replace(&mut self.stage, Stage::Ended) else {
            return LoadOutcome::default();
        };
        let Ok(watched) = thread.join() else {
            self.control.note_early_end("the thread that listens to fio died".to_owned());
            return LoadOutcome::default();
        };
        for job in &watched.last.jobs {
            let (lived_ns, on_cpu_ns) = job.times_ns();
            self.control.note_thread(LoadThread { lived_ns, on_cpu_ns, waiting_ns: None });
        }
        self.outcome(&watched)
    }
}

impl Drop for Fio {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests;
