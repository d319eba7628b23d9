//! N TCP connections that send as fast as the path takes it.
//!
//! The connections are dealt to as many threads as there are cores, each with one epoll. The sender
//! connects all of them before it is ready; the receiver accepts them in the background. After the
//! end they stay open until the load is dropped, when they are reset, so that nothing that is still
//! buffered goes on the path.

mod completions;
mod mover;
mod piped_pages;
mod sink;
mod source;

use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use vioperf_model::sample::{LoadOutcome, StreamOutcome};
use vioperf_model::units::ByteSize;
use vioperf_model::wire::Role;
use vioperf_model::workload::{ReceiveWay, SendWay, Workload};

use super::connections::{Accepting, connect_all, listen, reset};
use super::schedule::Rate;
use super::socket_options::{SocketOptions, smallest_buffers};
use super::threads::{Threads, join_all};
use super::{Load, LoadControl, LoadError};
use crate::open_files::allow_open_files;
use mover::{Flow, Moved, Mover};
use sink::Sink;
use source::Source;

/// How long a sender tries to reach its receiver.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// The largest message: every thread holds a buffer of that size.
const LARGEST_MESSAGE: ByteSize = ByteSize::from_mib(16);

/// The smallest buffer in which payload may gather without stopping its sender.
const GATHER_IN_AT_LEAST: ByteSize = ByteSize::from_mib(4);

/// This load at one end.
pub(crate) struct TcpStreams {
    control: Arc<LoadControl>,
    threads: Threads,
    streams: usize,
    message_bytes: usize,
    /// Whether a receiver's buffers are the kernel's choice, and so never too small.
    may_gather: bool,
    way: Way,
    port: Option<u16>,
    stage: Stage,
}

/// How payload is moved.
#[derive(Debug, Clone, Copy)]
enum Way {
    In(ReceiveWay),
    Out(SendWay, Option<Rate>),
}

enum Stage {
    Accepting(Accepting),
    Connected(Vec<TcpStream>),
    Moving(Vec<JoinHandle<Vec<Moved>>>),
    /// The sockets wait to be reset.
    Ended {
        held: Vec<TcpStream>,
    },
}

impl TcpStreams {
    pub(crate) fn prepare(
        role: &Role,
        workload: &Workload,
        greets: bool,
    ) -> Result<Self, LoadError> {
        let streams = usize::from(workload.streams);
        if streams == 0 {
            return Err(parameter("streams", &0, "at least 1 is needed"));
        }
        let message_bytes = message_size(workload.message_bytes())?;
        allow_open_files(streams);
        let threads = Threads::of(role, workload)?;
        let control = Arc::new(LoadControl::new(streams.min(threads.count()))?);
        let options = SocketOptions::of(workload).with_greeting(greets);
        let (way, port, stage) = match *role {
            Role::Sender { peer } => {
                let way = workload.send.unwrap_or(SendWay::Copy);
                let rate = Rate::of(workload, message_bytes)?;
                let connected = connect_all(peer, streams, &options, CONNECT_WITHIN)?;
                for stream in &connected {
                    source::allow(way, stream.as_fd())?;
                }
                (Way::Out(way, rate), None, Stage::Connected(connected))
            }
            Role::Receiver { bind } => {
                let way = workload.receive.unwrap_or(ReceiveWay::Copy);
                let (listener, port) = listen(bind, streams, &options)?;
                let accepting = Accepting::start(listener, streams, greets, &control)?;
                (Way::In(way), Some(port), Stage::Accepting(accepting))
            }
            Role::Observer | Role::Disk => {
                return Err(parameter("role", &"observer", "it moves no payload"));
            }
        };
        let may_gather = options.buffer().is_none_or(|size| size >= GATHER_IN_AT_LEAST);
        Ok(Self { control, threads, streams, message_bytes, may_gather, way, port, stage })
    }

