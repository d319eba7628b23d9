//! The side that sends requests: one thread, one stream.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::prctl::set_timerslack;
use nix::sys::socket::{recv, send};
use nix::sys::time::TimeSpec;
use vioperf_model::sample::{Exchanged, StreamOutcome};
use vioperf_model::workload::Transport;

use super::options::Options;
use super::silence::{SILENCE, TICK};
use crate::clock::monotonic_ns;
use crate::load::control::ThreadCounters;
use crate::load::histogram::Latencies;
use crate::load::{LoadControl, LoadError, tcp_info};

/// After so long a request of UDP counts as lost. It is noticed when the thread
/// wakes next, at most a tick later.
const TIMEOUT_NS: u64 = 200_000_000;
/// While the last answers are awaited it is looked so often whether they are awaited in vain.
const LAST_ANSWERS_TICK: Duration = Duration::from_millis(20);
const SILENCE_NS: u64 = SILENCE.as_secs() * 1_000_000_000;

/// What became of one stream.
pub(super) struct Asked {
    pub(super) number: usize,
    pub(super) outcome: StreamOutcome,
    pub(super) latencies: Latencies,
    pub(super) timeouts: u64,
    pub(super) not_sent: u64,
    pub(super) exchanged: Exchanged,
    /// Still open, unless the load was abandoned.
    pub(super) socket: Option<OwnedFd>,
}

/// A request that is under way.
struct Pending {
    sequence: u64,
    /// When it was to be sent: latency counts from here.
    due_ns: u64,
    sent_ns: u64,
}

/// When the requests of one stream of an open loop are due.
#[derive(Debug, Clone, Copy)]
struct Schedule {
    start_ns: u64,
    per_second: u64,
    /// All streams take turns.
    stream: u64,
    streams: u64,
}

impl Schedule {
    fn due_ns(&self, sequence: u64) -> u64 {
        let turn = u128::from(sequence) * u128::from(self.streams) + u128::from(self.stream);
        let after = turn * 1_000_000_000 / u128::from(self.per_second);
        self.start_ns.saturating_add(u64::try_from(after).unwrap_or(u64::MAX))
    }

    /// How many were due by then.
    fn due_by(&self, now_ns: u64) -> u64 {
        let Some(passed) = now_ns.checked_sub(self.start_ns).map(u128::from) else { return 0 };
        let turns = passed * u128::from(self.per_second) / 1_000_000_000;
        let own = (turns + u128::from(self.streams)).saturating_sub(u128::from(self.stream))
            / u128::from(self.streams);
        u64::try_from(own).unwrap_or(u64::MAX)
    }
}

/// One stream that asks.
pub(super) struct Asking {
    number: usize,
    socket: OwnedFd,
    peer: SocketAddr,
    options: Arc<Options>,
    schedule: Option<Schedule>,
    /// What begins earlier belongs to the warm-up.
    measured_from_ns: u64,
    buffer: Vec<u8>,
    pending: VecDeque<Pending>,
    /// No more could be sent the last time, as too many were under way.
    held_up: bool,
    /// Number of the next request.
    sequence: u64,
    /// Bytes of requests that the socket had no room for yet (TCP).
    unsent: usize,
    /// Bytes of a response whose rest is still to come (TCP).
    partial: usize,
    bytes: u64,
    /// When the peer last gave a sign of life.
    heard_ns: u64,
    /// When the request was sent that nothing has been heard after.
    unheard_since_ns: Option<u64>,
    latencies: Latencies,
    timeouts: u64,
    exchanged: Exchanged,
}

impl Asking {
    pub(super) fn new(
        number: usize,
        socket: OwnedFd,
        peer: SocketAddr,
        options: &Arc<Options>,
        start_ns: u64,
    ) -> Result<Self, LoadError> {
        let warmup_ns = u64::try_from(options.warmup.as_nanos()).unwrap_or(u64::MAX);
        let schedule = options.requests_per_second.map(|per_second| Schedule {
            start_ns,
            per_second: per_second.into(),
            stream: number as u64,
            streams: options.streams as u64,
        });
        Ok(Self {
            number,
            socket,
            peer,
            options: options.clone(),
            schedule,
            measured_from_ns: start_ns.saturating_add(warmup_ns),
            // Not zeros: pages that were never written share one, which no real payload does.
            buffer: vec![0x5a; options.buffer_bytes],
            pending: VecDeque::new(),
            held_up: false,
            sequence: 0,
            unsent: 0,
            partial: 0,
            bytes: 0,
            heard_ns: start_ns,
            unheard_since_ns: None,
            latencies: Latencies::new()?,
            timeouts: 0,
            exchanged: Exchanged::default(),
        })
    }

