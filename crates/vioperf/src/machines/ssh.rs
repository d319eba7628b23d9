//! A node on a machine that the user reaches by ssh: put there, run there, and gone with the connection.
//!
//! Everything about the way there is the user's own OpenSSH: its configuration, keys, agent, jump hosts
//! and shared connections. What is sent is the program that lab guests run, which is static and needs
//! nothing there. It removes its file as soon as it runs, and ends when the connection does or nobody
//! speaks to it any more.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use nix::sys::signal::{SigHandler, Signal, signal};

use super::client::{Connection, path_mtu};
use crate::conductor::channel::{Channel, Patience};
use crate::conductor::hypervisor::AGENT;
use crate::interrupt::Interrupt;
use crate::report::text::clean;

/// What the user's ssh is called.
const SSH: &str = "ssh";
/// A password may have to be typed, and the program to be sent.
const THERE_WITHIN: Duration = Duration::from_secs(120);
/// What a login shell may say before ours does, in bytes.
const MOST_NOISE_BYTES: usize = 64 << 10;
/// How long ssh may take to end by itself when all is said.
const ENDS_WITHIN: Duration = Duration::from_millis(1_000);

/// What is run there, whatever the login shell: it looks for a directory in which programs may run, takes
/// the program from standard input and becomes it. It says `vioperf-send` when it is ready for the
/// program's length and the program, `vioperf-node` with the addresses of the connection (`SSH_CONNECTION`,
/// ssh(1)) when the node listens, and `vioperf-cannot` with a reason if there will be none.
const SCRIPT: &str = concat!(
    "exec sh -c '",
    "umask 077; f=; p=; ",
    "gone() { [ -z \"$p\" ] || { rm -f \"$p/node\"; rmdir \"$p\"; }; }; ",
    "cannot() { echo \"vioperf-cannot $*\"; exit 1; }; ",
    "trap gone EXIT; trap \"exit 1\" HUP INT TERM PIPE; ",
    "[ \"$(uname -sm)\" = \"Linux x86_64\" ] || ",
    "cannot \"it is $(uname -sm), and this vioperf has a node for Linux x86_64 alone\"; ",
    "for d in \"${XDG_RUNTIME_DIR:-}\" \"${TMPDIR:-}\" /tmp /var/tmp \"${HOME:-}\"; do ",
    "[ -d \"$d\" ] || continue; ",
    "p=$(mktemp -d \"$d/vioperf.XXXXXXXXXX\" 2>/dev/null) || { p=; continue; }; ",
    "echo \"#!/bin/sh\" > \"$p/node\" && chmod 700 \"$p/node\" && \"$p/node\" 2>/dev/null && { f=$p/node; break; }; ",
    "gone; p=; done; ",
    "[ -n \"$f\" ] || cannot \"it has no directory in which one may write and run a program\"; ",
    "echo vioperf-send; read -r bytes || exit 1; ",
    "head -c \"$bytes\" > \"$f\"; ",
    "[ \"$(wc -c < \"$f\")\" -eq \"$bytes\" ] || cannot \"the program did not arrive whole\"; ",
    "echo \"vioperf-node ${SSH_CONNECTION:-}\"; exec \"$f\" remote-node",
    "'"
);

/// A machine as `ssh` knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// `host` or `user@host`, an alias of the user's configuration too.
    host: String,
    port: Option<u16>,
    /// Options of ssh's configuration that it is reached with (ssh_config(5)), beside the user's own.
    options: Vec<String>,
}

/// What names no machine for ssh.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` names no machine for ssh: write it like ssh://host, ssh://user@host or ssh://user@host:22"
)]
pub struct DestinationError(String);

/// How the address of such a machine begins.
pub const SCHEME: &str = "ssh://";

impl FromStr for Destination {
    type Err = DestinationError;

    fn from_str(text: &str) -> Result<Self, DestinationError> {
        let wrong = || DestinationError(text.to_owned());
        let rest = text.strip_prefix(SCHEME).ok_or_else(wrong)?.trim_end_matches('/');
        let (user, machine) = match rest.rsplit_once('@') {
            Some((user, machine)) => (Some(user), machine),
            None => (None, rest),
        };
        let (host, port) = match machine.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, port)) => {
                (host, port.strip_prefix(':').or(Some(port).filter(|p| !p.is_empty())))
            }
            None => match machine.rsplit_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (machine, None),
            },
        };
        let port = match port {
            Some(port) => Some(port.parse().ok().filter(|port| *port != 0).ok_or_else(wrong)?),
            None => None,
        };
        let plain = |part: &str, beside: &str| {
            !part.is_empty()
                && !part.starts_with('-')
                && part.chars().all(|c| c.is_alphanumeric() || beside.contains(c))
        };
        if !plain(host, "-_.:%") || !user.is_none_or(|user| plain(user, "-_.\\+")) {
            return Err(wrong());
        }
        let host = user.map_or_else(|| host.to_owned(), |user| format!("{user}@{host}"));
        Ok(Self { host, port, options: Vec::new() })
    }
}

