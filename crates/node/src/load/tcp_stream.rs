//! N TCP connections that send as fast as the path takes it.
//!
//! The connections are dealt to as many threads as there are cores, each with one epoll. The sender
//! connects all of them before it is ready; the receiver accepts them in the background. After the
//! end they stay open until the load is dropped, when they are reset, so that nothing that is still
//! buffered goes on the path.

mod mover;
pub(super) mod sockets;

use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use vioperf_model::sample::{LoadOutcome, StreamOutcome};
use vioperf_model::units::ByteSize;
use vioperf_model::wire::Role;
use vioperf_model::workload::Workload;

use super::{Load, LoadControl, LoadError};
use mover::{Flow, Moved, Mover};
use sockets::{Buffer, accept_all, connect_all, listen};

/// How long a sender tries to reach its receiver.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// How long a receiver waits for all connections after it is ready.
const ACCEPT_WITHIN: Duration = Duration::from_secs(60);
/// How long Start waits for connections that are made already but not accepted yet.
const START_WITHIN: Duration = Duration::from_secs(2);
/// The largest message: every thread holds a buffer of that size.
const LARGEST_MESSAGE: ByteSize = ByteSize::from_mib(16);

/// This load at one end.
pub(crate) struct TcpStreams {
    control: Arc<LoadControl>,
    streams: usize,
    message_size: usize,
    flow: Flow,
    port: Option<u16>,
    stage: Stage,
}

enum Stage {
    /// A receiver whose connections are being accepted.
    Accepting {
        thread: JoinHandle<()>,
        accepted: Receiver<Result<Vec<TcpStream>, LoadError>>,
    },
    Connected(Vec<TcpStream>),
    Moving(Vec<JoinHandle<Vec<Moved>>>),
    /// The sockets wait to be reset.
    Ended {
        held: Vec<TcpStream>,
    },
}

impl TcpStreams {
    pub(crate) fn prepare(role: &Role, workload: &Workload) -> Result<Self, LoadError> {
        let streams = usize::from(workload.streams);
        if streams == 0 {
            return Err(parameter("streams", &0, "at least 1 is needed"));
        }
        let message_size = message_size(workload.message_bytes())?;
        sockets::allow_open_files(streams);
        let threads = streams.min(std::thread::available_parallelism().map_or(1, usize::from));
        let control = Arc::new(LoadControl::new(threads)?);
        let buffer = |option| workload.socket_buffer.map(|size| (option, size));
        let (flow, port, stage) = match *role {
            Role::Sender { peer } => {
                let streams = connect_all(peer, streams, buffer(Buffer::Send), CONNECT_WITHIN)?;
                (Flow::Out, None, Stage::Connected(streams))
            }
            Role::Receiver { bind } => {
                let (listener, port) = listen(bind, streams, buffer(Buffer::Receive))?;
                (Flow::In, Some(port), accept_in_background(listener, streams, &control)?)
            }
            Role::Observer => return Err(parameter("role", &"observer", "it moves no payload")),
        };
        Ok(Self { control, streams, message_size, flow, port, stage })
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

fn accept_in_background(
    listener: TcpListener,
    streams: usize,
    control: &Arc<LoadControl>,
) -> Result<Stage, LoadError> {
    let (sender, accepted) = channel();
    let control = control.clone();
    let thread = std::thread::Builder::new()
        .name("accept".to_owned())
        .spawn(move || {
            // Nobody listens any more when the load was dropped meanwhile: that is fine.
            let _ = sender.send(accept_all(&listener, streams, &control, ACCEPT_WITHIN));
        })
        .map_err(LoadError::system("create a thread"))?;
    Ok(Stage::Accepting { thread, accepted })
}

impl Load for TcpStreams {
    fn port(&self) -> Option<u16> {
        self.port
    }

    fn control(&self) -> &Arc<LoadControl> {
        &self.control
    }

    fn await_peer(&mut self) -> Result<(), LoadError> {
        let Stage::Accepting { accepted, .. } = &self.stage else { return Ok(()) };
        let outcome = match accepted.recv_timeout(START_WITHIN) {
            Ok(outcome) => outcome,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                let arrived = self.control.arrived();
                Err(LoadError::Missing { arrived, streams: self.streams, waited: START_WITHIN })
            }
        };
        let accepting = std::mem::replace(&mut self.stage, Stage::Connected(outcome?));
        if let Stage::Accepting { thread, .. } = accepting {
            // It has said its last word.
            drop(thread.join());
        }
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
            let control = self.control.clone();
            let mover = Mover::new(self.flow, hand, &control, self.message_size)?;
            let thread = std::thread::Builder::new()
                .name(format!("load-{index}"))
                .spawn(move || mover.run(&control, index));
            match thread {
                Ok(thread) => moving.push(thread),
                Err(source) => {
                    self.stage = Stage::Moving(moving);
                    return Err(LoadError::System { step: "create a thread", source });
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
        if let Stage::Moving(threads) = &mut self.stage {
            for thread in threads.drain(..) {
                let Ok(moved) = thread.join() else {
                    self.control.note_early_end("a thread of the load died".to_owned());
                    continue;
                };
                for Moved { number, outcome, socket } in moved {
                    if let Some(place) = streams.get_mut(number) {
                        *place = outcome;
                    }
                    held.extend(socket);
                }
            }
        }
        self.stage = Stage::Ended { held };
        let ended_early = self.control.ended_early();
        LoadOutcome { streams, ended_early, ..LoadOutcome::default() }
    }
}

impl Drop for TcpStreams {
    fn drop(&mut self) {
        self.control.stop();
        match std::mem::replace(&mut self.stage, Stage::Ended { held: Vec::new() }) {
            Stage::Accepting { thread, .. } => drop(thread.join()),
            Stage::Moving(threads) => threads.into_iter().for_each(|thread| drop(thread.join())),
            Stage::Connected(held) | Stage::Ended { held } => held.iter().for_each(sockets::reset),
        }
    }
}
