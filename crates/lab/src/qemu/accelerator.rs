//! KVM or software emulation: asked for, or found out by a guest that answers.
//!
//! `/dev/kvm` that opens proves nothing: nested or partial implementations create virtual machines
//! in which a stock kernel never comes up. So `auto` boots one guest under KVM, within a bound, and
//! remembers what came of it for this QEMU, kernel, processor and microcode.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use vioperf_model::scenario::Accel;

use super::{BootImage, Hypervisor, Qemu, Shape, snapshot};

/// How long the guest may take that proves KVM; under a KVM that works it takes about one second.
pub const PROOF_BOUND: Duration = Duration::from_secs(10);

/// How long it is remembered that no guest ran under KVM.
const NO_HOLDS_FOR: Duration = Duration::from_secs(24 * 3600);

/// KVM's device.
pub const KVM_DEVICE: &str = "/dev/kvm";

/// The file with remembered verdicts, in vioperf's cache directory.
const FILE_NAME: &str = "kvm-verdicts.json";

/// Larger is not ours; a verdict has some 300 bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// What executes a guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Accelerator {
    /// The processor itself.
    Kvm,
    /// QEMU's software emulation; what it costs says nothing about KVM.
    Tcg,
}

impl fmt::Display for Accelerator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
        })
    }
}

/// What a verdict rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// The user asked for it.
    Forced,
    /// There is no KVM device that this user can open.
    NoDevice,
    /// A guest was tried just now.
    Proved,
    /// A guest was tried earlier, on the same machine with the same software.
    Remembered,
}

/// Which accelerator, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Which.
    pub accelerator: Accelerator,
    /// What it rests on.
    pub basis: Basis,
    /// One sentence for reports.
    pub reason: String,
}

/// What came of the guest that was to prove KVM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    /// It answered after this time.
    Works(Duration),
    /// It did not, for this reason.
    Fails(String),
}

/// KVM was asked for and cannot be had.
#[derive(Debug, thiserror::Error)]
#[error("guest.accel is \"kvm\", but {reason}; use accel = \"auto\" or \"tcg\"")]
pub struct NoKvm {
    reason: String,
}

/// Decides. `device` is the outcome of opening [`KVM_DEVICE`] ([`kvm_device`]); `prove` is called
/// only where a guest has to be tried.
///
/// # Errors
/// [`NoKvm`] when KVM is wanted and its device does not open. Whether it works then shows itself.
pub fn decide(
    wanted: Accel,
    device: Result<(), String>,
    memory: &Memory,
    key: &Key,
    prove: impl FnOnce() -> Proof,
) -> Result<Verdict, NoKvm> {
    let verdict = |accelerator, basis, reason: String| Verdict { accelerator, basis, reason };
    let forced =
        |accelerator| verdict(accelerator, Basis::Forced, "as the scenario asks".to_owned());
    match (wanted, device) {
        (Accel::Tcg, _) => return Ok(forced(Accelerator::Tcg)),
        (Accel::Kvm, Ok(())) => return Ok(forced(Accelerator::Kvm)),
        (Accel::Kvm, Err(reason)) => return Err(NoKvm { reason }),
        (Accel::Auto, Err(reason)) => {
            return Ok(verdict(Accelerator::Tcg, Basis::NoDevice, reason));
        }
        (Accel::Auto, Ok(())) => {}
    }
    if let Some(known) = memory.recall(key) {
        return Ok(verdict(known.accelerator, Basis::Remembered, known.reason));
    }
    let (accelerator, reason) = match prove() {
        Proof::Works(took) => {
            let reason = format!("a guest answered under KVM after {:.1} s", took.as_secs_f64());
            (Accelerator::Kvm, reason)
        }
        Proof::Fails(reason) => {
            let first = reason.lines().next().unwrap_or_default();
            (Accelerator::Tcg, format!("{KVM_DEVICE} opens, but no guest runs under it: {first}"))
        }
    };
    // A cache that cannot be written costs the proof again the next time, nothing else.
    let proved_at_unix_s = unix_s();
    let _ = memory.keep(key, Remembered { accelerator, reason: reason.clone(), proved_at_unix_s });
    Ok(verdict(accelerator, Basis::Proved, reason))
}

