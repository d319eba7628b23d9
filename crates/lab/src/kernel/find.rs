//! Choosing the guest's kernel: the user's, the host's own, or one from the cache.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::error::KernelError;
use super::{GuestKernel, Source, cache, image, version};

/// How much of a bzImage tells its release: the header and the real-mode code behind it.
const HEAD: u64 = 66 << 10;

/// Where to look, and for what.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The user's `--kernel`.
    pub image: Option<&'a Path>,
    /// The user's module directory, that belongs to `image`.
    pub modules: Option<&'a Path>,
    /// Where the host's file system begins: `/`, but in tests.
    pub root: &'a Path,
    /// `uname -r` of the host; its kernel is tried before the others in `/boot`.
    pub running: &'a str,
    /// Where fetched kernels are.
    pub cache: &'a Path,
    /// The modules that the guests will need; [`ALWAYS_NEEDED`](super::ALWAYS_NEEDED) among them.
    pub wanted: &'a [&'a str],
}

/// A kernel that was looked at and not taken.
#[derive(Debug)]
pub struct Rejected {
    /// The image, or the place where one was expected.
    pub place: PathBuf,
    /// Why not.
    pub reason: String,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place.display(), self.reason)
    }
}

/// Finds a kernel that has all the wanted modules: the given one and no other, where one is given;
/// else the host's running one, the host's others (newest first), the cache's (newest first).
///
/// # Errors
/// [`KernelError::GivenUnusable`] or [`KernelError::NotFound`], which name what each lacked.
pub fn find(request: &Request) -> Result<GuestKernel, KernelError> {
    if let Some(image) = request.image {
        return given(image, request).map_err(KernelError::GivenUnusable);
    }
    let mut rejected = Vec::new();
    for candidate in on_host(request).chain(in_cache(request.cache, &mut rejected)) {
        match check(candidate, request.wanted) {
            Ok(kernel) => return Ok(kernel),
            Err(why) => rejected.push(why),
        }
    }
    for (place, what) in
        [(request.root.join("boot"), "kernel"), (request.cache.to_owned(), "kernel")]
    {
        if !rejected.iter().any(|one| one.place.starts_with(&place)) {
            rejected.push(Rejected { place, reason: format!("no {what} there") });
        }
    }
    Err(KernelError::NotFound(rejected))
}

fn given(image: &Path, request: &Request) -> Result<GuestKernel, Rejected> {
    let reject = |reason: String| Rejected { place: image.to_owned(), reason };
    let release = release_of(image).map_err(|error| reject(error.to_string()))?;
    let modules = match request.modules {
        Some(dir) if dir.is_dir() => Some(dir.to_owned()),
        Some(dir) => return Err(reject(format!("its modules {} are no directory", dir.display()))),
        None => modules_near(image, request.root, &release),
    };
    let kernel = GuestKernel { image: image.to_owned(), modules, release, source: Source::Given };
    check(kernel, request.wanted)
}

/// The module directory that belongs to an image: beside it, or the host's of that release.
fn modules_near(image: &Path, root: &Path, release: &str) -> Option<PathBuf> {
    let beside = image.parent().unwrap_or(Path::new("."));
    let beside = if beside.as_os_str().is_empty() { Path::new(".") } else { beside };
    let mut places = vec![beside.join("modules"), beside.join("modules").join(release)];
    for base in [beside, &beside.join("..")] {
        places.push(base.join("lib/modules").join(release));
        places.push(base.join("usr/lib/modules").join(release));
    }
    places.push(beside.to_owned());
    places.push(root.join("lib/modules").join(release));
    places.push(root.join("usr/lib/modules").join(release));
    places.into_iter().find(|dir| is_module_dir(dir))
}

fn is_module_dir(dir: &Path) -> bool {
    dir.join("modules.dep").is_file() || dir.join("modules.builtin").is_file()
}

/// The host's kernels that have a module directory, the running one first.
fn on_host(request: &Request) -> impl Iterator<Item = GuestKernel> {
    let boot = request.root.join("boot");
    let mut kernels: Vec<GuestKernel> = Vec::new();
    let mut add = |image: PathBuf, release: &str| {
        let known = kernels.iter().any(|kernel| kernel.release == release);
        let modules = [request.root.join("lib/modules"), request.root.join("usr/lib/modules")]
            .map(|dir| dir.join(release))
            .into_iter()
            .find(|dir| is_module_dir(dir));
        if !known && modules.is_some() && image.is_file() {
            let release = release.to_owned();
            kernels.push(GuestKernel { image, modules, release, source: Source::Host });
        }
    };
    for name in names(&boot) {
        if let Some(release) = name.strip_prefix("vmlinuz-") {
            add(boot.join(&name), release);
        }
    }
    for dir in [request.root.join("lib/modules"), request.root.join("usr/lib/modules")] {
        for release in names(&dir) {
            add(dir.join(&release).join("vmlinuz"), &release);
        }
    }
    kernels.sort_by(|a, b| {
        let running = |kernel: &GuestKernel| kernel.release == request.running;
        running(b).cmp(&running(a)).then_with(|| version::compare(&b.release, &a.release))
    });
    kernels.into_iter()
}

fn in_cache(cache: &Path, rejected: &mut Vec<Rejected>) -> std::vec::IntoIter<GuestKernel> {
    match cache::list(cache) {
        Ok(kernels) => {
            kernels.into_iter().map(|cached| cached.kernel).collect::<Vec<_>>().into_iter()
        }
        Err(error) => {
            rejected.push(Rejected { place: cache.to_owned(), reason: error.to_string() });
            Vec::new().into_iter()
        }
    }
}

/// Takes a kernel if its image is readable and it has everything.
fn check(kernel: GuestKernel, wanted: &[&str]) -> Result<GuestKernel, Rejected> {
    let reject = |reason: String| Rejected { place: kernel.image.clone(), reason };
    release_of(&kernel.image).map_err(|error| {
        let root_only = matches!(&error, KernelError::Io { source, .. }
            if source.kind() == io::ErrorKind::PermissionDenied);
        let hint = if root_only { " (this distribution keeps it for root)" } else { "" };
        reject(format!("{error}{hint}"))
    })?;
    let tree = kernel.module_tree().map_err(|error| reject(error.to_string()))?;
    let missing = tree.missing(wanted);
    if missing.is_empty() {
        return Ok(kernel);
    }
    let place = match &kernel.modules {
        Some(dir) => format!("in {}", dir.display()),
        None => "as no module directory was given or found for it".to_owned(),
    };
    let noun = if missing.len() == 1 { "module" } else { "modules" };
    Err(reject(format!(
        "kernel {} lacks the {noun} {} {place}",
        kernel.release,
        missing.join(", ")
    )))
}

/// The release of an image file, reading no more of it than is needed.
fn release_of(path: &Path) -> Result<String, KernelError> {
    let mut file = File::open(path).map_err(KernelError::io("open", path))?;
    let mut bytes = Vec::new();
    file.by_ref().take(HEAD).read_to_end(&mut bytes).map_err(KernelError::io("read", path))?;
    if bytes.get(0x202..0x206) != Some(b"HdrS") {
        let rest = image::MAX_IMAGE.saturating_sub(HEAD);
        file.take(rest).read_to_end(&mut bytes).map_err(KernelError::io("read", path))?;
    }
    image::release(&bytes).map_err(|source| KernelError::Image { path: path.to_owned(), source })
}

/// The names in a directory; none where it is missing or not readable.
fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

#[cfg(test)]
pub(crate) mod tests;
