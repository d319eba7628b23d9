//! From `HOST` or `ssh://HOST` to a node there.

use std::fmt;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use nix::libc;
use serde::{Deserialize, Serialize};
use vioperf_model::wire::read_frame_within;

use super::handshake::{self, HandshakeError};
use super::ssh::{self, Destination, ToMachine};
pub use super::target::{Family, Target};
use super::tls::{self, Pin};
use super::token::Token;
use crate::conductor::channel::{Channel, Patience};
use crate::interrupt::Interrupt;

/// How long one address may take to answer.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// How long a server may take to let us in.
const MEET_WITHIN: Duration = Duration::from_secs(15);
/// No verdict is longer.
const MOST_VERDICT_BYTES: usize = 16 << 10;

/// What a server says to a client that has proved what it had to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum Verdict {
    /// Its node listens from here on.
    Welcome,
    /// It does not.
    Refused {
        /// Why, and what to do.
        message: String,
    },
}

/// How to get to the other machine.
#[derive(Debug, Clone)]
pub enum Way {
    /// Where `vioperf serve` runs.
    Server(ToServer),
    /// By the user's ssh.
    Ssh(ToMachine),
}

/// The other machine, as the user names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Machine {
    /// Where `vioperf serve` runs.
    Server(Target),
    /// `ssh://…`.
    Ssh(Destination),
}

impl FromStr for Machine {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        if text.starts_with(ssh::SCHEME) {
            return Ok(Self::Ssh(text.parse()?));
        }
        Ok(Self::Server(text.parse()?))
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(target) => target.fmt(f),
            Self::Ssh(destination) => destination.fmt(f),
        }
    }
}

/// How to get to a server.
#[derive(Debug, Clone)]
pub struct ToServer {
    /// Where it is.
    pub target: Target,
    /// By which protocol.
    pub family: Family,
    /// What both ends know.
    pub token: Option<Token>,
    /// Whether TLS is spoken, and with whom if that is known.
    pub tls: Option<Option<Pin>>,
}

/// A server that let us in.
#[derive(Debug)]
pub struct Connection {
    /// Its node listens there.
    pub channel: Box<dyn Channel>,
    /// Our address, as it is on the way to the server.
    pub own: IpAddr,
    /// The server's.
    pub server: IpAddr,
    /// The MTU of the path, as the kernel knows it, in bytes.
    pub mtu: u32,
}

impl Way {
    /// Connects to a node there.
    ///
    /// # Errors
    /// When there is no way, or no node there.
    pub fn connect(&self, interrupt: &Interrupt) -> Result<Connection> {
        match self {
            Self::Server(way) => way.connect(interrupt),
            Self::Ssh(way) => way.connect(interrupt),
        }
    }

    /// The same way to a machine that may still be booting.
    #[must_use]
    pub fn patiently(&self) -> Self {
        match self {
            Self::Server(way) => Self::Server(way.clone()),
            Self::Ssh(way) => Self::Ssh(ToMachine { patient: true, ..way.clone() }),
        }
    }

    /// The addresses that are measured, as far as they are known without going there: an alias that is ssh's own is not.
    pub fn addresses(&self) -> Vec<IpAddr> {
        match self {
            Self::Server(way) => {
                let found = way.target.addresses(way.family).unwrap_or_default();
                found.iter().map(SocketAddr::ip).collect()
            }
            Self::Ssh(ToMachine { address: Some(address), .. }) => vec![*address],
            Self::Ssh(way) => way.destination.addresses(),
        }
    }

    /// Who is at its end.
    pub fn machine(&self) -> Machine {
        match self {
            Self::Server(way) => Machine::Server(way.target.clone()),
            Self::Ssh(way) => Machine::Ssh(way.destination.clone()),
        }
    }
}

impl ToServer {
    /// Connects and proves what has to be proved.
    ///
    /// # Errors
    /// When nobody listens there, it is the wrong one, or it has no room.
    fn connect(&self, interrupt: &Interrupt) -> Result<Connection> {
        let stream = self.reach()?;
        // Small messages that are waited for (RFC 896); it is only slower where that is refused.
        let _ = stream.set_nodelay(true);
        let own = stream.local_addr()?.ip();
        let server = stream.peer_addr()?.ip();
        let mtu = path_mtu(&stream, stream.peer_addr()?);
        let channel = self.meet(stream, interrupt).with_context(|| self.target.to_string())?;
        Ok(Connection { channel, own, server, mtu })
    }

    fn reach(&self) -> Result<TcpStream> {
        let addresses = self
            .target
            .addresses(self.family)
            .with_context(|| format!("cannot find the machine {}; check its name", self.target))?;
        let mut tried = Vec::new();
        for address in addresses {
            match TcpStream::connect_timeout(&address, CONNECT_WITHIN) {
                Ok(stream) => return Ok(stream),
                Err(error) => tried.push(format!("{address}: {error}")),
            }
        }
        bail!(
            "cannot connect to {}: {}; does `vioperf serve` run there, with --listen on that \
             address, and does a firewall let its port through?",
            self.target,
            tried.join("; ")
        )
    }

    fn meet(&self, stream: TcpStream, interrupt: &Interrupt) -> Result<Box<dyn Channel>> {
        let patience = Patience::until(Instant::now() + MEET_WITHIN, interrupt);
        let (mut channel, binding): (Box<dyn Channel>, _) = match self.tls {
            Some(pin) => tls::connect(stream, pin, patience)?,
            None => (Box::new(stream), handshake::Binding::default()),
        };
        let mut bounded = patience.on(channel.as_mut());
        handshake::as_client(&mut bounded, self.token.as_ref(), &binding).map_err(|error| {
            match error {
                HandshakeError::Closed if self.tls.is_none() => anyhow!(
                    "{error}; if the server was started with --tls, give --tls-pin with the \
                 fingerprint that it prints"
                ),
                other => anyhow!(other),
            }
        })?;
        match read_frame_within(&mut bounded, MOST_VERDICT_BYTES)? {
            Verdict::Welcome => Ok(channel),
            Verdict::Refused { message } => Err(anyhow!(message)),
        }
    }
}

/// By `IP_MTU` or `IPV6_MTU` of the connected socket (ip(7), ipv6(7)); Ethernet's where it is not told.
pub(super) fn path_mtu(socket: &impl AsFd, peer: SocketAddr) -> u32 {
    let (level, option) = match peer {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU),
        SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU),
    };
    let mut mtu: libc::c_int = 0;
    let mut length = libc::socklen_t::try_from(size_of_val(&mtu)).unwrap_or(0);
    // SAFETY: the kernel writes at most `length` bytes into `mtu`, which is that long; both live
    // across the call.
    let result = unsafe {
        let place = (&raw mut mtu).cast();
        libc::getsockopt(socket.as_fd().as_raw_fd(), level, option, place, &raw mut length)
    };
    u32::try_from(mtu).ok().filter(|mtu| result == 0 && *mtu > 0).unwrap_or(1500)
}
