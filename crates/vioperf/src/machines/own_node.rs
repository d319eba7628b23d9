//! A node as a child process of ours, in our own network namespace.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// A running node; killed and waited for when dropped. It ends by itself when its channel closes.
#[derive(Debug)]
pub struct OwnNode {
    child: Child,
}

impl OwnNode {
    /// Starts one; `arguments` are those of `vioperf node`. Gives the other end of its channel.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn start(arguments: &[String]) -> io::Result<(Self, UnixStream)> {
        let (ours, theirs) = UnixStream::pair()?;
        let theirs = OwnedFd::from(theirs);
        let child = Command::new("/proc/self/exe")
            .arg0("vioperf")
            .arg("node")
            .args(arguments)
            .stdin(theirs)
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            // Ctrl-C is for us: a node ends when we say so.
            .process_group(0)
            .spawn()?;
        Ok((Self { child }, ours))
    }
}

impl Drop for OwnNode {
    fn drop(&mut self) {
        // Fails only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
