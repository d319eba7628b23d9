//! What a lab needs and what colours its numbers, asked before anything is touched: all problems at
//! once, each with what to do.
//!
//! Every check reads below a root path, so that a test can hand it a machine of its own making.

mod device;
mod machine;
mod processor;
mod software;
mod switches;

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use vioperf_model::disk::DiskModel;
use vioperf_model::nic::NicModel;

pub use device::{kvm, tun, vhost_net};
pub use machine::{has_memory_for_guest, load, memory};
pub use processor::{frequency_governor, mitigations, simultaneous_multithreading, turbo};
pub use software::{qemu, user_namespaces};
pub use switches::switches;

use crate::qemu::{Qemu, QemuError};

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// As it should be, or a plain statement.
    Ok,
    /// A lab works, but slower, or its numbers are less steady.
    Warn,
    /// A lab cannot work.
    Fail,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// What was looked at, in two words.
    pub name: String,
    /// How it came out.
    pub status: Status,
    /// What was found, for a person.
    pub found: String,
    /// What to do about it, where there is something to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl Check {
    /// All is well, or nothing can be said against it.
    pub fn ok(name: &str, found: impl Into<String>) -> Self {
        Self { name: name.to_owned(), status: Status::Ok, found: found.into(), advice: None }
    }

    /// It works, but.
    pub fn warn(name: &str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { status: Status::Warn, advice: Some(advice.into()), ..Self::ok(name, found) }
    }

    /// It cannot work.
    pub fn fail(name: &str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { status: Status::Fail, advice: Some(advice.into()), ..Self::ok(name, found) }
    }
}

/// Everything this crate can ask of the machine below `root` (`/`). The guest's kernel is asked for
/// where the drivers it needs are known ([`crate::kernel::find`]); its check is made with
/// [`Check::ok`] or [`Check::fail`] and put beside these. What a switch needs it is asked for itself
/// ([`crate::switch::lacks`], and [`switches`] for all).
#[must_use]
pub fn all(
    root: &Path,
    qemu_found: &Result<Qemu, QemuError>,
    (nics, disks): (&[NicModel], &[DiskModel]),
    guest_memory_mib: u64,
) -> Vec<Check> {
    vec![
        qemu(qemu_found, nics, disks),
        kvm(root),
        vhost_net(root),
        user_namespaces(root, nix::unistd::geteuid().is_root(), software::try_namespaces),
        memory(root, guest_memory_mib),
        load(root),
        frequency_governor(root),
        turbo(root),
        simultaneous_multithreading(root),
        mitigations(root),
    ]
}

/// The first line of a file, if it is there and can be read.
fn read_line(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.lines().next().unwrap_or_default().trim().to_owned())
}

/// A machine made of files, for the tests.
#[cfg(test)]
pub(crate) fn machine_with(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_machine_gets_every_check_without_a_panic() {
        let root = machine_with(&[]);
        let missing = Qemu::find(Some(Path::new("/nonexistent/qemu")));
        let models: Vec<NicModel> = NicModel::all().collect();
        let checks = all(root.path(), &missing, (&models, &[]), 256);
        assert_eq!(checks.len(), 10);
        let failed: Vec<&str> = checks
            .iter()
            .filter(|check| check.status == Status::Fail)
            .map(|check| check.name.as_str())
            .collect();
        assert!(failed.contains(&"QEMU"), "{failed:?}");
        assert!(checks.iter().all(|check| check.status == Status::Ok || check.advice.is_some()));
    }
}
