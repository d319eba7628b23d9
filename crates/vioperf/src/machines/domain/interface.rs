//! Which of a domain's interfaces is the one under test.

use std::net::IpAddr;

use vioperf_lab::libvirt::Found;
use vioperf_model::libvirt::{DomainFacts, DomainInterface, LibvirtDomain};

/// The state in which a guest can be asked, in virsh's word.
const RUNNING: &str = "running";

/// The interface that is asked for, else the only one, else the one that has an address which is measured, by what libvirt
/// knows. Where none of this tells, the guest does when it is measured as it is; to change one it has to be known
/// before, so one that runs is asked (`ask` gives the MAC address).
///
/// # Errors
/// In words, when there is none such, or which is to be changed is not known.
pub(super) fn choose(
    found: &Found,
    wanted: &LibvirtDomain,
    measured: &[IpAddr],
    changes: bool,
    ask: &dyn Fn() -> Option<String>,
) -> Result<Option<DomainInterface>, String> {
    let known = of(&found.facts, wanted.interface.as_deref(), measured)?;
    let all = &found.facts.interfaces;
    if known.is_some() || !changes {
        return Ok(known);
    }
    let told = if found.facts.state == RUNNING { ask() } else { None };
    let told = told.and_then(|mac| all.iter().find(|it| it.mac.eq_ignore_ascii_case(&mac)));
    told.cloned().map(Some).ok_or_else(|| {
        format!(
            "the domain {} has {} interfaces, and neither libvirt nor the guest tells which one has the address that is \
             measured: say it with --interface (testbed.libvirt.interface): {}",
            found.facts.name,
            all.len(),
            described(all)
        )
    })
}

/// As far as it can be told without asking the guest.
fn of(
    domain: &DomainFacts,
    asked: Option<&str>,
    measured: &[IpAddr],
) -> Result<Option<DomainInterface>, String> {
    let (name, all) = (&domain.name, domain.interfaces.as_slice());
    if let Some(asked) = asked {
        let is_it = |it: &&DomainInterface| {
            it.mac.eq_ignore_ascii_case(asked) || it.target.as_deref() == Some(asked)
        };
        let missing =
            || format!("the domain {name} has no interface {asked}; it has {}", described(all));
        return all.iter().find(is_it).cloned().map(Some).ok_or_else(missing);
    }
    match all {
        [] => Err(format!("the domain {name} has no network interface")),
        [only] => Ok(Some(only.clone())),
        several => {
            let mut having = several.iter().filter(|it| has_one_of(it, measured));
            Ok(having.next().filter(|_| having.next().is_none()).cloned())
        }
    }
}

fn has_one_of(interface: &DomainInterface, measured: &[IpAddr]) -> bool {
    let mut own = interface.addresses.iter().filter_map(|address| address.parse::<IpAddr>().ok());
    own.any(|own| measured.iter().any(|address| address.to_canonical() == own))
}

fn described(all: &[DomainInterface]) -> String {
    let one = |it: &DomainInterface| format!("{} ({} on {})", it.mac, it.model, it.connected_to());
    all.iter().map(one).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(mac: &str, target: &str, addresses: &[&str]) -> DomainInterface {
        DomainInterface {
            mac: mac.to_owned(),
            target: Some(target.to_owned()),
            addresses: addresses.iter().map(|&address| address.to_owned()).collect(),
            ..DomainInterface::default()
        }
    }

    #[test]
    fn the_one_that_is_asked_for_or_has_the_address() {
        let all = [
            interface("52:54:00:00:00:0a", "vnet1", &["192.0.2.10", "fe80::a"]),
            interface("52:54:00:00:00:0b", "vnet2", &["192.0.2.11"]),
        ];
        let domain = DomainFacts { interfaces: all.to_vec(), ..DomainFacts::default() };
        let chosen = |asked, measured: &[&str]| {
            let measured: Vec<IpAddr> = measured.iter().map(|it| it.parse().unwrap()).collect();
            Ok::<_, String>(of(&domain, asked, &measured)?.map(|it| it.target.unwrap()))
        };
        let is = |target: &str| Ok(Some(target.to_owned()));
        assert_eq!(chosen(Some("52:54:00:00:00:0A"), &[]), is("vnet1"));
        assert_eq!(chosen(Some("vnet2"), &["192.0.2.10"]), is("vnet2"));
        assert_eq!(chosen(None, &["192.0.2.11"]), is("vnet2"));
        assert_eq!(chosen(None, &["::ffff:192.0.2.10"]), is("vnet1"));
        for measured in [&[][..], &["192.0.2.12"], &["192.0.2.10", "192.0.2.11"]] {
            assert_eq!(chosen(None, measured), Ok(None));
        }
        assert!(chosen(Some("vnet3"), &[]).unwrap_err().contains("no interface vnet3; it has 52"));
        let only = DomainFacts { interfaces: all[..1].to_vec(), ..DomainFacts::default() };
        assert_eq!(of(&only, None, &[]).unwrap().unwrap(), all[0]);
        assert!(of(&DomainFacts::default(), None, &[]).is_err());
    }
}
