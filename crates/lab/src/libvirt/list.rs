//! What a libvirt has: its domains, each as its XML and state tell.

use std::collections::BTreeMap;

use vioperf_model::libvirt::DomainFacts;
use vioperf_model::suggest::nearest;

use super::domain_xml::{self, XmlError};
use super::edit::{Edit, EditError};
use super::virsh::{Virsh, VirshError};

/// Who knows a guest's addresses, the surest first: libvirt's DHCP server, the guest's agent, the host's
/// neighbours (virsh(1), domifaddr).
const LEASE: &str = "lease";
const AGENT: &str = "agent";
const NEIGHBOURS: &str = "arp";

/// A domain that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// What it is at this moment.
    pub facts: DomainFacts,
    /// Its description at this moment.
    xml: String,
    /// Whether libvirt keeps a definition of it: a transient one is gone when it stops.
    pub is_persistent: bool,
    /// Whether its memory is saved on the disk, from where it would be started.
    pub has_managed_save: bool,
}

impl Found {
    /// Whether it runs, paused or not.
    #[must_use]
    pub fn is_up(&self) -> bool {
        is_up(&self.facts.state)
    }

    /// Whether the interface with that MAC address can be so.
    ///
    /// # Errors
    /// Why not.
    pub fn can_have(&self, edit: &Edit, mac: &str) -> Result<(), EditError> {
        edit.apply(&self.xml, mac).map(drop)
    }
}

pub(super) fn is_up(state: &str) -> bool {
    !matches!(state, "shut off" | "crashed")
}

/// Why a domain cannot be told of.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// libvirt does not answer as it should.
    #[error(transparent)]
    Virsh(#[from] VirshError),
    /// There is none of that name.
    #[error("libvirt knows no domain `{name}`{hint}: `vioperf libvirt list` shows them")]
    Unknown {
        /// The name.
        name: String,
        /// What was meant.
        hint: String,
    },
    /// Its description is none.
    #[error("{name}: {source}")]
    Xml {
        /// The domain.
        name: String,
        /// The reason.
        source: XmlError,
    },
}

/// All domains, those that run first, by their names. With their addresses where they are wanted.
///
/// # Errors
/// When libvirt does not answer as it should. A domain that goes meanwhile is none.
pub fn list(virsh: &Virsh, addresses: bool) -> Result<Vec<DomainFacts>, FindError> {
    let mut all = Vec::new();
    for uuid in virsh.ask(&["list", "--all", "--uuid"])?.lines().map(str::trim) {
        if uuid.is_empty() {
            continue;
        }
        match facts(virsh, uuid, addresses) {
            Ok((facts, _)) => all.push(facts),
            Err(FindError::Virsh(VirshError::NoDomain(_))) => {}
            Err(error) => return Err(error),
        }
    }
    all.sort_by_key(|facts| (!is_up(&facts.state), facts.name.clone()));
    Ok(all)
}

/// The domain of that name or UUID.
///
/// # Errors
/// When there is none, with the nearest name.
pub fn find(virsh: &Virsh, name: &str) -> Result<Found, FindError> {
    // Not by `domuuid`, which takes a name but no UUID.
    let (facts, xml) = match facts(virsh, name, true) {
        Err(FindError::Virsh(VirshError::NoDomain(_))) => return Err(unknown(virsh, name)),
        facts => facts?,
    };
    let information = virsh.ask(&["dominfo", "--domain", &facts.uuid])?;
    let says = |key: &str| {
        information
            .lines()
            .filter_map(|line| line.split_once(':'))
            .any(|(name, value)| name.trim() == key && value.trim() == "yes")
    };
    let (is_persistent, has_managed_save) = (says("Persistent"), says("Managed save"));
    Ok(Found { facts, xml, is_persistent, has_managed_save })
}

fn unknown(virsh: &Virsh, name: &str) -> FindError {
    let names = virsh.ask(&["list", "--all", "--name"]).unwrap_or_default();
    let names = names.lines().map(str::trim).filter(|name| !name.is_empty());
    let hint = nearest(name, names).map(|name| format!("; did you mean `{name}`?"));
    FindError::Unknown { name: name.to_owned(), hint: hint.unwrap_or_default() }
}

/// What it is, and its description.
fn facts(virsh: &Virsh, uuid: &str, addresses: bool) -> Result<(DomainFacts, String), FindError> {
    let state = state(virsh, uuid)?;
    let xml = virsh.ask(&["dumpxml", "--domain", uuid])?;
    let facts = domain_xml::facts(&xml);
    let facts = facts.map_err(|source| FindError::Xml { name: uuid.to_owned(), source })?;
    let mut facts = DomainFacts { state, ..facts };
    if addresses && facts.state == "running" && !facts.interfaces.is_empty() {
        let known = addresses_of(virsh, uuid, domain_xml::has_agent(&xml));
        for interface in &mut facts.interfaces {
            interface.addresses = known.get(&interface.mac).cloned().unwrap_or_default();
        }
    }
    Ok((facts, xml))
}

/// In virsh's words: `running`, `shut off`, `paused` …
pub(super) fn state(virsh: &Virsh, uuid: &str) -> Result<String, VirshError> {
    Ok(virsh.ask(&["domstate", "--domain", uuid])?.trim().to_owned())
}

/// What is known of its addresses, by MAC address; who does not know any is asked for nothing more.
fn addresses_of(virsh: &Virsh, uuid: &str, has_agent: bool) -> BTreeMap<String, Vec<String>> {
    let mut known: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in [LEASE, AGENT, NEIGHBOURS] {
        // An agent that is not there would be waited for.
        if source == AGENT && !has_agent {
            continue;
        }
        // Not every kind of connection has this, nor every version of the kernel: then nothing is known.
        let said = virsh.ask(&["domifaddr", "--domain", uuid, "--full", "--source", source]);
        for (mac, address) in said.iter().flat_map(|said| said.lines()).filter_map(address_in) {
            let of_mac = known.entry(mac).or_default();
            if !of_mac.contains(&address) {
                of_mac.push(address);
            }
        }
    }
    known
}

/// Of a line `vnet0  52:54:00:aa:bb:01  ipv4  192.168.122.5/24`: the MAC address, and the address.
fn address_in(line: &str) -> Option<(String, String)> {
    let mut words = line.split_ascii_whitespace().rev();
    let address = words.next()?.split('/').next()?;
    let _protocol = words.next()?;
    let mac = words.next()?;
    address.parse::<std::net::IpAddr>().ok()?;
    Some((mac.to_ascii_lowercase(), address.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_of_every_source() {
        let lines = [
            (" vnet0      52:54:00:AA:bb:01    ipv4         192.0.2.5/24", Some("192.0.2.5")),
            (" enp1s0     52:54:00:aa:bb:01    ipv6         2001:db8::5/64", Some("2001:db8::5")),
            (" vnet0      52:54:00:aa:bb:01    ipv4         192.0.2.7/0", Some("192.0.2.7")),
            (" Name  MAC address  Protocol  Address", None),
            (" vnet1      52:54:00:aa:bb:01    N/A          N/A", None),
            ("-----", None),
            ("", None),
        ];
        for (line, address) in lines {
            let found = address_in(line);
            let expected = address.map(|a| ("52:54:00:aa:bb:01".to_owned(), a.to_owned()));
            assert_eq!(found, expected, "{line}");
        }
    }

    #[test]
    fn a_domain_is_up_unless_it_is_off() {
        for state in ["running", "paused", "in shutdown", "pmsuspended", "idle"] {
            assert!(is_up(state), "{state}");
        }
        assert!(!is_up("shut off") && !is_up("crashed"));
    }
}
