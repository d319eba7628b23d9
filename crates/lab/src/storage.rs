//! Where the bytes of disks are: a file that has no name, memory, or a block device of the host's.
//!
//! Nodes and QEMU reach it through a descriptor of this process ([`DiskFile::path`]), so that nothing is left of it when
//! the last of them has ended, however that came. Sources: open(2) (`O_TMPFILE`), memfd_create(2).

mod device_below;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::statvfs::statvfs;
use vioperf_model::record::StorageFacts;
use vioperf_model::scenario::{Storage, StorageKind};
use vioperf_model::units::ByteSize;

/// Bytes that are written at once when a file is filled.
const CHUNK_BYTES: usize = 1 << 20;

/// Why there is no file for a disk.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// It could not be made.
    #[error("cannot make a file of {size} in {place}: {source}{}", hint(.source))]
    Make {
        /// Its size.
        size: ByteSize,
        /// Where.
        place: String,
        /// The reason.
        source: io::Error,
    },
    /// It could not be filled.
    #[error("cannot fill a file of {size} in {place}: {source}{}", hint(.source))]
    Fill {
        /// Its size.
        size: ByteSize,
        /// Where.
        place: String,
        /// The reason.
        source: io::Error,
    },
    /// The device is smaller than what is to be read and written.
    #[error(
        "{device} has {has}, and {wanted} are to be read and written: give a smaller workload.file_size"
    )]
    TooSmall {
        /// The device.
        device: String,
        /// Its size.
        has: ByteSize,
        /// The size that was asked for.
        wanted: ByteSize,
    },
    /// The user wants the end.
    #[error("interrupted")]
    Interrupted,
}

fn hint(error: &io::Error) -> &'static str {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOSPC | Errno::EDQUOT) => {
            ": give a directory with more room (testbed.storage.directory), or a smaller workload.file_size"
        }
        Some(Errno::EACCES | Errno::EPERM | Errno::EROFS) => {
            ": give a directory that may be written to (testbed.storage.directory)"
        }
        Some(Errno::EBUSY) => ": it is in use: unmount it first, or give another device",
        _ => "",
    }
}

/// What a disk's bytes are in, open.
#[derive(Debug)]
pub struct DiskFile {
    file: OwnedFd,
    size: ByteSize,
    place: String,
    is_device: bool,
}

impl DiskFile {
    /// Makes it, and writes it full once: nothing of it is a hole, and nothing of that waits to be written. A device
    /// loses so many of its first bytes.
    ///
    /// # Errors
    /// [`StorageError`]; also when `go_on` says no meanwhile.
    pub fn make(
        storage: &Storage,
        size: ByteSize,
        go_on: &dyn Fn() -> bool,
    ) -> Result<Self, StorageError> {
        let made = Self::open(storage, size)?;
        made.fill(go_on)?;
        Ok(made)
    }

    /// Makes one without bytes, that an image is to be made in.
    ///
    /// # Errors
    /// [`StorageError`].
    pub fn empty(storage: &Storage, size: ByteSize) -> Result<Self, StorageError> {
        Self::open(storage, size)
    }

    fn open(storage: &Storage, size: ByteSize) -> Result<Self, StorageError> {
        let place = place(storage);
        let failed = |source| StorageError::Make { size, place: place.clone(), source };
        let file = match (storage.kind, &storage.device) {
            (StorageKind::Device, Some(device)) => {
                let opened = open_device(Path::new(device)).map_err(failed)?;
                let has = device_size(&opened).map_err(failed)?;
                if has < size {
                    return Err(StorageError::TooSmall {
                        device: device.clone(),
                        has,
                        wanted: size,
                    });
                }
                opened
            }
            (StorageKind::Device, None) => {
                return Err(failed(io::Error::other("no device was named")));
            }
            (StorageKind::File, _) => nameless(Path::new(storage.directory())).map_err(failed)?,
            (StorageKind::Tmpfs, _) => in_memory().map_err(failed)?,
        };
        let is_device = storage.kind == StorageKind::Device;
        Ok(Self { file: file.into(), size, place, is_device })
    }

    fn fill(&self, go_on: &dyn Fn() -> bool) -> Result<(), StorageError> {
        let failed =
            |source| StorageError::Fill { size: self.size, place: self.place.clone(), source };
        let mut file = File::from(self.file.try_clone().map_err(failed)?);
        let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut left = self.size.as_bytes();
        while left > 0 {
            if !go_on() {
                return Err(StorageError::Interrupted);
            }
            noise.fill(&mut chunk);
            let length = usize::try_from(left).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
            file.write_all(chunk.get(..length).unwrap_or_default()).map_err(failed)?;
            left -= length as u64;
        }
        // Memory has nothing to be written to.
        match file.sync_data() {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
            other => other.map_err(failed),
        }
    }

    /// Where every process of the sandbox reaches it as long as this lives.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()))
    }

    /// Its size in bytes; of an image that of the disk in it.
    #[must_use]
    pub fn size(&self) -> ByteSize {
        self.size
    }

    /// Where it is, in words.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// What it is on, on this host.
    #[must_use]
    pub fn facts(&self) -> StorageFacts {
        let file = self.file.try_clone().map(File::from);
        file.map(|file| device_below::of(&file, self.is_device, Path::new("/"))).unwrap_or_default()
    }

    /// Whether it is a block device.
    pub(crate) fn is_device(&self) -> bool {
        self.is_device
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// The path by which a program that has inherited the descriptor opens it anew.
    pub(crate) fn inherited_path(&self) -> String {
        format!("/proc/self/fd/{}", self.file.as_raw_fd())
    }
}

