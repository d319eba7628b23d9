//! What can go wrong with a request, said with the operation and the interface it was for.

use nix::errno::Errno;

/// Shorthand for this crate's results.
pub type Result<T> = std::result::Result<T, NetlinkError>;

/// A request that the kernel refused, or that never reached it.
#[derive(Debug, thiserror::Error)]
pub enum NetlinkError {
    /// The socket itself could not be opened, written or read.
    #[error("netlink socket: {step}: {source}")]
    Socket {
        /// What was being done with the socket.
        step: &'static str,
        /// The reason.
        source: std::io::Error,
    },
    /// The kernel answered with an errno.
    #[error("cannot {operation} `{interface}`: {errno}{}{}", explanation(.said), hint(*.errno))]
    Refused {
        /// What was asked for, as in "create the veth pair".
        operation: &'static str,
        /// The interface it was asked for, by name or `#index`.
        interface: String,
        /// The kernel's errno.
        errno: Errno,
        /// The kernel's own words (extended acknowledgement), where it gave some.
        said: Option<String>,
    },
    /// No interface of that name, index or hardware address in this namespace.
    #[error("no interface with {what} in this network namespace")]
    NoSuchLink {
        /// What was looked for, as in "name `tap0`".
        what: String,
    },
    /// The kernel's answer could not be understood.
    #[error("cannot understand the kernel's answer to \"{operation}\": {reason}")]
    Unreadable {
        /// What was asked for.
        operation: &'static str,
        /// What is wrong with the answer.
        reason: String,
    },
    /// A name that the kernel would not take: empty, over 15 bytes, or with `/`, `:` or spaces.
    #[error("`{name}` is not an interface name: 1 to 15 bytes, without slash, colon or space")]
    BadName {
        /// The name as it was given.
        name: String,
    },
}

impl NetlinkError {
    /// The kernel's errno, where the kernel was the one who refused.
    #[must_use]
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::Refused { errno, .. } => Some(*errno),
            Self::NoSuchLink { .. } => Some(Errno::ENODEV),
            _ => None,
        }
    }
}

fn explanation(said: &Option<String>) -> String {
    said.as_ref().map(|said| format!(" (kernel: {said})")).unwrap_or_default()
}

/// What to do about the errnos that people meet.
fn hint(errno: Errno) -> &'static str {
    match errno {
        Errno::EPERM | Errno::EACCES => {
            "; this needs CAP_NET_ADMIN over the network namespace: run as root or inside a user namespace"
        }
        Errno::EOPNOTSUPP => "; this kernel lacks that kind of interface: load its module as root",
        Errno::EEXIST => "; it exists already",
        _ => "",
    }
}
