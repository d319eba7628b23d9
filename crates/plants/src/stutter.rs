//! A program that is stopped most of the time.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// For so long it is stopped, and then runs.
const STOPPED: Duration = Duration::from_millis(40);
const RUNS: Duration = Duration::from_millis(5);
/// How often its children are looked for.
const LOOK: Duration = Duration::from_millis(200);

/// Stops and continues the children of a process until dropped.
#[derive(Debug)]
pub struct Stutter {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Stutter {
    /// Begins with it. Where there is no thread to be had nothing is stopped.
    #[must_use]
    pub fn of_children(parent: u32) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let ends_when = Arc::clone(&is_over);
        let stop = move || {
            let (mut children, mut looked) = (Vec::new(), None::<Instant>);
            while !ends_when.load(Ordering::Relaxed) {
                if looked.is_none_or(|looked| looked.elapsed() >= LOOK) {
                    (children, looked) = (children_of(parent), Some(Instant::now()));
                }
                for (signal, pause) in [(Signal::SIGSTOP, STOPPED), (Signal::SIGCONT, RUNS)] {
                    for child in &children {
                        // It may have ended meanwhile.
                        let _ = kill(*child, signal);
                    }
                    sleep(pause);
                }
            }
        };
        let thread = std::thread::Builder::new().name("stutter".into()).spawn(stop).ok();
        Self { is_over, thread }
    }
}

impl Drop for Stutter {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn children_of(parent: u32) -> Vec<Pid> {
    let line = format!("PPid:\t{parent}");
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_child = |pid: &i32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.lines().any(|of_status| of_status == line)
    };
    pids.filter(is_child).map(Pid::from_raw).collect()
}
