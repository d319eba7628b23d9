//! The switches that vioperf can build a lab with: their names. **A switch is a row of [`SWITCHES`], a file
//! in `crates/lab/src/switch` and its line in the table there**; everything else (scenario parsing,
//! preflight, bring-up, verification, the report) goes through these.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::suggest::nearest;
use crate::text_form;

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SwitchRow {
    /// The name users write in scenarios and read in reports.
    pub name: &'static str,
    /// One line on what it is, for `vioperf doctor`.
    pub about: &'static str,
    /// Whether it is made of an interface of the host, which the scenario names.
    pub of_host: OfHost,
    /// Whether a thread of it takes a core of the host for itself as long as there is a guest.
    pub polls: bool,
}

/// Whether a switch is made of an interface of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OfHost {
    /// Never: it is the lab's own.
    Never,
    /// Where the scenario names one (`testbed.bridge`): a bridge that is there already. Else it is the lab's own.
    WhereNamed,
    /// Always (`testbed.interface`): a card.
    Always,
}

/// What the names of a lab's ports begin with where they are in the host's own network namespace.
const PORT_ON_HOST: &str = "vioperf-";

/// What a lab's port is called in the host's own network namespace, where its name in the lab's would be
/// anybody's.
pub fn port_on_host(name: &str) -> String {
    format!("{PORT_ON_HOST}{name}")
}

/// Whether an interface of the host is called as a lab's port there.
pub fn is_port_on_host(interface: &str) -> bool {
    interface.starts_with(PORT_ON_HOST)
}

/// What a lab's port is, whichever namespace it is in: `peer`, `second`, `tap0`.
pub fn port_role(interface: &str) -> &str {
    interface.strip_prefix(PORT_ON_HOST).unwrap_or(interface)
}

/// Every switch that vioperf knows; the first is the one where nobody says which.
pub const SWITCHES: &[SwitchRow] = &[
    where_named("bridge", "a Linux bridge, the guest on a tap"),
    row("vlan-filtering", "a Linux bridge that filters VLANs, all ports in one"),
    row("bridge-per-vlan", "a Linux bridge of a VLAN's own, the wire to the peer tagged"),
    row("none", "no switch: the guest's tap is the peer's own interface"),
    where_named("openvswitch", "Open vSwitch, with the kernel's datapath where there is one"),
    row("openvswitch-userspace", "Open vSwitch with its userspace datapath"),
    SwitchRow {
        polls: true,
        ..row(
            "openvswitch-dpdk",
            "Open vSwitch with DPDK, a thread of which polls the guest's rings",
        )
    },
    row("macvtap-bridge", "a macvtap on the wire to the peer; those on one wire reach each other"),
    row("macvtap-vepa", "the same, those on one wire reach each other by a switch outside"),
    row("macvtap-private", "the same, those on one wire do not reach each other"),
    row("macvtap-passthru", "the same, the wire is the guest's alone"),
    row(
        "passt",
        "no switch: passt ends the guest's connections and makes its own, without privileges",
    ),
    row("slirp", "no switch: QEMU itself ends the guest's connections and makes its own"),
    of_host("sriov", "virtual functions of a network card, which is the switch"),
    of_host("sriov-host", "the same, the peer on the card's physical function, as the host is"),
];

const fn row(name: &'static str, about: &'static str) -> SwitchRow {
    SwitchRow { name, about, of_host: OfHost::Never, polls: false }
}

const fn where_named(name: &'static str, about: &'static str) -> SwitchRow {
    SwitchRow { of_host: OfHost::WhereNamed, ..row(name, about) }
}

const fn of_host(name: &'static str, about: &'static str) -> SwitchRow {
    SwitchRow { of_host: OfHost::Always, ..row(name, about) }
}

/// A kind of switch: a reference to its row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SwitchKind(&'static SwitchRow);

impl SwitchKind {
    /// Every kind, in table order.
    pub fn all() -> impl Iterator<Item = Self> {
        SWITCHES.iter().map(Self)
    }

    /// The row of the table.
    pub fn row(self) -> &'static SwitchRow {
        self.0
    }

    /// The name users write.
    pub fn name(self) -> &'static str {
        self.0.name
    }
}

impl Default for SwitchKind {
    fn default() -> Self {
        const FIRST: &SwitchRow = &SWITCHES[0];
        Self(FIRST)
    }
}

impl fmt::Debug for SwitchKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

impl fmt::Display for SwitchKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0.name)
    }
}

/// The name is not in [`SWITCHES`].
#[derive(Debug, thiserror::Error)]
#[error("unknown switch `{name}`{}; known: {}", hint(.name), known())]
pub struct UnknownSwitch {
    name: String,
}

fn names() -> impl Iterator<Item = &'static str> {
    SWITCHES.iter().map(|row| row.name)
}

fn hint(name: &str) -> String {
    nearest(name, names()).map(|found| format!(", did you mean `{found}`?")).unwrap_or_default()
}

fn known() -> String {
    names().collect::<Vec<_>>().join(", ")
}

impl FromStr for SwitchKind {
    type Err = UnknownSwitch;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::all().find(|kind| kind.name() == name);
        found.ok_or_else(|| UnknownSwitch { name: name.to_owned() })
    }
}

impl Serialize for SwitchKind {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.name)
    }
}

impl<'de> Deserialize<'de> for SwitchKind {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text_form::deserialize(deserializer, "a switch")
    }
}

impl schemars::JsonSchema for SwitchKind {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "SwitchKind".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "enum": names().collect::<Vec<_>>() })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_parse_back() {
        let distinct: BTreeSet<_> = names().collect();
        assert_eq!(distinct.len(), SWITCHES.len());
        for kind in SwitchKind::all() {
            assert_eq!(kind.name().parse::<SwitchKind>().unwrap(), kind);
        }
        assert_eq!(SwitchKind::default().name(), "bridge");
    }

    #[test]
    fn a_port_has_one_role_wherever_it_is() {
        for name in ["peer", "second", "tap9999"] {
            let there = port_on_host(name);
            assert!(there.len() <= 15 && is_port_on_host(&there), "{there}");
            assert_eq!((port_role(&there), port_role(name)), (name, name));
            assert!(!is_port_on_host(name));
        }
    }

    #[test]
    fn an_unknown_name_gets_the_nearest() {
        let message = "brigde".parse::<SwitchKind>().unwrap_err().to_string();
        assert!(message.contains("did you mean `bridge`?"), "{message}");
    }
}
