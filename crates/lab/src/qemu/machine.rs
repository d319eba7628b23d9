//! One QEMU process, with its monitor, its console and its channel to the agent.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns};
use nix::unistd::{Pid, setsid};
use serde_json::{Value, json};
use vioperf_model::scenario::HugePages;

use super::command_line::{Parts, arguments};
use super::fault::{Fault, GuestError};
use super::monitor::{Monitor, MonitorError};
use super::nic::Properties;
use super::{BootImage, DiskSpec, Hypervisor, Shape, kvm_statistics};
use crate::console::Tail;
use crate::namespace::{end, inherit, pid_of};

/// How long QEMU may take from its start to its monitor's greeting, on a busy machine.
const START_BOUND: Duration = Duration::from_secs(20);

/// How long a command to the monitor may take.
pub(super) const COMMAND_BOUND: Duration = Duration::from_secs(10);

/// How often a guest that is waited for is looked at: has QEMU ended, did the kernel panic?
const WATCH_INTERVAL: Duration = Duration::from_millis(50);

/// How often QEMU is asked for the guest's state meanwhile; that takes some of its time.
const STATUS_INTERVAL: Duration = Duration::from_millis(500);

/// What a panicking kernel prints, whatever else it prints.
const PANIC_TEXT: &str = "Kernel panic - not syncing";

/// A running QEMU; killed and waited for when dropped.
#[derive(Debug)]
pub(super) struct Machine {
    pub monitor: Monitor,
    child: Child,
    channel: UnixStream,
    console: Tail,
    errors: Tail,
}

/// What a machine is started with.
pub(super) struct Start<'a> {
    pub operation: &'static str,
    pub hypervisor: &'a Hypervisor,
    pub image: &'a BootImage,
    pub shape: Shape,
    pub incoming: bool,
    pub nics: Vec<(Option<Properties>, Properties)>,
    /// As [`Parts::disk`].
    pub disk: Option<&'a DiskSpec>,
    /// As [`Parts::memory_sockets`].
    pub memory_sockets: Vec<(usize, PathBuf)>,
    /// Further descriptors that QEMU inherits, under the same numbers.
    pub inherited: Vec<RawFd>,
    /// A process whose network namespace it is put into; none leaves it in this one.
    pub beside: Option<Pid>,
}

