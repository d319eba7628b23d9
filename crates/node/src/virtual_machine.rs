//! Whether a machine is a virtual one.

use std::fs;
use std::path::Path;

/// What hypervisors and clouds say that they are, in the firmware's tables (DMI, `sys_vendor` and
/// `product_name`), in lower case.
const NAMES: [&str; 12] = [
    "qemu",
    "kvm",
    "vmware",
    "virtualbox",
    "innotek",
    "xen",
    "bochs",
    "parallels",
    "openstack",
    "virtual machine",
    "google compute engine",
    "alibaba cloud ecs",
];

/// Whether this machine is a guest; nothing where neither its CPU nor its firmware tells. `root` is `/`
/// but in tests.
///
/// x86 has a flag for it (CPUID leaf 1, ECX bit 31, kept free for hypervisors); others have only what
/// the firmware says.
pub(crate) fn is_virtual(root: &Path) -> Option<bool> {
    let read = |path: &str| fs::read_to_string(root.join(path)).ok();
    if let Some(flags) = read("proc/cpuinfo").as_deref().and_then(flags) {
        return Some(flags.split_ascii_whitespace().any(|flag| flag == "hypervisor"));
    }
    if root.join("sys/hypervisor/type").exists()
        || root.join("proc/device-tree/hypervisor").exists()
    {
        return Some(true);
    }
    let told = ["sys_vendor", "product_name"]
        .iter()
        .filter_map(|name| read(&format!("sys/class/dmi/id/{name}")))
        .collect::<Vec<_>>()
        .join(" ")
        .to_lowercase();
    (!told.trim().is_empty()).then(|| NAMES.iter().any(|name| told.contains(name)))
}

/// The flags of the first core.
fn flags(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("flags"))?;
    Some(line.split_once(':')?.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> Option<bool> {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        is_virtual(root.path())
    }

    #[test]
    fn the_cpu_tells_and_else_the_firmware() {
        let cpu = |flags: &str| format!("processor\t: 0\nflags\t\t: fpu {flags}\nbugs\t\t:\n");
        assert_eq!(machine(&[("proc/cpuinfo", &cpu("vmx hypervisor lahf_lm"))]), Some(true));
        let vendor = ("sys/class/dmi/id/sys_vendor", "QEMU\n");
        assert_eq!(machine(&[("proc/cpuinfo", &cpu("vmx")), vendor]), Some(false));
        let arm = ("proc/cpuinfo", "processor\t: 0\nFeatures\t: fp asimd\n");
        assert_eq!(machine(&[arm, vendor]), Some(true));
        assert_eq!(machine(&[arm, ("sys/class/dmi/id/sys_vendor", "Supermicro\n")]), Some(false));
        assert_eq!(
            machine(&[arm, ("proc/device-tree/hypervisor/compatible", "linux,kvm")]),
            Some(true)
        );
        assert_eq!(machine(&[arm]), None);
    }
}
