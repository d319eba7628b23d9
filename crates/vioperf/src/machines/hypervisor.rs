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
                match format!("{}{host}", ssh::SCHEME).parse() {
                    Ok(destination) => Self::Ssh(destination),
                    Err(_) => unknown(&format!("`{host}` names no machine for ssh")),
                }
            }
            _ => unknown(&format!("libvirt is reached by {scheme}, which runs no programs there")),
        }
    }
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
        assert_eq!(Whereabouts::of("qemu+ssh://host/system?keyfile=/k"), there("host"));
        for uri in ["qemu+tls://host/system", "qemu+tcp://host/system", "qemu://host/system", "x"] {
            let Whereabouts::Unknown { reason } = Whereabouts::of(uri) else { panic!("{uri}") };
            assert!(reason.contains("--hypervisor"), "{reason}");
        }
    }
}