/// Where a storage is, in words.
fn place(storage: &Storage) -> String {
    match storage.kind {
        StorageKind::File => storage.directory().to_owned(),
        StorageKind::Tmpfs => "memory".to_owned(),
        StorageKind::Device => storage.device.clone().unwrap_or_default(),
    }
}

/// A file in a directory that never has a name there; where the file system has no such, one that loses its name at once.
fn nameless(directory: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    match options.clone().custom_flags(libc::O_TMPFILE).open(directory) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR)) => {}
        other => return other,
    }
    let path = directory.join(format!(".vioperf-disk-{}", std::process::id()));
    let file = options.create_new(true).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

fn in_memory() -> io::Result<File> {
    Ok(memfd_create(c"vioperf-disk", MFdFlags::MFD_CLOEXEC)?.into())
}

/// Opens a block device that nobody else has: the kernel refuses one that is mounted (open(2), `O_EXCL`).
fn open_device(device: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_EXCL).open(device)?;
    if file.metadata()?.file_type().is_block_device() {
        return Ok(file);
    }
    Err(io::Error::other("it is no block device: for a file take kind = \"file\" with a directory"))
}

/// The size of an open block device.
fn device_size(device: &File) -> io::Result<ByteSize> {
    use std::io::{Seek, SeekFrom};
    let mut device = device.try_clone()?;
    let size = device.seek(SeekFrom::End(0))?;
    device.rewind()?;
    Ok(ByteSize::from_bytes(size))
}

/// Bytes that no file system and no disk makes smaller (xorshift64, Marsaglia 2003).
struct Noise(u64);

impl Noise {
    fn fill(&mut self, bytes: &mut [u8]) {
        for word in bytes.chunks_exact_mut(8) {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            word.copy_from_slice(&self.0.to_ne_bytes());
        }
    }
}

/// What a storage lacks here, in words: asked before anything is touched.
#[must_use]
pub fn lacks(storage: &Storage, size: ByteSize) -> Option<String> {
    let place = place(storage);
    match storage.kind {
        StorageKind::Device => {
            let opened = open_device(Path::new(&place));
            let has = opened.as_ref().map_err(io::Error::to_string);
            let has = has.and_then(|file| device_size(file).map_err(|error| error.to_string()));
            match has {
                Err(_) => {
                    let error = opened.err()?;
                    Some(format!("cannot open {place}: {error}{}", hint(&error)))
                }
                Ok(has) if has < size => {
                    Some(StorageError::TooSmall { device: place, has, wanted: size }.to_string())
                }
                Ok(_) => None,
            }
        }
        StorageKind::File => {
            let directory = Path::new(&place);
            let file = match nameless(directory) {
                Ok(file) => file,
                Err(error) => {
                    return Some(format!("cannot make a file in {place}: {error}{}", hint(&error)));
                }
            };
            let room = statvfs(directory).ok().map(|fs| fs.blocks_available() * fs.fragment_size());
            if let Some(room) = room.filter(|room| *room < size.as_bytes()) {
                let room = ByteSize::from_bytes(room);
                let error = io::Error::from(Errno::ENOSPC);
                return Some(format!(
                    "{place} has room for {room}, {size} are needed{}",
                    hint(&error)
                ));
            }
            lacks_direct(&file, &place)
        }
        StorageKind::Tmpfs => match in_memory() {
            Ok(file) => lacks_direct(&file, &place),
            Err(error) => Some(format!("cannot make a file in memory: {error}")),
        },
    }
}

/// Whether a file can be read and written past the page cache.
fn lacks_direct(file: &File, place: &str) -> Option<String> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let opened = OpenOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT).open(path);
    let error = opened.err()?;
    Some(format!(
        "files in {place} cannot be read past the page cache (O_DIRECT: {error}): give a directory of a file system on \
         a disk (testbed.storage.directory); memory can since Linux 6.6"
    ))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    fn in_directory(directory: &Path) -> Storage {
        let directory = Some(directory.display().to_string());
        Storage { directory, ..Storage::default() }
    }

    #[test]
    fn a_file_is_full_and_has_no_name() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let size = ByteSize::from_bytes((3 << 20) + 512);
        let storage = in_directory(directory.path());
        assert_eq!(lacks(&storage, size), None);
        let made = DiskFile::make(&storage, size, &|| true).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        let metadata = fs::metadata(made.path()).unwrap();
        assert_eq!(metadata.len(), size.as_bytes());
        let allocated = std::os::unix::fs::MetadataExt::blocks(&metadata) * 512;
        assert!(allocated >= size.as_bytes(), "{allocated}");
        let file = File::open(made.path()).unwrap();
        let mut bytes = [0; 512];
        file.read_exact_at(&mut bytes, 3 << 20).unwrap();
        assert!(bytes.iter().any(|byte| *byte != 0));
    }

    #[test]
    fn what_cannot_be_had_is_told_with_what_to_do() {
        let missing = in_directory(Path::new("/nonexistent"));
        assert!(lacks(&missing, ByteSize::from_mib(1)).unwrap().contains("/nonexistent"));
        let here = in_directory(Path::new("/var/tmp"));
        let much = ByteSize::from_mib(1 << 40);
        assert!(lacks(&here, much).unwrap().contains("testbed.storage.directory"));
        let device = Storage {
            kind: StorageKind::Device,
            device: Some("/dev/null".into()),
            ..Storage::default()
        };
        assert!(lacks(&device, ByteSize::from_mib(1)).unwrap().contains("no block device"));
        let stopped = DiskFile::make(&here, ByteSize::from_mib(1), &|| false).unwrap_err();
        assert!(matches!(stopped, StorageError::Interrupted));
    }
}
