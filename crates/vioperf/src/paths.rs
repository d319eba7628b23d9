//! Where vioperf keeps what it can make again, its history, and what it learned about the machine (XDG
//! Base Directory Specification).

use std::env;
use std::path::PathBuf;

use anyhow::{Result, bail};

/// vioperf's cache directory: `$XDG_CACHE_HOME/vioperf`, else `~/.cache/vioperf`.
///
/// # Errors
/// When neither variable names an absolute path.
pub fn cache() -> Result<PathBuf> {
    match of_user("XDG_CACHE_HOME", ".cache") {
        Some(cache) => Ok(cache.join("vioperf")),
        None => {
            bail!("neither XDG_CACHE_HOME nor HOME is set: set one, so that kernels can be kept")
        }
    }
}

/// The history: `$XDG_DATA_HOME/vioperf/history.sqlite`, else it is in `~/.local/share`.
///
/// # Errors
/// When neither variable names an absolute path.
pub fn history() -> Result<PathBuf> {
    match of_user("XDG_DATA_HOME", ".local/share") {
        Some(data) => Ok(data.join("vioperf/history.sqlite")),
        None => bail!("neither XDG_DATA_HOME nor HOME is set: set one, so that it has a place"),
    }
}

/// References of the user's own: `$XDG_DATA_HOME/vioperf/references`, else they are in `~/.local/share`.
///
/// # Errors
/// When neither variable names an absolute path.
pub fn references() -> Result<PathBuf> {
    match of_user("XDG_DATA_HOME", ".local/share") {
        Some(data) => Ok(data.join("vioperf/references")),
        None => bail!("neither XDG_DATA_HOME nor HOME is set: set one, so that they have a place"),
    }
}

/// Calibrations of this machine: `$XDG_STATE_HOME/vioperf/calibrations`, else they are in
/// `~/.local/state`.
///
/// # Errors
/// When neither variable names an absolute path.
pub fn calibrations() -> Result<PathBuf> {
    match of_user("XDG_STATE_HOME", ".local/state") {
        Some(state) => Ok(state.join("vioperf/calibrations")),
        None => bail!("neither XDG_STATE_HOME nor HOME is set: set one, so that they have a place"),
    }
}

/// Journals of virtual machines that are changed for a while: `$XDG_STATE_HOME/vioperf/libvirt`, else they
/// are in `~/.local/state`.
///
/// # Errors
/// When neither variable names an absolute path.
pub fn libvirt_journals() -> Result<PathBuf> {
    match of_user("XDG_STATE_HOME", ".local/state") {
        Some(state) => Ok(state.join("vioperf/libvirt")),
        None => bail!("neither XDG_STATE_HOME nor HOME is set: set one, so that they have a place"),
    }
}

/// Where is written down what of the host a run alters: `$XDG_STATE_HOME/vioperf/journal`, else it is in
/// `~/.local/state`; a service has no home, and then it is in `/var/lib`.
pub fn journal() -> PathBuf {
    let state = of_user("XDG_STATE_HOME", ".local/state");
    state.unwrap_or_else(|| PathBuf::from("/var/lib")).join("vioperf/journal")
}

/// Where labs that stand are known by their names: root's are in `/run/vioperf`, a user's in `$XDG_RUNTIME_DIR/vioperf`,
/// else in a directory of `/tmp` that is named by the user's id.
pub fn labs() -> PathBuf {
    let user = nix::unistd::geteuid();
    if user.is_root() {
        return PathBuf::from("/run/vioperf");
    }
    let of_session =
        env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    match of_session {
        Some(session) => session.join("vioperf"),
        None => PathBuf::from(format!("/tmp/vioperf-{user}")),
    }
}

/// The directory that a variable names, else one in the user's home.
fn of_user(variable: &str, in_home: &str) -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    absolute(variable).or_else(|| Some(absolute("HOME")?.join(in_home)))
}

/// Where fetched guest kernels are.
///
/// # Errors
/// As [`cache`].
pub fn kernel_cache() -> Result<PathBuf> {
    Ok(cache()?.join("kernels"))
}
