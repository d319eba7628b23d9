//! One node, as the conductor sees it: requests and answers over a byte channel, each bounded in
//! time and given up when the user interrupts.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use vioperf_model::interface_settings::InterfaceSettings;
use vioperf_model::record::ClockRelation;
use vioperf_model::sample::{InterfaceFacts, NodeReport, Sample};
use vioperf_model::units::TimeSpan;
use vioperf_model::wire::{
    self, DiskFacts, ForwardingConfig, ForwardingFacts, Impairment, InterfaceConfig,
    InterfaceSelector, NodeIdentity, PROTOCOL_VERSION, Prepare, Request, Response, WireError,
};

use super::channel::{Channel, Patience, is_interrupt};
use crate::interrupt::{Interrupt, Urgency};

/// How long a node may take to answer what costs it nothing.
const PROMPT: Duration = Duration::from_secs(10);

/// How long a farewell is waited for.
const FAREWELL: Duration = Duration::from_secs(2);

/// Exchanges by which the clocks are related; the one with the shortest round trip counts.
const CLOCK_EXCHANGES: usize = 8;

/// A node that did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// It says why.
    #[error("{node}: {message}")]
    Refused {
        /// The node.
        node: String,
        /// Its words.
        message: String,
    },
    /// It did not answer in time.
    #[error("{node} did not answer within {seconds} s: {request}")]
    Silent {
        /// The node.
        node: String,
        /// How long was waited.
        seconds: u64,
        /// What was asked.
        request: &'static str,
    },
    /// The channel failed, or what came did not parse.
    #[error("{node}: {source}")]
    Channel {
        /// The node.
        node: String,
        /// The reason.
        source: WireError,
    },
    /// It answered something else.
    #[error("{node} answered out of turn to `{request}`; its vioperf may be of another version")]
    OutOfTurn {
        /// The node.
        node: String,
        /// What was asked.
        request: &'static str,
    },
    /// It speaks another version.
    #[error("{node} speaks protocol version {found}, this vioperf {PROTOCOL_VERSION}; update both")]
    Version {
        /// The node.
        node: String,
        /// Its version.
        found: u32,
    },
    /// The user interrupted.
    #[error("interrupted")]
    Interrupted,
}

impl NodeError {
    /// Whether it was the user's wish and not a fault.
    pub fn is_interrupt(&self) -> bool {
        matches!(self, Self::Interrupted)
    }
}

/// A node at the other end of a channel.
#[derive(Debug)]
pub struct NodeLink {
    name: String,
    channel: Box<dyn Channel>,
    identity: NodeIdentity,
    interrupt: Interrupt,
    /// From which urgency on a wait is given up.
    give_up_at: Urgency,
}

impl NodeLink {
    /// Greets the node at the other end of `channel`; it may take `timeout` until it answers.
    ///
    /// # Errors
    /// When it does not answer, or speaks another version.
    pub fn greet(
        name: &str,
        channel: impl Channel + 'static,
        timeout: Duration,
        interrupt: &Interrupt,
    ) -> Result<Self, NodeError> {
        let unknown = NodeIdentity {
            version: 0,
            kernel_release: String::new(),
            cores: 0,
            boot_id: None,
            is_virtual: None,
        };
        let mut link = Self {
            name: name.to_owned(),
            channel: Box::new(channel),
            identity: unknown,
            interrupt: interrupt.clone(),
            give_up_at: Urgency::AfterTrial,
        };
        match link.ask(&Request::Hello { version: PROTOCOL_VERSION }, "hello", timeout)? {
            Response::Hello(identity) if identity.version == PROTOCOL_VERSION => {
                link.identity = identity;
                Ok(link)
            }
            Response::Hello(identity) => {
                Err(NodeError::Version { node: link.name, found: identity.version })
            }
            _ => Err(link.out_of_turn("hello")),
        }
    }

    /// Who the node says it is.
    pub fn identity(&self) -> &NodeIdentity {
        &self.identity
    }

    /// Lets waits go on through a first Ctrl-C, which ends the run only after the trial.
    pub fn set_patience(&mut self, give_up_at: Urgency) {
        self.give_up_at = give_up_at;
    }

    /// From now on it is this one whose urgency counts.
    pub fn set_interrupt(&mut self, interrupt: &Interrupt) {
        self.interrupt = interrupt.clone();
    }

    /// Sets the node's wall clock, which stood still in a snapshot.
    ///
    /// # Errors
    /// When the node cannot.
    pub fn set_wall_clock(&mut self, unix_ns: u64) -> Result<(), NodeError> {
        self.done(&Request::SetWallClock { unix_ns }, "set the clock", PROMPT)
    }

    /// Loads kernel modules in the node's machine.
    ///
    /// # Errors
    /// When one does not load.
    pub fn load_modules(
        &mut self,
        names: Vec<String>,
        options: BTreeMap<String, String>,
        timeout: Duration,
    ) -> Result<(), NodeError> {
        self.done(&Request::LoadModules { names, options }, "load modules", timeout)
    }

