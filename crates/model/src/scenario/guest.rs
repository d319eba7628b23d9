//! The guest: what it is made of and made with, and how a variant changes that.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::checks::LOADS;
use super::variants::is_default;
use super::{Contradiction, Drive, HugePages, MachineType};
use crate::interface_settings::{Coalesce, InterfaceSettings, Rings, Steering};
use crate::units::{ByteSize, CoreLoad, TimeSpan};

/// The guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Guest {
    /// Virtual CPUs, 1 to 64.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "half of the host's cores, at least 1 and at most 4"))]
    pub vcpus: Option<u16>,
    /// Memory, at least 128 MiB.
    pub memory: ByteSize,
    /// Kernel image, a file on the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "the host's own kernel, else a fetched one (`vioperf kernel list`)"))]
    pub kernel: Option<String>,
    /// The kernel's module directory (the one with `modules.dep`); goes with `guest.kernel`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "beside the kernel, or in `/lib/modules`"))]
    pub modules: Option<String>,
    /// Appended to the guest kernel's command line (`mitigations=off`); what comes later wins there.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "none"))]
    pub kernel_arguments: Option<String>,
    /// QEMU's program.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "`qemu-system-x86_64` in `PATH`"))]
    pub qemu: Option<String>,
    /// Parameters of the guest's kernel modules, by module, as `options` of modprobe.d(5) has them: `{ virtio_net =
    /// "napi_tx=0" }`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-absent" = "none"))]
    pub driver_options: BTreeMap<String, String>,
    /// Properties of QEMU's device of the NIC: `{ mrg_rxbuf = false }`; `qemu-system-x86_64 -device
    /// virtio-net-pci,help` lists them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-absent" = "QEMU's own"))]
    pub device_options: BTreeMap<String, DeviceOption>,
    /// Offloads of the guest's NIC that are switched on or off, by the names of ethtool(8): `gro`, `gso`, `tso`,
    /// `lro`, `sg`, `rx`, `tx`, or the long ones of `ethtool -k`: `{ gro = false, tso = false }`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-absent" = "the driver's"))]
    pub offloads: BTreeMap<String, bool>,
    /// Queue pairs of the NIC that are in use (virtio, igb), whatever the number of virtual CPUs; 1 to 64.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "1 of virtio, others as their driver has it"))]
    pub queues: Option<u16>,
    /// Sizes of the NIC's descriptor rings (`ethtool -G`): `{ rx = 512, tx = 512 }`. Those of virtio's device are
    /// `device_options`: `{ rx_queue_size = 1024 }`.
    #[serde(skip_serializing_if = "Rings::is_empty")]
    #[schemars(extend("x-absent" = "the driver's"))]
    pub rings: Rings,
    /// How the NIC's interrupts are put off (`ethtool -C`): `{ rx_usecs = 50 }`.
    #[serde(skip_serializing_if = "Coalesce::is_empty")]
    #[schemars(extend("x-absent" = "the driver's"))]
    pub coalesce: Coalesce,
    /// Cores of the guest that process what each queue received: `none`, `all`, `spread` (each queue has one of its
    /// own, in turn), or a list such as `"0,2"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "the kernel's"))]
    pub rps: Option<Steering>,
    /// Cores of the guest that send by each queue, in the same words.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "the kernel's"))]
    pub xps: Option<Steering>,
    /// How the host's end of the NIC is set up, its tap or macvtap; the guest's own end has the keys above. What is
    /// not in force before a trial makes it void. Baselines have no such end, so one serves all levels.
    #[serde(skip_serializing_if = "InterfaceSettings::is_empty")]
    #[schemars(extend("x-absent" = "the driver's"))]
    pub port: InterfaceSettings,
    /// Who moves the frames between the tap and the guest.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("x-absent" = "`auto`"))]
    pub vhost: Vhost,
    /// How QEMU hands the disk to the guest (`factors.disk`). QEMU is asked what is in force; where that is otherwise the
    /// trial is void.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("x-absent" = "as its keys say"))]
    pub drive: Drive,
    /// QEMU's CPU model (`qemu-system-x86_64 -cpu help` lists them), with features if wanted:
    /// `"Skylake-Server,-avx512f"`. QEMU is asked which one a guest got, and what of it is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "`host` under KVM, else `max`"))]
    pub cpu: Option<String>,
    /// QEMU's machine type.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("x-absent" = "`q35`"))]
    pub machine: MachineType,
    /// Which pages of the host the guest's memory is in.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("x-absent" = "`auto`"))]
    pub huge_pages: HugePages,
    /// Work of the guest during every trial beside what the test takes, 100 % being one virtual CPU: `"50 %"`,
    /// `"200 %"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "none"))]
    pub load: Option<CoreLoad>,
    /// What executes the guest's instructions.
    pub accel: Accel,
    /// How long a guest serves.
    pub reuse: Reuse,
    /// How long a guest may take to answer or to get a carrier before its trial is void.
    pub ready_timeout: TimeSpan,
}

