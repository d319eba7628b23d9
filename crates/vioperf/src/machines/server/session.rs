//! One client: what it asks goes to its node, within the limits, and the answers come back.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use vioperf_analysis::wording::{count, three_digits};
use vioperf_model::record::{Leg, Purpose};
use vioperf_model::sample::Sample;
use vioperf_model::wire::{
    Prepare, Request, Response, Role, WireError, read_frame, read_frame_within, write_frame,
};

use super::Shared;
use crate::conductor::channel::{Channel, Patience, is_interrupt};
use crate::interrupt::{Interrupt, Urgency};
use crate::live::{EndNow, Live};
use crate::machines::client::Verdict;
use crate::machines::own_node::OwnNode;
use crate::report::text::clean;

/// A client that asks nothing for so long while its load runs has gone: it asks every second.
const SILENT_WHILE_RUNNING: Duration = Duration::from_secs(10);
/// So long a client may think between trials.
const SILENT_BETWEEN: Duration = Duration::from_secs(30);
/// A node takes no longer to answer.
const NODE_ANSWERS: Duration = Duration::from_secs(40);
/// No request is longer: the longest is a Prepare.
const MOST_REQUEST_BYTES: usize = 64 << 10;

/// A client being served.
pub(super) struct Session<'a> {
    shared: &'a Shared,
    channel: Box<dyn Channel>,
    from: SocketAddr,
    local: SocketAddr,
    number: u32,
    running: Option<Running>,
    prepared: Vec<Prepare>,
}

/// A load that runs.
struct Running {
    since: Instant,
    live: Live,
    legs: Vec<Leg>,
    last: Option<Sample>,
}

/// Why a session came to its end.
enum End {
    /// The client wished it.
    Finished,
    /// Something else, for the log; what the client is told of it, if it still listens.
    Broken { reason: String, tell: Option<String> },
}

fn broken(reason: impl Into<String>) -> End {
    End::Broken { reason: reason.into(), tell: None }
}

impl<'a> Session<'a> {
    pub(super) fn new(
        shared: &'a Shared,
        channel: Box<dyn Channel>,
        from: SocketAddr,
        local: SocketAddr,
    ) -> Self {
        let number = shared.next_number.fetch_add(1, Ordering::Relaxed);
        Self { shared, channel, from, local, number, running: None, prepared: Vec::new() }
    }

    pub(super) fn serve(mut self) {
        self.note(format_args!("{} is connected", self.from));
        let end = match OwnNode::start(&[
            "--memory".to_owned(),
            self.shared.config.limits.node_memory().to_string(),
        ]) {
            Ok((node, mut to_node)) => {
                let end = self.relay(&mut to_node);
                drop(node);
                end
            }
            Err(error) => {
                let message = format!("the server cannot start a node: {error}");
                let _ = self.say(&Verdict::Refused { message: message.clone() });
                broken(message)
            }
        };
        let so_far = self.running.take().and_then(|running| running.so_far());
        let so_far = so_far.map_or_else(String::new, |text| format!("; until then {text}"));
        match end {
            End::Finished => self.note("finished"),
            End::Broken { reason, tell } => {
                if let Some(message) = tell {
                    let _ = self.say(&Response::Failed { message });
                }
                self.note(format_args!("ended: {reason}{so_far}"));
            }
        }
        self.shared.served.fetch_add(1, Ordering::AcqRel);
    }

    fn note(&self, text: impl std::fmt::Display) {
        // Some of it is what the client said.
        let text = clean(&text.to_string());
        self.shared.output.note(format_args!("[{}] {text}", self.number));
    }

    fn relay(&mut self, to_node: &mut UnixStream) -> End {
        if let Err(error) = self.say(&Verdict::Welcome) {
            return broken(error.to_string());
        }
        loop {
            let request = match self.hear() {
                Ok(request) => request,
                Err(end) => return end,
            };
            let last = request == Request::Shutdown;
            let response = match self.admit(request) {
                Ok(request) => match self.ask(to_node, &request) {
                    Ok(response) => {
                        self.observe(&request, &response);
                        response
                    }
                    Err(error) => {
                        let reason = format!("the server's node ended: {error}");
                        return End::Broken { tell: Some(reason.clone()), reason };
                    }
                },
                Err(message) => {
                    self.note(format_args!("refused: {message}"));
                    Response::Failed { message }
                }
            };
            if let Err(error) = self.say(&response) {
                return broken(error.to_string());
            }
            if last {
                return End::Finished;
            }
        }
    }

    fn admit(&self, request: Request) -> Result<Request, String> {
        self.shared.config.limits.admit(request, self.from, self.local, &self.prepared)
    }