    /// How late the node's machine wakes a thread up from each of `count` sleeps, in nanoseconds.
    ///
    /// # Errors
    /// When the node cannot, or all of them together take longer than it sleeps.
    pub fn time_sleeps(&mut self, sleep: TimeSpan, count: u16) -> Result<Vec<u64>, NodeError> {
        match self.ask(&Request::TimeSleeps { sleep, count }, "time sleeps", PROMPT)? {
            Response::SleptLate { late_ns } => Ok(late_ns),
            _ => Err(self.out_of_turn("time sleeps")),
        }
    }

    /// Delays and drops what leaves an interface of the node's machine; how many packets were dropped by
    /// what stood there before.
    ///
    /// # Errors
    /// When the node cannot, or is no guest.
    pub fn impair(
        &mut self,
        interface: InterfaceSelector,
        impairment: Option<Impairment>,
    ) -> Result<Option<u64>, NodeError> {
        let request = Request::Impair { interface, impairment };
        match self.ask(&request, "impair", PROMPT)? {
            Response::Impaired { dropped } => Ok(dropped),
            _ => Err(self.out_of_turn("impair")),
        }
    }

    /// Makes the node's machine hand packets on; what it then really does.
    ///
    /// # Errors
    /// When the node cannot, or is no guest.
    pub fn forward(
        &mut self,
        config: ForwardingConfig,
        timeout: Duration,
    ) -> Result<ForwardingFacts, NodeError> {
        match self.ask(&Request::Forward(config), "forward", timeout)? {
            Response::Forwarding(facts) => Ok(facts),
            _ => Err(self.out_of_turn("forward")),
        }
    }

    /// Configures the node's interface and waits for its carrier.
    ///
    /// # Errors
    /// When the interface does not appear, refuses the MTU, or gets no carrier in time.
    pub fn configure(&mut self, config: InterfaceConfig) -> Result<InterfaceFacts, NodeError> {
        let timeout = config.timeout.as_duration() + PROMPT;
        match self.ask(&Request::ConfigureInterface(config), "configure interface", timeout)? {
            Response::Interface(facts) => Ok(facts),
            _ => Err(self.out_of_turn("configure interface")),
        }
    }

    /// Sets a port of the node's machine up; what it then is.
    ///
    /// # Errors
    /// When it is not there, or does not become as it is asked for.
    pub fn set_port(
        &mut self,
        interface: &str,
        settings: &InterfaceSettings,
    ) -> Result<InterfaceFacts, NodeError> {
        let (interface, settings) = (interface.to_owned(), settings.clone());
        match self.ask(&Request::SetPort { interface, settings }, "set port", PROMPT)? {
            Response::Interface(facts) => Ok(facts),
            _ => Err(self.out_of_turn("set port")),
        }
    }

    /// The interface of the node's machine that has an address, as it is.
    ///
    /// # Errors
    /// When no interface there has it: address translation, for one.
    pub fn interface_of(&mut self, address: IpAddr) -> Result<InterfaceFacts, NodeError> {
        match self.ask(&Request::ReadInterface { address }, "read interface", PROMPT)? {
            Response::Interface(facts) => Ok(facts),
            _ => Err(self.out_of_turn("read interface")),
        }
    }

    /// The disk of the node's machine that has that serial number, when it is there.
    ///
    /// # Errors
    /// When it does not come in time.
    pub fn find_disk(&mut self, serial: &str, timeout: Duration) -> Result<DiskFacts, NodeError> {
        let request = Request::FindDisk { serial: serial.to_owned(), timeout: time_span(timeout) };
        match self.ask(&request, "find disk", timeout + PROMPT)? {
            Response::Disk(facts) => Ok(facts),
            _ => Err(self.out_of_turn("find disk")),
        }
    }

    /// The processes that run a guest on the node's machine, QEMU's own first.
    ///
    /// # Errors
    /// When none that may be seen there does.
    pub fn find_guest(&mut self, uuid: &str) -> Result<Vec<i32>, NodeError> {
        match self.ask(&Request::FindGuest { uuid: uuid.to_owned() }, "find guest", PROMPT)? {
            Response::Guest { pid, kernel_threads } => Ok([vec![pid], kernel_threads].concat()),
            _ => Err(self.out_of_turn("find guest")),
        }
    }

    /// Makes a load ready; gives the port that a receiver listens on.
    ///
    /// # Errors
    /// When the node cannot, such as a sender that does not reach its receiver.
    pub fn prepare(&mut self, prepare: Prepare) -> Result<Option<u16>, NodeError> {
        match self.ask(&Request::Prepare(prepare), "prepare", 3 * PROMPT)? {
            Response::Ready { port } => Ok(port),
            _ => Err(self.out_of_turn("prepare")),
        }
    }

    /// Starts what was prepared.
    ///
    /// # Errors
    /// When the node cannot.
    pub fn start(&mut self) -> Result<(), NodeError> {
        self.done(&Request::Start, "start", PROMPT)
    }