impl Default for Guest {
    fn default() -> Self {
        Self {
            vcpus: None,
            memory: ByteSize::from_mib(256),
            kernel: None,
            modules: None,
            kernel_arguments: None,
            qemu: None,
            driver_options: BTreeMap::new(),
            device_options: BTreeMap::new(),
            offloads: BTreeMap::new(),
            queues: None,
            rings: Rings::default(),
            coalesce: Coalesce::default(),
            rps: None,
            xps: None,
            port: InterfaceSettings::default(),
            vhost: Vhost::default(),
            drive: Drive::default(),
            cpu: None,
            machine: MachineType::default(),
            huge_pages: HugePages::default(),
            load: None,
            accel: Accel::Auto,
            reuse: Reuse::Group,
            ready_timeout: TimeSpan::from_millis(60_000),
        }
    }
}

/// What executes the guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Accel {
    /// KVM where a guest proves that it works, else TCG, with a note on every output.
    Auto,
    /// KVM or an error.
    Kvm,
    /// QEMU's software emulation.
    Tcg,
}

/// Who moves the frames between a tap and the guest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Vhost {
    /// The host's kernel (vhost-net) of virtio under KVM, where it is there; else QEMU.
    #[default]
    Auto,
    /// The host's kernel.
    On,
    /// QEMU.
    Off,
}

/// How long a guest serves before it makes place for a fresh one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Reuse {
    /// One guest, restored from the snapshot, serves the consecutive cells of a block that differ
    /// in nothing but the load. Such cells are kept together in the random order.
    Group,
    /// As `group`, but a guest is paused when its cells of a block are measured, and goes on in the next
    /// block: more blocks in the same time. What differs from one start of a guest to another is not
    /// in the intervals then.
    Run,
    /// Every cell gets a guest restored from the snapshot.
    Cell,
    /// Every cell gets a freshly booted guest, its NIC plugged in from the start.
    None,
}

impl Reuse {
    /// Whether the cells that one guest can serve are measured one after the other.
    pub fn keeps_groups(self) -> bool {
        matches!(self, Self::Group | Self::Run)
    }
}

/// The value of a property of a QEMU device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum DeviceOption {
    /// `on` or `off`.
    Switch(bool),
    /// A number.
    Number(i64),
    /// Anything else, `auto` and the values of lists among them.
    Text(String),
}

impl fmt::Display for DeviceOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Switch(true) => f.write_str("on"),
            Self::Switch(false) => f.write_str("off"),
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

/// QEMU's tap takes no more of a multi-queue device's (`MAX_TAP_QUEUES` is 1024), and vectors run out first.
const MOST_QUEUES: u16 = 64;
/// x86 keeps 2047 bytes of its command line (`COMMAND_LINE_SIZE`); the rest is vioperf's own.
const MAX_KERNEL_ARGUMENTS_BYTES: usize = 1800;
/// The kernel takes no longer module parameters (`finit_module(2)`: a page).
const MAX_DRIVER_OPTIONS_BYTES: usize = 1000;

impl Guest {
    /// The guest without what its NIC and its disk alone have: those that are equal in this can be restored from
    /// one snapshot.
    #[must_use]
    pub fn without_device_settings(&self) -> Self {
        Self {
            device_options: BTreeMap::new(),
            offloads: BTreeMap::new(),
            queues: None,
            rings: Rings::default(),
            coalesce: Coalesce::default(),
            rps: None,
            xps: None,
            port: InterfaceSettings::default(),
            vhost: Vhost::default(),
            drive: Drive::default(),
            load: None,
            ..self.clone()
        }
    }

