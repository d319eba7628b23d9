//! Finding QEMU and asking what it can do.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::fmt;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use vioperf_model::disk::DiskModel;
use vioperf_model::nic::NicModel;
use vioperf_model::scenario::AsyncIo;
use vioperf_model::suggest::nearest;

use crate::namespace::end;

/// The program that is looked for.
pub const PROGRAM: &str = "qemu-system-x86_64";

/// How long QEMU may take to print its version or its devices.
const ANSWER_BOUND: Duration = Duration::from_secs(20);

/// Most bytes read of such an answer; the list of devices is about 25 KiB.
const MAX_ANSWER_BYTES: u64 = 1 << 20;

/// What QEMU may be forbidden without losing what we need of it: it starts no programs, changes
/// neither user nor limits. The filter costs a little with every system call; libvirt sets the same
/// one, so guests have it in real life as well.
pub(super) const SECCOMP: &str =
    "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny";

/// A version of QEMU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QemuVersion {
    /// The first number.
    pub major: u32,
    /// The second.
    pub minor: u32,
    /// The third.
    pub micro: u32,
}

impl fmt::Display for QemuVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.micro)
    }
}

/// A QEMU that was found, and what it has.
#[derive(Debug, Clone)]
pub struct Qemu {
    /// The program.
    pub path: PathBuf,
    /// Its version.
    pub version: QemuVersion,
    /// What it says of itself, packaging included.
    pub version_line: String,
    /// Built with seccomp, so that it can be kept from starting programs.
    pub seccomp: bool,
    devices: BTreeSet<String>,
}

/// Why there is no usable QEMU.
#[derive(Debug, thiserror::Error)]
pub enum QemuError {
    /// No such program.
    #[error(
        "{program} was not found{}: install it (Debian, Ubuntu: `apt-get install qemu-system-x86`; Fedora: \
         `dnf install qemu-system-x86-core`), or name it in the scenario (guest.qemu)", .place
    )]
    NotFound {
        /// What was looked for.
        program: String,
        /// Where, as in " in PATH".
        place: &'static str,
    },
    /// It could not be run.
    #[error("cannot run {}: {source}", .path.display())]
    Run {
        /// The program.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// It does not answer as QEMU does.
    #[error("{} does not answer `{question}` as QEMU does: {answer}", .path.display())]
    Unrecognized {
        /// The program.
        path: PathBuf,
        /// The arguments.
        question: &'static str,
        /// The beginning of what it said.
        answer: String,
    },
    /// It lacks the device of a model.
    #[error(
        "QEMU {version} has no device `{device}` for the {what} model `{model}`: {about}; leave the model out or take a newer QEMU"
    )]
    NoDevice {
        /// The version.
        version: QemuVersion,
        /// QEMU's name of the device.
        device: &'static str,
        /// Of what it is a model.
        what: &'static str,
        /// The model.
        model: &'static str,
        /// What the model is.
        about: &'static str,
    },
    /// It knows no such CPU model.
    #[error(
        "QEMU {version} knows no CPU model `{cpu}` (guest.cpu){meant}: `qemu-system-x86_64 -cpu help` lists those it knows"
    )]
    NoCpu {
        /// The version.
        version: QemuVersion,
        /// The model.
        cpu: String,
        /// What was perhaps meant, in words.
        meant: String,
    },
    /// The device has no such property.
    #[error(
        "QEMU {version}'s device `{device}` has no property `{property}` (guest.device_options): `-device {device},help` lists those it has"
    )]
    NoProperty {
        /// The version.
        version: QemuVersion,
        /// QEMU's name of the device.
        device: &'static str,
        /// The property.
        property: String,
    },
}

