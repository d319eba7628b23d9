//! Context switches, and allowed cores, of the watched processes' threads: `/proc/PID/task/TID/status`
//! (proc_pid_status(5)).

use std::path::Path;

use vioperf_model::sample::ThreadSwitches;
use vioperf_model::wire::WatchedProcess;

use super::parsed;

/// Of the threads that are alive: those that end meanwhile are missing.
pub(super) fn read(proc: &Path, processes: &[WatchedProcess]) -> Vec<ThreadSwitches> {
    let mut switches = Vec::new();
    for watched in processes {
        let folder = proc.join(watched.pid.to_string()).join("task");
        let Ok(threads) = std::fs::read_dir(folder) else { continue };
        let mut of_process: Vec<ThreadSwitches> = threads
            .filter_map(|thread| {
                let thread = thread.ok()?;
                let tid = thread.file_name().to_str()?.parse().ok()?;
                parsed(&thread.path().join("status"), |text| {
                    parse(&watched.label, tid, text).ok_or_else(|| "status".to_owned())
                })
                .ok()
            })
            .collect();
        of_process.sort_by_key(|thread| thread.tid);
        switches.append(&mut of_process);
    }
    switches
}

fn parse(process: &str, tid: i32, text: &str) -> Option<ThreadSwitches> {
    let field =
        |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim_ascii);
    Some(ThreadSwitches {
        process: process.to_owned(),
        tid,
        name: field("Name:")?.to_owned(),
        voluntary: field("voluntary_ctxt_switches:")?.parse().ok()?,
        nonvoluntary: field("nonvoluntary_ctxt_switches:")?.parse().ok()?,
        cores: field("Cpus_allowed_list:").map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_thread_of_a_written_proc() {
        let proc = tempfile::tempdir().unwrap();
        for (tid, name) in [("8", "CPU 0/TCG"), ("7", "qemu-system")] {
            let folder = proc.path().join("7/task").join(tid);
            std::fs::create_dir_all(&folder).unwrap();
            let status = format!(
                "Name:\t{name}\nThreads:\t2\nCpus_allowed_list:\t1,{tid}\nvoluntary_ctxt_switches:\t5{tid}\n\
                 nonvoluntary_ctxt_switches:\t3\n"
            );
            std::fs::write(folder.join("status"), status).unwrap();
        }
        let watched = [
            WatchedProcess { label: "qemu".into(), pid: 7 },
            WatchedProcess { label: "gone".into(), pid: 9 },
        ];
        let read = read(proc.path(), &watched);
        assert_eq!(read.len(), 2);
        assert_eq!((read[0].tid, read[0].voluntary, read[0].nonvoluntary), (7, 57, 3));
        assert_eq!(read[1].cores.as_deref(), Some("1,8"));
        assert_eq!((read[1].name.as_str(), read[1].process.as_str()), ("CPU 0/TCG", "qemu"));
    }

    #[test]
    fn hostile_text_is_no_count() {
        assert_eq!(parse("q", 1, "Name:\tx\nvoluntary_ctxt_switches:\t-1\n"), None);
        assert_eq!(parse("q", 1, ""), None);
    }
}
