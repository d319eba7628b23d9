//! The disk models vioperf can put into a guest. **One row of [`DISK_MODELS`] is all there is to a model**: everything
//! else (scenario parsing, preflight, the modules packed into the guest's initramfs, plugging, driver verification, the
//! report) reads this table.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::nic::{Bus, NicKind};
use crate::suggest::nearest;
use crate::text_form;

/// What a disk is attached to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Controller {
    /// Nothing: QEMU's device is controller and disk in one.
    None,
    /// A controller, by QEMU's name, with the disk on its first bus.
    Of {
        /// QEMU's device of the controller.
        device: &'static str,
        /// Which machine types have one built in, by the name of its first bus; elsewhere it is added.
        built_in: Option<(crate::scenario::MachineType, &'static str)>,
    },
}

/// How a disk comes into a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plugging {
    /// While the guest runs.
    Hot,
    /// With the guest's boot alone: QEMU takes none while it runs.
    AtBoot,
}

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskModelRow {
    /// The name users write in scenarios and read in reports.
    pub name: &'static str,
    /// What QEMU's device of the disk is attached to.
    pub controller: Controller,
    /// QEMU's name of the disk itself, as `qemu-system-x86_64 -device help` lists it.
    pub qemu_device: &'static str,
    /// The Linux modules that drive it, the controller's first; what they depend on comes from `modules.dep`.
    pub modules: &'static [&'static str],
    /// The driver that its controller must have bound in the guest (sysfs); anything else voids the trial.
    pub driver: &'static str,
    /// Paravirtual or emulated.
    pub kind: NicKind,
    /// The slot that it, or its controller, goes into; `None`: the first free one of the machine's own bus.
    pub bus: Option<Bus>,
    /// Whether it can be plugged in while a guest runs.
    pub plugging: Plugging,
    /// Whether a thread of QEMU's own can serve it (`iothread`).
    pub has_io_thread: bool,
    /// One line on what it is, for `vioperf doctor` and the report.
    pub about: &'static str,
}

/// A controller that no machine type has built in.
const fn added(device: &'static str) -> Controller {
    Controller::Of { device, built_in: None }
}

/// Every disk model vioperf knows, best expected first.
pub const DISK_MODELS: &[DiskModelRow] = &[
    DiskModelRow {
        name: "virtio-blk",
        controller: Controller::None,
        qemu_device: "virtio-blk-pci",
        modules: &["virtio_blk"],
        driver: "virtio_blk",
        kind: NicKind::Paravirtual,
        bus: Some(Bus::PciExpress),
        plugging: Plugging::Hot,
        has_io_thread: true,
        about: "virtio-blk, the paravirtual disk of KVM",
    },
    DiskModelRow {
        name: "virtio-scsi",
        controller: added("virtio-scsi-pci"),
        qemu_device: "scsi-hd",
        modules: &["virtio_scsi", "sd_mod"],
        driver: "virtio_scsi",
        kind: NicKind::Paravirtual,
        bus: Some(Bus::PciExpress),
        plugging: Plugging::Hot,
        has_io_thread: true,
        about: "virtio-scsi, the paravirtual SCSI controller of KVM",
    },
    DiskModelRow {
        name: "nvme",
        controller: Controller::None,
        qemu_device: "nvme",
        modules: &["nvme"],
        driver: "nvme",
        kind: NicKind::Emulated,
        bus: Some(Bus::PciExpress),
        plugging: Plugging::Hot,
        has_io_thread: false,
        about: "an NVMe controller with one namespace",
    },
    DiskModelRow {
        name: "pvscsi",
        controller: added("pvscsi"),
        qemu_device: "scsi-hd",
        modules: &["vmw_pvscsi", "sd_mod"],
        driver: "vmw_pvscsi",
        kind: NicKind::Paravirtual,
        bus: Some(Bus::PciExpress),
        plugging: Plugging::Hot,
        has_io_thread: false,
        about: "VMware's paravirtual SCSI controller",
    },
    DiskModelRow {
        name: "ahci",
        controller: added("ich9-ahci"),
        qemu_device: "ide-hd",
        modules: &["ahci", "sd_mod"],
        driver: "ahci",
        kind: NicKind::Emulated,
        bus: Some(Bus::PciExpress),
        plugging: Plugging::AtBoot,
        has_io_thread: false,
        about: "Intel ICH9's SATA controller (AHCI), the default of many tools",
    },
    DiskModelRow {
        name: "lsi",
        controller: added("lsi53c895a"),
        qemu_device: "scsi-hd",
        modules: &["sym53c8xx", "sd_mod"],
        driver: "sym53c8xx",
        kind: NicKind::Emulated,
        bus: Some(Bus::ConventionalPci),
        plugging: Plugging::Hot,
        has_io_thread: false,
        about: "LSI 53C895A, a parallel SCSI controller",
    },
    DiskModelRow {
        name: "ide",
        controller: Controller::Of {
            device: "piix3-ide",
            built_in: Some((crate::scenario::MachineType::Pc, "ide.0")),
        },
        qemu_device: "ide-hd",
        modules: &["ata_piix", "sd_mod"],
        driver: "ata_piix",
        kind: NicKind::Emulated,
        bus: None,
        plugging: Plugging::AtBoot,
        has_io_thread: false,
        about: "Intel PIIX3's IDE controller",
    },
];

