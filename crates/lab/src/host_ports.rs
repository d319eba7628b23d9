//! Ports of ours on a bridge that the host had before: written down before the first is made, so that a run that is
//! killed leaves none there. A Linux bridge's ports end with the lab's processes anyhow, if not at once; those of an Open
//! vSwitch stay in its database.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use vioperf_model::switch::is_port_on_host;
use vioperf_netlink::{NetlinkError, Socket};

use crate::host::Host;
use crate::journal::{Entry, Held, JournalError};
use crate::switch::{Vsctl, VsctlError};

/// What a bridge of the host's is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BridgeKind {
    /// Linux's own.
    Linux,
    /// An Open vSwitch's, whose database answers at this socket.
    OpenVswitch {
        /// The socket.
        database: PathBuf,
    },
}

/// A bridge that ports were put on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortsOnHost {
    /// The number of the network namespace that it is in.
    pub network: u64,
    /// Its name there.
    pub bridge: String,
    /// What it is.
    pub kind: BridgeKind,
}

impl Entry for PortsOnHost {
    const KIND: &'static str = "bridge";
}

/// Why a bridge could not be made use of, or not be put back.
#[derive(Debug, thiserror::Error)]
pub enum HostPortsError {
    /// The journal could not be kept.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The kernel refused.
    #[error("ports on the bridge {bridge}: {source}")]
    Netlink {
        /// Which bridge.
        bridge: String,
        /// What it said.
        source: NetlinkError,
    },
    /// Open vSwitch did not do it.
    #[error("ports on the bridge {bridge}: {source}")]
    OpenVswitch {
        /// Which bridge.
        bridge: String,
        /// What it said.
        source: VsctlError,
    },
    /// The host's namespace cannot be looked at.
    #[error("cannot look at the host's network namespace: {0}")]
    Namespace(#[from] io::Error),
}

/// Leave to put ports on a bridge of the host's; they go when this does.
#[derive(Debug)]
pub(crate) struct HostPorts {
    host: Host,
    held: Option<Held<PortsOnHost>>,
}

impl HostPorts {
    /// Writes the bridge down.
    ///
    /// # Errors
    /// [`HostPortsError`]; nothing is altered then.
    pub fn take(
        host: &Host,
        journal: &Path,
        bridge: &str,
        kind: BridgeKind,
    ) -> Result<Self, HostPortsError> {
        let host = host.try_clone()?;
        let entry =
            PortsOnHost { network: host.network_number()?, bridge: bridge.to_owned(), kind };
        let name = format!("{}-{bridge}", entry.network);
        let held = Held::begin(journal, &name, entry)?;
        Ok(Self { host, held: Some(held) })
    }

    /// Whether it is about that bridge.
    pub fn is_of(&self, bridge: &str) -> bool {
        self.held.as_ref().is_some_and(|held| held.entry.bridge == bridge)
    }
}

impl Drop for HostPorts {
    fn drop(&mut self) {
        // What fails here is tried again by the process outside, from the journal.
        if let Some(held) = self.held.take()
            && let Ok(mut socket) = Socket::open_in(self.host.network())
            && put_back(&held.entry, &mut socket).is_ok()
        {
            let _ = held.end();
        }
    }
}

/// Takes off a bridge every port that is called as ours are.
fn put_back(entry: &PortsOnHost, socket: &mut Socket) -> Result<(), HostPortsError> {
    let PortsOnHost { bridge, kind, .. } = entry;
    let refused = |source| HostPortsError::Netlink { bridge: bridge.clone(), source };
    if let BridgeKind::OpenVswitch { database } = kind {
        let failed = |source| HostPortsError::OpenVswitch { bridge: bridge.clone(), source };
        let vsctl = Vsctl::of(database);
        // A bridge that was deleted meanwhile has taken them along.
        if vsctl.has_bridge(bridge).map_err(failed)? {
            for port in vsctl.ports_of(bridge).map_err(failed)? {
                if is_port_on_host(&port) {
                    vsctl.delete_port(bridge, &port).map_err(failed)?;
                }
            }
        }
    }
    let links = socket.links().map_err(refused)?;
    let index = links.iter().find(|link| link.name == *bridge).map(|link| link.index);
    for link in links.iter().filter(|link| is_port_on_host(&link.name)) {
        // One that another run has on another bridge is that run's.
        let is_ours = link.master.is_none() || link.master == index;
        match is_ours.then(|| socket.delete(link.index)) {
            // It may just have gone by itself.
            None | Some(Ok(())) => {}
            Some(Err(_)) if socket.link_by_index(link.index).is_err() => {}
            Some(Err(error)) => return Err(refused(error)),
        }
    }
    Ok(())
}

/// Frees every bridge of the calling thread's network namespace from the ports that a run left there, as it was killed:
/// which.
///
/// # Errors
/// The first that fails; its entry stays in the journal.
pub fn put_back_what_is_left(journal: &Path) -> Result<Vec<PortsOnHost>, HostPortsError> {
    let here = File::open("/proc/thread-self/ns/net")?.metadata()?.ino();
    let mut done = Vec::new();
    for held in Held::<PortsOnHost>::left(journal)? {
        // That of another namespace waits for a run there.
        if held.entry.network == here {
            let mut socket = Socket::open().map_err(|source| HostPortsError::Netlink {
                bridge: held.entry.bridge.clone(),
                source,
            })?;
            put_back(&held.entry, &mut socket)?;
            done.push(held.entry.clone());
            held.end()?;
        }
    }
    Ok(done)
}
