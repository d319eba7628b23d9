//! The host outside of the sandbox, for what a lab cannot be made without: a card's virtual functions, a bridge that is
//! there already.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::thread;

use nix::sched::{CloneFlags, setns};
use vioperf_netlink::NamespaceRef;

/// What of the host can be reached from within the sandbox.
#[derive(Debug)]
pub struct Host {
    network: OwnedFd,
    /// Its `/sys`: the sandbox has one of its own over it, where the host's interfaces are not.
    sys: OwnedFd,
}

impl Host {
    /// That of the calling thread, before it goes into a sandbox.
    pub(crate) fn look() -> io::Result<Self> {
        let open = |path: &str| File::open(path).map(OwnedFd::from);
        Ok(Self { network: open("/proc/self/ns/net")?, sys: open("/sys")? })
    }

    /// The same, for somebody who outlives it.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { network: self.network.try_clone()?, sys: self.sys.try_clone()? })
    }

    /// Its network namespace.
    pub(crate) fn network(&self) -> NamespaceRef<'_> {
        NamespaceRef::Fd(self.network.as_fd())
    }

    /// The same, for a child that goes there before it runs a program.
    pub(crate) fn network_descriptor(&self) -> RawFd {
        self.network.as_raw_fd()
    }

    /// The number of that namespace, which no other has as long as this one is there.
    pub(crate) fn network_number(&self) -> io::Result<u64> {
        Ok(File::from(self.network.try_clone()?).metadata()?.ino())
    }

    /// Does something in that namespace; the calling thread stays where it is.
    pub(crate) fn within<T: Send>(&self, what: impl FnOnce() -> T + Send) -> io::Result<T> {
        // A namespace is entered by a thread, not by a process (setns(2)): one for this alone.
        let there = || {
            setns(&self.network, CloneFlags::CLONE_NEWNET)?;
            Ok(what())
        };
        let panicked = |_| Err(io::Error::other("the thread that was to do it panicked"));
        thread::scope(|scope| scope.spawn(there).join().unwrap_or_else(panicked))
    }

    /// Where its `/sys` is, as long as this lives.
    pub(crate) fn sys(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.sys.as_raw_fd()))
    }
}
