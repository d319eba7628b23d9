//! The words that sender and receiver of datagrams say to each other on the path itself.
//!
//! Nothing but a hello is sent to an address before it has shown that it listens there, and that
//! what it hears comes from where it seems to come from:
//!
//! | sender | receiver |
//! | --- | --- |
//! | hello (nonce) | challenge (nonce, cookie): nothing is remembered |
//! | confirm (nonce, cookie), as long as a datagram of the load | welcome (nonce, token): the flow's address is remembered |
//! | datagrams that carry the token | |
//! | finished (token, number of datagrams) | noted (token, number of datagrams) |
//!
//! All other words are of one length, the shortest that there is, so that an answer is never longer than
//! what asked for it. The sender repeats what is not answered.

use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::load::LoadError;

/// Marks a word, and the version of this exchange.
pub(super) const MAGIC: [u8; 8] = *b"vioperf1";
/// The length of every word but those that are made longer on purpose.
pub(super) const WORD_BYTES: usize = 32;
/// How long an answer is waited for before the question is repeated.
const REPEAT_AFTER: Duration = Duration::from_millis(100);
/// So many times in a row the peer may say that nobody listens, before it is believed.
const REFUSALS: u32 = 3;
/// So often a word as long as the load's datagrams is said before it is taken for lost on the way.
const LONG_WORDS: u32 = 20;
/// How closely the longest payload that passes is looked for, in bytes.
const NARROWED_TO: usize = 4;
/// How long a sender repeats that it has finished.
const FINISH_WITHIN: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Hello = 1,
    Challenge = 2,
    Confirm = 3,
    Welcome = 4,
    Finished = 5,
    Noted = 6,
}

/// One word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Word {
    kind: Kind,
    flow: u16,
    nonce: u64,
    value: u64,
}

