//! How a path comes to rest when a sender of datagrams has stopped: what is still in queues is on its
//! way, and is not lost yet.

use std::time::Duration;

/// A receiver that was given nothing for so long has all that will come.
pub const QUIET: Duration = Duration::from_millis(40);

/// For so long it is waited at most: a path that is not quiet then has somebody else's datagrams, or
/// queues without end.
pub const MOST: Duration = Duration::from_millis(600);
