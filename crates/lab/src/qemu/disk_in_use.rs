//! How a running QEMU serves a disk, read back: the thread that serves it as QEMU itself tells, and the kernel's
//! interface that it reads and writes by as the kernel tells of its process.
//!
//! Sources: qom-get of `iothread`; proc_pid_maps(5) (the ring of io_setup(2) is mapped as `/[aio]`), proc_pid_fd(5) (a ring
//! of io_uring_setup(2) is `anon_inode:[io_uring]`). QEMU falls back to its pool of threads, and says so to nobody but its
//! own standard error, where a kernel refuses either.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use vioperf_model::scenario::AsyncIo;

/// An interface is taken when it is first needed: when the guest's kernel looks for partitions, a moment after it has found
/// the disk.
const FIRST_READ: Duration = Duration::from_secs(5);

/// How often it is looked again.
const LOOK: Duration = Duration::from_millis(5);

/// How the process that serves a disk differs from what was asked for, in words, also when the disk must have been read of;
/// nothing where the kernel does not tell.
pub(super) fn contradiction(root: &Path, qemu: Pid, wanted: AsyncIo) -> Option<String> {
    let until = Instant::now() + FIRST_READ;
    loop {
        let reason = contradiction_now(root, qemu, wanted)?;
        if Instant::now() >= until {
            return Some(reason);
        }
        std::thread::sleep(LOOK);
    }
}

fn contradiction_now(root: &Path, qemu: Pid, wanted: AsyncIo) -> Option<String> {
    let process = root.join(format!("proc/{qemu}"));
    let maps = fs::read_to_string(process.join("maps")).ok()?;
    let has_native = maps.lines().any(|line| line.ends_with("/[aio]") || line.contains("/[aio] "));
    let links = fs::read_dir(process.join("fd")).ok()?.flatten();
    let mut links = links.filter_map(|link| fs::read_link(link.path()).ok());
    let has_ring = links.any(|link| link.to_string_lossy() == "anon_inode:[io_uring]");
    let (is_so, instead) = match wanted {
        // QEMU's own loops may have a ring also where files are read by threads.
        AsyncIo::Threads => (!has_native, "has a context of native asynchronous I/O"),
        AsyncIo::Native => (has_native, "has none: the kernel refused it (fs.aio-max-nr?)"),
        AsyncIo::IoUring => {
            (has_ring, "has no ring: the kernel refused it (kernel.io_uring_disabled?)")
        }
    };
    (!is_so).then(|| {
        format!("the disk's aio should be {}, but QEMU's process {instead}", wanted.name())
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_the_kernel_says_of_qemu_is_held_against_what_was_asked_for() {
        let root = tempfile::tempdir().unwrap();
        let process = root.path().join("proc/7");
        fs::create_dir_all(process.join("fd")).unwrap();
        let of = |wanted| contradiction_now(root.path(), Pid::from_raw(7), wanted);
        assert_eq!(of(AsyncIo::Native), None, "nothing is told");
        fs::write(process.join("maps"), "7f00-7f01 rw-p 0 00:00 0 [heap]\n").unwrap();
        assert_eq!(of(AsyncIo::Threads), None);
        assert!(of(AsyncIo::Native).unwrap().contains("aio-max-nr"));
        assert!(of(AsyncIo::IoUring).unwrap().contains("io_uring_disabled"));
        symlink("anon_inode:[io_uring]", process.join("fd/9")).unwrap();
        assert_eq!(of(AsyncIo::IoUring), None);
        assert_eq!(of(AsyncIo::Threads), None, "a ring of QEMU's loop");
        fs::write(process.join("maps"), "7f00-7f01 rw-s 0 00:11 5 /[aio] (deleted)\n").unwrap();
        assert_eq!(of(AsyncIo::Native), None);
        assert!(of(AsyncIo::Threads).unwrap().contains("should be threads"));
    }
}
