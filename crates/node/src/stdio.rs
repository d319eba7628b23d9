//! A node as a process of its own, its channel at file descriptor 0.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use vioperf_model::wire::WireError;

use crate::{Ending, OrdinaryMachine, serve};

/// Serves on file descriptor 0, which must be a bidirectional unix socket.
///
/// # Errors
/// When file descriptor 0 is not such a socket, or the other side breaks the framing.
pub fn serve_stdio() -> Result<Ending, WireError> {
    let mut channel = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    channel.local_addr().map_err(|error| {
        let reason =
            format!("standard input is not a unix socket ({error}); vioperf starts nodes itself");
        io::Error::new(error.kind(), reason)
    })?;
    serve(&mut channel, &mut OrdinaryMachine)
}