impl Qemu {
    /// Finds the program (the one given, else in `PATH`) and asks its version and devices.
    ///
    /// # Errors
    /// [`QemuError`], with what to do.
    pub fn find(given: Option<&Path>) -> Result<Self, QemuError> {
        let path = locate(given)?;
        // QEMU reads its options in order: one without seccomp fails before it prints its version.
        let guarded = ask(&path, &["-sandbox", SECCOMP, "--version"])?;
        let seccomp = version_of(&guarded).is_some();
        let answer = if seccomp { guarded } else { ask(&path, &["--version"])? };
        let unrecognized = |question, answer: &str| QemuError::Unrecognized {
            path: path.clone(),
            question,
            answer: answer.chars().take(200).collect(),
        };
        let version = version_of(&answer).ok_or_else(|| unrecognized("--version", &answer))?;
        let version_line = answer.lines().next().unwrap_or_default().to_owned();
        let listing = ask(&path, &["-device", "help"])?;
        let devices = devices_of(&listing);
        if devices.is_empty() {
            return Err(unrecognized("-device help", &listing));
        }
        Ok(Self { path, version, version_line, seccomp, devices })
    }

    /// True when it has the device of that model.
    #[must_use]
    pub fn supports(&self, model: NicModel) -> bool {
        self.devices.contains(model.row().qemu_device)
    }

    /// Asks for the device of a model.
    ///
    /// # Errors
    /// [`QemuError::NoDevice`].
    pub fn require(&self, model: NicModel) -> Result<(), QemuError> {
        if self.supports(model) {
            return Ok(());
        }
        let row = model.row();
        Err(QemuError::NoDevice {
            version: self.version,
            device: row.qemu_device,
            what: "NIC",
            model: row.name,
            about: row.about,
        })
    }

    /// Asks for the devices of a disk model.
    ///
    /// # Errors
    /// [`QemuError::NoDevice`].
    pub fn require_disk(&self, model: DiskModel) -> Result<(), QemuError> {
        let row = model.row();
        let Some(device) = row.qemu_devices().find(|device| !self.devices.contains(*device)) else {
            return Ok(());
        };
        let (version, what) = (self.version, "disk");
        Err(QemuError::NoDevice { version, device, what, model: row.name, about: row.about })
    }

    /// Whether it was built with that way of reading and writing files.
    ///
    /// # Errors
    /// When QEMU does not answer.
    pub fn has_async_io(&self, wanted: AsyncIo) -> Result<bool, QemuError> {
        // Without the way it does not come to look for the file.
        let node =
            format!("driver=file,node-name=probe,filename=/dev/null/none,aio={}", wanted.name());
        let answer = ask(
            &self.path,
            &["-machine", "none", "-nodefaults", "-display", "none", "-blockdev", &node],
        )?;
        Ok(answer.contains("/dev/null/none"))
    }

    /// Asks whether the device of a model has all these properties.
    ///
    /// # Errors
    /// [`QemuError::NoProperty`] for the first that it has not, else why QEMU does not answer.
    pub fn require_properties<'a>(
        &self,
        model: NicModel,
        wanted: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), QemuError> {
        let device = model.row().qemu_device;
        let mut known: Option<BTreeSet<String>> = None;
        for property in wanted {
            if known.is_none() {
                let listing = ask(&self.path, &["-device", &format!("{device},help")])?;
                known = Some(properties_of(&listing));
            }
            if !known.as_ref().is_some_and(|known| known.contains(property)) {
                let property = property.to_owned();
                return Err(QemuError::NoProperty { version: self.version, device, property });
            }
        }
        Ok(())
    }

    /// Asks for a CPU model with its flags and properties, as `-cpu` takes them (`Skylake-Server,-avx512f`).
    ///
    /// # Errors
    /// [`QemuError::NoCpu`], with the model that was perhaps meant; else why QEMU does not answer.
    pub fn require_cpu(&self, wanted: &str) -> Result<(), QemuError> {
        let listing = ask(&self.path, &["-cpu", "help"])?;
        let known = cpus_of(&listing);
        let model = wanted.split(',').next().unwrap_or_default();
        // One that lists none in a way that is known will say by itself.
        if known.is_empty() || known.contains(model) {
            return Ok(());
        }
        let meant = nearest(model, known.iter().map(String::as_str))
            .map(|meant| format!(", did you mean `{meant}`?"))
            .unwrap_or_default();
        Err(QemuError::NoCpu { version: self.version, cpu: model.to_owned(), meant })
    }

    /// A QEMU that was built without that device.
    #[cfg(test)]
    pub(crate) fn forget_device(&mut self, device: &str) {
        self.devices.remove(device);
    }

    /// Whether it was built with that network backend. One that does not say is taken to have it: it will
    /// refuse then.
    pub(crate) fn has_netdev(&self, name: &str) -> bool {
        // Every one has taps.
        let listing = || ask(&self.path, &["-netdev", "help"]).unwrap_or_default();
        name == "tap" || lists_netdev(&listing(), name)
    }

    /// True when it has that device, by QEMU's own name.
    pub(super) fn has_device(&self, device: &str) -> bool {
        self.devices.contains(device)
    }
}

