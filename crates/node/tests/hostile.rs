//! What a hostile or broken conductor may send: nothing of it may panic, hang, or take memory that
//! was only announced.

// Helper functions stand outside #[test], where clippy.toml does not allow these by itself.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};

use vioperf_model::wire::{MAX_FRAME_BYTES, Response, WireError, read_frame};
use vioperf_node::{Ending, OrdinaryMachine, serve};

/// The system's allocator, and the largest piece that was ever asked of it.
struct Watching;

static LARGEST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: passes every call on unchanged to the system's allocator, which keeps the contract.
unsafe impl GlobalAlloc for Watching {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps this function's contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps this function's contract, which is the same.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LARGEST.fetch_max(size, Ordering::Relaxed);
        // SAFETY: the caller keeps this function's contract, which is the same.
        unsafe { System.realloc(place, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Watching = Watching;

/// A channel on which everything was sent before, and what is answered is kept.
struct Recorded<'a> {
    sent: &'a [u8],
    answers: Vec<u8>,
}

impl Read for Recorded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.sent.read(buffer)
    }
}

impl Write for Recorded<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.answers.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn serve_bytes(sent: &[u8]) -> (Result<Ending, WireError>, Vec<Response>) {
    let mut channel = Recorded { sent, answers: Vec::new() };
    let ending = serve(&mut channel, &mut OrdinaryMachine);
    let mut answers = channel.answers.as_slice();
    let mut responses = Vec::new();
    while let Ok(response) = read_frame(&mut answers) {
        responses.push(response);
    }
    (ending, responses)
}

fn frame(body: &[u8]) -> Vec<u8> {
    let mut frame = u32::try_from(body.len()).unwrap().to_be_bytes().to_vec();
    frame.extend_from_slice(body);
    frame
}

#[test]
fn a_frame_that_does_not_parse_is_answered_and_the_next_one_served() {
    let deep = [b"{\"request\":".as_slice(), &[b'['; 100_000]].concat();
    let bodies: [&[u8]; 7] = [
        b"",
        b"{",
        b"\xff\xfe",
        b"{\"request\":\"no-such\"}",
        b"{\"request\":\"collect\",\"from_sample\":-1}",
        b"{\"request\":\"collect\",\"from_sample\":1e400}",
        &deep,
    ];
    for body in bodies {
        let sent = [frame(body), frame(b"{\"request\":\"read-clock\"}")].concat();
        let (ending, responses) = serve_bytes(&sent);
        assert_eq!(ending.unwrap(), Ending::ChannelClosed);
        assert!(matches!(responses[0], Response::Failed { .. }), "{responses:?}");
        assert!(matches!(responses[1], Response::Clock { .. }), "{responses:?}");
    }
}

#[test]
fn what_is_announced_but_never_comes_takes_no_memory() {
    let longest = u32::try_from(MAX_FRAME_BYTES).unwrap();
    let (ending, _) = serve_bytes(&[&longest.to_be_bytes()[..], b"{\"request\""].concat());
    assert_eq!(ending.unwrap(), Ending::ChannelClosed);
    let (ending, _) = serve_bytes(&[&u32::MAX.to_be_bytes()[..], b"{}"].concat());
    assert!(matches!(ending, Err(WireError::TooLong { .. })));
    // The largest that these tests send is some 100 kB, and a buffer that grows doubles.
    assert!(LARGEST.load(Ordering::Relaxed) < 1 << 20, "{LARGEST:?} bytes at once");
}

#[test]
fn random_bytes_never_panic() {
    // A linear congruential generator (Knuth's MMIX constants): the same bytes in every run.
    let mut state = 1_u64;
    let mut random = move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    let template = br#"{"request":"prepare","role":{"role":"observer"},"workload":{"kind":"tcp-stream"},"sample_interval":"9ms","processes":[],"deadline":"1s"}"#;
    for round in 0..2000 {
        let bytes: Vec<u8> = if round % 2 == 0 {
            (0..random()).map(|_| random()).collect()
        } else {
            // A valid request with some bytes changed, so that it gets further.
            let mut body = template.to_vec();
            for _ in 0..1 + random() % 3 {
                let at = usize::from(random()) % body.len();
                body[at] = random();
            }
            frame(&body)
        };
        let _ = serve_bytes(&bytes);
    }
}
