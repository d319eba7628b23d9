//! CPU time of every thread of the watched processes: `/proc/PID/task/TID/schedstat`
//! (Documentation/scheduler/sched-stats.rst), or where the kernel lacks that, `stat`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use nix::unistd::{SysconfVar, sysconf};
use vioperf_model::sample::ThreadTimes;
use vioperf_model::wire::WatchedProcess;

use super::kept_file::KeptFile;
use super::{ReadError, SourcesError};

pub(super) struct Reader {
    processes: Vec<Process>,
    accounting: Accounting,
}

/// Where the kernel tells the times.
#[derive(Debug, Clone, Copy)]
enum Accounting {
    /// In nanoseconds, with the time spent waiting for a CPU.
    Schedstat,
    /// In clock ticks of so many nanoseconds; waiting is not told.
    Stat { tick_ns: u64 },
}

struct Process {
    label: String,
    /// `/proc/PID/task`.
    folder: PathBuf,
    threads: BTreeMap<i32, Thread>,
}

struct Thread {
    name: KeptFile,
    times: KeptFile,
}

impl Reader {
    pub(super) fn open(
        proc: &Path,
        processes: &[WatchedProcess],
        absent: &mut BTreeMap<String, String>,
    ) -> Result<Self, SourcesError> {
        let accounting = accounting(proc);
        if let Accounting::Stat { .. } = accounting {
            absent.insert(
                "threads.waiting".to_owned(),
                "this kernel keeps no schedstat (CONFIG_SCHED_INFO): on-CPU time is utime + stime in \
                 clock ticks, time waiting for a CPU is unknown and stands as 0"
                    .to_owned(),
            );
        }
        let processes = processes
            .iter()
            .map(|watched| {
                let mut process = Process {
                    label: watched.label.clone(),
                    folder: proc.join(watched.pid.to_string()).join("task"),
                    threads: BTreeMap::new(),
                };
                process.follow(accounting).map_err(|source| SourcesError::Process {
                    label: watched.label.clone(),
                    pid: watched.pid,
                    source,
                })?;
                Ok(process)
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { processes, accounting })
    }

    /// The times of the threads that are alive. That a process ended is no error: it is missing.
    pub(super) fn read(&mut self) -> Vec<ThreadTimes> {
        let mut times = Vec::new();
        for process in &mut self.processes {
            if process.follow(self.accounting).is_err() {
                process.threads.clear();
            }
            let label = &process.label;
            // A thread that has just ended is not listed next time, and its files are closed then.
            times.extend(
                process
                    .threads
                    .iter_mut()
                    .filter_map(|(tid, thread)| thread.read(label, *tid, self.accounting)),
            );
        }
        times
    }
}

/// Which file tells the times, tried on ourselves.
fn accounting(proc: &Path) -> Accounting {
    if proc.join("thread-self/schedstat").exists() {
        return Accounting::Schedstat;
    }
    let ticks = sysconf(SysconfVar::CLK_TCK).ok().flatten();
    let ticks = ticks.and_then(|ticks| u64::try_from(ticks).ok()).filter(|ticks| *ticks > 0);
    Accounting::Stat { tick_ns: 1_000_000_000 / ticks.unwrap_or(100) }
}

impl Process {
    /// Opens the files of new threads, closes those of threads that ended.
    fn follow(&mut self, accounting: Accounting) -> Result<(), ReadError> {
        let failed = |source| ReadError::File { path: self.folder.clone(), source };
        let mut alive = Vec::new();
        for entry in std::fs::read_dir(&self.folder).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            if let Some(tid) = name.to_str().and_then(|name| name.parse().ok()) {
                alive.push(tid);
            }
        }
        self.threads.retain(|tid, _| alive.contains(tid));
        for tid in alive {
            if self.threads.contains_key(&tid) {
                continue;
            }
            // It may have ended since it was listed.
            if let Ok(thread) = Thread::open(&self.folder.join(tid.to_string()), accounting) {
                self.threads.insert(tid, thread);
            }
        }
        Ok(())
    }
}

impl Thread {
    fn open(folder: &Path, accounting: Accounting) -> Result<Self, ReadError> {
        let times = match accounting {
            Accounting::Schedstat => "schedstat",
            Accounting::Stat { .. } => "stat",
        };
        Ok(Self {
            name: KeptFile::open(&folder.join("comm"))?,
            times: KeptFile::open(&folder.join(times))?,
        })
    }

