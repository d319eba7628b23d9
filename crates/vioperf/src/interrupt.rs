//! Ctrl-C and SIGTERM: once ends the run after the trial, twice (or SIGTERM, SIGHUP, Ctrl-\) ends it
//! now. Either way what was finished is reported.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

/// How urgently the run is asked to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// It is not.
    None,
    /// After the trial that is running.
    AfterTrial,
    /// Now.
    Now,
}

/// What the user asked for by signals. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Interrupt {
    state: Arc<State>,
    /// So many signals are over and done with; any further is urgent.
    done_with: Option<usize>,
}

#[derive(Debug, Default)]
struct State {
    interrupts: AtomicUsize,
    /// Of any kind.
    signals: AtomicUsize,
    terminated: AtomicBool,
    /// The first signal's number; 0 is none.
    first: AtomicUsize,
}

/// How often a wait looks whether it was interrupted.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

impl Interrupt {
    /// Starts to listen for signals, on a thread of its own.
    ///
    /// # Errors
    /// When the system refuses handlers.
    pub fn listen() -> io::Result<Self> {
        let interrupt = Self::default();
        let state = Arc::clone(&interrupt.state);
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT])?;
        thread::Builder::new().name("signals".into()).spawn(move || {
            for signal in signals.forever() {
                state.note(signal);
            }
        })?;
        Ok(interrupt)
    }

    /// The same, but what has come so far is done with: only a further signal asks to end, at once.
    pub fn forgetting(&self) -> Self {
        let done_with = Some(self.state.signals.load(Ordering::Relaxed));
        Self { state: Arc::clone(&self.state), done_with }
    }

    /// How urgently the run is asked to end.
    pub fn urgency(&self) -> Urgency {
        if let Some(done_with) = self.done_with {
            let further = self.state.signals.load(Ordering::Relaxed) > done_with;
            return if further { Urgency::Now } else { Urgency::None };
        }
        let interrupts = self.state.interrupts.load(Ordering::Relaxed);
        if self.state.terminated.load(Ordering::Relaxed) || interrupts > 1 {
            Urgency::Now
        } else if interrupts == 1 {
            Urgency::AfterTrial
        } else {
            Urgency::None
        }
    }

    /// The signal that came first.
    pub fn signal(&self) -> Option<i32> {
        let first = self.state.first.load(Ordering::Relaxed);
        i32::try_from(first).ok().filter(|&signal| signal != 0)
    }

    /// Sleeps until `end`; `false` when it was interrupted as urgently as `limit`.
    pub fn sleep_until(&self, end: Instant, limit: Urgency) -> bool {
        loop {
            if self.urgency() >= limit {
                return false;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            thread::sleep(left.min(LOOK_INTERVAL));
        }
    }

    /// Notes a signal as if it had come.
    #[cfg(test)]
    pub fn note(&self, signal: i32) {
        self.state.note(signal);
    }
}

impl State {
    fn note(&self, signal: i32) {
        self.signals.fetch_add(1, Ordering::Relaxed);
        if signal == SIGINT {
            self.interrupts.fetch_add(1, Ordering::Relaxed);
        } else {
            self.terminated.store(true, Ordering::Relaxed);
        }
        let number = usize::try_from(signal).unwrap_or(0);
        // Only the first is kept; a failed exchange means that there was one.
        let _ = self.first.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// What a signal is called.
pub fn signal_name(signal: i32) -> &'static str {
    match signal {
        SIGINT => "SIGINT",
        SIGTERM => "SIGTERM",
        SIGHUP => "SIGHUP",
        SIGQUIT => "SIGQUIT",
        _ => "a signal",
    }
}
