//! One thread of the load: moves payload over its share of the connections.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::prctl::set_timerslack;
use nix::sys::socket::MsgFlags;
use vioperf_model::sample::{StreamOutcome, ZerocopyOutcome};

use super::completions::Completions;
use super::sink::Sink;
use super::source::Source;
use crate::clock::monotonic_ns;
use crate::load::connections::reset;
use crate::load::control::ThreadCounters;
use crate::load::schedule::{Rate, Schedule, schedules, sleep_until};
use crate::load::{LoadControl, LoadError, tcp_info};

/// Calls on one connection before the others have their turn: long enough that epoll costs nothing,
/// short enough that no connection waits for long.
const CALLS_AT_A_TIME: usize = 16;
/// Marks the event that says to stop, among those that carry a connection's place.
const WAKE: u64 = u64::MAX;
/// When a stream with a rate tries again after its socket was full.
const RETRY_NS: u64 = 200_000;

/// Which way payload goes, seen from here, and what a thread has for it.
pub(super) enum Flow {
    In(Sink),
    Out(Source, Option<Rate>),
}

impl Flow {
    fn emptied_by(&self, count: usize) -> bool {
        matches!(self, Self::In(sink) if sink.emptied_by(count))
    }
}

/// What became of one connection.
pub(super) struct Moved {
    pub(super) number: usize,
    pub(super) outcome: StreamOutcome,
    pub(super) zerocopy: Option<ZerocopyOutcome>,
    /// Still open, unless the load was abandoned.
    pub(super) socket: Option<TcpStream>,
}

struct Stream {
    number: usize,
    socket: TcpStream,
    /// Asked for while connected: afterwards the kernel does not tell any more.
    peer: Option<SocketAddr>,
    bytes: u64,
    completions: Completions,
}

/// A thread's connections, its epoll and its one buffer.
pub(super) struct Mover {
    flow: Flow,
    streams: Vec<Stream>,
    message_bytes: usize,
    epoll: Epoll,
}

/// What a call on one connection came to.
enum Moving {
    /// So many bytes.
    Bytes(usize),
    /// Nothing for now.
    Later,
    /// It is over, and why.
    Over(String),
}

impl Mover {
    pub(super) fn new(
        flow: Flow,
        streams: Vec<(usize, TcpStream)>,
        control: &LoadControl,
        message_bytes: usize,
    ) -> Result<Self, LoadError> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)
            .map_err(LoadError::system("create an epoll"))?;
        let add = LoadError::system::<Errno>;
        epoll
            .add(control.wake(), EpollEvent::new(EpollFlags::EPOLLIN, WAKE))
            .map_err(add("watch an eventfd"))?;
        let interest = match flow {
            Flow::In(..) => EpollFlags::EPOLLIN,
            Flow::Out(..) => EpollFlags::EPOLLOUT,
        };
        let mut own = Vec::with_capacity(streams.len());
        for (place, (number, socket)) in (0_u64..).zip(streams) {
            epoll
                .add(&socket, EpollEvent::new(interest, place))
                .map_err(add("watch a connection"))?;
            let peer = socket.peer_addr().ok();
            own.push(Stream {
                number,
                socket,
                peer,
                bytes: 0,
                completions: Completions::default(),
            });
        }
        Ok(Self { flow, streams: own, message_bytes, epoll })
    }

    /// Moves payload until told to stop, or until no connection is left.
    pub(super) fn run(mut self, control: &LoadControl, index: usize) -> Vec<Moved> {
        if let Some(counters) = control.counters().get(index) {
            match self.flow {
                Flow::Out(_, Some(rate)) => self.go_by_the_clock(rate, control, counters),
                Flow::Out(_, None) | Flow::In(..) => self.go_round(control, counters),
            }
        }
        let abandoned = control.abandoned();
        self.streams.into_iter().map(|stream| stream.finish(abandoned)).collect()
    }

    /// As fast as it goes.
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
                if event.events().contains(EpollFlags::EPOLLERR) {
                    stream.completions.read_all(stream.socket.as_fd());
                }
                let turn = stream.turn(&mut self.flow, self.message_bytes, control, counters);
                if let Err(reason) = turn {
                    control.note_early_end(reason);
                    let _ = self.epoll.delete(&stream.socket);
                    alive -= 1;
                }
            }
            if let Flow::In(sink) = &mut self.flow {
                sink.rest();
            }
        }
    }

    /// Each stream in time with the clock.
    fn go_by_the_clock(&mut self, rate: Rate, control: &LoadControl, counters: &ThreadCounters) {
        // By default a thread may be woken 50 us late. It can only fail by not being needed.
        let _ = set_timerslack(1);
        let streams = self.streams.len();
        let mut schedules = schedules(0..streams, streams, monotonic_ns(), rate);
        let mut queue: BinaryHeap<Reverse<(u64, usize)>> =
            schedules.iter().map(Schedule::next_ns).zip(0..).map(Reverse).collect();
        // What is still to be sent of each stream's current message.
        let mut rests = vec![self.message_bytes; self.streams.len()];
        while let Some(Reverse((at_ns, place))) = queue.pop() {
            if !sleep_until(at_ns, control.wake()) || control.stopping() {
                return;
            }
            let stream = self.streams.get_mut(place).zip(schedules.get_mut(place));
            let Some(((stream, schedule), rest)) = stream.zip(rests.get_mut(place)) else {
                continue;
            };
            let now_ns = monotonic_ns();
            schedule.forget_missed(now_ns);
            let mut again_ns = None;
            while schedule.due(now_ns) > 0 && again_ns.is_none() && !control.stopping() {
                match stream.call(&mut self.flow, *rest, counters) {
                    Moving::Bytes(count) => *rest = rest.saturating_sub(count),
                    Moving::Later => again_ns = Some(now_ns.saturating_add(RETRY_NS)),
                    Moving::Over(reason) => {
                        control.note_early_end(reason);
                        again_ns = Some(u64::MAX);
                    }
                }
                if *rest == 0 {
                    *rest = self.message_bytes;
                    schedule.count(1);
                }
            }
            if again_ns != Some(u64::MAX) {
                queue.push(Reverse((again_ns.unwrap_or_else(|| schedule.next_ns()), place)));
            }
        }
    }
}

