//! Finds a disk of this machine by its serial number, and tells what it is: the names of device files depend on the order
//! in which drivers come. Source: Linux' Documentation/ABI/stable/sysfs-block.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use vioperf_model::wire::DiskFacts;

/// How long a disk is waited for at most, whatever is asked.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// How often it is looked for.
const LOOK: Duration = Duration::from_millis(10);

/// `sysfs` tells sizes in these, whatever the disk's own are.
const SECTOR_BYTES: u64 = 512;

/// Bytes of a page of vital product data before its text (SPC-4, section 7.8.1).
const PAGE_HEADER_BYTES: usize = 4;

/// Deeper than any device is below its bus.
const MOST_ANCESTORS: usize = 32;

/// Why there is no such disk.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// None came.
    #[error(
        "no disk with the serial number {serial} came within {} s; there are {known}: is its driver loaded?", .waited.as_secs()
    )]
    NotThere {
        /// Its serial number.
        serial: String,
        /// How long was waited.
        waited: Duration,
        /// Those that there are.
        known: String,
    },
    /// It cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

/// Waits for a disk with that serial number; `root` is `/` but in tests.
///
/// # Errors
/// [`DiskError`].
pub fn find(root: &Path, serial: &str, timeout: Duration) -> Result<DiskFacts, DiskError> {
    let waited = timeout.min(LONGEST_WAIT);
    let deadline = Instant::now() + waited;
    let all = root.join("sys/block");
    loop {
        let disks = names(&all);
        let is_it = |name: &&String| serial_of(&all.join(name)).as_deref() == Some(serial);
        // A namespace of NVMe is there twice: by its path, without a device file, and by what hides the paths.
        let same: Vec<&String> = disks.iter().filter(is_it).collect();
        let has_file = |name: &&&String| root.join("dev").join(name).exists();
        if let Some(name) = same.iter().find(has_file) {
            let mut facts = facts(root, name)?;
            facts.driver = same.iter().find_map(|name| driver(&all.join(name)));
            // A disk of SCSI has a size and a queue some time after it has a name.
            let is_ready = facts.size_bytes > 0 && facts.logical_block_bytes.is_some();
            if is_ready && facts.driver.is_some() {
                return Ok(facts);
            }
        }
        if Instant::now() >= deadline {
            let known = if disks.is_empty() { "none".to_owned() } else { disks.join(", ") };
            return Err(DiskError::NotThere { serial: serial.to_owned(), waited, known });
        }
        std::thread::sleep(LOOK);
    }
}

