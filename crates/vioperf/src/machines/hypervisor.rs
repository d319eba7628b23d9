//! The third party: the machine that runs the virtual machine at the other end. It moves nothing, and is
//! sampled: its cores, QEMU's threads, every interface, the guest's tap among them.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use vioperf_model::record::{ClockRelation, Party, Place, Purpose};
use vioperf_model::units::TimeSpan;
use vioperf_model::wire::{Role, WatchedProcess};
use vioperf_model::workload::Workload;

use super::own_node::OwnNode;
use super::ssh::{self, Destination};
use crate::conductor::node_link::{NodeError, NodeLink};
use crate::conductor::trial::observing;
use crate::interrupt::Interrupt;

/// How long its node may take to answer for the first time.
const NODE_START: Duration = Duration::from_secs(10);
/// What QEMU's process is called in the record.
const QEMU: &str = "qemu";

/// Where the hypervisor is, seen from here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whereabouts {
    /// It is this machine.
    Here,
    /// ssh gets there.
    Ssh(Destination),
    /// Nobody knows.
    Unknown {
        /// Why, and what to do.
        reason: String,
    },
}

impl Whereabouts {
    /// By libvirt's canonical URI (libvirt.org/uri.html): `qemu:///system` is here, `qemu+ssh://host/system`
    /// behind ssh.
    pub fn of(uri: &str) -> Self {
        let unknown = |reason: &str| Self::Unknown {
            reason: format!("{reason}: say how to get to it with --hypervisor ssh://HOST"),
        };
        let Some((scheme, rest)) = uri.split_once("://") else {
            return unknown(&format!("the URI {uri} does not tell where the hypervisor is"));
        };
        let host = rest.split(['/', '?']).next().unwrap_or_default();
        let transport = scheme.split_once('+').map_or("", |(_, transport)| transport);
        match (transport, host) {
            ("" | "unix", "") => Self::Here,
            ("ssh" | "libssh" | "libssh2", host) if !host.is_empty() => {
                match format!("{}{host}", ssh::SCHEME).parse::<Destination>() {
                    Ok(destination) => Self::Ssh(destination.with(ssh_options(rest))),
                    Err(_) => unknown(&format!("`{host}` names no machine for ssh")),
                }
            }
            _ => unknown(&format!("libvirt is reached by {scheme}, which runs no programs there")),
        }
    }
}

/// What libvirt's URI asks of ssh, in the words of ssh's configuration: the way that virsh goes is ours too. Of what
/// follows the host; a value that ssh's configuration cannot hold is left out.
fn ssh_options(rest: &str) -> Vec<String> {
    let query = rest.split_once('?').map_or("", |(_, query)| query);
    let pairs = query.split(['&', ';']).filter_map(|pair| pair.split_once('='));
    let option = |(key, value): (&str, &str)| {
        let value = decoded(value);
        let is_plain = !value.is_empty() && !value.contains(|c: char| c == '"' || c.is_control());
        match (key, value.as_str()) {
            // A percent sign begins what ssh replaces.
            ("keyfile", path) if is_plain => {
                Some(format!("IdentityFile=\"{}\"", path.replace('%', "%%")))
            }
            ("known_hosts", path) if is_plain => {
                Some(format!("UserKnownHostsFile=\"{}\"", path.replace('%', "%%")))
            }
            ("no_verify", "1") | ("known_hosts_verify", "ignore") => {
                Some("StrictHostKeyChecking=no".to_owned())
            }
            ("no_tty", "1") => Some("BatchMode=yes".to_owned()),
            _ => None,
        }
    };
    pairs.filter_map(option).collect()
}

/// `%20` is a space (RFC 3986, section 2.1); what is no UTF-8 afterwards is nothing.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, others @ ..] = rest {
        let code = others.get(..2).filter(|_| *first == b'%');
        let code = code.and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &others[2..];
            }
            None => {
                bytes.push(*first);
                rest = others;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_default()
}

/// A hypervisor that is watched.
#[derive(Debug)]
pub struct Hypervisor {
    link: NodeLink,
    /// What of it is watched.
    processes: Vec<WatchedProcess>,
    clock: ClockRelation,
    /// Ends with it.
    _own_node: Option<OwnNode>,
}