impl Word {
    fn encode(self) -> [u8; WORD_BYTES] {
        let mut bytes = [0; WORD_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8] = self.kind as u8;
        bytes[14..16].copy_from_slice(&self.flow.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.nonce.to_be_bytes());
        bytes[24..].copy_from_slice(&self.value.to_be_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (bytes, padding) = bytes.split_first_chunk::<WORD_BYTES>()?;
        let (magic, rest) = bytes.split_first_chunk::<8>()?;
        let (&[kind, 0, 0, 0, 0, 0, high, low], rest) = rest.split_first_chunk::<8>()? else {
            return None;
        };
        let (nonce, value) = rest.split_first_chunk::<8>()?;
        let kind = match kind {
            1 => Kind::Hello,
            2 => Kind::Challenge,
            3 => Kind::Confirm,
            4 => Kind::Welcome,
            5 => Kind::Finished,
            6 => Kind::Noted,
            _ => return None,
        };
        let may_be_longer = matches!(kind, Kind::Hello | Kind::Confirm);
        (*magic == MAGIC && (padding.is_empty() || may_be_longer)).then_some(Self {
            kind,
            flow: u16::from_be_bytes([high, low]),
            nonce: u64::from_be_bytes(*nonce),
            value: u64::from_be_bytes(value.try_into().ok()?),
        })
    }
}

/// Why a flow could not be introduced.
#[derive(Debug)]
pub(super) enum Unanswered {
    /// Nobody answers, or somebody says that nobody listens.
    Silence(io::Error),
    /// Short words are answered, but none as long as a datagram of the load; the longest payload that
    /// is, in bytes.
    TooLong {
        /// In bytes.
        passes: usize,
    },
}

/// Says hello for a flow on its connected socket; the token that its datagrams shall carry. The last
/// word is as long as a datagram of the load will be, so that a path that swallows such (a tunnel
/// whose ICMP is filtered) is known before the load.
pub(super) fn introduce(
    socket: &UdpSocket,
    flow: u16,
    payload_bytes: usize,
    deadline: Instant,
) -> Result<u64, Unanswered> {
    // A new state is random (its documentation says so), and so is what it makes of anything.
    let nonce = RandomState::new().hash_one(flow);
    let hello = Word { kind: Kind::Hello, flow, nonce, value: 0 };
    let challenge = repeat(socket, hello, WORD_BYTES, Kind::Challenge, deadline)
        .map_err(Unanswered::Silence)?;
    let confirm = Word { kind: Kind::Confirm, value: challenge.value, ..hello };
    let is_long = payload_bytes > WORD_BYTES;
    let long_enough = Instant::now() + REPEAT_AFTER * LONG_WORDS;
    let tries = if is_long { deadline.min(long_enough) } else { deadline };
    match repeat(socket, confirm, payload_bytes, Kind::Welcome, tries) {
        Ok(welcome) => Ok(welcome.value),
        Err(error) if !is_long => Err(Unanswered::Silence(error)),
        Err(_) => {
            // Or is there nobody any more?
            repeat(socket, hello, WORD_BYTES, Kind::Challenge, deadline)
                .map_err(Unanswered::Silence)?;
            Err(Unanswered::TooLong { passes: longest(socket, hello, payload_bytes) })
        }
    }
}

/// The longest payload below `too_long` that is answered, to within a few bytes.
fn longest(socket: &UdpSocket, hello: Word, too_long: usize) -> usize {
    let (mut passes, mut fails) = (WORD_BYTES, too_long);
    while fails - passes > NARROWED_TO {
        let middle = passes.midpoint(fails);
        let until = Instant::now() + REPEAT_AFTER * 2;
        match repeat(socket, hello, middle, Kind::Challenge, until) {
            Ok(_) => passes = middle,
            Err(_) => fails = middle,
        }
    }
    passes
}

/// Says a word, made as long as `bytes`, until it is answered by one of that kind.
fn repeat(
    socket: &UdpSocket,
    word: Word,
    bytes: usize,
    awaited: Kind,
    deadline: Instant,
) -> io::Result<Word> {
    let mut refusals = 0;
    let mut message = word.encode().to_vec();
    message.resize(bytes.max(WORD_BYTES), 0);
    while Instant::now() < deadline {
        match ask(socket, word, &message, (Instant::now() + REPEAT_AFTER).min(deadline)) {
            Ok(Some(answer)) if answer.kind == awaited => return Ok(answer),
            Ok(_) => {}
            Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => return Err(error),
            Err(error) if refusals + 1 >= REFUSALS => return Err(error),
            Err(_) => {
                refusals += 1;
                std::thread::sleep(REPEAT_AFTER);
            }
        }
    }
    Err(io::Error::new(ErrorKind::TimedOut, "no answer in time"))
}

/// Says that a flow has finished, until that is noted, or for a second: so the end is known even
/// when the last datagrams are lost.
pub(super) fn finish(socket: &UdpSocket, flow: u16, token: u64, sent: u64, deadline: Instant) {
    let word = Word { kind: Kind::Finished, flow, nonce: token, value: sent };
    while Instant::now() < deadline {
        match ask(socket, word, &word.encode(), (Instant::now() + REPEAT_AFTER / 5).min(deadline)) {
            Ok(Some(Word { kind: Kind::Noted, value, .. })) if value == sent => return,
            Ok(_) => {}
            // Nobody there who could note it.
            Err(_) => return,
        }
    }
}

/// Until when [`finish`] may take, for all flows of a thread together.
pub(super) fn finish_deadline() -> Instant {
    Instant::now() + FINISH_WITHIN
}

/// Sends a word; the first answer to it that comes in time.
fn ask(socket: &UdpSocket, word: Word, message: &[u8], until: Instant) -> io::Result<Option<Word>> {
    match socket.send(message) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::WouldBlock => {}
        // A full queue: as good as lost.
        Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
        Err(error) => return Err(error),
    }
    let mut bytes = [0; WORD_BYTES + 1];
    loop {
        match socket.recv(&mut bytes) {
            Ok(length) => {
                let answer = bytes.get(..length).and_then(Word::decode);
                if let Some(answer) = answer
                    && (answer.flow, answer.nonce) == (word.flow, word.nonce)
                {
                    return Ok(Some(answer));
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Ok(None);
                }
                await_readable(&[socket.as_fd()], left)?;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Waits until one of them can be read; rounded up to milliseconds.
fn await_readable(files: &[BorrowedFd<'_>], most: Duration) -> io::Result<()> {
    let mut fds: Vec<PollFd<'_>> =
        files.iter().map(|file| PollFd::new(*file, PollFlags::POLLIN)).collect();
    let most = most + Duration::from_micros(999);
    match poll(&mut fds, PollTimeout::try_from(most).unwrap_or(PollTimeout::MAX)) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// What a receiver knows of its flows.
#[derive(Debug)]
pub(in crate::load) struct Guests {
    /// Makes cookies: random, and told to nobody.
    secret: RandomState,
    token: u64,
    flows: Mutex<Vec<Option<SocketAddr>>>,
    complete: Condvar,
    enough: EventFd,
}

impl Guests {
    pub(super) fn new(flows: u16) -> Result<Self, LoadError> {
        let secret = RandomState::new();
        Ok(Self {
            token: RandomState::new().hash_one("token"),
            secret,
            flows: Mutex::new(vec![None; usize::from(flows)]),
            complete: Condvar::new(),
            enough: EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)
                .map_err(LoadError::system("create an eventfd"))?,
        })
    }

    /// What datagrams of this load carry.
    pub(in crate::load) fn token(&self) -> u64 {
        self.token
    }

    /// Answers on all sockets until told that it is enough, or `stop` can be read.
    pub(super) fn welcome(&self, sockets: &[UdpSocket], stop: BorrowedFd<'_>) {
        let files: Vec<BorrowedFd<'_>> =
            sockets.iter().map(AsFd::as_fd).chain([self.enough.as_fd(), stop]).collect();
        while !readable(self.enough.as_fd()) && !readable(stop) {
            if await_readable(&files, Duration::from_secs(60)).is_err() {
                return;
            }
            for socket in sockets {
                self.answer_waiting(socket);
            }
        }
    }

    /// Answers a bounded number of words, so that no flood keeps us from ending.
    fn answer_waiting(&self, socket: &UdpSocket) {
        let mut bytes = [0; WORD_BYTES + 1];
        for _ in 0..64 {
            let Ok((length, from)) = socket.recv_from(&mut bytes) else { return };
            let answer =
                bytes.get(..length).and_then(Word::decode).and_then(|word| self.answer(word, from));
            if let Some(answer) = answer {
                // What is lost will be asked again.
                let _ = socket.send_to(&answer.encode(), from);
            }
        }
    }

    fn answer(&self, word: Word, from: SocketAddr) -> Option<Word> {
        let cookie = self.secret.hash_one((from, word.flow, word.nonce));
        let mut flows = self.flows.lock().unwrap_or_else(PoisonError::into_inner);
        let place = flows.get_mut(usize::from(word.flow))?;
        match word.kind {
            Kind::Hello => Some(Word { kind: Kind::Challenge, value: cookie, ..word }),
            // A flow that is taken stays with the first who came.
            Kind::Confirm if word.value == cookie && place.is_none_or(|known| known == from) => {
                *place = Some(from);
                self.complete.notify_all();
                Some(Word { kind: Kind::Welcome, value: self.token, ..word })
            }
            _ => None,
        }
    }

    /// Waits until all flows are there; how many are, if not all.
    pub(super) fn await_all(&self, within: Duration) -> Result<(), usize> {
        let flows = self.flows.lock().unwrap_or_else(PoisonError::into_inner);
        let (flows, _) = self
            .complete
            .wait_timeout_while(flows, within, |flows| flows.iter().any(Option::is_none))
            .unwrap_or_else(PoisonError::into_inner);
        match flows.iter().filter(|flow| flow.is_some()).count() {
            count if count == flows.len() => Ok(()),
            count => Err(count),
        }
    }

    /// Lets [`Self::welcome`] return.
    pub(super) fn close_door(&self) {
        // Fails only when the counter is full, and then it is readable as wanted.
        let _ = self.enough.write(1);
    }

    /// Hears a word in mid-load. Of a flow that has finished: its number, and how many datagrams were
    /// sent; it is told that this was noted. `None` when it is no word at all.
    pub(in crate::load) fn hear(&self, bytes: &[u8], socket: &UdpSocket) -> Option<Heard> {
        let word = Word::decode(bytes)?;
        if word.kind != Kind::Finished || word.nonce != self.token {
            return Some(Heard::Nothing);
        }
        let flows = self.flows.lock().unwrap_or_else(PoisonError::into_inner);
        let address = flows.get(usize::from(word.flow)).copied().flatten()?;
        drop(flows);
        let _ = socket.send_to(&Word { kind: Kind::Noted, ..word }.encode(), address);
        Some(Heard::Finished { flow: word.flow, sent: word.value })
    }
}

/// What a word in mid-load says.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::load) enum Heard {
    /// A late repetition.
    Nothing,
    /// A flow's end.
    Finished { flow: u16, sent: u64 },
}

fn readable(file: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::new(file, PollFlags::POLLIN)];
    matches!(poll(&mut fds, PollTimeout::ZERO), Ok(1..))
}

/// Hears a datagram at the door and in mid-load, whatever it is.
#[cfg(any(test, feature = "fuzzing"))]
pub(in crate::load) fn hear_anything(bytes: &[u8]) {
    let (Some(word), Ok(guests)) = (Word::decode(bytes), Guests::new(4)) else { return };
    let from = SocketAddr::from(([192, 0, 2, 1], 5));
    let answer = guests.answer(word, from);
    // Only who hears the challenge can know the cookie.
    assert_ne!(answer.map(|answer| answer.kind), Some(Kind::Welcome));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_comes_back_as_it_went_and_nothing_else_is_a_word() {
        let word = Word { kind: Kind::Confirm, flow: 7, nonce: 1 << 60, value: 3 };
        let bytes = word.encode();
        assert_eq!(Word::decode(&bytes), Some(word));
        assert_eq!(Word::decode(&bytes[..31]), None);
        let longer = |kind| [&Word { kind, ..word }.encode()[..], &[0; 1000]].concat();
        assert_eq!(Word::decode(&longer(Kind::Confirm)), Some(word));
        for kind in [Kind::Challenge, Kind::Welcome, Kind::Finished, Kind::Noted] {
            assert_eq!(Word::decode(&longer(kind)), None);
        }
        for (place, value) in [(0, b'V'), (8, 0), (8, 7), (9, 1)] {
            let mut damaged = bytes;
            damaged[place] = value;
            assert_eq!(Word::decode(&damaged), None);
        }
    }

    #[test]
    fn only_who_hears_the_challenge_is_welcome_and_a_taken_flow_stays_taken() {
        let guests = Guests::new(2).unwrap();
        let [first, second]: [SocketAddr; 2] =
            ["192.0.2.1:5", "192.0.2.2:5"].map(|address| address.parse().unwrap());
        let hello = Word { kind: Kind::Hello, flow: 1, nonce: 9, value: 0 };
        let guess = Word { kind: Kind::Confirm, value: 1, ..hello };
        assert_eq!(guests.answer(guess, first), None);
        let confirm = |from| {
            let challenge = guests.answer(hello, from).unwrap();
            assert_eq!((challenge.kind, challenge.nonce), (Kind::Challenge, 9));
            Word { kind: Kind::Confirm, ..challenge }
        };
        // Of another address it is no proof.
        assert_eq!(guests.answer(confirm(first), second), None);
        assert_eq!(guests.answer(confirm(first), first).unwrap().value, guests.token());
        assert_eq!(guests.answer(confirm(second), second), None);
        assert_eq!(guests.answer(confirm(first), first).unwrap().kind, Kind::Welcome);
        let beyond = Word { flow: 2, ..hello };
        assert_eq!(guests.answer(beyond, first), None);
        assert_eq!(guests.await_all(Duration::ZERO), Err(1));
    }
}
