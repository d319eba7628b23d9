//! Into the namespaces of a lab that stands, from outside: for a look by hand.
//!
//! Whoever is inside opens [`Doors`] to one of its processes and hands their descriptors to a visitor (`SCM_RIGHTS`), who goes
//! through them. A descriptor means that very namespace, whatever became of process ids meanwhile. What a visitor
//! starts is in the lab's process namespace, and so ends with the lab; what it holds of the lab does, too.
//!
//! Sources: namespaces(7), setns(2), user_namespaces(7).

use std::env;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::errno::Errno;
use nix::sched::{CloneFlags, setns};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::sys::stat::{fstat, stat};
use nix::unistd::Pid;

use crate::sandbox::Sandbox;

/// How many descriptors doors consist of.
pub const DOORS: usize = KINDS.len();

/// The namespaces in the order in which they are entered: the user's gives the right to enter the others, and with the
/// mounts go the paths.
const KINDS: [(&str, CloneFlags); 4] = [
    ("user", CloneFlags::CLONE_NEWUSER),
    ("net", CloneFlags::CLONE_NEWNET),
    ("pid", CloneFlags::CLONE_NEWPID),
    ("mnt", CloneFlags::CLONE_NEWNS),
];

/// Why a lab could not be entered.
#[derive(Debug, thiserror::Error)]
pub enum VisitError {
    /// A process of the lab has no namespaces any more.
    #[error("cannot open {}: {source}; has the process ended?", path.display())]
    Open {
        /// The namespace.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// It was not as many descriptors as there are namespaces.
    #[error(
        "a lab is entered by {DOORS} descriptors, and {found} came: are both of one version of vioperf?"
    )]
    Count {
        /// How many came.
        found: usize,
    },
    /// The kernel refuses a namespace.
    #[error("cannot enter the {kind} namespace of the lab: {errno}; {advice}")]
    Refused {
        /// Which one.
        kind: &'static str,
        /// The kernel's errno.
        errno: Errno,
        /// What to do.
        advice: &'static str,
    },
}

/// The namespaces of a process of a lab.
#[derive(Debug)]
pub struct Doors([OwnedFd; DOORS]);

impl Doors {
    /// Opens those of a process of the sandbox, by its id in there.
    ///
    /// # Errors
    /// [`VisitError::Open`].
    pub fn of(_: &Sandbox, pid: Pid) -> Result<Self, VisitError> {
        let open = |(kind, _): (&str, CloneFlags)| {
            let path = PathBuf::from(format!("/proc/{pid}/ns/{kind}"));
            match File::open(&path) {
                Ok(file) => Ok(OwnedFd::from(file)),
                Err(source) => Err(VisitError::Open { path, source }),
            }
        };
        let [user, network, process, mounts] = KINDS;
        Ok(Self([open(user)?, open(network)?, open(process)?, open(mounts)?]))
    }

    /// Those that somebody inside has opened and handed on, in the order of [`Doors::descriptors`].
    ///
    /// # Errors
    /// [`VisitError::Count`].
    pub fn from_descriptors(descriptors: Vec<OwnedFd>) -> Result<Self, VisitError> {
        let found = descriptors.len();
        descriptors.try_into().map(Self).map_err(|_| VisitError::Count { found })
    }

    /// What is to be handed on.
    #[must_use]
    pub fn descriptors(&self) -> [RawFd; DOORS] {
        self.0.each_ref().map(AsRawFd::as_raw_fd)
    }

    /// Enters all of them. What this process starts from then on is in the lab; it is not itself in the lab's process
    /// namespace, and `/proc` does not know it any more. Call it before any thread is started.
    ///
    /// # Errors
    /// [`VisitError::Refused`]; the process may then be in some of them.
    pub fn enter(self) -> Result<(), VisitError> {
        let current = env::current_dir();
        for (descriptor, (kind, flag)) in self.0.iter().zip(KINDS) {
            // One that it is in already is refused.
            let path = Path::new("/proc/self/ns").join(kind);
            let (there, here) = (fstat(descriptor), stat(&path));
            let is_own = matches!((there, here), (Ok(there), Ok(here))
                if (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino));
            if is_own {
                continue;
            }
            setns(descriptor, flag).map_err(|errno| {
                let advice = match errno {
                    Errno::EPERM => "it takes the user who started the lab, or root",
                    _ => "is the lab going down?",
                };
                VisitError::Refused { kind, errno, advice }
            })?;
        }
        // By the mounts one is back at the root.
        let _ = current.and_then(env::set_current_dir);
        Ok(())
    }
}

/// Lets a program be hung up on when this process ends, by whatever that is.
pub fn hang_up_with_parent(command: &mut Command) {
    // SAFETY: between fork and exec only a system call is made, nothing is allocated or locked.
    unsafe { command.pre_exec(|| Ok(prctl::set_pdeathsig(Signal::SIGHUP)?)) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_doors_are_told() {
        let one = vec![OwnedFd::from(File::open("/dev/null").unwrap())];
        let message = Doors::from_descriptors(one).unwrap_err().to_string();
        assert!(message.contains("4 descriptors") && message.contains("1 came"), "{message}");
    }
}