impl Hypervisor {
    /// Starts a node there.
    ///
    /// # Errors
    /// When none can run there.
    pub fn greet(whereabouts: &Whereabouts, interrupt: &Interrupt) -> Result<Self> {
        let (own_node, link) = match whereabouts {
            Whereabouts::Here => {
                let (node, channel) = OwnNode::start(&[]).context("cannot start a node")?;
                let link = NodeLink::greet("the hypervisor", channel, NODE_START, interrupt)?;
                (Some(node), link)
            }
            Whereabouts::Ssh(destination) => {
                let (channel, _) = ssh::put_node(destination, interrupt, false)?;
                let name = format!("the hypervisor {destination}");
                (None, NodeLink::greet(&name, channel, NODE_START, interrupt)?)
            }
            Whereabouts::Unknown { reason } => bail!("{reason}"),
        };
        let clock = ClockRelation::default();
        Ok(Self { link, processes: Vec::new(), clock, _own_node: own_node })
    }

    /// From now on the threads that run this guest are watched.
    ///
    /// # Errors
    /// When they are not seen there.
    pub fn watch(&mut self, uuid: &str, interrupt: &Interrupt) -> Result<(), NodeError> {
        self.link.set_interrupt(interrupt);
        self.processes.clear();
        let watched = |pid| WatchedProcess { label: QEMU.to_owned(), pid };
        self.processes = self.link.find_guest(uuid)?.into_iter().map(watched).collect();
        Ok(())
    }

    /// Begins to sample.
    pub(super) fn begin(
        &mut self,
        workload: &Workload,
        interval: TimeSpan,
    ) -> Result<(), NodeError> {
        self.clock = self.link.relate_clock()?;
        self.link.prepare(observing(workload, interval, self.processes.clone()))?;
        self.link.start()
    }

    /// Sees that it is still there.
    pub(super) fn ask(&mut self, timeout: Duration) -> Result<(), NodeError> {
        self.link.progress(timeout).map(drop)
    }

    /// Ends it; what was seen.
    pub(super) fn end(&mut self, patience: &Interrupt) -> Result<Party, NodeError> {
        self.link.set_interrupt(patience);
        self.link.stop()?;
        Ok(Party {
            place: Place::Host,
            role: Role::Observer,
            purpose: Purpose::Measured,
            further_legs: Vec::new(),
            identity: self.link.identity().clone(),
            clock: self.clock,
            interface: None,
            report: self.link.collect()?,
        })
    }

    /// Whose wish to end counts from now on.
    pub fn set_interrupt(&mut self, interrupt: &Interrupt) {
        self.link.set_interrupt(interrupt);
    }

    /// Says goodbye.
    pub fn farewell(mut self) {
        self.link.farewell();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_uri_tells_where_the_hypervisor_is() {
        assert_eq!(Whereabouts::of("qemu:///system"), Whereabouts::Here);
        assert_eq!(Whereabouts::of("qemu+unix:///system?socket=/run/x"), Whereabouts::Here);
        let there = |name: &str| Whereabouts::Ssh(format!("ssh://{name}").parse().unwrap());
        assert_eq!(Whereabouts::of("qemu+ssh://root@host:2222/system"), there("root@host:2222"));
        assert_eq!(Whereabouts::of("qemu+ssh://host/system?socket=/s"), there("host"));
        for uri in ["qemu+tls://host/system", "qemu+tcp://host/system", "qemu://host/system", "x"] {
            let Whereabouts::Unknown { reason } = Whereabouts::of(uri) else { panic!("{uri}") };
            assert!(reason.contains("--hypervisor"), "{reason}");
        }
    }

    #[test]
    fn what_the_uri_asks_of_ssh_is_asked_of_ours_too() {
        let options = |query: &str| ssh_options(&format!("host/system{query}"));
        assert!(options("").is_empty() && options("?socket=/s&command=/bin/rsh").is_empty());
        assert_eq!(
            options("?keyfile=/a%20key&no_verify=1&known_hosts=/50%25"),
            ["IdentityFile=\"/a key\"", "StrictHostKeyChecking=no", "UserKnownHostsFile=\"/50%%\""]
        );
        assert_eq!(options("?no_verify=0&no_tty=1"), ["BatchMode=yes"]);
        assert!(options("?keyfile=%22%0aProxyCommand=x").is_empty());
        assert_eq!(decoded("a%zz%"), "a%zz%");
    }
}
