//! Listens to a fio that does its job, and ends it.

use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::SystemTime;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use vioperf_model::sample::LoadCounters;
use vioperf_model::units::TimeSpan;
use vioperf_model::workload::Workload;

use super::process::{Prints, Process};
use super::questions::Questions;
use super::told::{Documents, Told};
use crate::clock::monotonic_ns;
use crate::load::LoadControl;

/// How long it may take to end, once asked: as our own engine waits for what is under way, and the time to tell of it.
const ENDS_WITHIN_NS: u64 = 5_000_000_000;
/// What one read takes.
const AT_ONCE: usize = 64 << 10;
/// What is kept of its errors.
const MOST_ERRORS: usize = 1000;

/// That an operation has ended.
pub(super) struct Beginning;

/// What was heard of it.
#[derive(Debug, Default)]
pub(super) struct Watched {
    /// The last status.
    pub(super) last: Told,
    /// The first after the warm-up.
    pub(super) base: Option<Told>,
}

/// Listens.
pub(super) struct Watch {
    process: Process,
    prints: Prints,
    warmup_ns: u64,
    documents: Documents,
    errors: String,
    /// Why the last document could not be read, if it could not.
    unread: Option<String>,
    began: Option<Sender<Beginning>>,
    /// When what is measured begins.
    measured_from_ns: Option<u64>,
    questions: Questions,
    watched: Watched,
}

impl Watch {
    /// And who is told when operations end.
    pub(super) fn of(
        process: Process,
        prints: Prints,
        load: &Workload,
    ) -> (Self, Receiver<Beginning>) {
        let nanoseconds =
            |span: TimeSpan| u64::try_from(span.as_duration().as_nanos()).unwrap_or(u64::MAX);
        let (began, receiver) = channel();
        let watch = Self {
            process,
            prints,
            warmup_ns: nanoseconds(load.warmup),
            questions: Questions::within(nanoseconds(load.duration), load.streams),
            documents: Documents::default(),
            errors: String::new(),
            unread: None,
            began: Some(began),
            measured_from_ns: None,
            watched: Watched::default(),
        };
        (watch, receiver)
    }

    /// Until it has ended: by itself, which is too early, or as it is asked to.
    pub(super) fn run(mut self, control: &LoadControl) -> Watched {
        let mut asked_at = None;
        loop {
            if control.stopping() && asked_at.is_none() {
                self.process.ask_to_end();
                asked_at = Some(monotonic_ns());
            }
            if asked_at.is_some_and(|at| monotonic_ns().saturating_sub(at) > ENDS_WITHIN_NS) {
                let seconds = ENDS_WITHIN_NS / 1_000_000_000;
                control.note_early_end(format!(
                    "fio had not ended {seconds} s after the load, and was killed: does the device still \
                     answer? The kernel's log tells (dmesg)"
                ));
                break;
            }
            if asked_at.is_none() {
                self.questions.ask(&self.process);
            }
            match self.listen(control, asked_at.is_some()) {
                Ok(true) => {}
                Ok(false) => break,
                Err(reason) => {
                    control.note_early_end(reason);
                    break;
                }
            }
        }
        if asked_at.is_none() {
            control.note_early_end(self.why_it_ended());
        } else if let Some(reason) = &self.unread {
            control.note_early_end(reason.clone());
        }
        control.stop();
        self.watched
    }

    /// Waits for what it prints; whether there is more to come.
    fn listen(&mut self, control: &LoadControl, is_asked: bool) -> Result<bool, String> {
        let of_pipe = |pipe| PollFd::new(pipe, PollFlags::POLLIN);
        let mut polled =
            vec![of_pipe(self.prints.output.as_fd()), of_pipe(self.prints.errors.as_fd())];
        if !is_asked {
            polled.push(of_pipe(control.wake()));
        }
        match poll(&mut polled, PollTimeout::from(self.questions.tick_ms())) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => return Err(format!("cannot listen to fio: {}", errno.desc())),
        }
        let is_ready = |at: usize| polled.get(at).and_then(PollFd::any).unwrap_or(false);
        let (printed, complained) = (is_ready(0), is_ready(1));
        if complained {
            let mut buffer = [0; 512];
            let read = self.prints.errors.read(&mut buffer).unwrap_or(0);
            if self.errors.len() < MOST_ERRORS {
                self.errors.push_str(&String::from_utf8_lossy(buffer.get(..read).unwrap_or(&[])));
            }
        }
        if !printed {
            return Ok(true);
        }
        let mut buffer = vec![0; AT_ONCE];
        match self.prints.output.read(&mut buffer) {
            Ok(0) => return Ok(false),
            Ok(read) => {
                for document in self.documents.take(buffer.get(..read).unwrap_or(&[]))? {
                    self.hear(&document, control)?;
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(format!("cannot read what fio tells: {error}")),
        }
        Ok(true)
    }

    /// Takes a status; `Err` where it is of a load that failed.
    fn hear(&mut self, document: &[u8], control: &LoadControl) -> Result<(), String> {
        let heard_ns = monotonic_ns();
        let told = match Told::read(document) {
            Ok(told) => told,
            Err(reason) => {
                self.unread = Some(reason);
                return Ok(());
            }
        };
        self.unread = None;
        let now = self.questions.answered(heard_ns, told.timestamp_ms, unix_ms());
        let moved = told.counters();
        control.tell(LoadCounters {
            bytes: moved.bytes_read.saturating_add(moved.bytes_written),
            calls: moved.operations(),
            disk: Some(moved),
            counted_at_ns: Some(now),
            ..LoadCounters::default()
        });
        if moved.operations() > 0
            && let Some(began) = self.began.take()
        {
            let from = heard_ns.saturating_add(self.warmup_ns);
            self.measured_from_ns = Some(from);
            self.questions.begin(from);
            // Who does not wait any longer has given up.
            let _ = began.send(Beginning);
        }
        if self.watched.base.is_none() && self.measured_from_ns.is_some_and(|from| now >= from) {
            self.watched.base = Some(told.clone());
        }
        let failed = told.jobs.iter().find(|job| job.error != 0).map(|job| job.error);
        self.watched.last = told;
        match failed {
            None => Ok(()),
            Some(errno) => {
                let name = nix::errno::Errno::from_raw(errno).desc();
                Err(format!("an operation of fio failed: {name}{}", self.its_words()))
            }
        }
    }

    fn why_it_ended(&self) -> String {
        format!("fio ended before it was told to{}", self.its_words())
    }

    /// What it complained of first: the cause of the rest.
    fn its_words(&self) -> String {
        let errors = self.errors.lines().map(str::trim).find(|line| !line.is_empty());
        let said = errors.unwrap_or(&self.documents.beside);
        let said: String = said.chars().filter(|c| !c.is_control()).collect();
        if said.is_empty() { String::new() } else { format!("; it says: {said}") }
    }
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.ok().and_then(|since| u64::try_from(since.as_millis()).ok()).unwrap_or(0)
}
