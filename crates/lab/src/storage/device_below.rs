//! Which block device of the host's a file or device is on, down to the whole device that does the work.
//!
//! Sources: stat(2) (`st_dev`, `st_rdev`), statfs(2) (magic numbers of memory), sysfs: `dev/block/MAJ:MIN`, and in there
//! `partition`, `loop/backing_file` and `slaves/` (Documentation/ABI/stable/sysfs-block).

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::sys::stat::{major, minor};
use nix::sys::statfs::{TMPFS_MAGIC, fstatfs};
use vioperf_model::record::StorageFacts;

/// Devices on devices are followed so far: a volume on a volume on a loop device on a partition.
const DEEPEST: u8 = 8;

/// What `file` is on; `root` is `/` but in tests.
pub(super) fn of(file: &File, is_device: bool, root: &Path) -> StorageFacts {
    if !is_device && is_in_memory(file) {
        return StorageFacts { device: None, in_memory: true };
    }
    let number = file.metadata().ok().map(|meta| if is_device { meta.rdev() } else { meta.dev() });
    number.map(|number| below(root, number, DEEPEST)).unwrap_or_default()
}

fn is_in_memory(file: &File) -> bool {
    fstatfs(file).is_ok_and(|told| told.filesystem_type() == TMPFS_MAGIC)
}

/// The whole device below that of a number; nothing where the kernel has none of it (overlay and btrfs have numbers of
/// their own).
fn below(root: &Path, number: u64, deeper: u8) -> StorageFacts {
    let entry = root.join(format!("sys/dev/block/{}:{}", major(number), minor(number)));
    match fs::canonicalize(entry) {
        Ok(device) => whole(root, &device, deeper),
        Err(_) => StorageFacts::default(),
    }
}

/// `device` is its directory in sysfs.
fn whole(root: &Path, device: &Path, deeper: u8) -> StorageFacts {
    let device = match device.parent() {
        Some(whole) if device.join("partition").exists() => whole,
        _ => device,
    };
    let own = StorageFacts {
        device: device.file_name().and_then(|name| name.to_str()).map(str::to_owned),
        in_memory: false,
    };
    let Some(deeper) = deeper.checked_sub(1) else { return own };
    if let Ok(backing) = fs::read_to_string(device.join("loop/backing_file")) {
        let file = File::open(root.join(backing.trim().trim_start_matches('/')));
        let Ok(file) = file else { return own };
        if is_in_memory(&file) {
            return StorageFacts { device: own.device, in_memory: true };
        }
        let number = file.metadata().map(|meta| meta.dev());
        let found = number.map(|number| below(root, number, deeper)).unwrap_or_default();
        return if found == StorageFacts::default() { own } else { found };
    }
    // One of several is not all of it: then the volume's own counters are.
    let slaves = fs::read_dir(device.join("slaves")).into_iter().flatten().flatten();
    match slaves.map(|slave| slave.path()).collect::<Vec<_>>().as_slice() {
        [only] => fs::canonicalize(only).map_or(own, |only| whole(root, &only, deeper)),
        _ => own,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A machine with a disk of one partition, a volume on that, and one on two disks.
    fn machine() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        for directory in ["vda/vda1", "vda/slaves", "dm-0/slaves", "dm-1/slaves", "vdb"] {
            fs::create_dir_all(at("sys/devices").join(directory)).unwrap();
        }
        fs::write(at("sys/devices/vda/vda1/partition"), "1\n").unwrap();
        fs::create_dir_all(at("sys/dev/block")).unwrap();
        for (number, device) in
            [("8:0", "vda"), ("8:1", "vda/vda1"), ("253:0", "dm-0"), ("253:1", "dm-1")]
        {
            symlink(at("sys/devices").join(device), at("sys/dev/block").join(number)).unwrap();
        }
        for (volume, on) in [("dm-0", "vda/vda1"), ("dm-1", "vda/vda1"), ("dm-1", "vdb")] {
            let name = on.rsplit('/').next().unwrap();
            let slave = at("sys/devices").join(volume).join("slaves").join(name);
            symlink(at("sys/devices").join(on), slave).unwrap();
        }
        root
    }

    #[test]
    fn partitions_and_volumes_are_followed_to_the_whole_device() {
        let root = machine();
        let name = |major, minor| {
            let number = nix::sys::stat::makedev(major, minor);
            below(root.path(), number, DEEPEST).device
        };
        assert_eq!(name(8, 0).as_deref(), Some("vda"));
        assert_eq!(name(8, 1).as_deref(), Some("vda"));
        assert_eq!(name(253, 0).as_deref(), Some("vda"));
        assert_eq!(name(253, 1).as_deref(), Some("dm-1"), "two disks do its work");
        assert_eq!(name(0, 42), None, "an overlay's number");
    }

    #[test]
    fn memory_has_no_device() {
        let file = super::super::in_memory().unwrap();
        let facts = of(&file, false, Path::new("/"));
        assert_eq!(facts, StorageFacts { device: None, in_memory: true });
    }
}