impl Machine {
    /// Starts QEMU and connects to its monitor.
    pub fn start(start: Start<'_>) -> Result<Self, Box<GuestError>> {
        let failed = |step: &'static str| {
            move |source: io::Error| {
                GuestError::before_start(start.operation, Fault::NotStarted { step, source })
            }
        };
        let (monitor, monitor_theirs) = UnixStream::pair().map_err(failed("make a socket"))?;
        let (channel, agent_theirs) = UnixStream::pair().map_err(failed("make a socket"))?;
        let parts = Parts {
            hypervisor: start.hypervisor,
            image: start.image,
            shape: start.shape,
            monitor: monitor_theirs.as_raw_fd(),
            agent: agent_theirs.as_raw_fd(),
            memory_sockets: start.memory_sockets,
            incoming: start.incoming,
            nics: start.nics,
            disk: start.disk,
        };
        let mut inherited = start.inherited;
        inherited.extend([parts.monitor, parts.agent]);
        inherited.extend([start.image.kernel(), start.image.initramfs()].map(OwnedFd::as_raw_fd));
        let namespace = |pid: Pid| File::open(format!("/proc/{pid}/ns/net"));
        let there = start.beside.map(namespace).transpose();
        let there = there.map_err(failed("open a network namespace"))?;
        let mut command = Command::new(&start.hypervisor.qemu.path);
        command.args(arguments(&parts));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let small_pages = start.shape.huge_pages == HugePages::None;
        // SAFETY: between fork and exec only system calls are made, nothing is allocated or locked.
        unsafe { command.pre_exec(move || prepare(&inherited, there.as_ref(), small_pages)) };
        let mut child = command.spawn().map_err(failed("start QEMU"))?;
        drop((monitor_theirs, agent_theirs));
        let (console, errors) = match tails(&mut child) {
            Ok(tails) => tails,
            Err(source) => {
                end(&mut child);
                return Err(failed("follow the console")(source));
            }
        };
        // From here on a failure can say what QEMU said, and the drop below ends it.
        let mut starting = Starting { child: Some(child), console, errors };
        match Monitor::connect(monitor, START_BOUND) {
            Ok(monitor) => starting
                .finish(monitor, channel)
                .ok_or_else(|| failed("start QEMU")(io::Error::other("it was taken away"))),
            Err(error) => Err(starting.error(start.operation, error)),
        }
    }

    pub fn pid(&self) -> Pid {
        pid_of(&self.child)
    }

    /// Another handle of the byte channel to the agent.
    pub fn channel(&self) -> io::Result<UnixStream> {
        self.channel.try_clone()
    }

    pub fn console_tail(&self) -> Vec<String> {
        self.console.lines()
    }

    /// What is wrong with the guest, as far as can be seen without asking QEMU.
    pub fn fault(&mut self) -> Option<Fault> {
        if self.console.contains(PANIC_TEXT) || self.monitor.event_seen("GUEST_PANICKED") {
            return Some(Fault::Panicked);
        }
        let status = self.child.try_wait().ok().flatten()?;
        // A panic ends QEMU too (-no-reboot): look again, its last words are in by now.
        self.console.wait_for_end(Duration::from_millis(500));
        Some(match self.console.contains(PANIC_TEXT) {
            true => Fault::Panicked,
            false => Fault::QemuEnded(status),
        })
    }

    /// The same, and QEMU is asked for the state of the guest.
    fn fault_by_status(&mut self) -> Option<Fault> {
        if let Some(fault) = self.fault() {
            return Some(fault);
        }
        let answer = self.monitor.execute("query-status", &json!({}), COMMAND_BOUND);
        match answer {
            Ok(status) => match status.get("status").and_then(Value::as_str) {
                Some("internal-error") => Some(Fault::InternalError),
                Some("guest-panicked") => Some(Fault::Panicked),
                _ => None,
            },
            Err(MonitorError::Closed) => self.fault_after_close(),
            Err(error) => Some(Fault::Monitor(error)),
        }
    }

    /// The monitor is closed, so QEMU is ending: wait for how.
    fn fault_after_close(&mut self) -> Option<Fault> {
        let deadline = Instant::now() + Duration::from_secs(2);
        loop {
            if let Some(fault) = self.fault() {
                return Some(fault);
            }
            if Instant::now() >= deadline {
                return Some(Fault::Monitor(MonitorError::Closed));
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Runs a monitor command; if that fails because of the guest, the error says so.
    pub fn command(
        &mut self,
        operation: &'static str,
        command: &str,
        arguments: &Value,
    ) -> Result<Value, Box<GuestError>> {
        let outcome = self.monitor.execute(command, arguments, COMMAND_BOUND);
        outcome.map_err(|error| {
            let fault = match error {
                MonitorError::Closed => self.fault_after_close(),
                MonitorError::TimedOut { .. } => self.fault(),
                _ => None,
            };
            self.error(operation, fault.unwrap_or(Fault::Monitor(error)))
        })
    }

    /// The threads that run the virtual CPUs, in the CPUs' order (`query-cpus-fast`).
    pub fn virtual_cpu_threads(&mut self) -> Result<Vec<Pid>, Box<GuestError>> {
        let operation = "find the threads of the virtual CPUs";
        let answer = self.command(operation, "query-cpus-fast", &json!({}))?;
        let cpus = answer.as_array().map(Vec::as_slice).unwrap_or_default();
        let thread = |cpu: &Value| i32::try_from(cpu.get("thread-id")?.as_i64()?).ok();
        let threads: Option<Vec<Pid>> =
            cpus.iter().map(|cpu| thread(cpu).map(Pid::from_raw)).collect();
        threads.filter(|threads| !threads.is_empty()).ok_or_else(|| {
            let reason = format!("no thread for each CPU in {answer}");
            self.error(operation, Fault::Monitor(MonitorError::Malformed { reason }))
        })
    }

    /// What KVM has counted of the virtual CPUs so far.
    ///
    /// # Errors
    /// When QEMU does not tell.
    pub fn kvm_counters(&mut self) -> Result<BTreeMap<String, u64>, Box<GuestError>> {
        let request = kvm_statistics::request();
        let answer = self.command("ask what KVM counted", "query-stats", &request)?;
        Ok(kvm_statistics::counters(&answer))
    }

    /// The error with the last words of this machine.
    pub fn error(&self, operation: &'static str, fault: Fault) -> Box<GuestError> {
        let (console, qemu_said) = (self.console.lines(), self.errors.lines());
        Box::new(GuestError { operation, fault, console, qemu_said })
    }

    /// Lets `converse` talk to the agent on another thread, while this one watches the guest: a fault
    /// or the bound ends the conversation by closing the channel under it.
    pub fn answer_within<T: Send, E: Display + Send>(
        &mut self,
        operation: &'static str,
        bound: Duration,
        converse: impl FnOnce(UnixStream) -> Result<T, E> + Send,
    ) -> Result<T, Box<GuestError>> {
        let stream = self.channel().map_err(|source| {
            self.error(operation, Fault::NotStarted { step: "duplicate the channel", source })
        })?;
        let outcome = thread::scope(|scope| {
            let (tell, told) = channel();
            scope.spawn(move || tell.send(converse(stream)));
            let deadline = Instant::now() + bound;
            let mut ask_again = Instant::now() + STATUS_INTERVAL;
            loop {
                let left = deadline.saturating_duration_since(Instant::now());
                match told.recv_timeout(WATCH_INTERVAL.min(left)) {
                    Ok(Ok(answer)) => return Ok(answer),
                    Ok(Err(error)) => {
                        // A guest that died closes the channel: say that, not "closed".
                        let fault = self.fault_by_status();
                        return Err(fault.unwrap_or_else(|| Fault::Disagreed(error.to_string())));
                    }
                    Err(RecvTimeoutError::Disconnected) => {
                        return Err(Fault::Disagreed("the conversation was broken off".to_owned()));
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                }
                let mut fault = self.fault();
                if fault.is_none() && (left.is_zero() || Instant::now() >= ask_again) {
                    fault = self.fault_by_status();
                    ask_again = Instant::now() + STATUS_INTERVAL;
                }
                if left.is_zero() {
                    fault = fault.or(Some(Fault::Silent { bound }));
                }
                if let Some(fault) = fault {
                    let _ = self.channel.shutdown(std::net::Shutdown::Both);
                    return Err(fault);
                }
            }
        });
        outcome.map_err(|fault| self.error(operation, fault))
    }

    /// Waits until what the snapshot needs of QEMU is done (`query-migrate`).
    pub fn wait_for_migration(
        &mut self,
        operation: &'static str,
        bound: Duration,
    ) -> Result<(), Box<GuestError>> {
        let deadline = Instant::now() + bound;
        loop {
            let answer = self.command(operation, "query-migrate", &json!({}))?;
            match answer.get("status").and_then(Value::as_str) {
                Some("completed") => return Ok(()),
                Some("failed" | "cancelled") => {
                    let reason = answer.get("error-desc").and_then(Value::as_str);
                    let reason = reason.unwrap_or("QEMU gives no reason").to_owned();
                    return Err(self.error(operation, Fault::Migration(reason)));
                }
                _ if Instant::now() >= deadline => {
                    let reason = format!("not done within {} s", bound.as_secs());
                    return Err(self.error(operation, Fault::Migration(reason)));
                }
                _ => thread::sleep(Duration::from_millis(2)),
            }
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// A QEMU whose monitor does not answer yet.
struct Starting {
    child: Option<Child>,
    console: Tail,
    errors: Tail,
}

impl Starting {
    fn finish(&mut self, monitor: Monitor, channel: UnixStream) -> Option<Machine> {
        let (console, errors) = (self.console.clone(), self.errors.clone());
        self.child.take().map(|child| Machine { monitor, child, channel, console, errors })
    }

    fn error(&mut self, operation: &'static str, error: MonitorError) -> Box<GuestError> {
        // A QEMU that refuses its arguments closes the monitor a moment before it has ended.
        self.errors.wait_for_end(Duration::from_secs(1));
        let status = self.child.as_mut().and_then(ended_shortly);
        let fault = status.map_or(Fault::Monitor(error), Fault::QemuEnded);
        let (console, qemu_said) = (self.console.lines(), self.errors.lines());
        Box::new(GuestError { operation, fault, console, qemu_said })
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            end(child);
        }
    }
}

fn ended_shortly(child: &mut Child) -> Option<ExitStatus> {
    let deadline = Instant::now() + Duration::from_millis(500);
    loop {
        let status = child.try_wait().ok().flatten();
        if status.is_some() || Instant::now() >= deadline {
            return status;
        }
        thread::sleep(Duration::from_millis(2));
    }
}

fn tails(child: &mut Child) -> io::Result<(Tail, Tail)> {
    let missing = || io::Error::other("QEMU has no standard output");
    let console = Tail::follow("console", child.stdout.take().ok_or_else(missing)?)?;
    let errors = Tail::follow("qemu-stderr", child.stderr.take().ok_or_else(missing)?)?;
    Ok((console, errors))
}

/// Runs in the child, between fork and exec: a session of its own keeps Ctrl-C away, and the
/// descriptors named live through the exec.
fn prepare(inherited: &[RawFd], namespace: Option<&File>, small_pages: bool) -> io::Result<()> {
    setsid()?;
    if small_pages {
        // Of this process and what it becomes; QEMU asks for huge pages by itself (prctl(2)).
        nix::sys::prctl::set_thp_disable(true)?;
    }
    if let Some(namespace) = namespace {
        setns(namespace, CloneFlags::CLONE_NEWNET)?;
    }
    inherit(inherited)
}
