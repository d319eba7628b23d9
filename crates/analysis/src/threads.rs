//! CPU time of watched threads, by what they do.

use std::collections::{BTreeMap, BTreeSet};

use vioperf_model::sample::ThreadTimes;

use crate::window::{Absent, Reading, Window};

/// What a thread of QEMU does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Executes the guest's instructions.
    Vcpu,
    /// QEMU's main loop.
    MainLoop,
    /// I/O thread or one of its workers.
    Io,
    /// The kernel's vhost worker.
    Vhost,
    /// Anything else.
    Other,
}

/// By the names that QEMU gives with `-name debug-threads=on`, and the kernel gives vhost workers.
/// `is_main` tells whether it is the process's first thread, which is named like the program.
fn task_of(name: &str, is_main: bool) -> Task {
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    if starts(&["CPU "]) {
        Task::Vcpu
    } else if starts(&["vhost-"]) {
        Task::Vhost
    } else if starts(&["IO ", "iothread", "worker", "pool"]) {
        Task::Io
    } else if is_main && starts(&["qemu"]) {
        Task::MainLoop
    } else {
        Task::Other
    }
}

/// CPU time of QEMU's threads in one trial, by task. 100 is one core.
#[derive(Debug, Clone)]
pub struct QemuReading {
    by_task: Result<Vec<(Task, f64)>, Absent>,
    /// Runnable but waiting for a core.
    pub waiting_percent_of_core: Reading,
}

impl QemuReading {
    /// Reads the threads of the QEMU that is watched under that label in `window`.
    pub fn of(window: Result<&Window<'_>, Absent>, label: &str) -> Self {
        match window.and_then(|window| read(window, |process| process == label)) {
            Ok(threads) => {
                let waiting: Option<f64> = threads.iter().map(|t| t.waiting_percent).sum();
                let waiting_percent_of_core =
                    waiting.ok_or_else(|| "the host's kernel does not tell it".into());
                let by_task = threads.iter().map(|t| (t.task, t.on_cpu_percent)).collect();
                Self { by_task: Ok(by_task), waiting_percent_of_core }
            }
            Err(reason) => {
                Self { by_task: Err(reason.clone()), waiting_percent_of_core: Err(reason) }
            }
        }
    }

    /// The threads of one task added up.
    pub fn task(&self, task: Task) -> Reading {
        let threads = self.by_task.as_ref().map_err(Clone::clone)?;
        // From 0.0: the empty sum of floats is -0.0.
        let of_task = threads.iter().filter(|(of, _)| *of == task);
        Ok(of_task.fold(0.0, |sum, (_, percent)| sum + percent))
    }

    /// All threads added up.
    pub fn total(&self) -> Reading {
        let threads = self.by_task.as_ref().map_err(Clone::clone)?;
        Ok(threads.iter().map(|(_, percent)| percent).sum())
    }
}

/// All watched threads of the window.
#[derive(Debug)]
pub struct Watched<'a> {
    /// Their CPU time added up; 100 is one core.
    pub percent_of_core: f64,
    /// Their processes, by their labels.
    pub processes: BTreeSet<&'a str>,
}

impl<'a> Watched<'a> {
    /// Reads the threads of `window`.
    ///
    /// # Errors
    /// When none is watched, or the time of one ran backwards.
    pub fn of(window: &Window<'a>) -> Result<Self, Absent> {
        let threads = read(window, |_| true)?;
        Ok(Self {
            percent_of_core: threads.iter().map(|thread| thread.on_cpu_percent).sum(),
            processes: threads.iter().map(|thread| thread.process).collect(),
        })
    }
}

/// CPU time of the threads of one watched process; 100 is one core.
pub fn process_percent_of_core(window: &Window<'_>, label: &str) -> Reading {
    let threads = read(window, |process| process == label)?;
    Ok(threads.iter().map(|thread| thread.on_cpu_percent).sum())
}

struct Thread<'a> {
    process: &'a str,
    task: Task,
    on_cpu_percent: f64,
    /// Absent where the kernel does not tell.
    waiting_percent: Option<f64>,
}

/// On a CPU and waiting for one, in nanoseconds.
#[derive(Clone, Copy)]
struct Times {
    on_cpu: u64,
    waiting: Option<u64>,
}

impl Times {
    const ZERO: Self = Self { on_cpu: 0, waiting: Some(0) };

    fn is_before(&self, later: &Self) -> bool {
        self.on_cpu <= later.on_cpu
            && self.waiting.zip(later.waiting).is_none_or(|(earlier, later)| earlier <= later)
    }
}

/// A thread's times when first and last seen.
struct Seen<'a> {
    process: &'a str,
    tid: i32,
    name: &'a str,
    from: Times,
    until: Times,
}

/// The threads of all samples: nearly always the same ones in the same order.
#[derive(Default)]
struct Threads<'a> {
    seen: Vec<Seen<'a>>,
    places: BTreeMap<(&'a str, i32), usize>,
}

