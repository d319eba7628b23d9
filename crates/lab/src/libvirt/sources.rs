//! Whether what an interface is to be connected to is there.

use std::collections::BTreeMap;

use vioperf_model::libvirt::DomainSource;
use vioperf_netlink::Socket;

use super::virsh::{Virsh, VirshError};

/// The hypervisor's interfaces, and of what kind each is; empty for a card's own.
type Interfaces = BTreeMap<String, String>;

/// Why an interface cannot be connected to it, and what to do; nothing where it can be, or where that is not known.
/// `is_here` says whether this machine is the hypervisor.
pub fn missing(virsh: &Virsh, source: &DomainSource, is_here: bool) -> Option<String> {
    if let DomainSource::Network(name) = source {
        return missing_network(virsh, name);
    }
    missing_interface(source, &here().filter(|_| is_here)?)
}

/// Those of our network namespace; nothing where the kernel does not tell.
fn here() -> Option<Interfaces> {
    let links = Socket::open().ok()?.links().ok()?;
    Some(links.into_iter().map(|link| (link.name, link.kind.unwrap_or_default())).collect())
}

fn missing_interface(source: &DomainSource, interfaces: &Interfaces) -> Option<String> {
    let device = source.device()?;
    let Some(kind) = interfaces.get(device) else {
        return Some(format!(
            "{source}: the hypervisor has no interface {device}; `ip link` shows what it has"
        ));
    };
    let is_bridge = kind == "bridge";
    (matches!(source, DomainSource::Bridge(_)) && !is_bridge).then(|| {
        format!(
            "{source}: {device} is no bridge of Linux's (`ip link show type bridge` shows those); one of Open vSwitch's is \
             openvswitch:{device}, and macvtap on it direct:{device}:bridge"
        )
    })
}

fn missing_network(virsh: &Virsh, name: &str) -> Option<String> {
    match virsh.ask(&["net-info", "--network", name]) {
        Err(VirshError::Refused { said, .. }) => Some(format!(
            "network:{name}: libvirt says: {said}; `virsh net-list --all` shows the networks"
        )),
        // What is wrong with libvirt itself is told elsewhere.
        Err(_) => None,
        Ok(told) => is_inactive(&told).then(|| {
            format!("network:{name}: the network is not active: `virsh net-start {name}` starts it")
        }),
    }
}

fn is_inactive(told: &str) -> bool {
    let facts = told.lines().filter_map(|line| line.split_once(':'));
    facts.into_iter().any(|(key, value)| key.trim() == "Active" && value.trim() == "no")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_is_not_there_is_told() {
        let own = [("br0", "bridge"), ("eth0", ""), ("ovs0", "openvswitch")];
        let own = own.map(|(name, kind)| (name.to_owned(), kind.to_owned())).into();
        let lacks = |source: &str| missing_interface(&source.parse().unwrap(), &own);
        for there in ["bridge:br0", "direct:eth0:vepa", "openvswitch:ovs0"] {
            assert_eq!(lacks(there), None);
        }
        assert!(lacks("bridge:br7").unwrap().contains("no interface br7"));
        assert!(lacks("direct:eth7:vepa").unwrap().contains("no interface eth7"));
        assert!(lacks("bridge:eth0").unwrap().contains("direct:eth0:bridge"));
        let nothing = missing(&Virsh::new(None), &"bridge:br7".parse().unwrap(), false);
        assert_eq!(nothing, None, "elsewhere nobody looked");
    }

    #[test]
    fn a_network_that_does_not_run_is_seen() {
        assert!(is_inactive("Name:           n\nActive:         no\nPersistent:     yes\n"));
        assert!(!is_inactive("Name:           no\nActive:         yes\nAutostart:      no\n"));
    }
}