/// Opens KVM's device under `root` and closes it again; the error is a sentence for reports.
///
/// # Errors
/// When it is missing or not for this user, with what to do.
pub fn kvm_device(root: &Path) -> Result<(), String> {
    let path = root.join(KVM_DEVICE.trim_start_matches('/'));
    match OpenOptions::new().read(true).write(true).open(path) {
        Ok(_) => Ok(()),
        Err(error) => Err(match error.kind() {
            io::ErrorKind::NotFound => format!("there is no {KVM_DEVICE} on this machine"),
            io::ErrorKind::PermissionDenied => {
                format!("{KVM_DEVICE} is not for this user (join the group `kvm`)")
            }
            _ => format!("{KVM_DEVICE} does not open: {error}"),
        }),
    }
}

/// Boots one guest under KVM and has `converse` ask it for an answer.
pub fn prove_kvm<E: fmt::Display + Send>(
    qemu: &Qemu,
    image: &BootImage,
    shape: Shape,
    converse: impl FnOnce(UnixStream) -> Result<(), E> + Send,
) -> Proof {
    let hypervisor = Hypervisor { qemu: qemu.clone(), accelerator: Accelerator::Kvm, cpu: None };
    let tried = snapshot::boot(&hypervisor, image, shape).and_then(|mut booted| {
        booted.answer_within(PROOF_BOUND, converse)?;
        Ok(booted.age())
    });
    match tried {
        Ok(took) => Proof::Works(took),
        Err(error) => Proof::Fails(match error.qemu_said.last() {
            Some(said) => format!("{}: {said}", error.fault),
            None => error.fault.to_string(),
        }),
    }
}

/// What a verdict holds for: when any of it changes, KVM is proved anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// Reads this machine's `/proc` under `root`.
    #[must_use]
    pub fn read(root: &Path, qemu: &Qemu) -> Self {
        Self::from_parts(root, &qemu.version_line)
    }

    fn from_parts(root: &Path, qemu: &str) -> Self {
        let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
        let release = read("proc/sys/kernel/osrelease");
        let processor = read("proc/cpuinfo");
        let field = |name: &str| {
            let line = processor.lines().find(|line| line.trim_end().starts_with(name));
            line.and_then(|line| Some(line.split_once(':')?.1.trim())).unwrap_or("?").to_owned()
        };
        let (model, microcode) = (field("model name"), field("microcode"));
        Self(format!("{qemu} | Linux {} | {model} | microcode {microcode}", release.trim()))
    }
}

/// Verdicts of earlier runs, in a file of vioperf's cache directory.
#[derive(Debug, Clone)]
pub struct Memory {
    file: PathBuf,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Remembered {
    accelerator: Accelerator,
    reason: String,
    /// When it was proved, in seconds since the Unix epoch.
    proved_at_unix_s: u64,
}

impl Remembered {
    /// That a guest answered stays true. That none did may have had to do with that moment (a busy
    /// machine), so it is tried again the next day.
    fn holds_at(&self, now_unix_s: u64) -> bool {
        self.accelerator == Accelerator::Kvm
            || now_unix_s.saturating_sub(self.proved_at_unix_s) < NO_HOLDS_FOR.as_secs()
    }
}

fn unix_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

impl Memory {
    /// The memory in that directory, which need not exist yet.
    #[must_use]
    pub fn in_directory(cache: &Path) -> Self {
        Self { file: cache.join(FILE_NAME) }
    }

    fn recall(&self, key: &Key) -> Option<Remembered> {
        self.read().remove(&key.0).filter(|known| known.holds_at(unix_s()))
    }

    /// What does not parse counts as nothing remembered.
    fn read(&self) -> BTreeMap<String, Remembered> {
        let small = fs::metadata(&self.file).is_ok_and(|found| found.len() <= MAX_FILE_BYTES);
        let text = if small { fs::read(&self.file).unwrap_or_default() } else { Vec::new() };
        serde_json::from_slice(&text).unwrap_or_default()
    }

