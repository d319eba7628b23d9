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
    #[error(
        "the module `{name}` is part of the kernel: it takes its options from the kernel's arguments (guest.kernel_arguments: `{name}.option=value`)"
    )]
    BuiltIn { name: String },
    #[error("the options of the module `{name}` contain a zero byte")]
    Options { name: String },
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

    /// Loads a module and what it depends on, each with its options (by module). One that is there
    /// already is fine.
    pub fn load(&self, name: &str, options: &BTreeMap<String, String>) -> Result<(), ModuleError> {
        let Some(files) = self.files.get(name) else {
            let known: Vec<&str> = self.files.keys().map(String::as_str).collect();
            return Err(ModuleError::Unknown { name: name.to_owned(), known: known.join(", ") });
        };
        if files.is_empty() && options.contains_key(name) {
            return Err(ModuleError::BuiltIn { name: name.to_owned() });
        }
        files.iter().try_for_each(|path| {
            let own = options.get(module_of(path)).map_or("", String::as_str);
            load_file(name, path, own)
        })
    }
}

/// The module that is in a file of the initramfs (`/lib/modules/004-virtio_net.ko`).
fn module_of(path: &Path) -> &str {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    stem.split_once('-').map_or(stem, |(_, module)| module)
}

fn load_file(name: &str, path: &Path, options: &str) -> Result<(), ModuleError> {
    let options =
        CString::new(options).map_err(|_| ModuleError::Options { name: name.to_owned() })?;
    let file = File::open(path).map_err(|source| ModuleError::Open {
        name: name.to_owned(),
        path: path.to_owned(),
        source,
    })?;
    match finit_module(&file, &options, ModuleInitFlags::empty()) {
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
        let message = manifest(r#"{"e1000": ["/none.ko"]}"#)
            .load("igb", &BTreeMap::new())
            .unwrap_err()
            .to_string();
        assert!(message.contains("`igb`") && message.contains("e1000"), "{message}");
    }

    #[test]
    fn a_built_in_module_needs_nothing() {
        let manifest = manifest(r#"{"virtio_pci": []}"#);
        manifest.load("virtio_pci", &BTreeMap::new()).unwrap();
        let options = [("virtio_pci".to_owned(), "force_legacy=1".to_owned())].into();
        let message = manifest.load("virtio_pci", &options).unwrap_err().to_string();
        assert!(message.contains("virtio_pci.option=value"), "{message}");
    }

    #[test]
    fn a_file_tells_its_module() {
        assert_eq!(module_of(Path::new("/lib/modules/004-virtio_net.ko")), "virtio_net");
        assert_eq!(module_of(Path::new("")), "");
    }

    #[test]
    fn a_file_that_is_missing_is_named() {
        let message = manifest(r#"{"e1000": ["/no/e1000.ko"]}"#);
        let message = message.load("e1000", &BTreeMap::new()).unwrap_err().to_string();
        assert!(message.contains("/no/e1000.ko"), "{message}");
    }

    #[test]
    fn a_manifest_that_is_no_such_list_is_refused() {
        assert!(Manifest::read(Path::new("/no/manifest.json")).is_err());
        assert!(Manifest::read(Path::new("/proc/self/cmdline")).is_err());
    }
}
