//! Getting the distribution's kernel package into the cache: downloaded by the distribution's own
//! tool (which checks its signature), unpacked here, nothing installed, no root needed.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::cache::{self, Change, MODULES};
use super::error::KernelError;
use super::{GuestKernel, package};

/// The packages that mean "the newest kernel", in the order of trying: Debian's, Ubuntu's. Not the
/// cloud and virtual flavours, which lack the drivers of emulated cards.
const META_PACKAGES: &[&str] = &["linux-image-amd64", "linux-image-generic"];

/// What a kernel is made of; Ubuntu splits the modules off.
const PARTS: &[&str] = &["linux-image-", "linux-modules-"];

/// A package that holds (a part of) a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Package {
    name: String,
    version: String,
    /// Of the download, in bytes, as the package lists say.
    size: u64,
}

/// Fetches the distribution's current kernel into `cache_dir`, or finds that it is there already.
/// `progress` gets one line for each step.
///
/// Until all is done the cache is as it was, however this ends.
///
/// # Errors
/// When the distribution is none of those with apt, knows no kernel package, or the download
/// fails; the text says which command helps. When the disk is full or the package damaged.
pub fn fetch(cache_dir: &Path, progress: &mut dyn FnMut(&str)) -> Result<GuestKernel, KernelError> {
    let packages = resolve(&mut apt_show)?;
    let names: Vec<String> =
        packages.iter().map(|package| format!("{}={}", package.name, package.version)).collect();
    let change = Change::begin(cache_dir, progress)?;
    let there = cache::list(cache_dir)?;
    let is_it = |cached: &cache::Cached| {
        cached.description.packages == names && cached.description.kept == package::KEPT
    };
    if let Some(found) = there.into_iter().find(is_it) {
        progress(&format!("kernel {} is in the cache already", found.kernel.release));
        return Ok(found.kernel);
    }
    let work = change.work_dir()?;
    let (tree, mut release) = (work.path().join("kernel"), None);
    for package in &packages {
        progress(&format!(
            "downloading {} {} ({} MB)",
            package.name,
            package.version,
            package.size / 1_000_000
        ));
        let deb = download(package, work.path())?;
        progress(&format!("unpacking {}", package.name));
        release = package::unpack(&deb, &tree)?.or(release);
        fs::remove_file(&deb).map_err(KernelError::io("remove", &deb))?;
    }
    let release = release.ok_or_else(|| {
        KernelError::Fetch(format!("no kernel image in any of {}", names.join(", ")))
    })?;
    progress("working out which modules guests need");
    let (count, unresolved) = package::prune(&tree.join(MODULES))?;
    for one in unresolved {
        progress(&format!("note: {} needs {}, which is in no package", one.path, one.needs));
    }
    progress(&format!("keeping {count} modules; extracting the kernel {release}"));
    let cached = change.publish(&tree, &release, names)?;
    progress(&format!("kernel {release} is ready in {}", cache_dir.display()));
    Ok(cached.kernel)
}

/// From the meta package to the packages with files in them. `show` gives what
/// `apt-cache show NAME` prints, or `None` for an unknown package.
fn resolve(
    show: &mut dyn FnMut(&str) -> Result<Option<String>, KernelError>,
) -> Result<Vec<Package>, KernelError> {
    for meta in META_PACKAGES {
        let Some(text) = show(meta)? else { continue };
        let mut packages = Vec::new();
        let mut seen = BTreeSet::new();
        let mut waiting = parts_of(&text);
        while let Some(name) = waiting.pop() {
            if !seen.insert(name.clone()) {
                continue;
            }
            let text = show(&name)?.ok_or_else(|| {
                KernelError::Fetch(format!("apt knows no package {name}, which {meta} needs"))
            })?;
            waiting.extend(parts_of(&text));
            packages.push(package(name, &text)?);
        }
        packages.sort_by(|a, b| a.name.cmp(&b.name));
        if !packages.is_empty() {
            return Ok(packages);
        }
    }
    Err(KernelError::Fetch(format!(
        "apt knows none of {}; if its package lists are empty or old, run `apt-get update` as \
         root, then try again",
        META_PACKAGES.join(", ")
    )))
}