fn locate(given: Option<&Path>) -> Result<PathBuf, QemuError> {
    let missing = |program: String, place| QemuError::NotFound { program, place };
    if let Some(path) = given
        && path.components().count() > 1
    {
        return match path.is_file() {
            true => Ok(path.to_owned()),
            false => Err(missing(path.display().to_string(), "")),
        };
    }
    let name = given.map_or_else(|| OsString::from(PROGRAM), |name| name.as_os_str().to_owned());
    env::split_paths(&env::var_os("PATH").unwrap_or_default())
        .map(|directory| directory.join(&name))
        .find(|path| path.is_file())
        .ok_or_else(|| missing(name.to_string_lossy().into_owned(), " in PATH"))
}

/// Runs the program and returns what it printed, both streams after each other.
fn ask(path: &Path, arguments: &[&str]) -> Result<String, QemuError> {
    let failed = |source| QemuError::Run { path: path.to_owned(), source };
    let mut command = Command::new(path);
    command.args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // There is no sandbox yet that would take it along when vioperf is killed.
    // SAFETY: between fork and exec only one system call is made, nothing is allocated or locked.
    unsafe { command.pre_exec(|| Ok(set_pdeathsig(Signal::SIGKILL)?)) };
    let mut child = command.spawn().map_err(failed)?;
    let outputs = [
        child.stdout.take().map(|stream| Box::new(stream) as Box<dyn Read + Send>),
        child.stderr.take().map(|stream| Box::new(stream) as Box<dyn Read + Send>),
    ];
    let readers = outputs.map(|stream| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(stream) = stream {
                let _ = stream.take(MAX_ANSWER_BYTES).read_to_end(&mut bytes);
            }
            bytes
        })
    });
    let deadline = Instant::now() + ANSWER_BOUND;
    while matches!(child.try_wait(), Ok(None)) {
        if Instant::now() >= deadline {
            end(&mut child);
            let seconds = ANSWER_BOUND.as_secs();
            return Err(failed(io::Error::other(format!("no answer within {seconds} s"))));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let mut text = String::new();
    for reader in readers {
        text.push_str(&String::from_utf8_lossy(&reader.join().unwrap_or_default()));
    }
    Ok(text)
}

/// Reads `QEMU emulator version 10.0.2 (Debian …)`.
fn version_of(answer: &str) -> Option<QemuVersion> {
    let rest = answer.lines().find_map(|line| line.strip_prefix("QEMU emulator version "))?;
    let number = rest.split([' ', '(', '-', '+']).next()?;
    let mut parts = number.split('.').map(|part| part.parse().ok());
    Some(QemuVersion {
        major: parts.next()??,
        minor: parts.next()??,
        micro: parts.next().flatten().unwrap_or(0),
    })
}

/// Reads lines like `name "e1000", bus PCI, alias "e1000-82540em", desc "…"`, names and aliases.
fn devices_of(listing: &str) -> BTreeSet<String> {
    let quoted = |text: &str| Some(text.split('"').nth(1)?.to_owned());
    listing
        .lines()
        .filter(|line| line.starts_with("name \""))
        .flat_map(|line| {
            let alias = line.split_once("alias ").and_then(|(_, rest)| quoted(rest));
            quoted(line).into_iter().chain(alias)
        })
        .collect()
}

/// Reads lines like `  Broadwell-v1          Intel Core Processor (Broadwell)`, before version 9 with `x86 ` in front, up
/// to the list of flags.
fn cpus_of(listing: &str) -> BTreeSet<String> {
    let models = listing.lines().take_while(|line| !line.starts_with("Recognized CPUID flags"));
    let indented =
        models.filter_map(|line| line.strip_prefix("  ").or_else(|| line.strip_prefix("x86 ")));
    indented.filter_map(|line| line.split_ascii_whitespace().next()).map(str::to_owned).collect()
}

/// Whether a backend is among those of `-netdev help`, one a line after a heading.
fn lists_netdev(listing: &str, name: &str) -> bool {
    let mut lines = listing.lines().map(str::trim);
    !lines.clone().any(|line| line == "hubport") || lines.any(|line| line == name)
}

/// The names in `  mrg_rxbuf=<bool>           - on/off (default: on)`.
fn properties_of(listing: &str) -> BTreeSet<String> {
    let name = |line: &str| Some(line.strip_prefix("  ")?.split_once("=<")?.0.trim().to_owned());
    listing.lines().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_properties_of_a_device() {
        let listing = "virtio-net-pci options:\n  mrg_rxbuf=<bool>       - on/off (default: on)\n  \
            mac=<str>\n  x-mtu-bypass-backend=<bool> - on/off\n";
        let known = properties_of(listing);
        assert_eq!(known.len(), 3);
        assert!(known.contains("mrg_rxbuf") && known.contains("mac"), "{known:?}");
    }

    #[test]
    fn cpu_models_are_read_of_old_and_new_listings() {
        let new = "Available CPUs:\n  486-v1                \n  Broadwell-v1          Intel Core Processor\n  max     x\n\n\
            Recognized CPUID flags:\n  3dnow avx\n";
        let known = cpus_of(new);
        assert_eq!(known.len(), 3);
        assert!(known.contains("max") && !known.contains("3dnow"), "{known:?}");
        let old = "Available CPUs:\nx86 486                   (alias)\nx86 host         KVM\n\nRecognized CPUID flags:\n";
        assert!(cpus_of(old).contains("host") && cpus_of("no such option").is_empty());
    }

    #[test]
    fn a_network_backend_is_found_in_the_list() {
        let listing = "Available netdev backend types:\nsocket\nhubport\ntap\nuser\n";
        assert!(lists_netdev(listing, "user") && !lists_netdev(listing, "stream"));
        assert!(lists_netdev("qemu: -netdev help: no such thing", "stream"));
    }

    #[test]
    fn versions_are_read_with_and_without_packaging() {
        let version = |major, minor, micro| Some(QemuVersion { major, minor, micro });
        let debian = "QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)\nCopyright (c) …";
        assert_eq!(version_of(debian), version(10, 0, 2));
        assert_eq!(version_of("QEMU emulator version 7.2.9\n"), version(7, 2, 9));
        assert_eq!(version_of("QEMU emulator version 9.1.50-dirty\n"), version(9, 1, 50));
        assert_eq!(version_of("QEMU emulator version \n"), None);
        assert_eq!(version_of("hello"), None);
    }

    #[test]
    fn names_and_aliases_of_devices_are_read() {
        let listing = "Network devices:\nname \"e1000\", bus PCI, alias \"e1000-82540em\", desc \"x\"\n\
                       name \"pcnet\", bus PCI\nname \"broken\n";
        let devices = devices_of(listing);
        assert!(["e1000", "e1000-82540em", "pcnet"].iter().all(|name| devices.contains(*name)));
    }

    #[test]
    fn a_missing_qemu_says_what_to_install() {
        let error = Qemu::find(Some(Path::new("/nonexistent/qemu"))).unwrap_err();
        assert!(error.to_string().contains("apt-get install qemu-system-x86"), "{error}");
        let error = Qemu::find(Some(Path::new("/bin/true"))).unwrap_err();
        assert!(matches!(error, QemuError::Unrecognized { .. }), "{error}");
    }

    #[test]
    fn the_installed_qemu_has_the_models() {
        let qemu = Qemu::find(None).unwrap();
        assert!(qemu.version >= QemuVersion { major: 5, minor: 0, micro: 0 });
        assert!(qemu.supports("virtio".parse().unwrap()));
    }
}
