//! CPU time of watched threads, by what they do.

use std::collections::{BTreeMap, BTreeSet};

use vioperf_model::sample::ThreadTimes;

use crate::window::{Absent, Reading, Window};

/// The label under which QEMU's process is watched.
pub const QEMU: &str = "qemu";

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
#[derive(Debug)]
pub struct QemuReading {
    by_task: Result<Vec<(Task, f64)>, Absent>,
    /// Runnable but waiting for a core.
    pub waiting_percent_of_core: Reading,
}

impl QemuReading {
    /// Reads the threads of `window`.
    pub fn of(window: Result<&Window<'_>, Absent>) -> Self {
        match window.and_then(|window| read(window, |process| process == QEMU)) {
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

/// CPU time of every watched thread of the window added up; 100 is one core.
pub fn watched_percent_of_core(window: &Window<'_>) -> Reading {
    Ok(read(window, |_| true)?.iter().map(|thread| thread.on_cpu_percent).sum())
}

/// The processes that were watched in the window, by their labels.
pub fn watched_processes<'a>(window: &Window<'a>) -> BTreeSet<&'a str> {
    let threads = window.samples().iter().filter_map(|sample| sample.threads.as_ref()).flatten();
    threads.map(|thread| thread.process.as_str()).collect()
}

struct Thread {
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
    name: &'a str,
    from: Times,
    until: Times,
}

fn read(window: &Window<'_>, wanted: impl Fn(&str) -> bool) -> Result<Vec<Thread>, Absent> {
    let mut seen: BTreeMap<(&str, i32), Seen<'_>> = BTreeMap::new();
    for (at, sample) in window.samples().iter().enumerate() {
        let Some(threads) = &sample.threads else { continue };
        for thread in threads.iter().filter(|thread| wanted(&thread.process)) {
            note(&mut seen, thread, at == 0)?;
        }
    }
    if seen.is_empty() {
        return Err(window.reason("threads"));
    }
    let mut main: BTreeMap<&str, i32> = BTreeMap::new();
    for (process, tid) in seen.keys() {
        main.entry(process).and_modify(|main| *main = (*main).min(*tid)).or_insert(*tid);
    }
    let scale = 100.0 / 1e9 / window.seconds;
    let thread = |((process, tid), seen): (&(&str, i32), &Seen<'_>)| Thread {
        task: task_of(seen.name, main.get(process) == Some(tid)),
        on_cpu_percent: (seen.until.on_cpu - seen.from.on_cpu) as f64 * scale,
        waiting_percent: seen
            .until
            .waiting
            .zip(seen.from.waiting)
            .map(|(until, from)| (until - from) as f64 * scale),
    };
    Ok(seen.iter().map(thread).collect())
}

fn note<'a>(
    seen: &mut BTreeMap<(&'a str, i32), Seen<'a>>,
    thread: &'a ThreadTimes,
    in_first_sample: bool,
) -> Result<(), Absent> {
    let now = Times { on_cpu: thread.on_cpu_ns, waiting: thread.waiting_ns };
    // A thread that appears later was born inside the window: all its time belongs to it.
    let from = if in_first_sample { now } else { Times::ZERO };
    let entry = seen.entry((thread.process.as_str(), thread.tid)).or_insert(Seen {
        name: &thread.name,
        from,
        until: from,
    });
    if !entry.until.is_before(&now) {
        return Err(format!("threads: time of {} ran backwards", thread.tid).into());
    }
    entry.until = now;
    // A thread is born with its parent's name and given its own soon after.
    entry.name = &thread.name;
    Ok(())
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
        QemuReading::of(Window::cut(&party, Some(&line)).as_ref().map_err(Clone::clone))
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