/// The value of a field of a package's control data.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// The parts of a kernel among a package's dependencies; of alternatives the first. A part has the
/// release in its name, a meta package has not.
fn parts_of(text: &str) -> Vec<String> {
    let depends = ["Depends", "Pre-Depends"].iter().filter_map(|name| field(text, name));
    depends
        .flat_map(|list| list.split(','))
        .filter_map(|one| one.split_whitespace().next())
        .filter(|name| {
            let tail = PARTS.iter().find_map(|part| name.strip_prefix(part));
            let plain = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
            tail.is_some_and(|tail| tail.contains(|c: char| c.is_ascii_digit()))
                && name.chars().all(plain)
        })
        .map(str::to_owned)
        .collect()
}

fn package(name: String, text: &str) -> Result<Package, KernelError> {
    let version = field(text, "Version")
        .filter(|version| !version.is_empty())
        .ok_or_else(|| KernelError::Fetch(format!("apt tells no version of {name}")))?
        .to_owned();
    let size = field(text, "Size").and_then(|size| size.parse().ok()).unwrap_or(0);
    Ok(Package { name, version, size })
}

fn apt_show(name: &str) -> Result<Option<String>, KernelError> {
    let mut command = Command::new("apt-cache");
    command.args(["show", "--no-all-versions", "--", name]);
    let output = run(&mut command)?;
    Ok(output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned()))
}

fn download(package: &Package, dir: &Path) -> Result<PathBuf, KernelError> {
    let mut command = Command::new("apt-get");
    // The directory is this user's alone, so apt's own user cannot write there; and a mirror that
    // hangs must not hang us.
    command.args(["-q", "-o", "APT::Sandbox::User=root", "-o", "Acquire::http::Timeout=30"]);
    command.args(["-o", "Acquire::https::Timeout=30", "-o", "Acquire::Retries=2", "download"]);
    command.arg(format!("{}={}", package.name, package.version)).current_dir(dir);
    let output = run(&mut command)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(KernelError::Fetch(format!(
            "`apt-get download {}={}` failed; if the package lists are old, run `apt-get update` \
             as root, then try again. It said: {}",
            package.name,
            package.version,
            said.trim()
        )));
    }
    let prefix = format!("{}_", package.name);
    fs::read_dir(dir)
        .map_err(KernelError::io("list", dir))?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(&prefix) && name.ends_with(".deb")
        })
        .ok_or_else(|| KernelError::Fetch(format!("apt-get left no {prefix}*.deb")))
}

/// Runs a command to its end, in English, without input. It dies with us.
fn run(command: &mut Command) -> Result<std::process::Output, KernelError> {
    command.env("LC_ALL", "C").stdin(Stdio::null());
    let die_with_parent =
        || nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGTERM).map_err(Into::into);
    // SAFETY: between fork and exec it makes one system call, and neither allocates nor locks.
    unsafe { command.pre_exec(die_with_parent) };
    command.output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => KernelError::Fetch(no_apt(&tool_exists)),
        _ => KernelError::Fetch(format!("{}: {error}", command.get_program().display())),
    })
}

/// What to do where there is no apt.
fn no_apt(exists: &dyn Fn(&str) -> bool) -> String {
    let how = if exists("dnf") {
        "install this distribution's kernel (`dnf install kernel-core kernel-modules`), which \
         vioperf then finds in /lib/modules"
    } else if exists("pacman") {
        "install this distribution's kernel (`pacman -S linux`), which vioperf then finds in \
         /usr/lib/modules"
    } else {
        "install this distribution's kernel with its modules, or unpack any kernel package"
    };
    format!(
        "vioperf unpacks packages of apt's distributions (Debian, Ubuntu) only, and there is no \
         apt here: {how}; or name one with --kernel IMAGE (and its module directory)"
    )
}

fn tool_exists(name: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(name).is_file()))
}

#[cfg(test)]
mod tests;
