//! The NIC models vioperf can put into a guest. **One row of [`NIC_MODELS`] is all there is to a
//! model**: everything else (scenario parsing, preflight, the modules packed into the guest's
//! initramfs, hot-plug, driver verification, the report) reads this table.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::suggest::nearest;
use crate::text_form;

/// What kind of device the model imitates, which decides the advice a report gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NicKind {
    /// Designed for virtual machines (virtio, vmxnet3): one notification carries many packets.
    Paravirtual,
    /// Imitates a physical card register by register.
    Emulated,
    /// Part of a physical card, handed to the guest.
    PassedThrough,
}

/// The slot a model goes into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bus {
    /// PCI Express root port.
    PciExpress,
    /// Conventional PCI.
    ConventionalPci,
}

/// How many queue pairs a model can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queues {
    /// One.
    One,
    /// As many as the tap behind it was opened with.
    OfBackend,
    /// As many as its driver makes, on one queue of the tap.
    OfDriver,
}

/// Drivers of virtual functions in Linux, each in a module of its name: Intel's 1, 10 and 40 to 100 Gbit/s cards, NVIDIA's,
/// Broadcom's, Marvell's and Chelsio's.
pub const FUNCTION_DRIVERS: &[&str] =
    &["igbvf", "ixgbevf", "iavf", "mlx5_core", "mlx4_core", "bnxt_en", "cxgb4vf", "qede"];

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NicModelRow {
    /// The name users write in scenarios and read in reports.
    pub name: &'static str,
    /// QEMU's device name, as `qemu-system-x86_64 -device help` lists it.
    pub qemu_device: &'static str,
    /// The Linux module that drives it; its dependencies come from `modules.dep`.
    pub module: &'static str,
    /// What `ETHTOOL_GDRVINFO` must report as the driver; anything else voids the trial. What is part of a card has that
    /// card's: [`NicModelRow::is_driver`].
    pub driver: &'static str,
    /// Paravirtual or emulated.
    pub kind: NicKind,
    /// The slot it goes into.
    pub bus: Bus,
    /// Whether it can have several queue pairs.
    pub queues: Queues,
    /// One line on what it is, for `vioperf doctor` and the report.
    pub about: &'static str,
}

impl NicModelRow {
    /// Whether it is part of a card of the host's, whose IOMMU keeps the guest from the rest.
    #[must_use]
    pub fn is_passed_through(&self) -> bool {
        self.kind == NicKind::PassedThrough
    }

    /// Whether a guest that has it can have bound that driver.
    #[must_use]
    pub fn is_driver(&self, driver: &str) -> bool {
        driver == self.driver || self.other_drivers().contains(&driver)
    }

    /// Modules of drivers that it may want instead: one of them is the host's card's.
    #[must_use]
    pub fn other_drivers(&self) -> &'static [&'static str] {
        if self.is_passed_through() { FUNCTION_DRIVERS } else { &[] }
    }
}

macro_rules! nic {
    ($name:literal, $device:literal, $module:literal, $driver:literal, $kind:ident, $bus:ident, $queues:ident, $about:literal) => {
        NicModelRow {
            name: $name,
            qemu_device: $device,
            module: $module,
            driver: $driver,
            kind: NicKind::$kind,
            bus: Bus::$bus,
            queues: Queues::$queues,
            about: $about,
        }
    };
}

/// Every NIC model vioperf knows, best expected first.
pub const NIC_MODELS: &[NicModelRow] = &[
    nic!(
        "virtio",
        "virtio-net-pci",
        "virtio_net",
        "virtio_net",
        Paravirtual,
        PciExpress,
        OfBackend,
        "virtio-net, the paravirtual NIC of KVM"
    ),
    nic!(
        "vmxnet3",
        "vmxnet3",
        "vmxnet3",
        "vmxnet3",
        Paravirtual,
        PciExpress,
        One,
        "VMware's paravirtual NIC"
    ),
    nic!(
        "igb",
        "igb",
        "igb",
        "igb",
        Emulated,
        PciExpress,
        OfDriver,
        "Intel 82576 gigabit, with SR-IOV; QEMU 8.0 and later"
    ),
    nic!("e1000e", "e1000e", "e1000e", "e1000e", Emulated, PciExpress, One, "Intel 82574L gigabit"),
    nic!(
        "e1000",
        "e1000",
        "e1000",
        "e1000",
        Emulated,
        ConventionalPci,
        One,
        "Intel 82540EM gigabit, the default of many tools"
    ),
    nic!(
        "rtl8139",
        "rtl8139",
        "8139cp",
        "8139cp",
        Emulated,
        ConventionalPci,
        One,
        "Realtek RTL8139 fast Ethernet"
    ),
    nic!(
        "pcnet",
        "pcnet",
        "pcnet32",
        "pcnet32",
        Emulated,
        ConventionalPci,
        One,
        "AMD PCnet-PCI II"
    ),
    nic!(
        "vf",
        "vfio-pci",
        "igbvf",
        "igbvf",
        PassedThrough,
        PciExpress,
        OfDriver,
        "a virtual function of a card, handed to the guest by vfio: on the switches sriov and sriov-host"
    ),
];

/// A NIC model: a reference to its row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NicModel(&'static NicModelRow);

impl NicModel {
    /// Every model that QEMU makes itself, in table order.
    pub fn made_by_qemu() -> impl Iterator<Item = Self> {
        Self::all().filter(|model| !model.row().is_passed_through())
    }

    /// Every model, in table order.
    pub fn all() -> impl Iterator<Item = Self> {
        NIC_MODELS.iter().map(Self)
    }

    /// The row of the table.
    pub fn row(self) -> &'static NicModelRow {
        self.0
    }

    /// The name users write.
    pub fn name(self) -> &'static str {
        self.0.name
    }
}

impl fmt::Debug for NicModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

impl fmt::Display for NicModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0.name)
    }
}

/// The name is not in [`NIC_MODELS`].
#[derive(Debug, thiserror::Error)]
#[error("unknown NIC model `{name}`{}; known: {}", hint(.name), known())]
pub struct UnknownNicModel {
    name: String,
}

fn hint(name: &str) -> String {
    nearest(name, NIC_MODELS.iter().map(|row| row.name))
        .map(|found| format!(", did you mean `{found}`?"))
        .unwrap_or_default()
}

fn known() -> String {
    NIC_MODELS.iter().map(|row| row.name).collect::<Vec<_>>().join(", ")
}

impl FromStr for NicModel {
    type Err = UnknownNicModel;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        NIC_MODELS
            .iter()
            .find(|row| row.name == name)
            .map(Self)
            .ok_or_else(|| UnknownNicModel { name: name.to_owned() })
    }
}

impl Serialize for NicModel {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.name)
    }
}

impl<'de> Deserialize<'de> for NicModel {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text_form::deserialize(deserializer, "a NIC model")
    }
}

impl schemars::JsonSchema for NicModel {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "NicModel".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let names: Vec<&str> = NIC_MODELS.iter().map(|row| row.name).collect();
        schemars::json_schema!({ "type": "string", "enum": names })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_parse_back() {
        let names: BTreeSet<_> = NIC_MODELS.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), NIC_MODELS.len());
        for row in NIC_MODELS {
            assert_eq!(row.name.parse::<NicModel>().unwrap().row(), row);
        }
    }

    #[test]
    fn an_unknown_name_gets_the_nearest() {
        let message = "virtoi".parse::<NicModel>().unwrap_err().to_string();
        assert!(message.contains("did you mean `virtio`?"), "{message}");
    }
}
