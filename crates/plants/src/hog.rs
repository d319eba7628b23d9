//! A neighbour that wants a core for itself.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

/// Threads that burn one core; they end when dropped.
#[derive(Debug)]
pub struct Hog {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Hog {
    /// Burns `core` with so many threads.
    ///
    /// # Errors
    /// Where there is no such core, or no thread to be had.
    pub fn start(core: usize, threads: usize) -> Result<Self> {
        let mut hog = Self { is_over: Arc::new(AtomicBool::new(false)), threads: Vec::new() };
        let mut cores = CpuSet::new();
        cores.set(core).with_context(|| format!("there is no core {core}"))?;
        for _ in 0..threads {
            let is_over = Arc::clone(&hog.is_over);
            let burn = move || {
                let _ = sched_setaffinity(Pid::from_raw(0), &cores);
                let mut number = 0_u64;
                while !is_over.load(Ordering::Relaxed) {
                    number = black_box(number.wrapping_mul(3).wrapping_add(1));
                }
            };
            let thread = std::thread::Builder::new().name("hog".into()).spawn(burn);
            hog.threads.push(thread.context("cannot start a thread")?);
        }
        Ok(hog)
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