    /// What one thread needs.
    fn mover(&self, hand: Vec<(usize, TcpStream)>) -> Result<Mover, LoadError> {
        let flow = match self.way {
            Way::In(way) => Flow::In(Sink::new(way, self.message_bytes, self.may_gather)),
            Way::Out(way, rate) => Flow::Out(Source::new(way, self.message_bytes)?, rate),
        };
        Mover::new(flow, hand, &self.control, self.message_bytes)
    }
}

fn parameter(what: &'static str, value: &dyn ToString, advice: &str) -> LoadError {
    LoadError::Parameter { what, value: value.to_string(), advice: advice.to_owned() }
}

fn message_size(size: ByteSize) -> Result<usize, LoadError> {
    usize::try_from(size.as_bytes())
        .ok()
        .filter(|_| (1..=LARGEST_MESSAGE.as_bytes()).contains(&size.as_bytes()))
        .ok_or_else(|| {
            parameter("message-size", &size, &format!("ask for 1 B to {LARGEST_MESSAGE}"))
        })
}

impl Load for TcpStreams {
    fn port(&self) -> Option<u16> {
        self.port
    }

    fn control(&self) -> &Arc<LoadControl> {
        &self.control
    }

    fn await_peer(&mut self) -> Result<(), LoadError> {
        let Stage::Accepting(accepting) = &mut self.stage else { return Ok(()) };
        let accepted = accepting.all()?;
        self.stage = Stage::Connected(accepted);
        Ok(())
    }

    fn begin(&mut self) -> Result<(), LoadError> {
        let stage = std::mem::replace(&mut self.stage, Stage::Ended { held: Vec::new() });
        let Stage::Connected(streams) = stage else {
            self.stage = stage;
            return Ok(());
        };
        let threads = self.control.counters().len();
        let mut hands: Vec<Vec<(usize, TcpStream)>> = Vec::new();
        hands.resize_with(threads, Vec::new);
        for (number, stream) in streams.into_iter().enumerate() {
            if let Some(hand) = hands.get_mut(number % threads) {
                hand.push((number, stream));
            }
        }
        let mut moving = Vec::with_capacity(threads);
        for (index, hand) in hands.into_iter().enumerate() {
            let thread = self.mover(hand).and_then(|mover| {
                self.threads.spawn(index, &self.control, move |control| mover.run(control, index))
            });
            match thread {
                Ok(thread) => moving.push(thread),
                Err(error) => {
                    self.stage = Stage::Moving(moving);
                    return Err(error);
                }
            }
        }
        self.stage = Stage::Moving(moving);
        Ok(())
    }

    fn end(&mut self) -> LoadOutcome {
        self.control.stop();
        let mut held = Vec::new();
        let mut streams = vec![StreamOutcome::default(); self.streams];
        let mut zerocopy = Vec::new();
        if let Stage::Moving(threads) = &mut self.stage {
            let moved = join_all(std::mem::take(threads), &self.control);
            for Moved { number, outcome, zerocopy: copied, socket } in moved.into_iter().flatten() {
                if let Some(place) = streams.get_mut(number) {
                    *place = outcome;
                }
                zerocopy.push(copied);
                held.extend(socket);
            }
        }
        let socket_buffers = smallest_buffers(held.iter().map(AsFd::as_fd));
        self.stage = Stage::Ended { held };
        LoadOutcome {
            streams,
            socket_buffers,
            zerocopy: source::together(zerocopy.into_iter()),
            ended_early: self.control.ended_early(),
            ..LoadOutcome::default()
        }
    }
}

impl Drop for TcpStreams {
    fn drop(&mut self) {
        self.control.stop();
        match std::mem::replace(&mut self.stage, Stage::Ended { held: Vec::new() }) {
            Stage::Accepting(accepting) => drop(accepting),
            Stage::Moving(threads) => drop(join_all(threads, &self.control)),
            Stage::Connected(held) | Stage::Ended { held } => held.iter().for_each(reset),
        }
    }
}