impl Destination {
    /// The same, reached with further options of ssh's configuration (`IdentityFile=/key`).
    #[must_use]
    pub fn with(self, options: Vec<String>) -> Self {
        Self { options, ..self }
    }

    /// What its name is in the system's own names: an alias of ssh's configuration has none.
    pub fn addresses(&self) -> Vec<IpAddr> {
        let host = self.host.rsplit('@').next().unwrap_or_default();
        let found = (host, 0).to_socket_addrs();
        found.map(|found| found.map(|address| address.ip()).collect()).unwrap_or_default()
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => f.pad(&format!("{}:{port}", self.host)),
            None => f.pad(&self.host),
        }
    }
}

/// How to get to a machine by ssh.
#[derive(Debug, Clone)]
pub struct ToMachine {
    /// Which.
    pub destination: Destination,
    /// Its address on the network that is measured; absent takes the one that ssh came in by.
    pub address: Option<IpAddr>,
    /// Whether it may be booting: ssh gives up soon, and says nothing.
    pub patient: bool,
}

impl ToMachine {
    /// Puts a node there and starts it.
    ///
    /// # Errors
    /// When ssh does not get there, or no node can run there.
    pub fn connect(&self, interrupt: &Interrupt) -> Result<Connection> {
        let (channel, told) = put_node(&self.destination, interrupt, self.patient)?;
        let server = self.address.or_else(|| address_in(&told)).ok_or_else(|| {
            anyhow!(
                "{} does not tell by which address it was reached: give it with --address",
                self.destination
            )
        })?;
        let (own, mtu) = way_to(server)?;
        Ok(Connection { channel, own, server, mtu })
    }
}

/// Puts a node on a machine and starts it; gives the channel to it, and what `SSH_CONNECTION` is there.
/// ssh tells the user nothing where it is `patient`: the machine may still be booting.
///
/// # Errors
/// When ssh does not get there, or no node can run there.
pub(super) fn put_node(
    destination: &Destination,
    interrupt: &Interrupt,
    patient: bool,
) -> Result<(Box<dyn Channel>, String)> {
    let mut ssh = Ssh::start(destination, patient)?;
    let told = ssh.put_node(interrupt).with_context(|| destination.to_string())?;
    Ok((Box::new(ssh), told))
}

/// The third word of `SSH_CONNECTION`: client's address and port, server's address and port.
fn address_in(connection: &str) -> Option<IpAddr> {
    // An address of a link has its zone, which is another here.
    connection.split_ascii_whitespace().nth(2)?.parse().ok()
}

