//! A middle that takes its time: frames go from one tap to another, each so much later than it came.
//!
//! It stands in for netem where the kernel has none. One thread; made for some ten thousand frames a
//! second.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::poll::{PollFd, PollFlags, ppoll};

nix::ioctl_write_ptr_bad!(
    /// Gives an open tun device its interface.
    tun_set_interface,
    libc::TUNSETIFF,
    libc::ifreq
);

/// Larger than any frame of an MTU of 9000.
const LARGEST_FRAME: usize = 16 << 10;
/// What waits at most each way; what comes then is lost.
const MOST_FRAMES: usize = 20_000;
/// How often it looks whether it is to end.
const LOOK: Duration = Duration::from_millis(20);

/// The thread; it ends when dropped.
#[derive(Debug)]
pub struct DelayLine {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl DelayLine {
    /// Hands frames on from each of two taps to the other, so much later; one of `one_lost_of` is lost,
    /// none where that is 0. Between two looks it stands still for `pause`.
    ///
    /// # Errors
    /// Where no thread can be had.
    pub fn start(
        ends: [File; 2],
        delay: Duration,
        one_lost_of: u32,
        pause: Duration,
    ) -> Result<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let ends_when = Arc::clone(&is_over);
        let thread = std::thread::Builder::new()
            .name("delay-line".into())
            .spawn(move || hand_on(&ends, [delay, pause], one_lost_of, &ends_when))
            .context("cannot start the delay line's thread")?;
        Ok(Self { is_over, thread: Some(thread) })
    }
}

impl Drop for DelayLine {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Makes a tap in the calling thread's namespace; it goes with its descriptor.
///
/// # Errors
/// Where there is no `/dev/net/tun`, or it refuses.
pub fn tap(name: &str) -> Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")
        .context("cannot open /dev/net/tun: `modprobe tun`")?;
    // SAFETY: `ifreq` is plain bytes, all zeroes are a valid one.
    let mut request: libc::ifreq = unsafe { MaybeUninit::zeroed().assume_init() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(15)) {
        *to = from.cast_signed();
    }
    // Without IFF_VNET_HDR the kernel cuts segments and makes checksums before a frame is read.
    request.ifr_ifru.ifru_flags = libc::c_short::try_from(libc::IFF_TAP | libc::IFF_NO_PI)?;
    // SAFETY: the descriptor is open and the request is a whole `ifreq` that lives through the call.
    unsafe { tun_set_interface(file.as_raw_fd(), &raw const request) }
        .with_context(|| format!("cannot make the tap {name}"))?;
    Ok(file)
}

/// Frames under way, the earliest first.
type Waiting = VecDeque<(Instant, Vec<u8>)>;

fn hand_on(
    ends: &[File; 2],
    [delay, pause]: [Duration; 2],
    one_lost_of: u32,
    is_over: &AtomicBool,
) {
    let mut chance = Chance { one_of: one_lost_of, state: 0x9e37_79b9 };
    let mut waiting: [Waiting; 2] = Default::default();
    let mut frame = vec![0; LARGEST_FRAME];
    while !is_over.load(Ordering::Relaxed) {
        std::thread::sleep(pause);
        let now = Instant::now();
        let next = waiting.iter().filter_map(|way| Some(way.front()?.0)).min();
        let patience = next.map_or(LOOK, |due| due.saturating_duration_since(now)).min(LOOK);
        let mut polled = ends.each_ref().map(|end| PollFd::new(end.as_fd(), PollFlags::POLLIN));
        let _ = ppoll(&mut polled, Some(patience.into()), None);
        let [left, right] = ends;
        let [to_right, to_left] = &mut waiting;
        for (from, to, way) in [(left, right, to_right), (right, left, to_left)] {
            take(from, way, &mut frame, delay, &mut chance);
            give(to, way);
        }
    }
}

/// Marsaglia's xorshift (J. Stat. Softw. 8, 2003): losses are random, and the same every time.
struct Chance {
    one_of: u32,
    state: u32,
}

impl Chance {
    fn strikes(&mut self) -> bool {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 17;
        self.state ^= self.state << 5;
        self.one_of != 0 && self.state.is_multiple_of(self.one_of)
    }
}

fn take(
    mut from: &File,
    way: &mut Waiting,
    frame: &mut [u8],
    delay: Duration,
    chance: &mut Chance,
) {
    loop {
        match from.read(frame) {
            Ok(length) if way.len() < MOST_FRAMES && !chance.strikes() => {
                let bytes = frame.get(..length).unwrap_or_default().to_vec();
                way.push_back((Instant::now() + delay, bytes));
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Nothing more for now, or the interface is down yet.
            Err(_) => return,
        }
    }
}

fn give(mut to: &File, way: &mut Waiting) {
    let now = Instant::now();
    while way.front().is_some_and(|(due, _)| *due <= now) {
        if let Some((_, bytes)) = way.pop_front() {
            // A frame that is not taken is lost, as on any wire.
            let _ = to.write(&bytes);
        }
    }
}
