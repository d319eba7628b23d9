//! The stored calibrations of this machine: one file for each of what they hold for.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use vioperf_model::calibration::{CALIBRATION_SCHEMA_VERSION, CalibratedMachine, Calibration};
use vioperf_model::record::{HostFacts, HypervisorFacts};

use crate::paths;
use crate::store::{self, to_json};

/// No calibration is longer; anything else is none.
const MOST_BYTES: u64 = 1 << 20;

/// What a calibration holds for: this vioperf on that host, with that QEMU where guests take part.
pub fn machine(host: &HostFacts, hypervisor: Option<&HypervisorFacts>) -> CalibratedMachine {
    CalibratedMachine {
        vioperf_version: env!("CARGO_PKG_VERSION").to_owned(),
        kernel_release: host.kernel_release.clone(),
        cpu_model: host.cpu_model.clone(),
        cores: host.cores,
        qemu_version: hypervisor.map(|hypervisor| hypervisor.qemu_version.clone()),
        emulated: hypervisor.map(|hypervisor| hypervisor.emulated),
    }
}

/// Stores a calibration in place of an earlier one of the same machine; where it is then.
///
/// # Errors
/// When there is no directory for it, or it cannot be written.
pub fn store(calibration: &Calibration) -> anyhow::Result<PathBuf> {
    let directory = paths::calibrations()?;
    fs::create_dir_all(&directory)?;
    let name = file_name(&calibration.machine);
    store::write_whole(&directory, &name, to_json(calibration)?.as_bytes())?;
    Ok(directory.join(name))
}

/// The newest calibration that holds for a run; a run without guests may cite one with guests, as the
/// host's part of it is the same.
pub fn find(host: &HostFacts, hypervisor: Option<&HypervisorFacts>) -> Option<Calibration> {
    find_in(&paths::calibrations().ok()?, &machine(host, hypervisor))
}

fn find_in(directory: &Path, wanted: &CalibratedMachine) -> Option<Calibration> {
    let files = fs::read_dir(directory).ok()?.flatten().map(|entry| entry.path());
    // A file that is damaged, or of a newer vioperf, is as good as none.
    let stored = files.filter_map(|path| read(&path).ok());
    let fitting = stored.filter(|stored| holds_for(&stored.machine, wanted));
    fitting.max_by(|a, b| a.made_at.cmp(&b.made_at))
}

fn holds_for(stored: &CalibratedMachine, wanted: &CalibratedMachine) -> bool {
    let host = |machine: &CalibratedMachine| CalibratedMachine {
        qemu_version: None,
        emulated: None,
        ..machine.clone()
    };
    let guests = wanted.qemu_version.is_none()
        || (&stored.qemu_version, stored.emulated) == (&wanted.qemu_version, wanted.emulated);
    host(stored) == host(wanted) && guests
}

fn read(path: &Path) -> io::Result<Calibration> {
    let mut text = String::new();
    File::open(path)?.take(MOST_BYTES).read_to_string(&mut text)?;
    let calibration: Calibration = serde_json::from_str(&text)?;
    if calibration.schema_version > CALIBRATION_SCHEMA_VERSION {
        return Err(io::Error::other("a newer vioperf wrote it"));
    }
    Ok(calibration)
}

/// The same for the same machine, and for no other.
fn file_name(machine: &CalibratedMachine) -> String {
    let digest = Sha256::digest(format!("{machine:?}"));
    let digits: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("{digits}.json")
}

#[cfg(test)]
mod tests {
    use vioperf_model::calibration::NoiseFloor;

    use super::*;

    fn calibration(kernel: &str, qemu: Option<&str>, made_at: &str) -> Calibration {
        Calibration {
            schema_version: CALIBRATION_SCHEMA_VERSION,
            made_at: made_at.into(),
            quick: true,
            machine: CalibratedMachine {
                vioperf_version: "1".into(),
                kernel_release: kernel.into(),
                cpu_model: "A CPU".into(),
                cores: 2,
                qemu_version: qemu.map(str::to_owned),
                emulated: qemu.map(|_| true),
            },
            checks: Vec::new(),
            left_out: Vec::new(),
            noise_floor: NoiseFloor::default(),
        }
    }

    #[test]
    fn only_a_calibration_of_the_same_machine_is_found_and_the_newest_of_them() {
        let folder = tempfile::tempdir().unwrap();
        let all = [
            calibration("6.1", None, "2026-01-01T00:00:00Z"),
            calibration("6.1", Some("10.0"), "2026-01-02T00:00:00Z"),
            calibration("6.2", Some("10.0"), "2026-01-03T00:00:00Z"),
        ];
        for one in &all {
            let name = file_name(&one.machine);
            fs::write(folder.path().join(name), to_json(one).unwrap()).unwrap();
        }
        fs::write(folder.path().join("damaged.json"), "{").unwrap();
        let found = |kernel: &str, qemu| {
            let wanted = calibration(kernel, qemu, "").machine;
            find_in(folder.path(), &wanted).map(|found| found.made_at)
        };
        assert_eq!(found("6.1", None).as_deref(), Some("2026-01-02T00:00:00Z"));
        assert_eq!(found("6.1", Some("10.0")).as_deref(), Some("2026-01-02T00:00:00Z"));
        assert_eq!(found("6.1", Some("9.0")), None);
        assert_eq!(found("6.3", None), None);
        assert_eq!(find_in(Path::new("/nonexistent"), &all[0].machine), None);
    }
}