impl<'a> Threads<'a> {
    /// Takes note of what a sample says of its thread number `at`.
    fn note(
        &mut self,
        at: usize,
        thread: &'a ThreadTimes,
        in_first_sample: bool,
    ) -> Result<(), Absent> {
        let now = Times { on_cpu: thread.on_cpu_ns, waiting: thread.waiting_ns };
        let key = (thread.process.as_str(), thread.tid);
        let is_there = |seen: &Seen<'_>| (seen.process, seen.tid) == key;
        let place = match self.seen.get(at) {
            Some(seen) if is_there(seen) => at,
            _ => *self.places.entry(key).or_insert(self.seen.len()),
        };
        if place == self.seen.len() {
            // A thread that appears later was born inside the window: all its time belongs to it.
            let from = if in_first_sample { now } else { Times::ZERO };
            let (process, tid) = key;
            self.seen.push(Seen { process, tid, name: &thread.name, from, until: from });
        }
        let entry = &mut self.seen[place];
        if !entry.until.is_before(&now) {
            return Err(format!("threads: time of {} ran backwards", thread.tid).into());
        }
        entry.until = now;
        // A thread is born with its parent's name and given its own soon after.
        entry.name = &thread.name;
        Ok(())
    }
}

fn read<'a>(window: &Window<'a>, wanted: impl Fn(&str) -> bool) -> Result<Vec<Thread<'a>>, Absent> {
    let mut threads = Threads::default();
    for (number, sample) in window.samples().iter().copied().enumerate() {
        let Some(of_sample) = &sample.threads else { continue };
        let watched = of_sample.iter().filter(|thread| wanted(&thread.process));
        for (at, thread) in watched.enumerate() {
            threads.note(at, thread, number == 0)?;
        }
    }
    if threads.seen.is_empty() {
        return Err(window.reason("threads"));
    }
    let mut main: BTreeMap<&str, i32> = BTreeMap::new();
    for (process, tid) in threads.places.keys() {
        main.entry(process).and_modify(|main| *main = (*main).min(*tid)).or_insert(*tid);
    }
    let scale = 100.0 / 1e9 / window.seconds;
    let thread = |seen: &Seen<'a>| Thread {
        process: seen.process,
        task: task_of(seen.name, main.get(seen.process) == Some(&seen.tid)),
        on_cpu_percent: (seen.until.on_cpu - seen.from.on_cpu) as f64 * scale,
        waiting_percent: seen
            .until
            .waiting
            .zip(seen.from.waiting)
            .map(|(until, from)| (until - from) as f64 * scale),
    };
    // In the order of their names, whatever order they were seen in.
    Ok(threads.places.values().map(|place| thread(&threads.seen[*place])).collect())
}

#[cfg(test)]
mod tests {
    use vioperf_model::sample::Sample;

    use super::*;
    use crate::testing::{party_with_samples, timeline};

    fn thread(tid: i32, name: &str, on_cpu_ns: u64) -> ThreadTimes {
        ThreadTimes {
            process: "qemu".into(),
            tid,
            name: name.into(),
            on_cpu_ns,
            waiting_ns: Some(0),
        }
    }

    fn sample(monotonic_ns: u64, threads: Vec<ThreadTimes>) -> Sample {
        Sample { monotonic_ns, threads: Some(threads), ..Sample::default() }
    }

    fn read_qemu(samples: Vec<Sample>) -> QemuReading {
        let party = party_with_samples(samples);
        let line = timeline(0, 1_000_000_000);
        QemuReading::of(Window::cut(&party, Some(&line)).as_ref().map_err(Clone::clone), "qemu")
    }

    #[test]
    fn threads_are_told_apart_by_name() {
        let names = ["qemu-system-x86", "CPU 0/TCG", "IO iothread0", "vhost-812", "call_rcu"];
        let at = |ns: u64| {
            let threads = names.iter().zip(100..).map(|(name, tid)| thread(tid, name, ns));
            threads.collect()
        };
        let reading = read_qemu(vec![sample(0, at(7)), sample(1_000_000_000, at(100_000_007))]);
        for task in [Task::Vcpu, Task::MainLoop, Task::Io, Task::Vhost, Task::Other] {
            assert_eq!(reading.task(task), Ok(10.0), "{task:?}");
        }
        assert_eq!(reading.total(), Ok(50.0));
    }

    #[test]
    fn threads_that_come_and_go_count_for_what_they_did() {
        let reading = read_qemu(vec![
            sample(0, vec![thread(1, "qemu-system-x86", 0), thread(2, "worker", 0)]),
            sample(500_000_000, vec![thread(2, "worker", 50_000_000)]),
            sample(1_000_000_000, vec![thread(3, "worker", 200_000_000)]),
        ]);
        assert_eq!(reading.task(Task::Io), Ok(25.0));
    }

    #[test]
    fn time_that_runs_backwards_is_no_time() {
        let reading = read_qemu(vec![
            sample(0, vec![thread(1, "qemu-system-x86", 9)]),
            sample(1_000_000_000, vec![thread(1, "qemu-system-x86", 8)]),
        ]);
        assert!(reading.total().unwrap_err().contains("backwards"));
    }
}
