//! The cache of kernels: one directory a release, complete or not there at all.
//!
//! ```text
//! <cache>/.lock                 held while the cache is being changed
//! <cache>/.work-XXXXXX/         unfinished; swept by the next change
//! <cache>/<release>/kernel.json what it was made from; written last
//! <cache>/<release>/vmlinuz     the distribution's image
//! <cache>/<release>/vmlinux     extracted, where it has a PVH entry
//! <cache>/<release>/modules/    modules.dep, modules.builtin, kernel/…
//! <cache>/extracted/<digest>    vmlinux of images outside of the cache
//! ```

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::error::KernelError;
use super::image::{Boot, ImageError, MAX_IMAGE, boot_image};
use super::package::KEPT;
use super::{BootFile, GuestKernel, Source, version};

const WORK: &str = ".work-";
const EXTRACTED: &str = "extracted";
const DESCRIPTION: &str = "kernel.json";
const IMAGE: &str = "vmlinuz";
const PVH_IMAGE: &str = "vmlinux";
pub(super) const MODULES: &str = "modules";

/// What a cached kernel was made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// `uname -r`.
    pub release: String,
    /// The packages, each as `name=version`.
    pub packages: Vec<String>,
    /// The parts of the module tree that were kept of them: an older vioperf keeps fewer.
    #[serde(default)]
    pub kept: Vec<String>,
    /// How it boots.
    pub boot: Boot,
}

/// A kernel in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cached {
    /// The kernel.
    pub kernel: GuestKernel,
    /// What it was made from.
    pub description: Description,
}

