//! Device files.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;

use super::Check;
use crate::qemu::accelerator::{KVM_DEVICE, kvm_device};
use crate::qemu::guest::VHOST_DEVICE;
use crate::tap::{TUN_DEVICE, TapError, open_device};

/// KVM's device. That it opens does not prove that guests run; `accel = "auto"` finds out.
#[must_use]
pub fn kvm(root: &Path) -> Check {
    const NAME: &str = "KVM";
    let Err(reason) = kvm_device(root) else {
        return Check::ok(NAME, format!("{KVM_DEVICE} opens"));
    };
    let found = format!("{reason}; guests run in software emulation (TCG), some 10 times slower");
    let processor = fs::read_to_string(root.join("proc/cpuinfo")).unwrap_or_default();
    let flags = processor.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    let capable = flags.split_ascii_whitespace().any(|flag| flag == "vmx" || flag == "svm");
    let advice = match (root.join("dev/kvm").exists(), capable) {
        (true, _) => "join its group: `sudo usermod -aG kvm $USER`, then log in again",
        (false, true) => "the processor can: `sudo modprobe kvm_intel` or `sudo modprobe kvm_amd`",
        (false, false) => {
            "the processor does not offer it: switch VT-x or AMD-V on in the firmware, or, in a \
             virtual machine, nested virtualization on its host"
        }
    };
    Check::warn(NAME, found, advice)
}

/// The device that taps are made from.
#[must_use]
pub fn tun(root: &Path) -> Check {
    const NAME: &str = "tap device";
    match open_device(&root.join(TUN_DEVICE.trim_start_matches('/'))) {
        Ok(_) => Check::ok(NAME, format!("{TUN_DEVICE} opens")),
        Err(TapError::NoDevice { .. }) => Check::fail(
            NAME,
            format!("there is no {TUN_DEVICE}"),
            "`sudo modprobe tun`; in a container pass the device in (`--device /dev/net/tun`)",
        ),
        Err(TapError::NoPermission { .. }) => Check::fail(
            NAME,
            format!("{TUN_DEVICE} is not for this user"),
            "`sudo chmod 0666 /dev/net/tun` (as most distributions have it: making a tap needs \
             privileges over the namespace all the same), or run vioperf as root",
        ),
        Err(error) => Check::fail(NAME, error.to_string(), "`sudo modprobe tun`"),
    }
}

/// The kernel's packet mover, which virtio under KVM uses.
#[must_use]
pub fn vhost_net(root: &Path) -> Check {
    const NAME: &str = "vhost-net";
    let path = root.join(VHOST_DEVICE.trim_start_matches('/'));
    match OpenOptions::new().read(true).write(true).open(path) {
        Ok(_) => Check::ok(NAME, format!("{VHOST_DEVICE} opens; virtio uses it under KVM")),
        Err(_) if !root.join("dev/kvm").exists() => {
            Check::ok(NAME, format!("no {VHOST_DEVICE}; without KVM it is not used"))
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Check::warn(
            NAME,
            format!("{VHOST_DEVICE} is not for this user; QEMU moves the packets itself, slower"),
            "`sudo chmod 0666 /dev/vhost-net` or join its group",
        ),
        Err(_) => Check::warn(
            NAME,
            format!("there is no {VHOST_DEVICE}; QEMU moves the packets itself, slower"),
            "`sudo modprobe vhost_net`",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Status, machine_with};
    use super::*;

    #[test]
    fn a_processor_that_can_is_told_from_one_that_cannot() {
        let advice = |flags: &str| {
            let root = machine_with(&[("proc/cpuinfo", flags)]);
            let check = kvm(root.path());
            assert_eq!(check.status, Status::Warn);
            check.advice.unwrap()
        };
        assert!(advice("flags\t\t: fpu vmx sse\n").contains("modprobe"));
        assert!(advice("flags\t\t: fpu sse\n").contains("firmware"));
    }

    #[test]
    fn devices_that_open_are_well() {
        let root = machine_with(&[("dev/kvm", ""), ("dev/net/tun", ""), ("dev/vhost-net", "")]);
        for check in [kvm(root.path()), tun(root.path()), vhost_net(root.path())] {
            assert_eq!((check.status, check.advice), (Status::Ok, None), "{}", check.found);
        }
    }

    #[test]
    fn missing_vhost_matters_under_kvm_only() {
        assert_eq!(vhost_net(machine_with(&[]).path()).status, Status::Ok);
        assert_eq!(vhost_net(machine_with(&[("dev/kvm", "")]).path()).status, Status::Warn);
    }
}
