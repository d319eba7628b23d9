//! How an interface is set up otherwise than its driver does it by itself.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text_form;

/// What is set at an interface; what is absent is left as its driver has it. Once set, everything is read
/// again: what is not as it was asked for is an error.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct InterfaceSettings {
    /// Queue pairs in use (`ethtool -L`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queues: Option<u16>,
    /// Offloads, by the names of ethtool(8) or those of `ethtool -k`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub offloads: BTreeMap<String, bool>,
    /// Sizes of descriptor rings (`ethtool -G`).
    #[serde(skip_serializing_if = "Rings::is_empty")]
    pub rings: Rings,
    /// How interrupts are put off (`ethtool -C`).
    #[serde(skip_serializing_if = "Coalesce::is_empty")]
    pub coalesce: Coalesce,
    /// Cores that process what each queue received (`rps_cpus`), in the words of `guest.rps`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "the kernel's"))]
    pub rps: Option<Steering>,
    /// Cores that send by each queue (`xps_cpus`), in the words of `guest.rps`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "the kernel's"))]
    pub xps: Option<Steering>,
}

impl InterfaceSettings {
    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Descriptors of a ring.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Rings {
    /// Descriptors of each ring for receiving.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rx: Option<u32>,
    /// Descriptors of each ring for sending.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tx: Option<u32>,
}

impl Rings {
    /// Whether none is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// For how long, and how many packets, interrupts are put off, by the names of `ethtool -C`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Coalesce {
    /// How long an interrupt is put off after a packet was received, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rx_usecs: Option<u32>,
    /// How many packets are received before an interrupt comes all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rx_frames: Option<u32>,
    /// How long an interrupt is put off after a packet was sent, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tx_usecs: Option<u32>,
    /// How many packets are sent before an interrupt comes all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tx_frames: Option<u32>,
    /// Whether the driver adapts what it does for receiving to the load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adaptive_rx: Option<bool>,
    /// Whether it adapts what it does for sending.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adaptive_tx: Option<bool>,
}

impl Coalesce {
    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Cores that the packets of queues are steered to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Steering {
    /// None: of receiving, the core that was interrupted; of sending, whichever the flow's hash says.
    None,
    /// All of the machine.
    All,
    /// Each queue has one of its own, in turn.
    Spread,
    /// These.
    Cores(Vec<u16>),
}

/// More cores than this are not named.
const MOST_CORES: u16 = 1024;

impl fmt::Display for Steering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.pad("none"),
            Self::All => f.pad("all"),
            Self::Spread => f.pad("spread"),
            Self::Cores(cores) => {
                let cores: Vec<String> = cores.iter().map(u16::to_string).collect();
                f.pad(&cores.join(","))
            }
        }
    }
}

/// Neither a word nor a list of cores.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is no choice of cores: write none, all, spread or a list such as 0,2")]
pub struct NoSteering(String);

impl FromStr for Steering {
    type Err = NoSteering;

    fn from_str(text: &str) -> Result<Self, NoSteering> {
        let list = || {
            let cores = text.split(',').map(|core| core.trim().parse().ok());
            let cores: Option<Vec<u16>> = cores.collect();
            cores.filter(|cores| cores.iter().all(|core| *core < MOST_CORES)).map(Self::Cores)
        };
        match text {
            "none" => Ok(Self::None),
            "all" => Ok(Self::All),
            "spread" => Ok(Self::Spread),
            _ => list().ok_or_else(|| NoSteering(text.to_owned())),
        }
    }
}

impl Serialize for Steering {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Steering {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text_form::deserialize(deserializer, "none, all, spread or a list of cores such as \"0,2\"")
    }
}

impl JsonSchema for Steering {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Steering".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^(none|all|spread|[0-9]+(,[0-9]+)*)$" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_of_cores_are_read_as_they_are_written() {
        for text in ["none", "all", "spread", "0,2"] {
            assert_eq!(text.parse::<Steering>().unwrap().to_string(), text);
        }
        for text in ["", "some", "1,", "1-2", "5000"] {
            assert!(text.parse::<Steering>().is_err(), "{text}");
        }
    }
}
