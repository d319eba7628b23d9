//! One thread of the load: moves payload over its share of the connections.

use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::{MsgFlags, recv, send};
use vioperf_model::sample::StreamOutcome;

use super::sockets;
use crate::load::control::ThreadCounters;
use crate::load::{LoadControl, LoadError, tcp_info};
use crate::scheduling::normal_priority;

/// Calls on one connection before the others have their turn: long enough that epoll costs nothing,
/// short enough that no connection waits for long.
const CALLS_AT_A_TIME: usize = 16;
/// Marks the event that says to stop, among those that carry a connection's place.
const WAKE: u64 = u64::MAX;

/// Which way payload goes, seen from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    In,
    Out,
}

/// What became of one connection.
pub(super) struct Moved {
    pub(super) number: usize,
    pub(super) outcome: StreamOutcome,
    /// Still open, unless the load was abandoned.
    pub(super) socket: Option<TcpStream>,
}

struct Stream {
    number: usize,
    socket: TcpStream,
    /// Asked for while connected: afterwards the kernel does not tell any more.
    peer: Option<SocketAddr>,
    bytes: u64,
}

/// A thread's connections, its epoll and its one buffer.
pub(super) struct Mover {
    flow: Flow,
    streams: Vec<Stream>,
    epoll: Epoll,
    buffer: Vec<u8>,
}

/// What a turn of one connection came to.
enum Turn {
    /// More can be moved, now or later.
    Goes,
    /// It is over, and why.
    Over(String),
}

impl Mover {
    pub(super) fn new(
        flow: Flow,
        streams: Vec<(usize, TcpStream)>,
        control: &LoadControl,
        message_size: usize,
    ) -> Result<Self, LoadError> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)
            .map_err(LoadError::system("create an epoll"))?;
        let add = LoadError::system::<Errno>;
        epoll
            .add(control.wake(), EpollEvent::new(EpollFlags::EPOLLIN, WAKE))
            .map_err(add("watch an eventfd"))?;
        let interest = match flow {
            Flow::In => EpollFlags::EPOLLIN,
            Flow::Out => EpollFlags::EPOLLOUT,
        };
        let mut own = Vec::with_capacity(streams.len());
        for (place, (number, socket)) in (0_u64..).zip(streams) {
            epoll
                .add(&socket, EpollEvent::new(interest, place))
                .map_err(add("watch a connection"))?;
            let peer = socket.peer_addr().ok();
            own.push(Stream { number, socket, peer, bytes: 0 });
        }
        // Not zeros: pages that were never written share one, which no real payload does.
        Ok(Self { flow, streams: own, epoll, buffer: vec![0x5a; message_size] })
    }

    /// Moves payload until told to stop, or until no connection is left.
    pub(super) fn run(mut self, control: &LoadControl, index: usize) -> Vec<Moved> {
        normal_priority();
        if let Some(counters) = control.counters().get(index) {
            self.go_round(control, counters);
        }
        let abandoned = control.abandoned();
        self.streams.into_iter().map(|stream| stream.finish(abandoned)).collect()
    }

    fn go_round(&mut self, control: &LoadControl, counters: &ThreadCounters) {
        let mut alive = self.streams.len();
        let mut events = [EpollEvent::empty(); 64];
        while alive > 0 && !control.stopping() {
            let ready = match self.epoll.wait(&mut events, EpollTimeout::NONE) {
                Ok(count) => events.get(..count).unwrap_or_default(),
                Err(Errno::EINTR) => continue,
                Err(errno) => return control.note_early_end(format!("epoll_wait: {errno}")),
            };
            for event in ready {
                let place = usize::try_from(event.data()).unwrap_or(usize::MAX);
                let Some(stream) = self.streams.get_mut(place) else { continue };
                if let Turn::Over(reason) =
                    stream.turn(self.flow, &mut self.buffer, control, counters)
                {
                    control.note_early_end(reason);
                    let _ = self.epoll.delete(&stream.socket);
                    alive -= 1;
                }
            }
        }
    }
}

impl Stream {
    fn turn(
        &mut self,
        flow: Flow,
        buffer: &mut [u8],
        control: &LoadControl,
        counters: &ThreadCounters,
    ) -> Turn {
        // Never waits, whatever the descriptor's own mode; a broken pipe is an errno, no signal.
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        for _ in 0..CALLS_AT_A_TIME {
            if control.stopping() {
                break;
            }
            let result = match flow {
                Flow::In => recv(self.socket.as_raw_fd(), buffer, flags),
                Flow::Out => send(self.socket.as_raw_fd(), buffer, flags),
            };
            match result {
                Ok(0) if flow == Flow::In => return self.over("the peer closed it"),
                Ok(count) => {
                    let count = u64::try_from(count).unwrap_or(0);
                    self.bytes += count;
                    counters.count(count);
                }
                Err(Errno::EAGAIN) => break,
                Err(Errno::EINTR) => {}
                Err(errno) => return self.over(errno.desc()),
            }
        }
        Turn::Goes
    }

    fn over(&self, reason: &str) -> Turn {
        let Self { number, bytes, .. } = self;
        let peer = self.peer.map_or_else(|| "its peer".to_owned(), |peer| peer.to_string());
        Turn::Over(format!("stream {} with {peer} ended after {bytes} bytes: {reason}", number + 1))
    }

    fn finish(self, abandoned: bool) -> Moved {
        let tcp = tcp_info::read(self.socket.as_fd());
        let outcome = StreamOutcome { bytes: self.bytes, tcp };
        if abandoned {
            sockets::reset(&self.socket);
        }
        let socket = (!abandoned).then_some(self.socket);
        Moved { number: self.number, outcome, socket }
    }
}