/// The kernels in the cache, newest release first; none when there is no cache.
///
/// # Errors
/// When the directory is there but unreadable.
pub fn list(cache: &Path) -> Result<Vec<Cached>, KernelError> {
    let entries = match fs::read_dir(cache) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(KernelError::io("list", cache)(error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(KernelError::io("list", cache))?;
        // What has no whole description is not a kernel of ours.
        if let Ok(name) = entry.file_name().into_string()
            && !name.starts_with('.')
            && let Ok(text) = fs::read(entry.path().join(DESCRIPTION))
            && let Ok(description) = serde_json::from_slice::<Description>(&text)
            && description.release == name
        {
            found.push(cached(&entry.path(), description));
        }
    }
    found.sort_by(|a, b| version::compare(&b.kernel.release, &a.kernel.release));
    Ok(found)
}

/// Removes one kernel.
///
/// # Errors
/// When there is none of that release, or it cannot be removed.
pub fn remove(cache: &Path, release: &str) -> Result<(), KernelError> {
    if !list(cache)?.iter().any(|cached| cached.kernel.release == release) {
        let (release, cache) = (release.to_owned(), cache.to_owned());
        return Err(KernelError::NotCached { release, cache });
    }
    let change = Change::begin(cache, &mut |_| ())?;
    let work = change.work_dir()?;
    let path = cache.join(release);
    // First out of sight at once, then gone: a killed removal leaves no half kernel.
    fs::rename(&path, work.path().join(release)).map_err(KernelError::io("remove", path))?;
    work.close().map_err(KernelError::io("remove", cache))
}

fn cached(dir: &Path, description: Description) -> Cached {
    let kernel = GuestKernel {
        image: dir.join(IMAGE),
        modules: Some(dir.join(MODULES)),
        release: description.release.clone(),
        source: Source::Cache,
    };
    Cached { kernel, description }
}

/// The right to change the cache; others wait for it. It ends with the value, or the process.
pub(super) struct Change {
    cache: PathBuf,
    _lock: File,
}

impl Change {
    /// Takes the lock and sweeps what killed processes left.
    pub(super) fn begin(cache: &Path, progress: &mut dyn FnMut(&str)) -> Result<Self, KernelError> {
        fs::create_dir_all(cache).map_err(KernelError::io("create", cache))?;
        let path = cache.join(".lock");
        let lock = File::options().create(true).append(true).open(&path);
        let lock = lock.map_err(KernelError::io("open", &path))?;
        if lock.try_lock().is_err() {
            progress("another vioperf changes the kernel cache; waiting for it");
            lock.lock().map_err(KernelError::io("lock", &path))?;
        }
        for entry in fs::read_dir(cache).map_err(KernelError::io("list", cache))?.flatten() {
            if entry.file_name().to_string_lossy().starts_with(WORK) {
                fs::remove_dir_all(entry.path())
                    .map_err(KernelError::io("remove", entry.path()))?;
            }
        }
        Ok(Self { cache: cache.to_owned(), _lock: lock })
    }

    /// A directory to work in, on the cache's file system; it goes when dropped.
    pub(super) fn work_dir(&self) -> Result<TempDir, KernelError> {
        tempfile::Builder::new()
            .prefix(WORK)
            .tempdir_in(&self.cache)
            .map_err(KernelError::io("create a directory in", &self.cache))
    }

    /// Makes a finished directory (with `vmlinuz` and `modules/`) a kernel of the cache, in place
    /// of any other of that release.
    pub(super) fn publish(
        &self,
        dir: &Path,
        release: &str,
        packages: Vec<String>,
    ) -> Result<Cached, KernelError> {
        let image = dir.join(IMAGE);
        let boot = extract(&image, &dir.join(PVH_IMAGE))?;
        let kept = KEPT.iter().copied().map(str::to_owned).collect();
        let description = Description { release: release.to_owned(), packages, kept, boot };
        let path = dir.join(DESCRIPTION);
        serde_json::to_vec_pretty(&description)
            .map_err(io::Error::from)
            .and_then(|text| fs::write(&path, text))
            .map_err(KernelError::io("write", &path))?;
        sync(dir)?;
        let target = self.cache.join(release);
        if target.exists() {
            let old = self.work_dir()?;
            fs::rename(&target, old.path().join("old"))
                .map_err(KernelError::io("replace", &target))?;
        }
        fs::rename(dir, &target).map_err(KernelError::io("rename", &target))?;
        Ok(cached(&target, description))
    }
}

/// Writes all of the file system, so that a loss of power cannot leave a directory that was
/// renamed but is empty.
fn sync(dir: &Path) -> Result<(), KernelError> {
    let handle = File::open(dir).map_err(KernelError::io("open", dir))?;
    nix::unistd::syncfs(handle).map_err(io::Error::from).map_err(KernelError::io("sync", dir))
}

/// Writes the image's `vmlinux` to `target` if it has a PVH entry.
fn extract(image: &Path, target: &Path) -> Result<Boot, KernelError> {
    let found = boot_image(read_image(image)?).map_err(of_image(image))?;
    if found.boot == Boot::Pvh {
        fs::write(target, &found.bytes).map_err(KernelError::io("write", target))?;
    }
    Ok(found.boot)
}

/// See [`GuestKernel::boot_file`].
pub(super) fn boot_file(
    kernel: &GuestKernel,
    cache: &Path,
    progress: &mut dyn FnMut(&str),
) -> Result<BootFile, KernelError> {
    let as_it_is = |boot| BootFile { path: kernel.image.clone(), boot };
    if kernel.source == Source::Cache {
        let pvh = kernel.image.with_file_name(PVH_IMAGE);
        return Ok(if pvh.is_file() {
            BootFile { path: pvh, boot: Boot::Pvh }
        } else {
            as_it_is(Boot::BzImage)
        });
    }
    let bytes = read_image(&kernel.image)?;
    let path = cache.join(EXTRACTED).join(hex(&Sha256::digest(&bytes)));
    if path.is_file() {
        return Ok(BootFile { path, boot: Boot::Pvh });
    }
    let plain = bytes.starts_with(b"\x7fELF");
    let image = boot_image(bytes).map_err(of_image(&kernel.image))?;
    if plain || image.boot == Boot::BzImage {
        return Ok(as_it_is(image.boot));
    }
    progress(&format!("keeping the unpacked kernel {} in {}", kernel.release, cache.display()));
    let change = Change::begin(cache, progress)?;
    let work = change.work_dir()?;
    let new = work.path().join(PVH_IMAGE);
    fs::write(&new, &image.bytes).map_err(KernelError::io("write", &new))?;
    sync(work.path())?;
    let shelf = cache.join(EXTRACTED);
    fs::create_dir_all(&shelf).map_err(KernelError::io("create", &shelf))?;
    fs::rename(&new, &path).map_err(KernelError::io("rename", &path))?;
    Ok(BootFile { path, boot: Boot::Pvh })
}

fn read_image(path: &Path) -> Result<Vec<u8>, KernelError> {
    let length = fs::metadata(path).map_err(KernelError::io("read", path))?.len();
    if length > MAX_IMAGE {
        return Err(of_image(path)(ImageError::NotAKernel));
    }
    fs::read(path).map_err(KernelError::io("read", path))
}

fn of_image(path: &Path) -> impl FnOnce(ImageError) -> KernelError {
    let path = path.to_owned();
    move |source| KernelError::Image { path, source }
}

fn hex(digest: &[u8]) -> String {
    use std::fmt::Write;
    digest.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests;
