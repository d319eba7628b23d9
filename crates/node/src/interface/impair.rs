//! Delays and losses that are planted on what leaves an interface, so that readings can be checked.

use std::time::{Duration, Instant};

use nix::errno::Errno;
use vioperf_model::wire::{Impairment, InterfaceSelector};
use vioperf_netlink::{Netem, NetlinkError, Socket};

use super::{InterfaceError, find};

/// The longest delay that is planted: a conductor asks for some milliseconds.
const LONGEST_DELAY: Duration = Duration::from_secs(1);

/// So many packets may wait for their delay to be over.
const LIMIT_PACKETS: u32 = 10_000;

/// Why an interface could not be impaired.
#[derive(Debug, thiserror::Error)]
pub enum ImpairError {
    /// The delay is too long.
    #[error("a delay of {0:?} is longer than a second: ask for less")]
    TooLong(Duration),
    /// The kernel has no netem.
    #[error("this kernel has no network emulator: load its module `sch_netem` first")]
    Missing,
    /// There is no such interface.
    #[error("{0}")]
    Interface(String),
    /// The kernel refused.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
}

impl From<InterfaceError> for ImpairError {
    fn from(error: InterfaceError) -> Self {
        Self::Interface(error.to_string())
    }
}

/// Delays and drops what leaves an interface of this network namespace, or lets all pass again; how many
/// packets were dropped by what stood there before.
///
/// # Errors
/// [`ImpairError`].
pub fn impair(
    interface: &InterfaceSelector,
    impairment: Option<Impairment>,
) -> Result<Option<u64>, ImpairError> {
    let mut socket = Socket::open()?;
    let index = find(&mut socket, interface, Instant::now(), Duration::ZERO)?.index;
    let dropped = socket.dropped_by_root(index, "netem")?;
    let Some(Impairment { delay, loss }) = impairment else {
        socket.reset_root(index)?;
        return Ok(dropped);
    };
    let delay = delay.as_duration();
    if delay > LONGEST_DELAY {
        return Err(ImpairError::TooLong(delay));
    }
    let netem = Netem { delay, loss: loss.as_f64(), limit_packets: LIMIT_PACKETS };
    // A new one counts from nothing; one that is changed would count on.
    socket.reset_root(index)?;
    socket.impair(index, &netem).map_err(|error| match error.errno() {
        Some(Errno::ENOENT | Errno::EOPNOTSUPP) => ImpairError::Missing,
        _ => error.into(),
    })?;
    Ok(dropped)
}
