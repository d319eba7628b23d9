//! What becomes of datagrams, against the truth of a proxy that drops, doubles and swaps them: needs
//! root for network namespaces.

// Helper functions stand outside #[test], where clippy.toml does not allow these by itself.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::net::{SocketAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

use nix::sched::{CloneFlags, unshare};
use vioperf_model::sample::{DatagramOutcome, LoadOutcome};
use vioperf_model::units::{BitRate, ByteSize, TimeSpan};
use vioperf_model::wire::{Prepare, Request, Response, Role, read_frame, write_frame};
use vioperf_model::workload::{Workload, WorkloadKind};
use vioperf_node::{OrdinaryMachine, serve};

const HERE: &str = "127.0.0.1";

/// A node on a thread that shares this one's network namespace.
struct Node(UnixStream);

impl Node {
    fn start() -> Self {
        let (ours, mut its) = UnixStream::pair().unwrap();
        std::thread::spawn(move || serve(&mut its, &mut OrdinaryMachine));
        Self(ours)
    }

    fn must(&mut self, request: &Request) -> Response {
        write_frame(&mut self.0, request).unwrap();
        match read_frame(&mut self.0).unwrap() {
            Response::Failed { message } => panic!("{request:?}: {message}"),
            response => response,
        }
    }

    fn outcome(&mut self) -> (u64, LoadOutcome) {
        let Response::Report { report, .. } = self.must(&Request::Collect { from_sample: 0 })
        else {
            panic!("no report");
        };
        let moved = report.samples.last().unwrap().load.unwrap();
        (moved.datagrams.unwrap(), report.load.unwrap())
    }
}

/// What a proxy does to a datagram, by its place in the order of arrival.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Pass,
    Drop,
    Double,
    /// Goes after the next one.
    Swap,
}

/// What it did.
#[derive(Debug, Default, PartialEq, Clone, Copy)]
struct Truth {
    came: u64,
    dropped: u64,
    doubled: u64,
    swapped: u64,
}

/// Stands between a sender of one flow and its receiver. What they say to each other before and after
/// is not touched, but for every third word, which is lost.
struct Proxy {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Truth>,
}

