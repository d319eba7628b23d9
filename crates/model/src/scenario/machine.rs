//! What the virtual machine around a guest is like.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// QEMU's machine types.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MachineType {
    /// Q35, with PCI Express: what libvirt gives to new guests.
    #[default]
    Q35,
    /// i440FX, with conventional PCI alone.
    Pc,
}

impl fmt::Display for MachineType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Q35 => "q35",
            Self::Pc => "pc",
        })
    }
}

/// Which pages of the host a guest's memory is in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HugePages {
    /// As QEMU and the host have it: huge where the host's setting of transparent huge pages allows.
    #[default]
    Auto,
    /// Small ones alone.
    None,
    /// Transparent huge pages; where the guest got none the trial is void.
    Transparent,
    /// Huge pages that the host has set aside (`vm.nr_hugepages`).
    Explicit,
}

impl fmt::Display for HugePages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Auto => "auto",
            Self::None => "none",
            Self::Transparent => "transparent",
            Self::Explicit => "explicit",
        })
    }
}