impl Stream {
    /// Several calls in a row; an error says why the stream is over.
    fn turn(
        &mut self,
        flow: &mut Flow,
        message_bytes: usize,
        control: &LoadControl,
        counters: &ThreadCounters,
    ) -> Result<(), String> {
        for _ in 0..CALLS_AT_A_TIME {
            if control.stopping() {
                break;
            }
            match self.call(flow, message_bytes, counters) {
                Moving::Bytes(count) if flow.emptied_by(count) => break,
                Moving::Bytes(_) => {}
                Moving::Later => break,
                Moving::Over(reason) => return Err(reason),
            }
        }
        Ok(())
    }

    /// One call, which never waits, and counts what it moved.
    fn call(&mut self, flow: &mut Flow, most: usize, counters: &ThreadCounters) -> Moving {
        const FLAGS: MsgFlags = MsgFlags::MSG_DONTWAIT;
        let result = match flow {
            Flow::In(sink) => sink.receive(self.socket.as_fd()),
            Flow::Out(source, _) => {
                source.send(self.socket.as_fd(), &mut self.completions, most, FLAGS)
            }
        };
        match result {
            Ok(0) if matches!(flow, Flow::In(..)) => self.over("the peer closed it"),
            Ok(count) => {
                let moved = u64::try_from(count).unwrap_or(0);
                self.bytes += moved;
                counters.count(moved);
                Moving::Bytes(count)
            }
            Err(Errno::EAGAIN) => Moving::Later,
            Err(Errno::EINTR) => Moving::Later,
            // The memory for the kernel's notes is used up: it has some to give back.
            Err(Errno::ENOBUFS) if matches!(flow, Flow::Out(Source::Zerocopy(_), _)) => {
                self.completions.wait(self.socket.as_fd());
                Moving::Later
            }
            Err(errno) => self.over(errno.desc()),
        }
    }

    fn over(&self, reason: &str) -> Moving {
        let Self { number, bytes, .. } = self;
        let peer = self.peer.map_or_else(|| "its peer".to_owned(), |peer| peer.to_string());
        let number = number + 1;
        Moving::Over(format!("stream {number} with {peer} ended after {bytes} bytes: {reason}"))
    }

    fn finish(mut self, abandoned: bool) -> Moved {
        self.completions.read_all(self.socket.as_fd());
        let tcp = tcp_info::read(self.socket.as_fd());
        let outcome = StreamOutcome { bytes: self.bytes, tcp };
        if abandoned {
            reset(&self.socket);
        }
        let socket = (!abandoned).then_some(self.socket);
        Moved { number: self.number, outcome, zerocopy: self.completions.outcome(), socket }
    }
}
