//! Directories of its own for a run, so that nothing of the user's is touched and every file that is
//! left is seen.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::running::Run;
use super::{Finished, VIOPERF};

/// A home, a cache, a directory for temporary files and a current directory.
pub struct World {
    folder: TempDir,
}

/// What a run of two cells is told, the baseline first: as short as it can be.
pub const SHORT: &[&str] = &[
    "run",
    "nic-models",
    "--blocks=1",
    "--seed=3",
    "--set=nic=virtio",
    "--set=streams=1",
    "--set=direction=to-guest",
    "--set=duration=300ms",
    "--set=warmup=100ms",
    // So many records as the plan has trials, whatever else the machine does.
    "--set=undisturbed=false",
];

/// Without a NIC there are baselines alone, and no guest is needed.
const BASELINES: &str = "\
name = \"baselines\"
question = \"What does this host carry?\"
[workload]
kind = \"tcp-stream\"
duration = \"300ms\"
warmup = \"100ms\"
";

impl World {
    /// The cached kernels of the user are in it too.
    pub fn new() -> Self {
        assert!(nix::unistd::geteuid().is_root(), "this test makes namespaces: run it as root");
        let qemu = Command::new("qemu-system-x86_64").arg("--version").output();
        assert!(
            qemu.is_ok(),
            "this test starts guests: install qemu-system-x86 (`scripts/setup test`)"
        );
        let folder = tempfile::Builder::new().prefix("vioperf-test-").tempdir().unwrap();
        let world = Self { folder };
        for name in ["home", "cache/vioperf", "tmp", "here"] {
            fs::create_dir_all(world.path(name)).unwrap();
        }
        let kernels = world.path("cache/vioperf/kernels");
        std::os::unix::fs::symlink(kernel_cache(), kernels).unwrap();
        world
    }

    /// The same with a scenario of baselines alone in its current directory, `baselines.toml`, with what
    /// else is to be in it.
    pub fn with_baselines(further: &str) -> Self {
        let world = Self::new();
        super::write(&world.path("here/baselines.toml"), &format!("{BASELINES}{further}"));
        world
    }

    /// A path in this world.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The same as an argument.
    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// An executable script in this world.
    pub fn script(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        self.text(name)
    }

    /// vioperf in this world, its current directory `here`.
    pub fn command<S: AsRef<std::ffi::OsStr>>(&self, arguments: &[S]) -> Command {
        let mut command = Command::new(VIOPERF);
        command.args(arguments).stdin(Stdio::null()).current_dir(self.path("here"));
        command.env("HOME", self.path("home")).env("TMPDIR", self.path("tmp"));
        command.env("XDG_CACHE_HOME", self.path("cache"));
        command.env_remove("XDG_CONFIG_HOME").env_remove("XDG_RUNTIME_DIR");
        command.env_remove("XDG_DATA_HOME").env_remove("VIOPERF_NO_HISTORY");
        command.env_remove("XDG_STATE_HOME");
        command
    }

    /// Starts vioperf here.
    pub fn start<S: AsRef<std::ffi::OsStr>>(&self, arguments: &[S]) -> Run {
        Run::start(self.command(arguments))
    }

    /// Runs vioperf here to its end; nothing is left of it but files.
    pub fn vioperf<S: AsRef<std::ffi::OsStr>>(&self, arguments: &[S]) -> Finished {
        self.start(arguments).ends()
    }

    /// Every file, socket and link in this world but those in `directory`; what a directory holds
    /// is listed, not the directory.
    pub fn files_beside(&self, directory: &str) -> BTreeSet<PathBuf> {
        let mut found = BTreeSet::new();
        walk(self.folder.path(), &self.path(directory), &mut found);
        // KVM's verdict and the history are kept on purpose.
        found.remove(&self.path("cache/vioperf/kvm-verdicts.json"));
        found.remove(&self.path("home/.local/share/vioperf/history.sqlite"));
        found
    }
}

fn walk(folder: &Path, beside: &Path, found: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        match entry.file_type().unwrap().is_dir() {
            _ if path == beside => {}
            true => walk(&path, beside, found),
            false => drop(found.insert(path)),
        }
    }
}

/// Where the user's cached kernels are; there is one.
pub fn kernel_cache() -> PathBuf {
    let absolute =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let cache = absolute("XDG_CACHE_HOME")
        .or_else(|| Some(absolute("HOME")?.join(".cache")))
        .expect("HOME is set")
        .join("vioperf/kernels");
    assert!(
        cached_kernel(&cache).is_some(),
        "no guest kernel in {}: `vioperf kernel fetch` gets one",
        cache.display()
    );
    cache
}

/// The directory of a cached kernel.
pub fn cached_kernel(cache: &Path) -> Option<PathBuf> {
    let mut entries = fs::read_dir(cache).ok()?.flatten().map(|entry| entry.path());
    entries.find(|path| path.join("kernel.json").is_file())
}