    /// How its NIC is set up.
    #[must_use]
    pub fn interface_settings(&self) -> InterfaceSettings {
        InterfaceSettings {
            queues: self.queues,
            offloads: self.offloads.clone(),
            rings: self.rings,
            coalesce: self.coalesce,
            rps: self.rps.clone(),
            xps: self.xps.clone(),
        }
    }

    /// What cannot be meant.
    pub fn contradictions(&self) -> Vec<Contradiction> {
        let mut found = Vec::new();
        let mut check = |wrong: bool, key: &str, message: String| {
            if wrong {
                found.push(Contradiction { key: key.to_owned(), message });
            }
        };
        let vcpus = self.vcpus;
        check(
            vcpus.is_some_and(|n| !(1..=64).contains(&n)),
            "guest.vcpus",
            "a guest has 1 to 64 virtual CPUs".into(),
        );
        check(
            self.queues.is_some_and(|n| !(1..=MOST_QUEUES).contains(&n)),
            "guest.queues",
            format!("a NIC has 1 to {MOST_QUEUES} queue pairs"),
        );
        check(
            self.load.is_some_and(|load| !LOADS.contains(&load)),
            "guest.load",
            "from 1 % to 6400 %, 100 % being one virtual CPU".into(),
        );
        let is_cpu = |c: char| c.is_ascii_alphanumeric() || "-_.,+=".contains(c);
        check(
            self.cpu.as_ref().is_some_and(|cpu| cpu.is_empty() || !cpu.chars().all(is_cpu)),
            "guest.cpu",
            "no CPU model: `qemu-system-x86_64 -cpu help` lists them".into(),
        );
        check(
            self.memory < ByteSize::from_mib(128),
            "guest.memory",
            format!("{} is too little for a guest: give at least 128 MiB", self.memory),
        );
        check(
            self.modules.is_some() && self.kernel.is_none(),
            "guest.modules",
            "modules without guest.kernel: name the kernel that they belong to".into(),
        );
        let arguments = self.kernel_arguments.as_deref().unwrap_or_default();
        check(
            arguments.chars().any(char::is_control),
            "guest.kernel_arguments",
            "a kernel's command line has no line breaks or other control characters".into(),
        );
        check(
            arguments.len() > MAX_KERNEL_ARGUMENTS_BYTES,
            "guest.kernel_arguments",
            format!("longer than {MAX_KERNEL_ARGUMENTS_BYTES} bytes: a kernel would cut it off"),
        );
        let is_name = |name: &str| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        };
        for (module, options) in &self.driver_options {
            let plain = is_name(module) && !options.chars().any(char::is_control);
            check(
                !plain || options.len() > MAX_DRIVER_OPTIONS_BYTES,
                "guest.driver_options",
                format!("`{module}`: write options like virtio_net = \"napi_tx=0\""),
            );
        }
        for name in self.device_options.keys().filter(|name| !is_name(name)) {
            let message = format!("`{name}` is no property: write them like mrg_rxbuf = false");
            check(true, "guest.device_options", message);
        }
        for name in self.offloads.keys().filter(|name| !is_name(name)) {
            let message = format!("`{name}` is no offload: write them like gro = false");
            check(true, "guest.offloads", message);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Changes;

    #[test]
    fn a_variant_changes_what_it_names_and_nothing_else() {
        let guest = Guest {
            kernel: Some("/boot/a".into()),
            modules: Some("/lib/modules/a".into()),
            offloads: [("gro".to_owned(), true)].into(),
            ..Guest::default()
        };
        let text = "kernel = \"/boot/b\"\noffloads = { tso = false }";
        let changed = toml::from_str::<Changes<Guest>>(text).unwrap().applied_to(&guest);
        assert_eq!((changed.kernel.as_deref(), changed.modules), (Some("/boot/b"), None));
        assert_eq!(changed.offloads.len(), 2);
        assert_eq!(changed.memory, guest.memory);
        assert_eq!(Changes::<Guest>::default().applied_to(&guest), guest);
    }

    #[test]
    fn options_that_are_none_are_named() {
        let guest = Guest {
            driver_options: [("virtio net".to_owned(), "a=1".to_owned())].into(),
            device_options: [("a,b".to_owned(), DeviceOption::Switch(true))].into(),
            ..Guest::default()
        };
        let keys: Vec<_> = guest.contradictions().into_iter().map(|found| found.key).collect();
        assert_eq!(keys, ["guest.driver_options", "guest.device_options"]);
    }
}
