//! A byte channel whose waits have an end: a deadline over a whole exchange, not over each system
//! call, and the user's wish to end.

use std::fmt::Debug;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::interrupt::{Interrupt, Urgency};

/// How often a blocked read looks at its deadline and for interrupts.
const SLICE: Duration = Duration::from_millis(50);

/// Bytes both ways, in pieces of bounded time.
pub trait Channel: Read + Write + Debug + Send {
    /// From now on a read or write that has waited for so long fails with
    /// [`io::ErrorKind::WouldBlock`], having done nothing.
    ///
    /// # Errors
    /// When the system refuses.
    fn wait_at_most(&mut self, slice: Duration) -> io::Result<()>;
}

impl Channel for UnixStream {
    fn wait_at_most(&mut self, slice: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(slice))?;
        self.set_write_timeout(Some(slice))
    }
}

impl Channel for TcpStream {
    fn wait_at_most(&mut self, slice: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(slice))?;
        self.set_write_timeout(Some(slice))
    }
}

impl<C: Channel + ?Sized> Channel for Box<C> {
    fn wait_at_most(&mut self, slice: Duration) -> io::Result<()> {
        (**self).wait_at_most(slice)
    }
}

#[derive(Debug, thiserror::Error)]
#[error("interrupted by the user")]
struct UserInterrupt;

/// Whether it was the user's wish and not a fault.
pub fn is_interrupt(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<UserInterrupt>())
}

/// How long an exchange may take, and for whom it is given up.
#[derive(Debug, Clone, Copy)]
pub struct Patience<'a> {
    /// By when it has to be over: then [`io::ErrorKind::TimedOut`].
    pub deadline: Instant,
    /// The user's wish to end.
    pub interrupt: &'a Interrupt,
    /// From which urgency on a wait is given up.
    pub give_up_at: Urgency,
}

impl<'a> Patience<'a> {
    /// Until then, or until the user interrupts.
    pub fn until(deadline: Instant, interrupt: &'a Interrupt) -> Self {
        Self { deadline, interrupt, give_up_at: Urgency::AfterTrial }
    }

    /// The channel for one exchange.
    pub fn on<'c>(self, channel: &'c mut dyn Channel) -> Bounded<'c>
    where
        'a: 'c,
    {
        Bounded { channel, patience: self }
    }
}

/// A channel for one exchange.
pub struct Bounded<'a> {
    channel: &'a mut dyn Channel,
    patience: Patience<'a>,
}

impl Bounded<'_> {
    /// Repeats `attempt`, which waits at most [`SLICE`], until it did something.
    fn patiently<T>(
        &mut self,
        mut attempt: impl FnMut(&mut dyn Channel) -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            if self.patience.interrupt.urgency() >= self.patience.give_up_at {
                return Err(io::Error::other(UserInterrupt));
            }
            let left = self.patience.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.channel.wait_at_most(left.min(SLICE))?;
            match attempt(self.channel) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                outcome => return outcome,
            }
        }
    }
}

impl Read for Bounded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.patiently(|channel| channel.read(buffer))
    }
}

impl Write for Bounded<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.patiently(|channel| channel.write(buffer))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.patiently(|channel| channel.flush())
    }
}
