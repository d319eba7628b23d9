//! Where a receiver's payload goes, and how often it is fetched.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::prctl::set_timerslack;
use nix::sys::socket::{MsgFlags, recv};
use vioperf_model::workload::ReceiveWay;

use crate::clock::monotonic_ns;

/// How long payload may gather before it is fetched. A thread that sleeps in the kernel until there is
/// some has to be woken for each packet's worth, at the cost of the core that delivers it.
const GATHER: Duration = Duration::from_micros(50);
/// From which rate on it pays, in bytes per second: below, the timer costs more than the waking.
const GATHER_FROM: u64 = 1_000_000_000;

/// One thread's place for what arrives.
pub(super) struct Sink {
    memory: Vec<u8>,
    way: ReceiveWay,
    may_gather: bool,
    wakes_in_time: bool,
    /// When it was last looked how fast it comes.
    looked_ns: u64,
    /// Bytes since then.
    bytes: u64,
}

impl Sink {
    pub(super) fn new(way: ReceiveWay, message_bytes: usize, may_gather: bool) -> Self {
        let memory = vec![0; message_bytes];
        Self { memory, way, may_gather, wakes_in_time: false, looked_ns: 0, bytes: 0 }
    }

    /// Takes what there is of a connection, as far as it goes into the memory; never waits.
    pub(super) fn receive(&mut self, socket: BorrowedFd<'_>) -> Result<usize, Errno> {
        let flags = match self.way {
            ReceiveWay::Copy => MsgFlags::MSG_DONTWAIT,
            ReceiveWay::Discard => MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_TRUNC,
        };
        let count = recv(socket.as_raw_fd(), &mut self.memory, flags)?;
        self.bytes += u64::try_from(count).unwrap_or(0);
        Ok(count)
    }

    /// Whether that was all that had arrived, so that the next call would find nothing.
    pub(super) fn emptied_by(&self, count: usize) -> bool {
        count < self.memory.len()
    }

    /// Lets payload gather, when it comes fast enough.
    pub(super) fn rest(&mut self) {
        if !self.may_gather {
            return;
        }
        let now_ns = monotonic_ns();
        let since_ns = now_ns.saturating_sub(self.looked_ns);
        let fast = u128::from(self.bytes) * 1_000_000_000
            >= u128::from(GATHER_FROM) * u128::from(since_ns);
        (self.looked_ns, self.bytes) = (now_ns, 0);
        if fast {
            if !self.wakes_in_time {
                // By default a thread may be woken 50 us late. It can only fail by not being needed.
                let _ = set_timerslack(1);
                self.wakes_in_time = true;
            }
            std::thread::sleep(GATHER);
        }
    }
}