impl Proxy {
    fn start(receiver: SocketAddr, fate: fn(u64) -> Fate) -> Self {
        let front = UdpSocket::bind((HERE, 0)).unwrap();
        let back = UdpSocket::bind((HERE, 0)).unwrap();
        back.connect(receiver).unwrap();
        for socket in [&front, &back] {
            socket.set_read_timeout(Some(Duration::from_micros(200))).unwrap();
        }
        let address = front.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || forward(&front, &back, fate, &stopped));
        Self { address, stop, thread }
    }

    fn end(self) -> Truth {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn forward(front: &UdpSocket, back: &UdpSocket, fate: fn(u64) -> Fate, stop: &AtomicBool) -> Truth {
    let (mut truth, mut words) = (Truth::default(), 0);
    let mut bytes = [0; 2000];
    let mut sender = None;
    let mut kept: Option<Vec<u8>> = None;
    while !stop.load(Ordering::Relaxed) {
        if let Ok(length) = back.recv(&mut bytes) {
            front.send_to(&bytes[..length], sender.unwrap()).unwrap();
        }
        while let Ok((length, from)) = front.recv_from(&mut bytes) {
            sender = Some(from);
            let datagram = &bytes[..length];
            if datagram.starts_with(b"vioperf1") {
                words += 1;
                if words % 3 != 1 {
                    back.send(datagram).unwrap();
                }
                break;
            }
            let fate = fate(truth.came);
            truth.came += 1;
            match fate {
                Fate::Pass => drop(back.send(datagram).unwrap()),
                Fate::Drop => truth.dropped += 1,
                Fate::Double => {
                    truth.doubled += 1;
                    back.send(datagram).unwrap();
                    back.send(datagram).unwrap();
                }
                Fate::Swap => {
                    truth.swapped += 1;
                    kept = Some(datagram.to_vec());
                    continue;
                }
            }
            if let Some(kept) = kept.take() {
                back.send(&kept).unwrap();
            }
        }
    }
    truth
}

fn part(role: Role) -> Prepare {
    Prepare {
        role,
        spread: vioperf_model::wire::Spread::default(),
        workload: Box::new(Workload {
            payload: Some(ByteSize::from_bytes(100)),
            // 2000 datagrams a second: never more than the proxy and its sockets can take.
            rate: Some(BitRate::from_bits_per_second(2_000 * 100 * 8)),
            ..Workload::new(WorkloadKind::UdpStream)
        }),
        sample_interval: TimeSpan::from_millis(100),
        processes: vec![],
        burn: None,
        burn_threads: None,
        open_vswitch: None,
        counts_hardware: false,
        disk: None,
        deadline: TimeSpan::from_millis(30_000),
    }
}

/// Measures through a proxy; `meanwhile` is done while the load runs.
fn measure(
    fate: fn(u64) -> Fate,
    meanwhile: impl FnOnce(SocketAddr),
) -> (Truth, u64, DatagramOutcome, LoadOutcome) {
    unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace (this test needs root)");
    vioperf_node::bring_loopback_up().unwrap();
    let [mut sender, mut receiver] = [Node::start(), Node::start()];
    let bind = Role::Receiver { bind: HERE.parse().unwrap() };
    let Response::Ready { port: Some(port) } = receiver.must(&Request::Prepare(part(bind))) else {
        panic!("no port");
    };
    let listening = SocketAddr::new(HERE.parse().unwrap(), port);
    let proxy = Proxy::start(listening, fate);
    sender.must(&Request::Prepare(part(Role::Sender { peer: proxy.address })));
    receiver.must(&Request::Start);
    sender.must(&Request::Start);
    meanwhile(listening);
    sleep(Duration::from_millis(1500));
    sender.must(&Request::Stop);
    receiver.must(&Request::Stop);
    let truth = proxy.end();
    let (sent, of_sender) = sender.outcome();
    let (_, load) = receiver.outcome();
    assert_eq!((of_sender.ended_early, &load.ended_early), (None, &None));
    assert_eq!(truth.came, sent);
    assert!(sent > 500, "{sent}");
    (truth, sent, load.datagrams.unwrap(), load)
}

/// What the receiver says is what the proxy did.
fn assert_told(truth: Truth, outcome: DatagramOutcome) {
    let DatagramOutcome { received, lost, duplicated, reordered, late, .. } = outcome;
    assert_eq!((received, lost), (truth.came - truth.dropped, truth.dropped));
    assert_eq!((duplicated, reordered, late), (truth.doubled, truth.swapped, 0));
}

#[test]
fn one_percent_and_ten_percent_of_loss_are_read_exactly() {
    let (truth, sent, outcome, _) =
        measure(|n| if n % 100 == 37 { Fate::Drop } else { Fate::Pass }, |_| {});
    assert!(truth.dropped.abs_diff(sent / 100) <= 1, "{truth:?}");
    assert_told(truth, outcome);
    let (truth, sent, outcome, _) =
        measure(|n| if n % 10 == 0 { Fate::Drop } else { Fate::Pass }, |_| {});
    assert!(truth.dropped.abs_diff(sent / 10) <= 1, "{truth:?}");
    assert_told(truth, outcome);
}

#[test]
fn the_doubled_and_the_swapped_are_told_from_the_lost() {
    let fate = |n| match n % 50 {
        7 => Fate::Drop,
        11 | 12 => Fate::Double,
        20 | 40 => Fate::Swap,
        _ => Fate::Pass,
    };
    let (truth, _, mut outcome, _) = measure(fate, |_| {});
    assert!(truth.dropped > 0 && truth.doubled > 0 && truth.swapped > 0, "{truth:?}");
    // One that was kept when nothing came any more never went on.
    if outcome.reordered + 1 == truth.swapped {
        (outcome.reordered, outcome.lost) = (outcome.reordered + 1, outcome.lost - 1);
        outcome.received += 1;
    }
    assert_told(truth, outcome);
}

#[test]
fn what_is_lost_at_the_very_end_is_counted_too() {
    let (truth, _, outcome, _) = measure(|n| if n < 300 { Fate::Pass } else { Fate::Drop }, |_| {});
    assert_eq!(outcome.received, 300);
    assert_told(truth, outcome);
}

#[test]
fn what_strangers_send_is_thrown_away_and_counted() {
    let strange = |receiver: SocketAddr| {
        let stranger = UdpSocket::bind((HERE, 0)).unwrap();
        stranger.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let word = |kind: u8, flow: u8| {
            let mut word = [0_u8; 32];
            word[..8].copy_from_slice(b"vioperf1");
            (word[8], word[15]) = (kind, flow);
            word.to_vec()
        };
        for hostile in [vec![], vec![0; 1], vec![0xff; 100], vec![7; 101], vec![0; 60_000]] {
            stranger.send_to(&hostile, receiver).unwrap();
        }
        // The end of a flow whose token it does not know; flows that are not; hellos.
        for (kind, flow) in [(5, 0), (5, 200), (1, 0), (3, 0), (1, 255), (9, 0)] {
            stranger.send_to(&word(kind, flow), receiver).unwrap();
        }
        // Nobody is answered in mid-load who does not know the token.
        assert!(stranger.recv(&mut [0; 100]).is_err());
    };
    let (truth, _, outcome, load) = measure(|_| Fate::Pass, strange);
    assert_told(truth, outcome);
    // Five that are nothing, and a word of no kind.
    assert_eq!(load.foreign_datagrams, Some(6));
}

#[test]
fn before_a_load_no_answer_is_longer_than_its_question() {
    unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace (this test needs root)");
    vioperf_node::bring_loopback_up().unwrap();
    let mut receiver = Node::start();
    let bind = Role::Receiver { bind: HERE.parse().unwrap() };
    let Response::Ready { port: Some(port) } = receiver.must(&Request::Prepare(part(bind))) else {
        panic!("no port");
    };
    let stranger = UdpSocket::bind((HERE, 0)).unwrap();
    stranger.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut state = 1_u64;
    let mut answers = 0;
    for round in 0..2_000_u64 {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut word = [0_u8; 40];
        word[..8].copy_from_slice(b"vioperf1");
        word[8] = u8::try_from(round % 8).unwrap();
        word[24..32].copy_from_slice(&state.to_be_bytes());
        let length =
            if round % 3 == 0 { 32 } else { usize::try_from(state >> 33).unwrap() % word.len() };
        stranger.send_to(&word[..length], (HERE, port)).unwrap();
        // A hello may be longer than it needs to be; nothing else is answered at all.
        if length >= 32 && round % 8 == 1 {
            let mut answer = [0; 100];
            assert_eq!(stranger.recv(&mut answer).unwrap(), 32);
            assert_eq!(answer[8], 2, "a challenge");
            answers += 1;
        }
    }
    assert!(answers > 50);
    stranger.set_nonblocking(true).unwrap();
    assert!(stranger.recv(&mut [0; 100]).is_err(), "an answer to what is no hello");
}