/// Our address on the way to a machine, and the MTU of that way.
fn way_to(server: IpAddr) -> Result<(IpAddr, u32)> {
    let any: IpAddr = match server {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    // Nothing is sent: the kernel looks for the way alone.
    let socket = UdpSocket::bind((any, 0))?;
    let to = SocketAddr::new(server, 9);
    socket.connect(to).with_context(|| {
        format!("no way to {server}: give an address that this machine reaches with --address")
    })?;
    Ok((socket.local_addr()?.ip(), path_mtu(&socket, to)))
}

/// A running ssh whose standard input and output are the channel to a node.
#[derive(Debug)]
struct Ssh {
    child: Child,
    stream: UnixStream,
}

impl Ssh {
    fn start(destination: &Destination, patient: bool) -> Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let theirs = OwnedFd::from(theirs);
        let mut command = Command::new(SSH);
        // No terminal, no escape characters, no forwarding: bytes both ways.
        command.args(["-T", "-e", "none", "-o", "ClearAllForwardings=yes"]);
        if let Some(port) = destination.port {
            command.args(["-p", &port.to_string()]);
        }
        if patient {
            command.args(["-o", "ConnectTimeout=10"]);
        }
        for option in &destination.options {
            command.args(["-o", option]);
        }
        command.args(["--", &destination.host, SCRIPT]);
        let stderr = if patient { Stdio::null() } else { Stdio::inherit() };
        command.stdin(theirs.try_clone()?).stdout(theirs).stderr(stderr);
        // SAFETY: signal(2) is async-signal-safe and changes nothing but the child, which execs next.
        unsafe {
            // Ctrl-C is for us: what was measured is fetched yet. ssh leaves an ignored signal ignored.
            // It stays in our group of processes, so that it can ask for a password.
            command.pre_exec(|| {
                signal(Signal::SIGINT, SigHandler::SigIgn).map(drop).map_err(io::Error::from)
            });
        }
        let child = command.spawn().with_context(|| {
            format!("cannot start {SSH}: is the package openssh-client installed?")
        })?;
        Ok(Self { child, stream: ours })
    }

    /// Sends the program and waits until it runs; gives what `SSH_CONNECTION` is there.
    fn put_node(&mut self, interrupt: &Interrupt) -> Result<String> {
        let patience = Patience::until(Instant::now() + THERE_WITHIN, interrupt);
        let mut noise = MOST_NOISE_BYTES;
        self.expect("vioperf-send", patience, &mut noise)?;
        {
            let mut channel = patience.on(&mut self.stream);
            writeln!(channel, "{}", AGENT.len())?;
            channel.write_all(AGENT)?;
        }
        self.expect("vioperf-node", patience, &mut noise)
    }

    /// Reads on until a line that begins so; gives the rest of it.
    fn expect(&mut self, word: &str, patience: Patience<'_>, noise: &mut usize) -> Result<String> {
        loop {
            let line = self.line(patience, noise)?;
            if let Some(reason) = line.strip_prefix("vioperf-cannot") {
                bail!("no node can run there: {}", clean(reason.trim()));
            }
            if let Some(rest) = line.strip_prefix(word) {
                return Ok(rest.trim().to_owned());
            }
        }
    }

    /// Byte by byte: what follows a line is not ours to read.
    fn line(&mut self, patience: Patience<'_>, noise: &mut usize) -> Result<String> {
        let mut line = Vec::new();
        loop {
            let mut byte = [0];
            let read = patience.on(&mut self.stream).read(&mut byte)?;
            if read == 0 {
                bail!(self.ended());
            }
            *noise = noise.checked_sub(1).ok_or_else(|| {
                anyhow!(
                    "its login shell says too much: let it be silent where there is no terminal"
                )
            })?;
            match byte {
                [b'\n'] => return Ok(String::from_utf8_lossy(&line).into_owned()),
                [other] => line.push(other),
            }
        }
    }

    fn ended(&mut self) -> String {
        let how = match self.wait_for_end() {
            Some(status) => format!("ssh ended ({status})"),
            None => "ssh closed the connection".to_owned(),
        };
        format!("{how} before a node ran there; try the same with `ssh` by hand")
    }

    fn wait_for_end(&mut self) -> Option<std::process::ExitStatus> {
        let deadline = Instant::now() + ENDS_WITHIN;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if Instant::now() < deadline => thread::sleep(Duration::from_millis(5)),
                _ => return None,
            }
        }
    }
}

impl Read for Ssh {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buffer)
    }
}

impl Write for Ssh {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.stream.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl Channel for Ssh {
    fn wait_at_most(&mut self, slice: Duration) -> io::Result<()> {
        self.stream.wait_at_most(slice)
    }
}

impl Drop for Ssh {
    fn drop(&mut self) {
        // The node ends when its input does, and ssh with it; a path that was cut does not wait for that.
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
        if self.wait_for_end().is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_are_named_as_ssh_names_them() {
        let cases = [
            ("ssh://host", "host", None),
            ("ssh://root@host:2222", "root@host", Some(2222)),
            ("ssh://root@host/", "root@host", None),
            ("ssh://a.b+c@[2001:db8::1]:7", "a.b+c@2001:db8::1", Some(7)),
            ("ssh://[2001:db8::1]", "2001:db8::1", None),
        ];
        for (text, host, port) in cases {
            let destination: Destination = text.parse().unwrap();
            assert_eq!((destination.host.as_str(), destination.port), (host, port), "{text}");
        }
        let wrong = [
            "host",
            "ssh://",
            "ssh://@host",
            "ssh://-oProxyCommand=x",
            "ssh://a b",
            "ssh://h:0",
            "ssh://-l@h",
            "ssh://[::1]x",
            "ssh://h;id",
        ];
        for text in wrong {
            assert!(text.parse::<Destination>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_address_is_that_by_which_ssh_came_in() {
        assert_eq!(address_in("192.0.2.2 5 192.0.2.1 22"), Some("192.0.2.1".parse().unwrap()));
        assert_eq!(address_in("::1 5 2001:db8::1 22"), Some("2001:db8::1".parse().unwrap()));
        assert_eq!(address_in(""), None);
    }

    #[test]
    fn any_login_shell_takes_the_script() {
        assert!(!SCRIPT.contains('\n'), "csh ends a quoted word at the end of a line");
        assert_eq!(SCRIPT.matches('\'').count(), 2, "one word for the login shell");
    }
}