    /// Tells it that nothing more will be asked, even when the user wants the end. A node that is
    /// gone already need not hear it.
    pub fn farewell(&mut self) {
        self.interrupt = Interrupt::default();
        let _ = self.done(&Request::Shutdown, "farewell", FAREWELL);
    }

    /// Stops it.
    ///
    /// # Errors
    /// When the node cannot.
    pub fn stop(&mut self) -> Result<(), NodeError> {
        self.done(&Request::Stop, "stop", PROMPT)
    }

    /// A sample of what moves at this moment; it may take `timeout` until it is there.
    ///
    /// # Errors
    /// When nothing runs, or the node does not answer.
    pub fn progress(&mut self, timeout: Duration) -> Result<Sample, NodeError> {
        match self.ask(&Request::Progress, "progress", timeout)? {
            Response::Progress(sample) => Ok(sample),
            _ => Err(self.out_of_turn("progress")),
        }
    }

    /// Collects the whole report.
    ///
    /// # Errors
    /// When the node cannot, or its report does not end.
    pub fn collect(&mut self) -> Result<NodeReport, NodeError> {
        let mut whole: Option<NodeReport> = None;
        let mut from_sample = 0;
        loop {
            let request = Request::Collect { from_sample };
            let Response::Report { report, next_sample } = self.ask(&request, "collect", PROMPT)?
            else {
                return Err(self.out_of_turn("collect"));
            };
            let report = match whole.take() {
                None => *report,
                Some(mut earlier) => {
                    earlier.samples.extend(report.samples);
                    earlier
                }
            };
            match next_sample {
                None => return Ok(report),
                // A node must make progress, or the conductor would collect for ever.
                Some(next) if next > from_sample && next <= wire::MAX_SAMPLES => {
                    from_sample = next;
                    whole = Some(report);
                }
                Some(_) => return Err(self.out_of_turn("collect")),
            }
        }
    }

    /// Relates the node's clock to the conductor's, as NTP does: the node read its clock somewhere
    /// between question and answer (RFC 5905, section 8).
    ///
    /// # Errors
    /// When the node does not answer.
    pub fn relate_clock(&mut self) -> Result<ClockRelation, NodeError> {
        let mut best: Option<ClockRelation> = None;
        for _ in 0..CLOCK_EXCHANGES {
            let asked = monotonic_ns();
            let Response::Clock { monotonic_ns: theirs } =
                self.ask(&Request::ReadClock, "read clock", PROMPT)?
            else {
                return Err(self.out_of_turn("read clock"));
            };
            let answered = monotonic_ns();
            let half = (answered - asked) / 2;
            let middle = asked + half;
            let offset_ns = i64::try_from(i128::from(theirs) - i128::from(middle)).unwrap_or(0);
            if best.is_none_or(|best| half < best.error_ns) {
                best = Some(ClockRelation { offset_ns, error_ns: half });
            }
        }
        best.ok_or_else(|| self.out_of_turn("read clock"))
    }

    fn done(
        &mut self,
        request: &Request,
        what: &'static str,
        timeout: Duration,
    ) -> Result<(), NodeError> {
        match self.ask(request, what, timeout)? {
            Response::Done { .. } => Ok(()),
            _ => Err(self.out_of_turn(what)),
        }
    }

    fn out_of_turn(&self, request: &'static str) -> NodeError {
        NodeError::OutOfTurn { node: self.name.clone(), request }
    }

    fn ask(
        &mut self,
        request: &Request,
        what: &'static str,
        timeout: Duration,
    ) -> Result<Response, NodeError> {
        let patience = Patience {
            deadline: Instant::now() + timeout,
            interrupt: &self.interrupt,
            give_up_at: self.give_up_at,
        };
        let mut channel = patience.on(self.channel.as_mut());
        let answer =
            wire::write_frame(&mut channel, request).and_then(|()| wire::read_frame(&mut channel));
        match answer {
            Ok(Response::Failed { message }) => {
                Err(NodeError::Refused { node: self.name.clone(), message })
            }
            Ok(response) => Ok(response),
            Err(WireError::Io(error)) if error.kind() == io::ErrorKind::TimedOut => {
                Err(NodeError::Silent {
                    node: self.name.clone(),
                    seconds: timeout.as_secs(),
                    request: what,
                })
            }
            Err(WireError::Io(error)) if is_interrupt(&error) => Err(NodeError::Interrupted),
            Err(source) => Err(NodeError::Channel { node: self.name.clone(), source }),
        }
    }
}

/// The conductor's `CLOCK_MONOTONIC` in nanoseconds.
pub fn monotonic_ns() -> u64 {
    // The clock exists on every Linux; zero would show as a window that holds no samples.
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |time| {
        let span = Duration::from(time);
        u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
    })
}

/// As a message's span.
pub fn time_span(duration: Duration) -> TimeSpan {
    TimeSpan::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}
