//! QEMU, and the namespaces that a sandbox is made of.

use std::path::Path;

use nix::errno::Errno;
use nix::sched::CloneFlags;
use vioperf_model::disk::DiskModel;
use vioperf_model::nic::NicModel;

use super::Check;
use crate::attempt;
use crate::qemu::{Qemu, QemuError, QemuVersion};
use crate::sandbox::Refusal;

/// Older ones lack options that every guest is started with.
const OLDEST: QemuVersion = QemuVersion { major: 6, minor: 0, micro: 0 };

/// QEMU, its version, and which of the wanted models it has.
#[must_use]
pub fn qemu(found: &Result<Qemu, QemuError>, wanted: &[NicModel], disks: &[DiskModel]) -> Check {
    const NAME: &str = "QEMU";
    let qemu = match found {
        Ok(qemu) => qemu,
        Err(error) => {
            let advice = "Debian, Ubuntu: `sudo apt-get install qemu-system-x86`; Fedora: `sudo dnf \
                          install qemu-system-x86-core`";
            return Check::fail(NAME, error.to_string(), advice);
        }
    };
    let nics = wanted.iter().map(|model| (model.name(), qemu.supports(*model)));
    let disks = disks.iter().map(|model| (model.name(), qemu.require_disk(*model).is_ok()));
    let (has_nics, mut lacks) = parted(nics);
    let (has_disks, lacks_disks) = parted(disks);
    lacks.extend(lacks_disks);
    let mut text =
        format!("{} in {}, with {}", qemu.version, qemu.path.display(), has_nics.join(", "));
    if !has_disks.is_empty() {
        text = format!("{text}; disks: {}", has_disks.join(", "));
    }
    if !lacks.is_empty() {
        text = format!("{text}; without {}", lacks.join(", "));
    }
    if qemu.version < OLDEST {
        return Check::fail(NAME, text, format!("QEMU {OLDEST} or newer is needed"));
    }
    if lacks.is_empty() {
        return Check::ok(NAME, text);
    }
    let advice =
        "leave these models out, or take a newer QEMU (igb: 8.0; Debian 12 has one in backports)";
    Check::warn(NAME, text, advice)
}

/// Names of models that QEMU has, and of those that it lacks.
fn parted(
    models: impl Iterator<Item = (&'static str, bool)>,
) -> (Vec<&'static str>, Vec<&'static str>) {
    let (has, lacks): (Vec<_>, Vec<_>) = models.partition(|(_, is_there)| *is_there);
    let names = |all: Vec<(&'static str, bool)>| all.into_iter().map(|(name, _)| name).collect();
    (names(has), names(lacks))
}

/// The namespaces of a sandbox; `attempt` makes them for a process that ends at once.
#[must_use]
pub fn user_namespaces(
    root: &Path,
    is_root: bool,
    attempt: impl FnOnce(bool) -> Result<(), Errno>,
) -> Check {
    const NAME: &str = "namespaces";
    match attempt(is_root) {
        Ok(()) if is_root => Check::ok(NAME, "this is root, they can be made"),
        Ok(()) => Check::ok(NAME, "an ordinary user may make them here"),
        Err(errno) => {
            let who = if is_root { "root" } else { "an ordinary user" };
            let found = format!("{who} may not make them here: {errno}");
            Check::fail(NAME, found, Refusal::diagnose(root, errno).advice())
        }
    }
}

/// Makes the namespaces in a child that never comes to run a program.
pub(super) fn try_namespaces(is_root: bool) -> Result<(), Errno> {
    let flags = CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET;
    attempt::in_namespaces(flags, is_root, || Ok(()))
}

#[cfg(test)]
mod tests {
    use super::super::{Status, machine_with};
    use super::*;

    #[test]
    fn a_forbidden_namespace_names_the_sysctl() {
        let root = machine_with(&[("proc/sys/user/max_user_namespaces", "0\n")]);
        let check = user_namespaces(root.path(), false, |_| Err(Errno::ENOSPC));
        assert_eq!(check.status, Status::Fail);
        assert!(check.advice.unwrap().contains("sysctl user.max_user_namespaces="));
        assert_eq!(user_namespaces(root.path(), true, |_| Ok(())).status, Status::Ok);
    }

    #[test]
    fn the_attempt_runs_no_program_and_says_yes_here() {
        assert_eq!(try_namespaces(false), Ok(()), "this test needs user namespaces");
    }

    #[test]
    fn a_qemu_without_a_model_is_a_warning() {
        let mut qemu = Qemu::find(None).unwrap();
        let models: Vec<NicModel> = NicModel::all().collect();
        assert_eq!(super::qemu(&Ok(qemu.clone()), &models[..1], &[]).status, Status::Ok);
        qemu.forget_device("igb");
        qemu.forget_device("nvme");
        let disks: Vec<DiskModel> = DiskModel::all().collect();
        let check = super::qemu(&Ok(qemu), &models, &disks);
        assert!(check.found.contains("disks: virtio-blk, "), "{}", check.found);
        assert!(check.status == Status::Warn && check.found.ends_with("without igb, nvme"));
    }
}
