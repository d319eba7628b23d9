//! Handing a device of the host to a guest: its own driver lets go of it and vfio-pci takes it, as long as the IOMMU keeps it
//! apart from every other device.
//!
//! What is handed over here are virtual functions that were made for the run: they go when the card is put back, and so does
//! what is done here ([`crate::sriov`]).
//!
//! Sources: the kernel's `Documentation/driver-api/vfio.rst` and `Documentation/ABI/testing/sysfs-bus-pci`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::switch::Lack;

/// The driver by which a program has a PCI device.
const DRIVER: &str = "vfio-pci";

/// Drivers of what may be in a device's group: its own kind, and the bridges above it.
const HARMLESS: [&str; 2] = [DRIVER, "pcieport"];

/// Bit of `CAP_IPC_LOCK` (capabilities(7)).
const IPC_LOCK: u32 = 14;

/// Why a device could not be handed over.
#[derive(Debug, thiserror::Error)]
pub enum VfioError {
    /// It has no group.
    #[error(
        "{address} is behind no IOMMU: add intel_iommu=on to the kernel's command line (AMD's is on by itself), and switch \
         VT-d or AMD-Vi on in the firmware"
    )]
    NoGroup {
        /// The PCI address.
        address: String,
    },
    /// The IOMMU does not tell it from others, which the host uses.
    #[error(
        "the IOMMU does not keep {address} apart from {others} (group {group}), which the host uses: put the card into another \
         slot, or switch ACS on in the firmware"
    )]
    SharedGroup {
        /// The PCI address.
        address: String,
        /// The group's number.
        group: String,
        /// PCI addresses of the others.
        others: String,
    },
    /// A file of `/sys` could not be read or written.
    #[error("cannot hand {address} to a guest: {step}: {source}")]
    Sysfs {
        /// The PCI address.
        address: String,
        /// What was being done.
        step: &'static str,
        /// The reason.
        source: io::Error,
    },
    /// The kernel took all that, and another driver has it.
    #[error("{address} is driven by {driver}, not by {DRIVER}: does the kernel's log say why?")]
    OtherDriver {
        /// The PCI address.
        address: String,
        /// What has it, or that nothing has.
        driver: String,
    },
}

/// What the machine below `root` lacks for a guest of so much memory to be given a device of it.
#[must_use]
pub fn lacks(root: &Path, memory_mib: u64) -> Option<Lack> {
    let has_groups = fs::read_dir(root.join("sys/kernel/iommu_groups"))
        .is_ok_and(|mut groups| groups.next().is_some());
    if !has_groups {
        return Some(Lack::new(
            "no IOMMU of this machine is on",
            "add intel_iommu=on to the kernel's command line (AMD's is on by itself), and switch VT-d or AMD-Vi on in the \
             firmware",
        ));
    }
    if !root.join("sys/bus/pci/drivers").join(DRIVER).exists() {
        return Some(Lack::new("the driver vfio-pci is not loaded", "`sudo modprobe vfio-pci`"));
    }
    if !root.join("dev/vfio/vfio").exists() {
        return Some(Lack::new(
            "there is no /dev/vfio/vfio",
            "`sudo modprobe vfio_iommu_type1`; in a container pass the devices in (`--device /dev/vfio`)",
        ));
    }
    let limit_mib = locked_memory_mib(root)?;
    (limit_mib < memory_mib).then(|| {
        Lack::new(
            format!("{limit_mib} MiB may be locked, and the guest's {memory_mib} MiB have to be"),
            "`ulimit -l unlimited`, or give the container CAP_IPC_LOCK",
        )
    })
}

/// How much memory this process may lock, in MiB; nothing where there is no limit to it.
fn locked_memory_mib(root: &Path) -> Option<u64> {
    let read = |name: &str| fs::read_to_string(root.join("proc/self").join(name)).ok();
    let status = read("status")?;
    let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    let capabilities = u64::from_str_radix(capabilities.trim(), 16).ok()?;
    if capabilities & (1 << IPC_LOCK) != 0 {
        return None;
    }
    let limits = read("limits")?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? >> 20)
}

