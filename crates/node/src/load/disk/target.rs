//! The file or block device that is read and written.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use vioperf_model::units::ByteSize;
use vioperf_model::workload::Workload;

use crate::load::LoadError;

/// An open file or device, and how much of it is in reach.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) file: File,
    /// Whether it is read and written past the page cache.
    pub(super) direct: bool,
    pub(super) size_bytes: u64,
    pub(super) reach_bytes: u64,
}

impl Target {
    /// Opens it, for reading alone where the load only reads.
    pub(super) fn open(path: &Path, workload: &Workload) -> Result<Self, LoadError> {
        let refused = |why: String| LoadError::Disk { path: path.to_owned(), why };
        let system = |step: &str, error: &std::io::Error| {
            refused(format!("cannot {step} it: {error}{}", hint(error.kind())))
        };
        let found = std::fs::metadata(path).map_err(|error| system("look at", &error))?.file_type();
        if !found.is_file() && !found.is_block_device() {
            return Err(refused("it is neither a file nor a block device: name one".into()));
        }
        let writes = workload.read_fraction() < 1.0;
        let (mut file, direct) = open(path, writes).map_err(|error| system("open", &error))?;
        let size_bytes =
            file.seek(SeekFrom::End(0)).map_err(|error| system("ask for the size of", &error))?;
        let reach_bytes = match workload.file_size {
            Some(asked) if asked.as_bytes() > size_bytes => {
                let size = ByteSize::from_bytes(size_bytes);
                return Err(refused(format!(
                    "it has {size}, and workload.file_size is {asked}: make it larger, or ask for less"
                )));
            }
            _ => workload.file_size_bytes().min(size_bytes),
        };
        if reach_bytes < workload.largest_block_bytes() {
            let (size, block) = (ByteSize::from_bytes(size_bytes), workload.largest_block_bytes());
            return Err(refused(format!("it has {size}, no room for a block of {block} bytes")));
        }
        Ok(Self { file, direct, size_bytes, reach_bytes })
    }
}

/// With `O_DIRECT` where the file system has it (tmpfs has since Linux 6.6), and whether it was.
fn open(path: &Path, writes: bool) -> std::io::Result<(File, bool)> {
    let with =
        |flags: i32| OpenOptions::new().read(true).write(writes).custom_flags(flags).open(path);
    match with(libc::O_DIRECT) {
        Ok(file) => Ok((file, true)),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok((with(0)?, false)),
        Err(error) => Err(error),
    }
}

fn hint(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::NotFound => "; is the device's driver loaded, and the path right?",
        ErrorKind::PermissionDenied => "; may this user read and write it?",
        ErrorKind::ResourceBusy => "; is it mounted, or part of a volume group or array?",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use vioperf_model::units::Ratio;
    use vioperf_model::workload::WorkloadKind;

    use super::*;

    #[test]
    fn what_is_no_disk_or_too_small_is_refused_with_its_path() {
        let workload = Workload::new(WorkloadKind::Disk);
        let directory = tempfile::tempdir().unwrap();
        let small = directory.path().join("small");
        std::fs::write(&small, [1; 1000]).unwrap();
        let missing = directory.path().join("missing");
        for (path, says) in [
            (directory.path(), "neither a file nor a block device"),
            (Path::new("/dev/null"), "neither a file nor a block device"),
            (&missing, "is the device's driver loaded"),
            (&small, "no room for a block of 4096 bytes"),
        ] {
            let error = Target::open(path, &workload).unwrap_err().to_string();
            assert!(error.contains(says) && error.contains(path.to_str().unwrap()), "{error}");
        }
        let asked = Workload { file_size: Some(ByteSize::from_mib(2)), ..workload };
        let error = Target::open(&small, &asked).unwrap_err().to_string();
        assert!(error.contains("workload.file_size is 2 MiB"), "{error}");
    }

    #[test]
    fn a_file_is_in_reach_as_far_as_it_goes_or_as_asked() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk");
        std::fs::write(&path, vec![1; 3 << 20]).unwrap();
        let mut workload = Workload::new(WorkloadKind::Disk);
        assert_eq!(Target::open(&path, &workload).unwrap().reach_bytes, 3 << 20);
        workload.file_size = Some(ByteSize::from_mib(2));
        let target = Target::open(&path, &workload).unwrap();
        assert_eq!((target.reach_bytes, target.size_bytes), (2 << 20, 3 << 20));
    }

    #[test]
    fn a_load_that_only_reads_opens_the_file_for_reading() {
        use std::io::Write;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk");
        std::fs::write(&path, vec![1; 1 << 20]).unwrap();
        let mut workload = Workload::new(WorkloadKind::Disk);
        let mut reading = Target::open(&path, &workload).unwrap();
        assert!(reading.file.write_all(&[2; 4096]).is_err());
        workload.read_share = Some(Ratio::from_ppm(999_999));
        let writing = Target::open(&path, &workload).unwrap();
        assert!(writing.file.set_len(2 << 20).is_ok());
    }
}
