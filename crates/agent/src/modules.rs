//! Kernel modules, by the list that came with them in the initramfs: no modules.dep, no modprobe.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::kmod::{ModuleInitFlags, finit_module};

/// Why a module could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum ModuleError {
    #[error("cannot read {}: {source}; the initramfs is not one that vioperf wrote", path.display())]
    Manifest { path: PathBuf, source: io::Error },
    #[error(
        "module `{name}` is not in the initramfs; it has: {known}. Boot a guest that has it, or use a kernel that does"
    )]
    Unknown { name: String, known: String },
    #[error("cannot open {} for module `{name}`: {source}", path.display())]
    Open { name: String, path: PathBuf, source: io::Error },
    #[error("the kernel refuses {} for module `{name}`: {errno}; is it of another kernel version?", path.display())]
    Refused { name: String, path: PathBuf, errno: Errno },
}

/// For every module the files to load, what it depends on first; none for one that is built in.
#[derive(Debug)]
pub struct Manifest {
    files: BTreeMap<String, Vec<PathBuf>>,
}

impl Manifest {
    /// Reads the list.
    pub fn read(path: &Path) -> Result<Self, ModuleError> {
        let failed = |source: io::Error| ModuleError::Manifest { path: path.to_owned(), source };
        let text = std::fs::read(path).map_err(failed)?;
        let files = serde_json::from_slice(&text).map_err(|error| failed(error.into()))?;
        Ok(Self { files })
    }

    /// Whether a module is in the list.
    pub fn names(&self, module: &str) -> bool {
        self.files.contains_key(module)
    }

    /// Loads a module and what it depends on. One that is there already is fine.
    pub fn load(&self, name: &str) -> Result<(), ModuleError> {
        let Some(files) = self.files.get(name) else {
            let known: Vec<&str> = self.files.keys().map(String::as_str).collect();
            return Err(ModuleError::Unknown { name: name.to_owned(), known: known.join(", ") });
        };
        files.iter().try_for_each(|path| load_file(name, path))
    }
}

fn load_file(name: &str, path: &Path) -> Result<(), ModuleError> {
    let file = File::open(path).map_err(|source| ModuleError::Open {
        name: name.to_owned(),
        path: path.to_owned(),
        source,
    })?;
    match finit_module(&file, &CString::default(), ModuleInitFlags::empty()) {
        Ok(()) | Err(Errno::EEXIST) => Ok(()),
        Err(errno) => {
            Err(ModuleError::Refused { name: name.to_owned(), path: path.to_owned(), errno })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(text: &str) -> Manifest {
        Manifest { files: serde_json::from_str(text).unwrap() }
    }

    #[test]
    fn an_unknown_module_is_named_with_those_that_are_there() {
        let message = manifest(r#"{"e1000": ["/none.ko"]}"#).load("igb").unwrap_err().to_string();
        assert!(message.contains("`igb`") && message.contains("e1000"), "{message}");
    }

    #[test]
    fn a_built_in_module_needs_nothing() {
        manifest(r#"{"virtio_pci": []}"#).load("virtio_pci").unwrap();
    }

    #[test]
    fn a_file_that_is_missing_is_named() {
        let message =
            manifest(r#"{"e1000": ["/no/e1000.ko"]}"#).load("e1000").unwrap_err().to_string();
        assert!(message.contains("/no/e1000.ko"), "{message}");
    }

    #[test]
    fn a_manifest_that_is_no_such_list_is_refused() {
        assert!(Manifest::read(Path::new("/no/manifest.json")).is_err());
        assert!(Manifest::read(Path::new("/proc/self/cmdline")).is_err());
    }
}
