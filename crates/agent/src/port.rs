//! The guest's end of the control channel: a named virtio-serial port (drivers/char/virtio_console.c).
//!
//! While nobody is connected on the host, `read` gives 0 at once, `poll` says `POLLHUP`, and `write`
//! waits. So the port is used without blocking, and waiting is done here: what a lost conductor
//! would have been told must not be kept for the next one.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

const PORTS: &str = "/sys/class/virtio-ports";
/// Ports are named a moment after their driver is loaded.
const APPEARS_WITHIN: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Why there is no channel.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    #[error(
        "no virtio-serial port named `{wanted}` within {APPEARS_WITHIN:?}; there are: {present}. Is \
         virtio_console loaded, and QEMU given a virtserialport of that name?"
    )]
    NotThere { wanted: String, present: String },
    #[error("cannot open {}: {source}", path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error("cannot wait for the conductor: {0}")]
    Wait(Errno),
}

/// The open port.
#[derive(Debug)]
pub struct Port {
    file: File,
    /// Somebody was connected already, so that what is unread may be of one who is gone.
    was_used: bool,
}

impl Port {
    /// Waits for the port of that name and opens it.
    pub fn find(name: &str) -> Result<Self, PortError> {
        let deadline = Instant::now() + APPEARS_WITHIN;
        loop {
            let ports = named_ports();
            if let Some((path, _)) = ports.iter().find(|(_, of)| of == name) {
                match open(path) {
                    Ok(file) => return Ok(Self { file, was_used: false }),
                    // devtmpfs makes the node a moment after sysfs shows the port.
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    Err(source) => return Err(PortError::Open { path: path.clone(), source }),
                }
            }
            if Instant::now() >= deadline {
                let present: Vec<String> = ports.into_iter().map(|(_, name)| name).collect();
                let present =
                    if present.is_empty() { "none".to_owned() } else { present.join(", ") };
                return Err(PortError::NotThere { wanted: name.to_owned(), present });
            }
            sleep(LOOK_EVERY);
        }
    }

    /// Another handle of it, for who only writes.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { file: self.file.try_clone()?, was_used: self.was_used })
    }

    /// Waits, without end, until somebody is connected on the host. What a conductor that is gone
    /// had still sent is thrown away, once and at the beginning: data comes on another queue than the
    /// word that somebody is connected, and may overtake it.
    pub fn await_host(&mut self) -> Result<(), PortError> {
        if self.was_used && self.host_is_gone().map_err(PortError::Wait)? {
            while matches!(self.file.read(&mut [0; 4096]), Ok(length) if length > 0) {}
        }
        self.was_used = true;
        // `POLLHUP` cannot be waited away (it is a state, not an event), so look now and then.
        while self.host_is_gone().map_err(PortError::Wait)? {
            sleep(LOOK_EVERY);
        }
        Ok(())
    }

    fn host_is_gone(&self) -> Result<bool, Errno> {
        let state = self.state(PollFlags::empty(), PollTimeout::ZERO)?;
        Ok(state.contains(PollFlags::POLLHUP))
    }

    fn state(&self, wanted: PollFlags, timeout: PollTimeout) -> Result<PollFlags, Errno> {
        let mut fds = [PollFd::new(self.file.as_fd(), wanted)];
        loop {
            match poll(&mut fds, timeout) {
                Ok(_) => return Ok(fds[0].revents().unwrap_or(PollFlags::empty())),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
}

impl Read for Port {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.file.read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.state(PollFlags::POLLIN, PollTimeout::NONE)?;
                }
                other => return other,
            }
        }
    }
}

impl Write for Port {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            let state = self.state(PollFlags::POLLOUT, PollTimeout::NONE)?;
            if state.contains(PollFlags::POLLHUP) {
                return Err(ErrorKind::BrokenPipe.into());
            }
            match self.file.write(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                other => return other,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Every port with its device node and its name.
pub fn named_ports() -> Vec<(PathBuf, String)> {
    let entries = std::fs::read_dir(PORTS).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let name = std::fs::read_to_string(entry.path().join("name")).ok()?;
            Some((PathBuf::from("/dev").join(entry.file_name()), name.trim().to_owned()))
        })
        .collect()
}

fn open(path: &std::path::Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)
}