    /// The client's next request.
    fn hear(&mut self) -> Result<Request, End> {
        let patience = if self.running.is_some() { SILENT_WHILE_RUNNING } else { SILENT_BETWEEN };
        let until = Patience::until(Instant::now() + patience, &self.shared.interrupt);
        let mut channel = until.on(self.channel.as_mut());
        read_frame_within(&mut channel, MOST_REQUEST_BYTES).map_err(|error| match error {
            WireError::Closed => broken("the client went away"),
            WireError::Io(error)
                if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) =>
            {
                broken("the client went away")
            }
            WireError::Io(error) if error.kind() == ErrorKind::TimedOut => {
                broken(format!("the client was silent for {} s", patience.as_secs()))
            }
            WireError::Io(error) if is_interrupt(&error) => End::Broken {
                reason: "the server is ending".into(),
                tell: Some("the server was told to end".into()),
            },
            error @ WireError::Io(_) => broken(error.to_string()),
            error => {
                // What is no frame is followed by none: nobody knows where the next would begin.
                let reason = format!("dropped what is no request: {error}");
                End::Broken { tell: Some(reason.clone()), reason }
            }
        })
    }

    fn say<T: serde::Serialize>(&mut self, message: &T) -> Result<(), WireError> {
        // A farewell is said even when we are told to end.
        let never = Interrupt::default();
        let patience = Patience::until(Instant::now() + SILENT_WHILE_RUNNING, &never);
        write_frame(&mut patience.on(self.channel.as_mut()), message)
    }

    fn ask(&self, to_node: &mut UnixStream, request: &Request) -> Result<Response, WireError> {
        let patience = Patience {
            deadline: Instant::now() + NODE_ANSWERS,
            interrupt: &self.shared.interrupt,
            give_up_at: Urgency::Now,
        };
        let mut channel = patience.on(to_node);
        write_frame(&mut channel, request)?;
        read_frame(&mut channel)
    }

    /// What the log tells of it.
    fn observe(&mut self, request: &Request, response: &Response) {
        match (request, response) {
            (_, Response::Failed { message }) => self.note(format_args!("failed: {message}")),
            (Request::Prepare(part), _) => self.prepared.push(part.clone()),
            (Request::Start, _) => self.begins(),
            (Request::Progress, Response::Progress(sample)) => {
                if let Some(line) = self.running.as_mut().and_then(|running| running.line(sample)) {
                    self.note(line);
                }
            }
            (Request::Stop, _) => {
                self.running = None;
                self.prepared.clear();
            }
            (Request::Collect { from_sample: 0 }, Response::Report { report, .. }) => {
                if let Some(reason) = report.loads().find_map(|load| load.ended_early.as_ref()) {
                    self.note(format_args!("the load ended early: {reason}"));
                }
            }
            _ => {}
        }
    }

    fn begins(&mut self) {
        let Some(first) = self.prepared.first() else { return };
        let workload = &first.workload;
        let streams = count(usize::from(workload.streams), "stream");
        let does: Vec<&str> = self
            .prepared
            .iter()
            .map(|part| match part.role {
                Role::Sender { .. } => "sends",
                Role::Receiver { .. } => "receives",
                Role::Disk => "reads and writes a disk",
                Role::Observer => "observes",
            })
            .collect();
        let (kind, duration) = (workload.kind.name(), workload.duration);
        self.note(format_args!("{kind}, {streams}, for {duration}: {}", does.join(" and ")));
        // What another kind of load moves beside is not what is measured.
        let leg = |part: &Prepare| {
            let measured = part.workload.kind == workload.kind;
            let purpose = if measured { Purpose::Measured } else { Purpose::Background };
            Leg { purpose, role: part.role }
        };
        let legs = self.prepared.iter().map(leg).collect();
        let live = Live::new(workload.kind);
        self.running = Some(Running { since: Instant::now(), live, legs, last: None });
    }
}

impl Running {
    fn line(&mut self, sample: &Sample) -> Option<String> {
        let seconds = self.since.elapsed().as_secs_f64();
        let now = EndNow { name: "", legs: &self.legs, sample };
        let line = self.live.line(seconds, &[now]);
        self.last = Some(sample.clone());
        line
    }

    fn so_far(&self) -> Option<String> {
        let sample = self.last.as_ref()?;
        let moved = sample.load.iter().chain(&sample.further_loads).map(|load| load.bytes);
        let gigabytes = moved.fold(0, u64::saturating_add) as f64 / 1e9;
        let seconds = self.since.elapsed().as_secs_f64();
        Some(format!("{} GB in {seconds:.1} s", three_digits(gigabytes)))
    }
}