    /// Asks until told to stop, or until the peer is gone.
    pub(super) fn run(mut self, control: &LoadControl) -> Asked {
        // Timers are 50 µs late otherwise (prctl(2)), and what is due goes out late.
        let _ = set_timerslack(1);
        if let Some(counters) = control.counters().get(self.number)
            && let Err(reason) = self.ask_on(control, counters)
        {
            let Self { number, peer, .. } = &self;
            let ended = counters.transactions();
            control.note_early_end(format!(
                "stream {} with {peer} ended after {ended} transactions: {reason}",
                number + 1
            ));
        }
        let not_sent = self
            .schedule
            .filter(|_| self.held_up)
            .map_or(0, |schedule| schedule.due_by(monotonic_ns()).saturating_sub(self.sequence));
        if self.options.transport == Transport::Udp && !control.abandoned() {
            self.take_last_answers(control);
        }
        self.finish(control, not_sent)
    }

    /// Waits for the answers to what is under way, that the ledger may tell the lost from the late. None
    /// of them is a transaction any more.
    fn take_last_answers(&mut self, control: &LoadControl) {
        let mut awaited = std::mem::take(&mut self.pending).len();
        let until_ns = monotonic_ns().saturating_add(TIMEOUT_NS);
        while awaited > 0 && monotonic_ns() < until_ns && !control.abandoned() {
            match recv(self.socket.as_raw_fd(), &mut self.buffer, super::flags(false)) {
                Ok(count) if count == self.options.sizes.response => {
                    self.exchanged.received += 1;
                    awaited -= 1;
                }
                Ok(_) | Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) if self.await_answer().is_ok() => {}
                Err(_) => return,
            }
        }
    }

    fn await_answer(&self) -> Result<(), Errno> {
        let mut fds = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        match ppoll(&mut fds, Some(TimeSpec::from_duration(LAST_ANSWERS_TICK)), None) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    fn finish(self, control: &LoadControl, not_sent: u64) -> Asked {
        let tcp = tcp_info::read(self.socket.as_fd());
        let socket = super::kept(self.socket, self.options.transport, control);
        Asked {
            number: self.number,
            outcome: StreamOutcome { bytes: self.bytes, tcp },
            latencies: self.latencies,
            timeouts: self.timeouts,
            not_sent,
            exchanged: self.exchanged,
            socket,
        }
    }

    fn ask_on(&mut self, control: &LoadControl, counters: &ThreadCounters) -> Result<(), String> {
        let blocks = self.options.may_block();
        let mut now_ns = monotonic_ns();
        while !control.stopping() {
            self.send_what_is_due(now_ns, blocks, counters)?;
            if blocks || self.await_something(now_ns)? {
                now_ns = self.take_answers(blocks, counters)?;
            } else {
                now_ns = monotonic_ns();
            }
            self.give_up(now_ns)?;
        }
        Ok(())
    }

    fn send_what_is_due(
        &mut self,
        now_ns: u64,
        blocks: bool,
        counters: &ThreadCounters,
    ) -> Result<(), String> {
        self.send_rest(blocks, counters)?;
        while self.pending.len() < self.options.outstanding {
            let due_ns = match self.schedule.map(|schedule| schedule.due_ns(self.sequence)) {
                Some(due_ns) if due_ns > now_ns => break,
                Some(due_ns) => due_ns,
                None => now_ns,
            };
            let sequence = self.sequence;
            self.sequence += 1;
            self.pending.push_back(Pending { sequence, due_ns, sent_ns: now_ns });
            match self.options.transport {
                Transport::Tcp => {
                    self.unsent += self.options.sizes.request;
                    self.send_rest(blocks, counters)?;
                }
                Transport::Udp => self.send_datagram(sequence, counters)?,
            }
        }
        self.held_up = self.pending.len() >= self.options.outstanding;
        Ok(())
    }

    /// Sends what is left of requests, as far as the socket takes it.
    fn send_rest(&mut self, blocks: bool, counters: &ThreadCounters) -> Result<(), String> {
        while self.unsent > 0 {
            let chunk = self.unsent.min(self.buffer.len());
            let chunk = self.buffer.get(..chunk).unwrap_or_default();
            match send(self.socket.as_raw_fd(), chunk, super::flags(blocks)) {
                Ok(count) => {
                    self.unsent -= count.min(self.unsent);
                    self.bytes += count as u64;
                    counters.count(count as u64);
                }
                Err(Errno::EAGAIN) => break,
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.desc().to_owned()),
            }
        }
        Ok(())
    }

    fn send_datagram(&mut self, sequence: u64, counters: &ThreadCounters) -> Result<(), String> {
        let carried = self.options.sequence_bytes();
        let request = self.buffer.get_mut(..self.options.sizes.request).unwrap_or_default();
        for (place, byte) in request.iter_mut().zip(sequence.to_le_bytes()).take(carried) {
            *place = byte;
        }
        match send(self.socket.as_raw_fd(), request, super::flags(false)) {
            Ok(count) => {
                self.bytes += count as u64;
                self.exchanged.sent += 1;
                counters.count(count as u64);
                Ok(())
            }
            // It will time out.
            Err(errno) if super::loses_datagram(errno) => Ok(()),
            Err(errno) => Err(errno.desc().to_owned()),
        }
    }

    /// Sleeps until there is something to do; whether the socket has something for us.
    fn await_something(&self, now_ns: u64) -> Result<bool, String> {
        let mut events = PollFlags::POLLIN;
        if self.unsent > 0 {
            events |= PollFlags::POLLOUT;
        }
        let due_ns = self
            .schedule
            .filter(|_| self.pending.len() < self.options.outstanding)
            .map(|schedule| schedule.due_ns(self.sequence));
        let sleep = due_ns
            .map(|due_ns| Duration::from_nanos(due_ns.saturating_sub(now_ns)))
            .map_or(TICK, |until_due| until_due.min(TICK));
        let mut fds = [PollFd::new(self.socket.as_fd(), events)];
        match ppoll(&mut fds, Some(TimeSpec::from_duration(sleep)), None) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(format!("ppoll: {errno}")),
        }
        let [fd] = fds;
        Ok(fd.revents().is_some_and(|events| events.intersects(!PollFlags::POLLOUT)))
    }

    /// Receives once; the time when it had.
    fn take_answers(&mut self, blocks: bool, counters: &ThreadCounters) -> Result<u64, String> {
        let received = recv(self.socket.as_raw_fd(), &mut self.buffer, super::flags(blocks));
        let now_ns = monotonic_ns();
        match (received, self.options.transport) {
            (Ok(0), Transport::Tcp) => return Err("the peer closed it".to_owned()),
            (Ok(count), Transport::Tcp) => self.take_bytes(count, now_ns, counters)?,
            (Ok(count), Transport::Udp) => self.take_datagram(count, now_ns, counters),
            (Err(Errno::EAGAIN | Errno::EINTR), _) => {}
            (Err(errno), Transport::Udp) if super::loses_datagram(errno) => {}
            (Err(errno), _) => return Err(errno.desc().to_owned()),
        }
        Ok(now_ns)
    }

    fn take_bytes(
        &mut self,
        count: usize,
        now_ns: u64,
        counters: &ThreadCounters,
    ) -> Result<(), String> {
        self.heard_ns = now_ns;
        self.partial += count;
        while self.partial >= self.options.sizes.response {
            self.partial -= self.options.sizes.response;
            let Some(answered) = self.pending.pop_front() else {
                return Err("the peer answers what was not asked".to_owned());
            };
            self.complete(&answered, now_ns, counters);
        }
        Ok(())
    }

    /// Takes an answer to a request that is under way; others are late, doubled or foreign.
    fn take_datagram(&mut self, count: usize, now_ns: u64, counters: &ThreadCounters) {
        if count != self.options.sizes.response {
            return;
        }
        self.exchanged.received += 1;
        let mut bytes = [0; 8];
        let carried = self.buffer.iter().take(self.options.sequence_bytes());
        bytes.iter_mut().zip(carried).for_each(|(to, from)| *to = *from);
        let (sequence, mask) = (u64::from_le_bytes(bytes), self.options.sequence_mask());
        let place = self.pending.iter().position(|pending| pending.sequence & mask == sequence);
        if let Some(answered) = place.and_then(|place| self.pending.remove(place)) {
            self.heard_ns = now_ns;
            self.unheard_since_ns = None;
            self.complete(&answered, now_ns, counters);
        }
    }

    fn complete(&mut self, answered: &Pending, now_ns: u64, counters: &ThreadCounters) {
        counters.count_transactions(1);
        if answered.due_ns >= self.measured_from_ns {
            self.latencies.record(now_ns.saturating_sub(answered.due_ns));
        }
    }

    /// Gives up requests that are lost, and the peer when it has been silent for too long.
    fn give_up(&mut self, now_ns: u64) -> Result<(), String> {
        if self.options.transport == Transport::Udp {
            while let Some(oldest) = self.pending.front()
                && now_ns.saturating_sub(oldest.sent_ns) >= TIMEOUT_NS
            {
                self.unheard_since_ns.get_or_insert(oldest.sent_ns);
                self.timeouts += u64::from(oldest.due_ns >= self.measured_from_ns);
                self.pending.pop_front();
            }
        }
        let oldest = self.pending.front().map(|oldest| oldest.sent_ns);
        let Some(asked_ns) = self.unheard_since_ns.or(oldest) else { return Ok(()) };
        if now_ns.saturating_sub(asked_ns.max(self.heard_ns)) < SILENCE_NS {
            return Ok(());
        }
        Err(format!("no answer came for {SILENCE:?}: is the peer alive, and the path up?"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_take_turns_at_the_rate_of_all() {
        let of = |stream| Schedule { start_ns: 100, per_second: 1000, stream, streams: 3 };
        let due: Vec<u64> = (0..3).map(|stream| of(stream).due_ns(0)).collect();
        assert_eq!(due, [100, 1_000_100, 2_000_100]);
        assert_eq!(of(1).due_ns(2), 100 + 7_000_000);
        for stream in 0..3 {
            let schedule = of(stream);
            for sequence in [0, 1, 7] {
                let due = schedule.due_ns(sequence);
                assert_eq!(schedule.due_by(due), sequence + 1);
                assert_eq!(schedule.due_by(due - 1), sequence);
            }
        }
        let last = Schedule { start_ns: u64::MAX, per_second: 1, stream: 0, streams: 1 };
        assert_eq!(last.due_ns(u64::MAX), u64::MAX);
    }
}
