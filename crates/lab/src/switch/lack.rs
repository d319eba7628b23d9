//! What a switch asks for, and finding out whether it is there without changing anything.

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sched::CloneFlags;
use vioperf_netlink::{NetlinkError, Socket};

use crate::attempt;

/// Something that is missing, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack {
    /// What is missing.
    pub what: String,
    /// What to do.
    pub advice: String,
}

impl Lack {
    /// Both in words.
    pub(crate) fn new(what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { what: what.into(), advice: advice.into() }
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.advice)
    }
}

/// Where programs are that only an administrator has in `PATH`.
const SYSTEM_FOLDERS: [&str; 2] = ["/usr/sbin", "/sbin"];

/// A program, in `PATH` or where an administrator's are.
pub(super) fn find_program(root: &Path, name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(SYSTEM_FOLDERS.map(PathBuf::from));
    folders
        .filter(|folder| folder.is_absolute())
        .map(|folder| root.join(folder.strip_prefix("/").unwrap_or(&folder)).join(name))
        .find(|program| program.is_file())
}

/// The programs that are needed, the first that is missing.
pub(super) fn programs(root: &Path, names: &[&str], advice: &str) -> Option<Lack> {
    let missing = names.iter().find(|name| find_program(root, name).is_none())?;
    Some(Lack::new(format!("the program {missing} was not found"), advice))
}

/// Asks the kernel for something where it leaves nothing behind. Only a kernel that does not know such a thing lacks it: a user
/// who may not make namespaces hears of that elsewhere.
pub(super) fn kernel(
    ask: fn(&mut Socket) -> Result<(), NetlinkError>,
    what: &str,
    advice: &str,
) -> Option<Lack> {
    // ENOENT: of queueing disciplines.
    let unknown = [Errno::EOPNOTSUPP, Errno::EPROTONOSUPPORT, Errno::EAFNOSUPPORT, Errno::ENOENT];
    let errno = asked(ask).err()?;
    unknown.contains(&errno).then(|| Lack::new(format!("the kernel has no {what}"), advice))
}

fn asked(ask: fn(&mut Socket) -> Result<(), NetlinkError>) -> Result<(), Errno> {
    let is_root = nix::unistd::geteuid().is_root();
    attempt::in_namespaces(CloneFlags::CLONE_NEWNET, is_root, move || {
        let answer = Socket::open().and_then(|mut socket| ask(&mut socket));
        answer.map_err(|error| error.errno().unwrap_or(Errno::EIO))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_program_is_found_where_administrators_have_theirs() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(find_program(root.path(), "switchd"), None);
        fs::create_dir_all(root.path().join("usr/sbin")).unwrap();
        fs::write(root.path().join("usr/sbin/switchd"), "").unwrap();
        assert!(find_program(root.path(), "switchd").is_some());
        let lack = programs(root.path(), &["switchd", "switchctl"], "install them").unwrap();
        assert_eq!(lack.to_string(), "the program switchctl was not found: install them");
    }

    #[test]
    fn the_kernel_is_asked_in_a_namespace_that_is_gone_again() {
        let name = "vioperf-asked";
        assert_eq!(asked(|socket| socket.create_bridge("vioperf-asked")), Ok(()));
        assert!(Socket::open().unwrap().link_by_name(name).is_err());
        let unknown = |_: &mut Socket| -> Result<(), NetlinkError> {
            let (operation, interface) = ("try", "x".to_owned());
            Err(NetlinkError::Refused {
                operation,
                interface,
                errno: Errno::EOPNOTSUPP,
                said: None,
            })
        };
        let lack = kernel(unknown, "such thing", "load it").unwrap();
        assert_eq!(lack.to_string(), "the kernel has no such thing: load it");
        // What is refused for another reason is not missing.
        let refused = |_: &mut Socket| Err(NetlinkError::NoSuchLink { what: "x".into() });
        assert_eq!(kernel(refused, "x", "y"), None);
    }
}
