//! Images of disks, made by QEMU itself in a file that it is handed: a QEMU without a machine, that ends when it is done.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use vioperf_model::scenario::Drive;

use super::monitor::{Monitor, MonitorError};
use super::{Qemu, binary::SECCOMP};
use crate::namespace::{end, inherit};
use crate::storage::DiskFile;

/// How long QEMU may take for each step but the last.
const STEP_BOUND: Duration = Duration::from_secs(20);

/// Every byte of an image is written: so slow a disk may be, in bytes per second.
const SLOWEST_BYTES_PER_SECOND: u64 = 2 << 20;

/// Why an image could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// QEMU could not be started.
    #[error("cannot start QEMU to make a disk's image: {0}")]
    Start(#[from] io::Error),
    /// QEMU refused, or its monitor failed.
    #[error("cannot make a disk's image: {0}")]
    Monitor(#[from] MonitorError),
    /// QEMU tried, and failed, in its own words.
    #[error("QEMU cannot make a disk's image: {0}: is there room for it?")]
    Failed(String),
}

/// Makes an image of a drive's format in an empty file, for a disk of the file's size, with as much of it allocated as the
/// drive wants.
///
/// # Errors
/// [`ImageError`].
pub fn make(qemu: &Qemu, file: &DiskFile, drive: &Drive) -> Result<(), ImageError> {
    let (monitor, theirs) = UnixStream::pair()?;
    let (socket, disk) = (theirs.as_raw_fd(), file.descriptor());
    let mut command = Command::new(&qemu.path);
    command.args(["-nodefaults", "-no-user-config", "-display", "none", "-machine", "none", "-S"]);
    command.args(["-chardev", &format!("socket,id=monitor,fd={socket}")]);
    command.args(["-mon", "chardev=monitor,mode=control"]);
    if qemu.seccomp {
        command.args(["-sandbox", SECCOMP]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: between fork and exec only system calls are made, nothing is allocated or locked.
    unsafe { command.pre_exec(move || inherit(&[socket, disk])) };
    let mut child = command.spawn()?;
    drop(theirs);
    let made = Monitor::connect(monitor, STEP_BOUND)
        .map_err(ImageError::from)
        .and_then(|mut monitor| create(&mut monitor, file, drive));
    end(&mut child);
    made
}

fn create(monitor: &mut Monitor, file: &DiskFile, drive: &Drive) -> Result<(), ImageError> {
    let size = file.size().as_bytes();
    let node = json!({ "driver": "file", "node-name": "image", "filename": file.inherited_path(),
        "locking": "off" });
    monitor.execute("blockdev-add", &node, STEP_BOUND)?;
    let options = json!({ "driver": drive.format.driver(), "file": "image", "size": size,
        "preallocation": drive.preallocation.name() });
    let job = json!({ "job-id": "create", "options": options });
    monitor.execute("blockdev-create", &job, STEP_BOUND)?;
    let deadline =
        Instant::now() + STEP_BOUND + Duration::from_secs(size / SLOWEST_BYTES_PER_SECOND);
    loop {
        let jobs = monitor.execute("query-jobs", &json!({}), STEP_BOUND)?;
        let job = jobs.as_array().and_then(|jobs| jobs.first());
        let text = |key: &str| job.and_then(|job| job.get(key)).and_then(Value::as_str);
        match text("status") {
            Some("concluded") => {
                return text("error").map_or(Ok(()), |error| Err(ImageError::Failed(error.into())));
            }
            _ if Instant::now() >= deadline => {
                return Err(ImageError::Failed("it takes too long".to_owned()));
            }
            _ => thread::sleep(Duration::from_millis(10)),
        }
    }
}

#[cfg(test)]
mod tests {
    use vioperf_model::scenario::{ImageFormat, Preallocation, Storage};
    use vioperf_model::units::ByteSize;

    use super::*;

    #[test]
    fn an_image_has_its_magic_and_as_many_bytes_as_were_asked_for() {
        let size = ByteSize::from_mib(4);
        let length = |preallocation| {
            let file = DiskFile::empty(&Storage::default(), size).unwrap();
            let drive = Drive { format: ImageFormat::Qcow2, preallocation, ..Drive::default() };
            make(&Qemu::find(None).unwrap(), &file, &drive).unwrap();
            let bytes = std::fs::read(file.path()).unwrap();
            assert_eq!(bytes.get(..4), Some(b"QFI\xfb".as_slice()));
            bytes.len() as u64
        };
        let [full, thin] = [Preallocation::Full, Preallocation::Off].map(length);
        assert!(full > size.as_bytes() && thin < size.as_bytes(), "{full} {thin}");
    }
}
