//! Where vioperf keeps what it can make again (XDG Base Directory Specification).

use std::env;
use std::path::PathBuf;

use anyhow::{Result, bail};

/// vioperf's cache directory: `$XDG_CACHE_HOME/vioperf`, else `~/.cache/vioperf`.
///
/// # Errors
/// When neither variable names an absolute path.
pub fn cache() -> Result<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    if let Some(cache) = absolute("XDG_CACHE_HOME") {
        return Ok(cache.join("vioperf"));
    }
    match absolute("HOME") {
        Some(home) => Ok(home.join(".cache/vioperf")),
        None => {
            bail!("neither XDG_CACHE_HOME nor HOME is set: set one, so that kernels can be kept")
        }
    }
}

/// Where fetched guest kernels are.
///
/// # Errors
/// As [`cache`].
pub fn kernel_cache() -> Result<PathBuf> {
    Ok(cache()?.join("kernels"))
}