/// A PCI device, below `sys`.
#[derive(Debug)]
struct Device<'a> {
    sys: &'a Path,
    address: &'a str,
}

impl Device<'_> {
    fn folder(&self) -> PathBuf {
        self.sys.join("bus/pci/devices").join(self.address)
    }

    fn failed(&self, step: &'static str) -> impl FnOnce(io::Error) -> VfioError {
        let address = self.address.to_owned();
        move |source| VfioError::Sysfs { address, step, source }
    }

    fn driver(&self) -> Option<String> {
        name_of_link(&self.folder().join("driver"))
    }

    /// No other device that the host uses may be in its group.
    fn check_group(&self) -> Result<(), VfioError> {
        let address = self.address.to_owned();
        let group = name_of_link(&self.folder().join("iommu_group"));
        let group = group.ok_or(VfioError::NoGroup { address: address.clone() })?;
        let devices = self.folder().join("iommu_group/devices");
        let listed = fs::read_dir(devices).map_err(self.failed("look into its group"))?;
        let names = listed.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let is_used = |other: &String| {
            let driver = Device { sys: self.sys, address: other }.driver();
            *other != address && driver.is_some_and(|name| !HARMLESS.contains(&name.as_str()))
        };
        let others: Vec<String> = names.filter(is_used).collect();
        match others.is_empty() {
            true => Ok(()),
            false => Err(VfioError::SharedGroup { address, group, others: others.join(", ") }),
        }
    }

    fn take(&self) -> Result<(), VfioError> {
        let override_file = self.folder().join("driver_override");
        fs::write(override_file, DRIVER).map_err(self.failed("write driver_override"))?;
        if self.driver().is_some() {
            let unbind = self.folder().join("driver/unbind");
            fs::write(unbind, self.address).map_err(self.failed("take it from its driver"))?;
        }
        self.probe()
    }

    /// Has the kernel look for a driver.
    fn probe(&self) -> Result<(), VfioError> {
        let probe = self.sys.join("bus/pci/drivers_probe");
        fs::write(probe, self.address).map_err(self.failed("have a driver looked for"))
    }
}

fn name_of_link(link: &Path) -> Option<String> {
    fs::read_link(link).ok()?.file_name()?.to_str().map(str::to_owned)
}

/// Gives a device to vfio-pci; one that has it already is left as it is.
///
/// # Errors
/// [`VfioError`]; the device's own driver has it again then, where it takes it.
pub(crate) fn hand_over(sys: &Path, address: &str) -> Result<(), VfioError> {
    let device = Device { sys, address };
    device.check_group()?;
    if device.driver().as_deref() == Some(DRIVER) {
        return Ok(());
    }
    let taken = device.take().and_then(|()| verify(sys, address));
    if taken.is_err() {
        // The first error is the one to tell.
        let _ = fs::write(device.folder().join("driver_override"), "\n");
        let _ = device.probe();
    }
    taken
}

