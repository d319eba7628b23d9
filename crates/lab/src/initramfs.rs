//! The guest's initramfs: vioperf's agent as PID 1 and the drivers, in the cpio format that the
//! kernel unpacks (`newc`: the kernel's Documentation/driver-api/early-userspace/
//! buffer-format.rst). Not compressed: unpacking in an emulated guest costs more than reading.
//!
//! The bytes depend on the agent and the modules alone, so a digest of them tells whether a
//! snapshot of a booted guest is still good.

pub mod newc;
mod programs;

use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::kernel::ModuleSet;

pub use programs::{ProgramError, Programs, find_program};

/// Where the guest finds [the list](Initramfs#modules) of modules.
pub const MANIFEST: &str = "/lib/modules/manifest.json";

/// What a guest starts from.
///
/// # Modules
///
/// Files are named `/lib/modules/NNN-name.ko`; loading them all in the order of their names is
/// always right. [`MANIFEST`] is a JSON object that tells for each wanted module the paths to load
/// in order, none for one that is built into the kernel:
/// `{"virtio_net": ["/lib/modules/000-failover.ko", …], "e1000": []}`.
#[derive(Debug, Clone, Copy)]
pub struct Initramfs<'a> {
    /// The static executable that becomes `/init`.
    pub agent: &'a [u8],
    /// The drivers to pack.
    pub modules: &'a ModuleSet,
    /// What else is in it: of a guest that is to be looked at, or whose load a program does.
    pub programs: &'a Programs,
}

impl Initramfs<'_> {
    /// Writes the archive.
    ///
    /// # Errors
    /// Of the writer; `InvalidInput` when a file has 4 GiB or more.
    pub fn write(&self, out: impl Write) -> io::Result<()> {
        let mut archive = newc::Writer::new(out);
        let own = ["dev", "proc", "sys", "tmp", "lib", "lib/modules"];
        for name in own {
            archive.directory(name)?;
        }
        for name in self.programs.folders().iter().filter(|name| !own.contains(&name.as_str())) {
            archive.directory(name)?;
        }
        archive.character_device("dev/console", 0o600, 5, 1)?;
        archive.character_device("dev/null", 0o666, 1, 3)?;
        archive.file("init", 0o755, self.agent)?;
        let manifest = serde_json::to_vec(&self.manifest())?;
        archive.file(MANIFEST.trim_start_matches('/'), 0o644, &manifest)?;
        for (index, file) in self.modules.files().iter().enumerate() {
            let path = self.path(index);
            archive.file(path.trim_start_matches('/'), 0o644, &file.bytes)?;
        }
        for (path, bytes) in self.programs.files() {
            archive.file(path, 0o755, bytes)?;
        }
        archive.finish()
    }

    /// What [`MANIFEST`] says.
    #[must_use]
    pub fn manifest(&self) -> BTreeMap<&str, Vec<String>> {
        self.modules
            .wanted()
            .map(|(name, files)| (name, files.iter().map(|&index| self.path(index)).collect()))
            .collect()
    }

    fn path(&self, index: usize) -> String {
        let name = self.modules.files().get(index).map_or("", |file| &file.name);
        format!("/lib/modules/{index:03}-{name}.ko")
    }
}

#[cfg(test)]
mod tests;
