//! A node as a process of its own, its channel at the standard streams.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

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

/// Serves with requests from standard input and answers to standard output, which may be pipes, as sshd has
/// them. Who asks nothing for as long as `silent` counts as gone.
///
/// # Errors
/// When a stream fails, the other side breaks the framing, or it was silent for too long.
pub fn serve_pipes(silent: Duration) -> Result<Ending, WireError> {
    let requests = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let answers = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    serve(&mut Pipes { requests, answers, silent }, &mut OrdinaryMachine)
}

/// A channel of two streams, on which a wait has an end.
#[derive(Debug)]
struct Pipes {
    requests: File,
    answers: File,
    silent: Duration,
}

impl Pipes {
    fn wait(&self, stream: &File, what: PollFlags) -> io::Result<()> {
        let bound = PollTimeout::try_from(self.silent).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(stream.as_fd(), what)], bound) {
            Ok(0) => {
                let reason = format!("nobody spoke to it for {} s", self.silent.as_secs());
                Err(io::Error::new(io::ErrorKind::TimedOut, reason))
            }
            Ok(_) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl Read for Pipes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.wait(&self.requests, PollFlags::POLLIN)?;
        self.requests.read(buffer)
    }
}

impl Write for Pipes {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.wait(&self.answers, PollFlags::POLLOUT)?;
        // What a pipe takes without waiting (pipe(7)): a longer write would wait without an end.
        self.answers.write(buffer.get(..PIPE_BYTES).unwrap_or(buffer))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.answers.flush()
    }
}

/// `PIPE_BUF` of Linux.
const PIPE_BYTES: usize = 4096;

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::time::Instant;

    use super::*;

    fn pipes(silent: Duration) -> (Pipes, OwnedFd, OwnedFd) {
        let (requests, asks) = nix::unistd::pipe().unwrap();
        let (hears, answers) = nix::unistd::pipe().unwrap();
        (Pipes { requests: requests.into(), answers: answers.into(), silent }, asks, hears)
    }

    #[test]
    fn who_is_silent_counts_as_gone() {
        let (mut pipes, asks, _hears) = pipes(Duration::from_millis(50));
        let started = Instant::now();
        let ended = serve(&mut pipes, &mut OrdinaryMachine).unwrap_err();
        assert!(ended.to_string().contains("nobody spoke"), "{ended}");
        assert!(started.elapsed() >= Duration::from_millis(50));
        drop(asks);
    }

    #[test]
    fn who_does_not_listen_counts_as_gone_too() {
        let (mut pipes, _asks, _hears) = pipes(Duration::from_millis(50));
        let error = pipes.write_all(&vec![0; 1 << 20]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn a_closed_stream_is_an_end() {
        let (mut pipes, asks, _hears) = pipes(Duration::from_secs(5));
        drop(asks);
        let ended = serve(&mut pipes, &mut OrdinaryMachine).unwrap();
        assert_eq!(ended, Ending::ChannelClosed);
    }
}