fn names(all: &Path) -> Vec<String> {
    let entries = fs::read_dir(all).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// The serial number, wherever the kind of disk has it.
fn serial_of(disk: &Path) -> Option<String> {
    let of_page = || {
        let page = fs::read(disk.join("device/vpd_pg80")).ok()?;
        let text = page.get(PAGE_HEADER_BYTES..)?;
        Some(String::from_utf8_lossy(text).trim_matches(['\0', ' ']).to_owned())
    };
    // Those of virtio and NVMe, and of SCSI with what behaves as such.
    let plain = ["serial", "device/serial"].into_iter().find_map(|file| line(&disk.join(file)));
    plain.or_else(of_page)
}

fn facts(root: &Path, name: &str) -> Result<DiskFacts, DiskError> {
    let disk = root.join("sys/block").join(name);
    let size = disk.join("size");
    let sectors = fs::read_to_string(&size)
        .map_err(|source| DiskError::Unreadable { path: size.clone(), source })?;
    let queue = disk.join("queue");
    let chosen = |text: String| {
        let inside = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        inside.map_or(text.clone(), |(chosen, _)| chosen.to_owned())
    };
    Ok(DiskFacts {
        path: PathBuf::from("/dev").join(name),
        driver: None,
        size_bytes: sectors.trim().parse::<u64>().unwrap_or(0).saturating_mul(SECTOR_BYTES),
        logical_block_bytes: line(&queue.join("logical_block_size"))
            .and_then(|text| text.parse().ok()),
        scheduler: line(&queue.join("scheduler")).map(chosen),
        queues: u32::try_from(names(&disk.join("mq")).len()).ok().filter(|queues| *queues > 0),
        write_cache: line(&queue.join("write_cache")),
    })
}

/// The driver of the nearest device on a bus above the disk.
fn driver(disk: &Path) -> Option<String> {
    let name_of = |link: PathBuf| {
        let target = fs::canonicalize(link).ok()?;
        Some(target.file_name()?.to_string_lossy().into_owned())
    };
    let own = fs::canonicalize(disk.join("device")).ok()?;
    own.ancestors().take(MOST_ANCESTORS).find_map(|device| {
        let bus = name_of(device.join("subsystem"))?;
        matches!(bus.as_str(), "virtio" | "pci").then(|| name_of(device.join("driver")))?
    })
}

fn line(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A machine made of files: a disk of virtio and one of SCSI.
    fn machine() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        let write = |path: &str, bytes: &[u8]| {
            fs::create_dir_all(at(path).parent().unwrap()).unwrap();
            fs::write(at(path), bytes).unwrap();
        };
        for (driver, bus) in
            [("virtio_blk", "virtio"), ("sd", "scsi"), ("sym53c8xx", "pci"), ("nvme", "pci")]
        {
            fs::create_dir_all(at(&format!("sys/bus/{bus}/drivers/{driver}"))).unwrap();
        }
        let device = |path: &str, bus: &str, driver: Option<&str>| {
            fs::create_dir_all(at(path)).unwrap();
            symlink(at(&format!("sys/bus/{bus}")), at(path).join("subsystem")).unwrap();
            if let Some(driver) = driver {
                let driver = at(&format!("sys/bus/{bus}/drivers/{driver}"));
                symlink(driver, at(path).join("driver")).unwrap();
            }
        };
        device("sys/devices/pci0/virtio1", "virtio", Some("virtio_blk"));
        device("sys/devices/pci1", "pci", Some("sym53c8xx"));
        device("sys/devices/pci1/host0/target0/0:0:0:0", "scsi", Some("sd"));
        for (name, device) in
            [("vda", "sys/devices/pci0/virtio1"), ("sda", "sys/devices/pci1/host0/target0/0:0:0:0")]
        {
            let disk = format!("{device}/block/{name}");
            write(&format!("{disk}/size"), b"2048\n");
            write(&format!("{disk}/queue/scheduler"), b"none [mq-deadline] bfq\n");
            write(&format!("{disk}/queue/logical_block_size"), b"512\n");
            symlink(at(device), at(&disk).join("device")).unwrap();
            fs::create_dir_all(at("sys/block")).unwrap();
            symlink(at(&disk), at("sys/block").join(name)).unwrap();
            write(&format!("dev/{name}"), b"");
        }
        // One of NVMe with its paths hidden.
        device("sys/devices/pci2", "pci", Some("nvme"));
        let (path, whole) = ("sys/devices/pci2/nvme0", "sys/devices/virtual/nvme-subsys0");
        for (name, of) in [("nvme0c0n1", path), ("nvme0n1", whole)] {
            write(&format!("{of}/serial"), b"vioperf-3           \n");
            write(&format!("{of}/{name}/size"), b"2048\n");
            write(&format!("{of}/{name}/queue/logical_block_size"), b"512\n");
            symlink(at(of), at(of).join(name).join("device")).unwrap();
            symlink(at(of).join(name), at("sys/block").join(name)).unwrap();
        }
        write("dev/nvme0n1", b"");
        write("sys/devices/pci0/virtio1/block/vda/serial", b"vioperf-1\n");
        write("sys/devices/pci1/host0/target0/0:0:0:0/vpd_pg80", b"\0\x80\0\x09vioperf-2\0");
        root
    }

    #[test]
    fn each_kind_is_found_by_its_serial_with_the_driver_of_its_controller() {
        let root = machine();
        let find = |serial| find(root.path(), serial, Duration::ZERO).unwrap();
        let of_virtio = find("vioperf-1");
        assert_eq!(of_virtio.path, Path::new("/dev/vda"));
        assert_eq!(of_virtio.driver.as_deref(), Some("virtio_blk"));
        assert_eq!((of_virtio.size_bytes, of_virtio.logical_block_bytes), (1 << 20, Some(512)));
        assert_eq!(of_virtio.scheduler.as_deref(), Some("mq-deadline"));
        let of_scsi = find("vioperf-2");
        assert_eq!(of_scsi.path, Path::new("/dev/sda"));
        assert_eq!(of_scsi.driver.as_deref(), Some("sym53c8xx"));
        let of_nvme = find("vioperf-3");
        assert_eq!(of_nvme.path, Path::new("/dev/nvme0n1"));
        assert_eq!(of_nvme.driver.as_deref(), Some("nvme"));
    }

    #[test]
    fn a_disk_that_does_not_come_is_told_with_those_that_are_there() {
        let root = machine();
        let error = find(root.path(), "other", Duration::ZERO).unwrap_err().to_string();
        assert!(error.contains("other") && error.contains("sda, vda"), "{error}");
    }
}
