//! What can go wrong with a guest's kernel, each with what to do about it.

use std::io;
use std::path::PathBuf;

use super::find::Rejected;
use super::image::ImageError;

/// An error about the guest's kernel or its modules.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// A file or directory could not be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The image is none that vioperf can boot.
    #[error("kernel image {}: {source}", path.display())]
    Image {
        /// The image.
        path: PathBuf,
        /// Why.
        source: ImageError,
    },
    /// A module is neither a file of the tree nor built into the kernel.
    #[error(
        "kernel {release} has no module `{module}` (looked in {tree}); choose another kernel with \
         --kernel, or get the distribution's full one by `vioperf kernel fetch`"
    )]
    MissingModule {
        /// The module as it was asked for.
        module: String,
        /// The kernel's release.
        release: String,
        /// The module tree, or that there is none.
        tree: String,
    },
    /// A module does not take that parameter.
    #[error("guest.driver_options: {module} does not take `{parameter}`: {reason}")]
    NoParameter {
        /// The module.
        module: String,
        /// The parameter.
        parameter: String,
        /// Why not, and what to do.
        reason: &'static str,
    },
    /// A module file, or a file about modules, is malformed.
    #[error("{}: {reason}; reinstall the kernel package, or `vioperf kernel fetch`", path.display())]
    BadModuleFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// No kernel had everything.
    #[error("no kernel for guests found{}", list(.0))]
    NotFound(Vec<Rejected>),
    /// The user's kernel does not do.
    #[error("the given kernel cannot be used: {0}")]
    GivenUnusable(Rejected),
    /// The distribution's package tool failed, or there is none.
    #[error("cannot fetch a kernel package: {0}")]
    Fetch(String),
    /// A package file is not what it should be.
    #[error("package {}: {reason}; try `vioperf kernel fetch` again", path.display())]
    BadPackage {
        /// The package file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The cache has no such kernel.
    #[error("no kernel `{release}` in {}; `vioperf kernel list` shows what is there", cache.display())]
    NotCached {
        /// What was asked for.
        release: String,
        /// The cache.
        cache: PathBuf,
    },
}

impl KernelError {
    /// A function that dresses an [`io::Error`] with what was done to which path.
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }
}

fn list(rejected: &[Rejected]) -> String {
    let mut text = String::new();
    for one in rejected {
        text.push_str("\n  ");
        text.push_str(&one.to_string());
    }
    text.push_str(
        "\n  run `vioperf kernel fetch` to get the distribution's kernel into the cache \
         (nothing is installed), or name one with --kernel",
    );
    text
}
