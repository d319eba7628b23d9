//! A virtual machine that libvirt looks after: what libvirt calls a domain. What a scenario names, and
//! what its XML says.

mod source;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use source::{DirectMode, DomainSource, SourceError};

/// The domain that the other end of a path is (`[testbed.libvirt]`): then its hypervisor is watched too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LibvirtDomain {
    /// Its name or UUID.
    pub domain: String,
    /// Which libvirt: `qemu:///system`, `qemu+ssh://root@host/system`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "virsh's own choice"))]
    pub uri: Option<String>,
    /// Its interface under test, by MAC address or the host's name for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "the one that has the address that is measured, or its only one"))]
    pub interface: Option<String>,
    /// What the interface is connected to while it is measured: `bridge:br1`, `openvswitch:ovs0`, `network:default`,
    /// `direct:eth0:bridge`. It can be a factor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "where it is"))]
    pub source: Option<DomainSource>,
}

/// A domain as libvirt describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DomainFacts {
    /// Its name.
    pub name: String,
    /// Its UUID.
    pub uuid: String,
    /// `running`, `shut off`, `paused` …, in virsh's words.
    pub state: String,
    /// What runs it: `kvm`, or `qemu` for software emulation.
    pub hypervisor: String,
    /// The machine type (`pc-q35-9.2`).
    pub machine: String,
    /// The CPU: its mode (`host-passthrough`) and model; empty where libvirt leaves it to QEMU.
    pub cpu: String,
    /// The emulator's program.
    pub emulator: String,
    /// Virtual CPUs that it has now.
    pub vcpus: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Which threads are held to which of the host's cores (`vcpu 0: 2-3`, `emulator: 0`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pinning: Vec<String>,
    /// Its network interfaces.
    pub interfaces: Vec<DomainInterface>,
}

/// A network interface of a domain.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DomainInterface {
    /// Its MAC address.
    pub mac: String,
    /// The model of the NIC, in libvirt's words (`virtio`, `e1000`).
    pub model: String,
    /// How it is connected: `bridge`, `network`, `direct`, `user`, `vhostuser`, `hostdev` …
    pub connection: String,
    /// To what: the bridge, the network, the host's device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Of a direct connection, how macvtap switches (`bridge`, `vepa`, `private`, `passthrough`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The kind of port that it has on a switch which is not Linux's own bridge (`openvswitch`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtual_port: Option<String>,
    /// What the host calls its tap; absent while the domain does not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Pairs of queues, where the XML asks for more than one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<u32>,
    /// Who moves its packets, where the XML says it: `vhost` or `qemu`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// Options of the driver, by libvirt's names (`packed`, `rx_queue_size`, `host.csum`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub driver: BTreeMap<String, String>,
    /// The MTU that the XML asks for, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Its addresses, where libvirt's DHCP server, the guest's agent or the host's neighbours tell them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
}

/// The domain that a run measured, as it was when the run began.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MeasuredDomain {
    /// Which libvirt: its canonical URI.
    pub uri: String,
    /// The domain.
    pub domain: DomainFacts,
    /// The MAC address of the interface under test.
    pub interface: String,
    /// Why nothing of the hypervisor could be read, where that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
}

impl DomainInterface {
    /// How it is connected, and to what, in words: `bridge br0`, `direct eth0 (vepa)`.
    pub fn connected_to(&self) -> String {
        let kind = match (self.connection.as_str(), self.virtual_port.as_deref()) {
            ("user", _) => return "user (passt or slirp)".to_owned(),
            ("bridge", Some(port)) => port,
            (connection, _) => connection,
        };
        let source = self.source.as_deref().map(|source| format!(" {source}")).unwrap_or_default();
        let mode = self.mode.as_deref().map(|mode| format!(" ({mode})")).unwrap_or_default();
        format!("{kind}{source}{mode}")
    }
}

impl MeasuredDomain {
    /// The interface under test.
    pub fn interface(&self) -> Option<&DomainInterface> {
        self.domain.interfaces.iter().find(|interface| interface.mac == self.interface)
    }
}
