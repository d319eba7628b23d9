//! The process that runs a guest: QEMU is given the guest's UUID on its command line (`-uuid`), whatever
//! started it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What was found of a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GuestProcess {
    /// QEMU's process.
    pub pid: i32,
    /// Threads of the kernel that serve it, each a process of its own.
    pub kernel_threads: Vec<i32>,
}

/// Why nothing was found.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FindError {
    /// The processes cannot be listed.
    #[error("cannot list the processes in {path}: {source}")]
    Unreadable {
        /// Where.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// None of them is it.
    #[error(
        "no process that may be seen here runs the guest {0}: it runs on another machine, or /proc hides the \
         processes of others (hidepid)"
    )]
    None(String),
}

/// Looks for it.
pub(crate) fn find(proc: &Path, uuid: &str) -> Result<GuestProcess, FindError> {
    let entries = fs::read_dir(proc);
    let entries =
        entries.map_err(|source| FindError::Unreadable { path: proc.to_owned(), source })?;
    let pids: Vec<i32> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    let runs = |pid: &&i32| {
        // Gone meanwhile, or a thread of the kernel, which has none.
        let arguments = fs::read(proc.join(pid.to_string()).join("cmdline")).unwrap_or_default();
        let arguments: Vec<&[u8]> = arguments.split(|byte| *byte == 0).collect();
        arguments.windows(2).any(|pair| pair[0] == b"-uuid" && pair[1] == uuid.as_bytes())
    };
    let pid = *pids.iter().find(runs).ok_or_else(|| FindError::None(uuid.to_owned()))?;
    // Named after the process that they serve (drivers/vhost/vhost.c, before Linux 6.4).
    let name = format!("vhost-{pid}");
    let serves = |thread: &i32| {
        let called = fs::read(proc.join(thread.to_string()).join("comm")).unwrap_or_default();
        called.trim_ascii_end() == name.as_bytes()
    };
    Ok(GuestProcess { pid, kernel_threads: pids.into_iter().filter(serves).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_guest_by_its_uuid() {
        let proc = tempfile::tempdir().unwrap();
        let process = |pid: &str, cmdline: &[u8], comm: &str| {
            let folder = proc.path().join(pid);
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("cmdline"), cmdline).unwrap();
            fs::write(folder.join("comm"), comm).unwrap();
        };
        process("7", b"qemu\0-uuid\0aaaa\0-m\x0064\0", "qemu-system-x86\n");
        process("8", b"qemu\0-uuid\0bbbb\0", "qemu-system-x86\n");
        process("9", b"", "vhost-8\n");
        process("10", b"grep\0bbbb\0", "grep\n");
        process("11", b"", "vhost-80\n");
        let found = find(proc.path(), "bbbb").unwrap();
        assert_eq!(found, GuestProcess { pid: 8, kernel_threads: vec![9] });
        assert!(find(proc.path(), "cccc").unwrap_err().to_string().contains("hidepid"));
        assert!(find(&proc.path().join("nowhere"), "bbbb").is_err());
    }
}