    fn keep(&self, key: &Key, remembered: Remembered) -> io::Result<()> {
        let directory = self.file.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(directory)?;
        let mut all = self.read();
        all.insert(key.0.clone(), remembered);
        // Written aside and renamed: another run sees the old file or the new one.
        let file = tempfile::NamedTempFile::new_in(directory)?;
        serde_json::to_writer_pretty(&file, &all)?;
        file.persist(&self.file).map(drop).map_err(|error| error.error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn never() -> Proof {
        panic!("no guest needs to be tried")
    }

    fn key() -> Key {
        Key("this machine".to_owned())
    }

    #[test]
    fn what_is_forced_is_not_tried() {
        let cache = tempfile::tempdir().unwrap();
        let memory = Memory::in_directory(cache.path());
        let tcg = decide(Accel::Tcg, Ok(()), &memory, &key(), never).unwrap();
        assert_eq!((tcg.accelerator, tcg.basis), (Accelerator::Tcg, Basis::Forced));
        let kvm = decide(Accel::Kvm, Ok(()), &memory, &key(), never).unwrap();
        assert_eq!((kvm.accelerator, kvm.basis), (Accelerator::Kvm, Basis::Forced));
        let error =
            decide(Accel::Kvm, Err("there is none".into()), &memory, &key(), never).unwrap_err();
        assert!(error.to_string().contains("there is none"), "{error}");
    }

    #[test]
    fn without_a_device_it_is_emulation_with_the_reason() {
        let cache = tempfile::tempdir().unwrap();
        let memory = Memory::in_directory(cache.path());
        let device = kvm_device(cache.path());
        let verdict = decide(Accel::Auto, device, &memory, &key(), never).unwrap();
        assert_eq!((verdict.accelerator, verdict.basis), (Accelerator::Tcg, Basis::NoDevice));
        assert!(verdict.reason.contains("there is no /dev/kvm"), "{}", verdict.reason);
    }

    #[test]
    fn a_proof_is_paid_for_once_and_again_after_a_change() {
        let cache = tempfile::tempdir().unwrap();
        for (proof, accelerator) in [
            (Proof::Works(Duration::from_millis(900)), Accelerator::Kvm),
            (Proof::Fails("an internal error\nconsole: …".into()), Accelerator::Tcg),
        ] {
            let memory = Memory::in_directory(&cache.path().join(accelerator.to_string()));
            let first = decide(Accel::Auto, Ok(()), &memory, &key(), || proof.clone()).unwrap();
            assert_eq!((first.accelerator, first.basis), (accelerator, Basis::Proved));
            assert!(!first.reason.contains("console"), "{}", first.reason);
            let second = decide(Accel::Auto, Ok(()), &memory, &key(), never).unwrap();
            assert_eq!((second.accelerator, second.basis), (accelerator, Basis::Remembered));
            assert_eq!(second.reason, first.reason);
            let changed = Key("another microcode".to_owned());
            let third = decide(Accel::Auto, Ok(()), &memory, &changed, || proof).unwrap();
            assert_eq!(third.basis, Basis::Proved);
        }
    }

    #[test]
    fn that_kvm_does_not_work_is_tried_again_the_next_day() {
        let remembered = |accelerator| Remembered {
            accelerator,
            reason: String::new(),
            proved_at_unix_s: 1_000_000,
        };
        let day = NO_HOLDS_FOR.as_secs();
        assert!(remembered(Accelerator::Tcg).holds_at(1_000_000 + day - 1));
        assert!(!remembered(Accelerator::Tcg).holds_at(1_000_000 + day));
        assert!(remembered(Accelerator::Kvm).holds_at(1_000_000 + 100 * day));
    }

    #[test]
    fn a_spoilt_cache_is_no_obstacle() {
        let cache = tempfile::tempdir().unwrap();
        let memory = Memory::in_directory(cache.path());
        fs::write(cache.path().join(FILE_NAME), b"{\"this machine\": 7").unwrap();
        let proof = || Proof::Works(Duration::ZERO);
        let verdict = decide(Accel::Auto, Ok(()), &memory, &key(), proof).unwrap();
        assert_eq!(verdict.basis, Basis::Proved);
        assert!(memory.recall(&key()).is_some());
    }

    #[test]
    fn the_key_names_qemu_kernel_processor_and_microcode() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("proc/sys/kernel")).unwrap();
        fs::write(root.path().join("proc/sys/kernel/osrelease"), "6.1.0\n").unwrap();
        let cpuinfo = "processor\t: 0\nmodel name\t: Fast CPU @ 3 GHz\nmicrocode\t: 0x2b\n";
        fs::write(root.path().join("proc/cpuinfo"), cpuinfo).unwrap();
        let key = Key::from_parts(root.path(), "QEMU 10");
        assert_eq!(key.0, "QEMU 10 | Linux 6.1.0 | Fast CPU @ 3 GHz | microcode 0x2b");
    }
}
