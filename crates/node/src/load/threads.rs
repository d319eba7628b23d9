//! The threads of one end of a load: how many, where they run, how they are joined.

use std::sync::Arc;
use std::thread::JoinHandle;

use nix::errno::Errno;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use vioperf_model::sample::LoadThread;
use vioperf_model::wire::Role;
use vioperf_model::workload::Workload;

use super::{LoadControl, LoadError};
use crate::clock::{monotonic_ns, thread_cpu_ns};
use crate::scheduling::normal_priority;

/// A thread of a load uses no more.
const STACK_BYTES: usize = 128 << 10;
/// The most threads that may be asked for: each has memory of its own.
const MOST_THREADS: u16 = 256;

/// How the threads of one end shall be.
#[derive(Debug, Clone)]
pub(in crate::load) struct Threads {
    asked: Option<u16>,
    /// The cores they are pinned to, in turn; none: as the scheduler likes.
    cores: Vec<usize>,
}

impl Threads {
    /// As the workload asks for them on this side; whether that can be is tried at once.
    pub(in crate::load) fn of(role: &Role, workload: &Workload) -> Result<Self, LoadError> {
        let (option, cores) = match role {
            Role::Sender { .. } | Role::Disk => ("sender_cpus", &workload.sender_cpus),
            Role::Receiver { .. } | Role::Observer => ("receiver_cpus", &workload.receiver_cpus),
        };
        let cores: Vec<usize> = cores.as_slice().iter().copied().map(usize::from).collect();
        if let Some(threads) = workload.threads
            && !(1..=MOST_THREADS).contains(&threads)
        {
            let advice = format!("ask for 1 to {MOST_THREADS}");
            return Err(LoadError::Parameter {
                what: "threads",
                value: threads.to_string(),
                advice,
            });
        }
        try_pinning(option, &cores)?;
        Ok(Self { asked: workload.threads, cores })
    }

    /// How many threads were asked for, or as many as there are cores.
    pub(in crate::load) fn count(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.asked.map_or_else(cores, usize::from)
    }

    /// Starts a thread of the load with ordinary priority.
    pub(in crate::load) fn spawn<T: Send + 'static>(
        &self,
        index: usize,
        control: &Arc<LoadControl>,
        work: impl FnOnce(&LoadControl) -> T + Send + 'static,
    ) -> Result<JoinHandle<T>, LoadError> {
        let control = control.clone();
        let core = self.cores.get(index % self.cores.len().max(1)).copied();
        std::thread::Builder::new()
            .name(format!("load-{index}"))
            .stack_size(STACK_BYTES)
            .spawn(move || {
                normal_priority();
                if let Some(core) = core
                    && let Err(errno) = pin(core)
                {
                    let reason = format!("cannot pin a thread to core {core}: {}", errno.desc());
                    control.note_early_end(reason);
                }
                let began = monotonic_ns();
                let outcome = work(&control);
                control.note_thread(time_since(began));
                outcome
            })
            .map_err(LoadError::system("create a thread"))
    }
}

/// Of the calling thread, which does nothing but its load.
fn time_since(began_ns: u64) -> LoadThread {
    LoadThread {
        lived_ns: monotonic_ns().saturating_sub(began_ns),
        on_cpu_ns: thread_cpu_ns(),
        waiting_ns: std::fs::read_to_string("/proc/thread-self/schedstat")
            .ok()
            .and_then(|times| times.split_whitespace().nth(1)?.parse().ok()),
    }
}

/// Joins threads; a thread that died is told.
pub(in crate::load) fn join_all<T>(threads: Vec<JoinHandle<T>>, control: &LoadControl) -> Vec<T> {
    let mut joined = Vec::with_capacity(threads.len());
    for thread in threads {
        match thread.join() {
            Ok(outcome) => joined.push(outcome),
            Err(_) => control.note_early_end("a thread of the load died".to_owned()),
        }
    }
    joined
}

/// Tries every core on a thread that ends again, so that what cannot be is known before the load.
fn try_pinning(option: &'static str, cores: &[usize]) -> Result<(), LoadError> {
    if cores.is_empty() {
        return Ok(());
    }
    let attempt = || cores.iter().find_map(|core| pin(*core).err().map(|errno| (*core, errno)));
    let failed = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .spawn_scoped(scope, attempt)
            .map_err(LoadError::system("create a thread"))?;
        Ok(thread.join().unwrap_or_default())
    })?;
    let Some((core, errno)) = failed else { return Ok(()) };
    Err(LoadError::Option {
        option,
        value: core.to_string(),
        source: errno.into(),
        advice: "name cores that this machine has online and that this process may use \
                 (Cpus_allowed_list in /proc/self/status)",
    })
}

/// Keeps the calling thread on one core.
fn pin(core: usize) -> Result<(), Errno> {
    let mut set = CpuSet::new();
    set.set(core)?;
    sched_setaffinity(Pid::from_raw(0), &set)
}

#[cfg(test)]
mod tests {
    use vioperf_model::levels::Levels;
    use vioperf_model::workload::WorkloadKind;

    use super::*;

    const RECEIVER: Role =
        Role::Receiver { bind: std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST) };

    fn pinned_to(cores: Vec<u16>) -> Workload {
        let receiver_cpus = Levels::from(cores);
        Workload { receiver_cpus, ..Workload::new(WorkloadKind::TcpStream) }
    }

    #[test]
    fn threads_run_on_the_cores_they_are_given_in_turn() {
        let threads = Threads::of(&RECEIVER, &pinned_to(vec![0])).unwrap();
        let control = Arc::new(LoadControl::new(1).unwrap());
        for index in 0..3 {
            let allowed = threads.spawn(index, &control, |_| {
                let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
                let line = status.lines().find(|line| line.starts_with("Cpus_allowed_list"));
                line.unwrap().split_whitespace().nth(1).unwrap().to_owned()
            });
            assert_eq!(allowed.unwrap().join().unwrap(), "0");
        }
        assert_eq!(control.ended_early(), None);
    }

    #[test]
    fn a_threads_time_is_told_apart() {
        let threads = Threads::of(&RECEIVER, &pinned_to(vec![])).unwrap();
        let control = Arc::new(LoadControl::new(2).unwrap());
        let pause = std::time::Duration::from_millis(50);
        let asleep = threads.spawn(0, &control, move |_| std::thread::sleep(pause)).unwrap();
        asleep.join().unwrap();
        let busy = move |_: &LoadControl| while thread_cpu_ns() < 50_000_000 {};
        threads.spawn(1, &control, busy).unwrap().join().unwrap();
        let [asleep, busy] = control.ended_threads().try_into().unwrap();
        assert!(asleep.lived_ns >= 50_000_000 && asleep.on_cpu_ns < 25_000_000, "{asleep:?}");
        // A thread uses some of its CPU time before its load begins.
        assert!(busy.on_cpu_ns >= 50_000_000 && busy.lived_ns >= 40_000_000, "{busy:?}");
        assert!(busy.waiting_ns.is_some());
    }

    #[test]
    fn a_core_that_is_not_there_and_too_many_threads_are_named() {
        for core in [999, u16::MAX] {
            let error = Threads::of(&RECEIVER, &pinned_to(vec![0, core])).unwrap_err().to_string();
            assert!(error.contains("receiver_cpus") && error.contains("online"), "{error}");
        }
        let many = Workload { threads: Some(1000), ..pinned_to(vec![]) };
        let error = Threads::of(&RECEIVER, &many).unwrap_err().to_string();
        assert!(error.contains("threads cannot be 1000"), "{error}");
    }
}