/// Whether vfio-pci has a device.
///
/// # Errors
/// [`VfioError::OtherDriver`].
pub(crate) fn verify(sys: &Path, address: &str) -> Result<(), VfioError> {
    let driver = Device { sys, address }.driver();
    if driver.as_deref() == Some(DRIVER) {
        return Ok(());
    }
    let driver = driver.unwrap_or_else(|| "nothing".to_owned());
    Err(VfioError::OtherDriver { address: address.to_owned(), driver })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::preflight::machine_with;

    const OWN: &str = "0000:01:10.4";

    /// A written machine whose device is driven by `igbvf`, in a group with another that has that driver.
    fn machine(other: Option<&str>) -> tempfile::TempDir {
        let root = machine_with(&[
            ("sys/bus/pci/drivers_probe", ""),
            ("sys/bus/pci/drivers/igbvf/unbind", ""),
            ("sys/bus/pci/drivers/vfio-pci/unbind", ""),
            ("sys/bus/pci/drivers/e1000e/unbind", ""),
            ("sys/bus/pci/devices/0000:01:10.4/driver_override", "(null)\n"),
            ("sys/bus/pci/devices/0000:00:01.0/vendor", ""),
            ("sys/kernel/iommu_groups/7/devices/0000:01:10.4/x", ""),
            ("sys/kernel/iommu_groups/7/devices/0000:00:01.0/x", ""),
        ]);
        let sys = root.path().join("sys");
        let device = sys.join("bus/pci/devices").join(OWN);
        symlink(sys.join("bus/pci/drivers/igbvf"), device.join("driver")).unwrap();
        symlink(sys.join("kernel/iommu_groups/7"), device.join("iommu_group")).unwrap();
        if let Some(driver) = other {
            let other = sys.join("bus/pci/devices/0000:00:01.0");
            symlink(sys.join("bus/pci/drivers").join(driver), other.join("driver")).unwrap();
        }
        root
    }

    #[test]
    fn a_device_that_the_iommu_does_not_tell_from_others_stays_where_it_is() {
        let root = machine(Some("e1000e"));
        let message = hand_over(&root.path().join("sys"), OWN).unwrap_err().to_string();
        assert!(message.contains("0000:00:01.0 (group 7)") && message.contains("ACS"), "{message}");
        let untouched = root.path().join("sys/bus/pci/devices").join(OWN).join("driver_override");
        assert_eq!(fs::read_to_string(untouched).unwrap(), "(null)\n");
        let alone = machine_with(&[("sys/bus/pci/devices/0000:01:10.4/x", "")]);
        let message = hand_over(&alone.path().join("sys"), OWN).unwrap_err().to_string();
        assert!(message.contains("intel_iommu=on"), "{message}");
    }

    #[test]
    fn its_driver_is_asked_to_let_go_and_a_kernel_that_does_not_hand_it_over_is_told() {
        // Files do nothing: this kernel takes every word and leaves the device where it is.
        let root = machine(None);
        let sys = root.path().join("sys");
        let message = hand_over(&sys, OWN).unwrap_err().to_string();
        assert!(message.contains("is driven by igbvf"), "{message}");
        let read = |path: &str| fs::read_to_string(sys.join(path)).unwrap();
        assert_eq!(read("bus/pci/drivers/igbvf/unbind"), OWN);
        assert_eq!(read("bus/pci/drivers_probe"), OWN);
        assert_eq!(read("bus/pci/devices/0000:01:10.4/driver_override"), "\n", "undone");
        // One that vfio-pci has already is as it should be.
        let link = sys.join("bus/pci/devices").join(OWN).join("driver");
        fs::remove_file(&link).unwrap();
        symlink(sys.join("bus/pci/drivers/vfio-pci"), link).unwrap();
        hand_over(&sys, OWN).unwrap();
    }

    #[test]
    fn what_a_machine_lacks_is_told_with_what_to_do() {
        let said = |files: &[(&str, &str)]| {
            lacks(machine_with(files).path(), 256).map(|lack| lack.to_string()).unwrap_or_default()
        };
        let group = ("sys/kernel/iommu_groups/0/type", "");
        let driver = ("sys/bus/pci/drivers/vfio-pci/bind", "");
        let device = ("dev/vfio/vfio", "");
        assert!(said(&[]).contains("intel_iommu=on"));
        assert!(said(&[group]).contains("modprobe vfio-pci"));
        assert!(said(&[group, driver]).contains("/dev/vfio/vfio"));
        assert_eq!(said(&[group, driver, device]), "");
        let limits = ("proc/self/limits", "Max locked memory  8388608  8388608  bytes\n");
        let status = |capabilities| ("proc/self/status", capabilities);
        let few = said(&[group, driver, device, limits, status("CapEff:\t0000000000000000\n")]);
        assert!(few.contains("8 MiB may be locked") && few.contains("ulimit"), "{few}");
        let many = said(&[group, driver, device, limits, status("CapEff:\t0000000000004000\n")]);
        assert_eq!(many, "");
    }
}
