//! What an interface of a domain is connected to on its hypervisor.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::text_form;

/// Where an interface is connected (libvirt.org/formatdomain.html#network-interfaces).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DomainSource {
    /// A bridge of Linux's on the hypervisor.
    Bridge(String),
    /// A bridge of Open vSwitch's there.
    OpenVswitch(String),
    /// A network of libvirt's.
    Network(String),
    /// macvtap on an interface of the hypervisor.
    Direct {
        /// The interface.
        device: String,
        /// How macvtap switches.
        mode: DirectMode,
    },
}

/// How macvtap switches between those on the same interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectMode {
    /// Among them, by itself.
    Bridge,
    /// By the switch outside, which has to send frames back.
    Vepa,
    /// Not at all.
    Private,
    /// There is only one: it has the whole interface.
    Passthrough,
}

/// What names no source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` names nothing that an interface can be connected to{reason}: write bridge:NAME, openvswitch:NAME, \
     network:NAME, or direct:INTERFACE:MODE with the mode bridge, vepa, private or passthrough"
)]
pub struct SourceError {
    text: String,
    reason: &'static str,
}

const MODES: &[(&str, DirectMode)] = &[
    ("bridge", DirectMode::Bridge),
    ("vepa", DirectMode::Vepa),
    ("private", DirectMode::Private),
    ("passthrough", DirectMode::Passthrough),
];

/// The longest name of an interface of Linux's, in bytes.
const LONGEST_INTERFACE: usize = 15;

impl DirectMode {
    /// As libvirt writes it.
    pub fn name(self) -> &'static str {
        MODES.iter().find(|(_, mode)| *mode == self).map_or("", |(name, _)| name)
    }
}

impl DomainSource {
    /// The interface or bridge of the hypervisor's that it is; nothing where libvirt alone knows.
    pub fn device(&self) -> Option<&str> {
        match self {
            Self::Bridge(name) | Self::OpenVswitch(name) | Self::Direct { device: name, .. } => {
                Some(name)
            }
            Self::Network(_) => None,
        }
    }
}

impl fmt::Display for DomainSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bridge(name) => write!(f, "bridge:{name}"),
            Self::OpenVswitch(name) => write!(f, "openvswitch:{name}"),
            Self::Network(name) => write!(f, "network:{name}"),
            Self::Direct { device, mode } => write!(f, "direct:{device}:{}", mode.name()),
        }
    }
}

impl FromStr for DomainSource {
    type Err = SourceError;

    fn from_str(text: &str) -> Result<Self, SourceError> {
        let wrong = |reason| SourceError { text: text.to_owned(), reason };
        let (kind, name) = text.split_once(':').ok_or_else(|| wrong(""))?;
        let interface = |name: &str| {
            let is_one = (1..=LONGEST_INTERFACE).contains(&name.len())
                && !name.contains(|c: char| c == '/' || c == ':' || c.is_whitespace());
            let reason = " (an interface's name has 1 to 15 characters, without /, : and spaces)";
            if is_one { Ok(name.to_owned()) } else { Err(wrong(reason)) }
        };
        match kind {
            "bridge" => Ok(Self::Bridge(interface(name)?)),
            "openvswitch" => Ok(Self::OpenVswitch(interface(name)?)),
            "network" if name.trim().is_empty() => Err(wrong(" (the network has no name)")),
            "network" => Ok(Self::Network(name.to_owned())),
            "direct" => {
                let (device, mode) =
                    name.rsplit_once(':').ok_or_else(|| wrong(" (without a mode)"))?;
                let mode = MODES.iter().find(|(name, _)| *name == mode);
                let (_, mode) = mode.ok_or_else(|| wrong(" (with an unknown mode)"))?;
                Ok(Self::Direct { device: interface(device)?, mode: *mode })
            }
            _ => Err(wrong("")),
        }
    }
}

impl Serialize for DomainSource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DomainSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text_form::deserialize(
            deserializer,
            "what an interface is connected to, such as \"bridge:br1\"",
        )
    }
}

impl JsonSchema for DomainSource {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "DomainSource".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let modes: Vec<&str> = MODES.iter().map(|(name, _)| *name).collect();
        let pattern =
            format!("^((bridge|openvswitch|network):.+|direct:.+:({}))$", modes.join("|"));
        schemars::json_schema!({ "type": "string", "pattern": pattern })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_is_read() {
        for text in [
            "bridge:br1",
            "openvswitch:ovs-br0",
            "network:default",
            "network:a b:c",
            "direct:eth0:vepa",
            "direct:enp1s0:passthrough",
        ] {
            assert_eq!(text.parse::<DomainSource>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_names_nothing_says_what_would() {
        for text in [
            "br1",
            "bridge:",
            "bridge:a/b",
            "bridge:a-name-that-is-too-long",
            "network: ",
            "direct:eth0",
            "direct:eth0:hub",
            "direct::bridge",
            "hostdev:eth0",
            "",
        ] {
            let message = text.parse::<DomainSource>().unwrap_err().to_string();
            assert!(message.contains("direct:INTERFACE:MODE"), "{message}");
        }
    }
}