impl DiskModelRow {
    /// QEMU's devices that it is made of.
    pub fn qemu_devices(&self) -> impl Iterator<Item = &'static str> {
        let controller = match self.controller {
            Controller::None => None,
            Controller::Of { device, .. } => Some(device),
        };
        controller.into_iter().chain([self.qemu_device])
    }
}

/// A disk model: a reference to its row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DiskModel(&'static DiskModelRow);

impl DiskModel {
    /// Every model, in table order.
    pub fn all() -> impl Iterator<Item = Self> {
        DISK_MODELS.iter().map(Self)
    }

    /// The row of the table.
    pub fn row(self) -> &'static DiskModelRow {
        self.0
    }

    /// The name users write.
    pub fn name(self) -> &'static str {
        self.0.name
    }
}

impl fmt::Debug for DiskModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

impl fmt::Display for DiskModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0.name)
    }
}

/// The name is not in [`DISK_MODELS`].
#[derive(Debug, thiserror::Error)]
#[error("unknown disk model `{name}`{}; known: {}", hint(.name), known())]
pub struct UnknownDiskModel {
    name: String,
}

fn hint(name: &str) -> String {
    nearest(name, DISK_MODELS.iter().map(|row| row.name))
        .map(|found| format!(", did you mean `{found}`?"))
        .unwrap_or_default()
}

fn known() -> String {
    DISK_MODELS.iter().map(|row| row.name).collect::<Vec<_>>().join(", ")
}

impl FromStr for DiskModel {
    type Err = UnknownDiskModel;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        DISK_MODELS
            .iter()
            .find(|row| row.name == name)
            .map(Self)
            .ok_or_else(|| UnknownDiskModel { name: name.to_owned() })
    }
}

impl Serialize for DiskModel {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.name)
    }
}

impl<'de> Deserialize<'de> for DiskModel {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text_form::deserialize(deserializer, "a disk model")
    }
}

impl schemars::JsonSchema for DiskModel {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "DiskModel".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let names: Vec<&str> = DISK_MODELS.iter().map(|row| row.name).collect();
        schemars::json_schema!({ "type": "string", "enum": names })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_parse_back() {
        let names: BTreeSet<_> = DISK_MODELS.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), DISK_MODELS.len());
        for row in DISK_MODELS {
            assert_eq!(row.name.parse::<DiskModel>().unwrap().row(), row);
        }
    }

    #[test]
    fn an_unknown_name_gets_the_nearest() {
        let message = "virtio-blc".parse::<DiskModel>().unwrap_err().to_string();
        assert!(message.contains("did you mean `virtio-blk`?"), "{message}");
    }

    #[test]
    fn the_first_module_is_the_controllers() {
        assert!(
            DiskModel::all().all(|model| model.row().modules.first() == Some(&model.row().driver))
        );
    }
}