    fn read(&mut self, label: &str, tid: i32, accounting: Accounting) -> Option<ThreadTimes> {
        let (on_cpu_ns, waiting_ns) = match accounting {
            Accounting::Schedstat => {
                let (on_cpu_ns, waiting_ns) = parse_schedstat(self.times.read().ok()?)?;
                (on_cpu_ns, Some(waiting_ns))
            }
            Accounting::Stat { tick_ns } => {
                (parse_stat(self.times.read().ok()?)?.checked_mul(tick_ns)?, None)
            }
        };
        // A name is bytes of the thread's choice; it is read anew as threads are named after birth.
        let name = String::from_utf8_lossy(self.name.read().ok()?.trim_ascii_end()).into_owned();
        Some(ThreadTimes { process: label.to_owned(), tid, name, on_cpu_ns, waiting_ns })
    }
}

/// Time on a CPU and time waiting for one, in nanoseconds; the third field counts timeslices.
fn parse_schedstat(text: &[u8]) -> Option<(u64, u64)> {
    let mut words = std::str::from_utf8(text).ok()?.split_ascii_whitespace();
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

/// utime + stime in clock ticks: fields 14 and 15 (proc_pid_stat(5)). The name, field 2, stands in
/// parentheses and may contain anything, so that counting begins after the last one.
fn parse_stat(text: &[u8]) -> Option<u64> {
    let after_name = text.iter().rposition(|byte| *byte == b')')? + 1;
    let rest = std::str::from_utf8(text.get(after_name..)?).ok()?;
    let mut words = rest.split_ascii_whitespace().skip(11);
    let user: u64 = words.next()?.parse().ok()?;
    let system: u64 = words.next()?.parse().ok()?;
    user.checked_add(system)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn watched(pid: i32) -> [WatchedProcess; 1] {
        [WatchedProcess { label: "qemu".into(), pid }]
    }

    fn write_thread(proc: &Path, tid: &str, name: &[u8], file: &str, text: &str) {
        let folder = proc.join("7/task").join(tid);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("comm"), name).unwrap();
        fs::write(folder.join(file), text).unwrap();
    }

    #[test]
    fn follows_threads_as_they_come_and_go() {
        let proc = tempfile::tempdir().unwrap();
        let proc = proc.path();
        fs::create_dir(proc.join("thread-self")).unwrap();
        fs::write(proc.join("thread-self/schedstat"), "1 2 3\n").unwrap();
        write_thread(proc, "7", b"qemu-system\n", "schedstat", "100 20 3\n");
        write_thread(proc, "8", b"CPU 0/\xff\n", "schedstat", "500 60 7\n");
        let mut absent = BTreeMap::new();
        let mut reader = Reader::open(proc, &watched(7), &mut absent).unwrap();
        assert!(absent.is_empty());
        let times = reader.read();
        assert_eq!(times.len(), 2);
        assert_eq!((times[0].tid, times[0].on_cpu_ns, times[0].waiting_ns), (7, 100, Some(20)));
        assert_eq!(times[1].name, "CPU 0/\u{fffd}");
        write_thread(proc, "9", b"worker\n", "schedstat", "1 1 1\n");
        fs::remove_dir_all(proc.join("7/task/8")).unwrap();
        let tids: Vec<i32> = reader.read().iter().map(|thread| thread.tid).collect();
        assert_eq!(tids, [7, 9]);
        fs::remove_dir_all(proc.join("7")).unwrap();
        assert!(reader.read().is_empty());
    }

    #[test]
    fn falls_back_to_ticks_and_says_so() {
        let proc = tempfile::tempdir().unwrap();
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 151 0 0 0 30 12 0 0 20 0 1 0 5 0 0\n";
        write_thread(proc.path(), "7", b"a\n", "stat", stat);
        let mut absent = BTreeMap::new();
        let mut reader = Reader::open(proc.path(), &watched(7), &mut absent).unwrap();
        assert!(absent["threads.waiting"].contains("CONFIG_SCHED_INFO"));
        assert_eq!(reader.read()[0].on_cpu_ns, 42 * 10_000_000);
    }

    #[test]
    fn a_process_that_is_not_there_is_named() {
        let proc = tempfile::tempdir().unwrap();
        let error = Reader::open(proc.path(), &watched(4321), &mut BTreeMap::new()).err().unwrap();
        let message = error.to_string();
        assert!(message.contains("4321") && message.contains("qemu"), "{message}");
    }

    #[test]
    fn hostile_text_is_no_time() {
        for text in ["", ")", "1 (x", "1 (x) S", "1 (x) S 1 2 3 4 5 6 7 8 9 10 z 1"] {
            assert_eq!(parse_stat(text.as_bytes()), None);
        }
        assert_eq!(parse_schedstat(b"5"), None);
        assert_eq!(parse_schedstat(b"\xff 5"), None);
    }
}
