//! A vioperf that runs: what it says, its processes, and its end, all within a bound.

use std::collections::BTreeSet;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use super::Finished;
use super::listener::Listener;
use super::traces::{self, Host, TOKEN};

/// No run of a test takes longer; under software emulation on a busy machine the longest takes a
/// third of it.
const BOUND: Duration = Duration::from_secs(150);

/// How often something that is waited for is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// How long it may take until the last line of one that ended is heard.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Bytes through a guest's tap that only a load under way explains.
const TRAFFIC_BYTES: u64 = 400_000;

/// A running vioperf; what is left of it when a test fails is killed.
pub struct Run {
    child: Child,
    token: String,
    host: Host,
    namespaces: BTreeSet<String>,
    deadline: Instant,
    listener: Listener,
}

impl Run {
    /// Starts it, leading a process group of its own.
    pub fn start(mut command: Command) -> Self {
        command.process_group(0);
        Self::start_as_it_is(command)
    }

    /// Starts it.
    pub fn start_as_it_is(mut command: Command) -> Self {
        let host = Host::look();
        let number = std::sync::atomic::AtomicU32::fetch_add(&NUMBER, 1, ORDER);
        let token = format!("{}-{number}", std::process::id());
        command.env(TOKEN, &token).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let deadline = Instant::now() + BOUND;
        let listener = Listener::of(&mut child);
        Self { child, token, host, namespaces: BTreeSet::new(), deadline, listener }
    }

    /// The process that was started.
    pub fn outer(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill(self.outer(), signal).unwrap();
    }

    /// Sends its process group a signal.
    pub fn signal_group(&self, signal: Signal) {
        killpg(self.outer(), signal).unwrap();
    }

    /// Reads on until it says `word`.
    pub fn until(&mut self, word: &str) {
        match self.listener.until(word, self.deadline) {
            Ok(_) => self.note_namespaces(),
            Err(reason) => self.fail(&reason),
        }
    }

    /// Looks again and again until there is something.
    pub fn until_some<T>(&mut self, what: &str, look: impl Fn(&Self) -> Option<T>) -> T {
        loop {
            if let Some(found) = look(self) {
                self.note_namespaces();
                return found;
            }
            if Instant::now() >= self.deadline || self.child.try_wait().unwrap().is_some() {
                self.fail(&format!("there never was {what}"));
            }
            thread::sleep(LOOK);
        }
    }

    /// Every process of it, those in the lab too.
    pub fn processes(&self) -> Vec<i32> {
        traces::processes(&self.token)
    }

    /// Sends all its processes a signal.
    pub fn signal_all(&self, signal: Signal) {
        for pid in self.processes() {
            // Gone meanwhile is as good.
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }

    /// PID 1 of the lab.
    pub fn inner(&self) -> Option<Pid> {
        traces::processes(&self.token)
            .into_iter()
            .find(|pid| {
                let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
                let status = status.unwrap_or_default();
                let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
                let ids: Vec<&str> = ids.unwrap_or_default().split_ascii_whitespace().collect();
                ids.len() > 1 && ids.last() == Some(&"1")
            })
            .map(Pid::from_raw)
    }

    /// The programs of its processes, those in the lab too.
    pub fn programs(&self) -> BTreeSet<String> {
        let first = |pid| traces::command_line(pid).into_iter().next();
        let name = |path: String| path.rsplit('/').next().map(str::to_owned);
        self.processes().into_iter().filter_map(first).filter_map(name).collect()
    }

    /// A process of the run whose program has this name.
    pub fn running(&self, program: &str) -> Option<Pid> {
        self.process(|line| line.first().is_some_and(|first| first.ends_with(program)))
    }

    /// The QEMU that boots the guest from which others are restored.
    pub fn booting_qemu(&self) -> Option<Pid> {
        self.process(|line| line.contains(&"-append".to_owned()) && !is_restored(line))
    }

    /// The QEMU of a guest that is restored from a snapshot, other than `old`.
    pub fn restored_qemu(&self, old: Option<Pid>) -> Option<Pid> {
        self.process(is_restored).filter(|pid| Some(*pid) != old)
    }

    fn process(&self, wanted: impl Fn(&[String]) -> bool) -> Option<Pid> {
        let wanted = |pid: &i32| wanted(&traces::command_line(*pid));
        let found = traces::processes(&self.token).into_iter().filter(wanted);
        found.max_by_key(|&pid| traces::started(pid)).map(Pid::from_raw)
    }

    /// Waits until the load runs through a guest's NIC; gives its QEMU.
    pub fn until_in_trial(&mut self, old: Option<Pid>) -> Pid {
        self.until_some("a load through a guest", |run| {
            let qemu = run.restored_qemu(old)?;
            let inside = traces::interfaces_in(&run.inner()?.to_string());
            let busy =
                |(name, bytes): &(String, u64)| name.starts_with("tap") && *bytes > TRAFFIC_BYTES;
            inside.iter().any(busy).then_some(qemu)
        })
    }

    /// Waits for the end, looks that nothing is left on the machine, and tells how it ended.
    #[track_caller]
    pub fn ends(mut self) -> Finished {
        let status = self.wait();
        let stdout = self.listener.stdout();
        let stderr = self.listener.said(LAST_WORDS).to_owned();
        self.host.assert_unchanged(&self.token, &self.namespaces);
        Finished { code: status.code(), signal: status.signal(), stdout, stderr }
    }

    fn wait(&mut self) -> ExitStatus {
        let mut note_at = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            if Instant::now() >= self.deadline {
                self.fail("it does not end");
            }
            if Instant::now() >= note_at {
                self.note_namespaces();
                note_at = Instant::now() + Duration::from_millis(200);
            }
            thread::sleep(LOOK);
        }
    }

    fn note_namespaces(&mut self) {
        let own = traces::processes(&self.token);
        self.namespaces.extend(own.into_iter().flat_map(traces::namespaces_of));
    }

    fn fail(&mut self, reason: &str) -> ! {
        self.kill_all();
        panic!("{reason}; it said:\n{}", self.listener.said(LAST_WORDS));
    }

    fn kill_all(&mut self) {
        for pid in traces::processes(&self.token) {
            // Gone meanwhile is as good.
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        let _ = self.child.wait();
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.kill_all();
    }
}

static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
const ORDER: std::sync::atomic::Ordering = std::sync::atomic::Ordering::Relaxed;

fn is_restored(line: &[String]) -> bool {
    line.iter().any(|word| word == "-incoming")
}
