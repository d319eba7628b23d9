//! What a guest boots from, held in memory files that QEMU opens through `/proc/self/fd`.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};

/// A kernel and an initramfs, ready for any number of guests; clones share the memory.
#[derive(Debug, Clone)]
pub struct BootImage {
    files: Arc<Files>,
    arguments: Arc<str>,
}

#[derive(Debug)]
struct Files {
    kernel: OwnedFd,
    initramfs: OwnedFd,
}

impl BootImage {
    /// Puts both into memory files and seals them: no guest can change what the next boots from.
    ///
    /// `kernel` is best an uncompressed `vmlinux` (QEMU enters it by PVH, which halves the time to
    /// the agent against a bzImage); `initramfs` an uncompressed newc archive.
    ///
    /// # Errors
    /// When memory is short.
    pub fn new(kernel: &[u8], initramfs: &[u8]) -> io::Result<Self> {
        let files = Files {
            kernel: sealed(c"vioperf-kernel", kernel)?,
            initramfs: sealed(c"vioperf-initramfs", initramfs)?,
        };
        Ok(Self { files: Arc::new(files), arguments: "".into() })
    }

    /// The same with the kernel's file as it is, without reading it: QEMU inherits the descriptor.
    ///
    /// # Errors
    /// When the file does not open, or memory is short.
    pub fn open(kernel: &Path, initramfs: &[u8]) -> io::Result<Self> {
        let files = Files {
            kernel: File::open(kernel)?.into(),
            initramfs: sealed(c"vioperf-initramfs", initramfs)?,
        };
        Ok(Self { files: Arc::new(files), arguments: "".into() })
    }

    /// The same with `arguments` appended to the kernel's command line.
    #[must_use]
    pub fn with_arguments(&self, arguments: &str) -> Self {
        Self { files: Arc::clone(&self.files), arguments: arguments.into() }
    }

    pub(super) fn arguments(&self) -> &str {
        &self.arguments
    }

    pub(super) fn kernel(&self) -> &OwnedFd {
        &self.files.kernel
    }

    pub(super) fn initramfs(&self) -> &OwnedFd {
        &self.files.initramfs
    }
}

fn sealed(name: &std::ffi::CStr, bytes: &[u8]) -> io::Result<OwnedFd> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let mut file = File::from(memfd_create(name, flags)?);
    file.write_all(bytes)?;
    let seals = SealFlag::F_SEAL_WRITE
        | SealFlag::F_SEAL_SHRINK
        | SealFlag::F_SEAL_GROW
        | SealFlag::F_SEAL_SEAL;
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
    Ok(file.into())
}
