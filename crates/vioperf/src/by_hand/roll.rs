//! The labs that stand, by their names: each is a socket in a directory that is the user's alone.
//!
//! The socket is bound before the lab is made, by the process that then stays outside of it, and that process removes it.
//! One that nobody listens to any more is of a lab that was killed; whoever looks next removes it. Whoever binds or
//! removes holds a lock on the directory.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, connect, getsockopt, listen,
    socket, sockopt,
};
use nix::sys::stat::lstat;
use nix::unistd::{Pid, geteuid};

/// The longest name of a lab.
const LONGEST_NAME: usize = 40;

/// Visitors that may wait to be answered.
const BACKLOG: i32 = 128;

/// How often the directory is made anew, where others remove it meanwhile.
const TRIES: usize = 16;

/// Why a lab could not be put on the roll, or be found there.
#[derive(Debug, thiserror::Error)]
pub enum RollError {
    /// The directory, or a socket in it, failed.
    #[error("cannot {step} {}: {source}", path.display())]
    Io {
        /// What it was about.
        path: PathBuf,
        /// What was being done.
        step: &'static str,
        /// The reason.
        source: io::Error,
    },
    /// Somebody else could put a socket there.
    #[error(
        "{} is of user {owner} with mode {mode:o}, but must be user {own}'s alone (mode 700): remove it, or set \
         XDG_RUNTIME_DIR to a directory of your own", path.display()
    )]
    NotOurs {
        /// The directory.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// Its permissions.
        mode: u32,
        /// Whose it must be.
        own: u32,
    },
    /// It is no name.
    #[error(
        "`{0}` is no name for a lab: it takes 1 to {LONGEST_NAME} letters, digits, `-`, `_` and `.`, and begins with none of \
         the last three"
    )]
    Name(String),
    /// There is one already.
    #[error(
        "a lab of the name `{0}` stands already: `vioperf lab down {0}` ends it, `--name` gives this one another"
    )]
    Taken(String),
    /// There is none.
    #[error("no lab of the name `{name}` stands{}", others(.standing))]
    Unknown {
        /// The name.
        name: String,
        /// Those that do.
        standing: Vec<String>,
    },
    /// There is none at all.
    #[error("no lab stands: `vioperf lab up SCENARIO` makes one")]
    Empty,
    /// It is not clear which is meant.
    #[error("several labs stand ({}): say which with --lab", .0.join(", "))]
    Several(Vec<String>),
}

fn others(standing: &[String]) -> String {
    match standing {
        [] => ": `vioperf lab up SCENARIO` makes one".to_owned(),
        standing => format!("; there is: {}", standing.join(", ")),
    }
}

/// The directory.
#[derive(Debug, Clone)]
pub struct Roll {
    folder: PathBuf,
}

/// A name on the roll, and the socket on which its lab is asked; the name goes when this is dropped.
#[derive(Debug)]
pub struct Claim {
    roll: Roll,
    name: String,
    listener: OwnedFd,
    /// Of the socket's file: what stands under the name later is another's.
    inode: u64,
}

/// A connection to a lab.
#[derive(Debug)]
pub struct Line {
    /// The socket; one message at a time.
    pub socket: OwnedFd,
    /// The process outside of the lab, which the user started.
    pub guard: Pid,
}

impl Roll {
    /// That of a directory, which need not be there.
    pub fn in_folder(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Puts a lab on it: under `wanted`, or under the first of `like`, `like-2`, … that is free.
    ///
    /// # Errors
    /// [`RollError`].
    pub fn claim(&self, wanted: Option<&str>, like: &str) -> Result<Claim, RollError> {
        let _lock = self.locked_for_claim()?;
        let standing = self.clear()?;
        let is_free = |name: &String| !standing.contains(name);
        let name = match wanted {
            Some(name) => check_name(name)?.to_owned(),
            None => {
                let like = as_name(like);
                let numbered = (2..).map(|number| format!("{like}-{number}"));
                std::iter::once(like.clone()).chain(numbered).find(is_free).unwrap_or(like)
            }
        };
        if !is_free(&name) {
            return Err(RollError::Taken(name));
        }
        let path = self.folder.join(&name);
        let (listener, inode) =
            listening(&path).map_err(|errno| io_error(&path, "listen on", errno))?;
        Ok(Claim { roll: self.clone(), name, listener, inode })
    }

    /// The names of the labs that stand; what is left of others is removed.
    ///
    /// # Errors
    /// [`RollError`].
    pub fn standing(&self) -> Result<Vec<String>, RollError> {
        let Some(_lock) = self.locked()? else { return Ok(Vec::new()) };
        self.clear()
    }

    /// Connects to a lab: to that one, or else to the only one.
    ///
    /// # Errors
    /// [`RollError`].
    pub fn connect(&self, name: Option<&str>) -> Result<(String, Line), RollError> {
        let mut standing = self.standing()?;
        let name = match (name, standing.len()) {
            (Some(name), _) if standing.iter().any(|known| known == name) => name.to_owned(),
            (Some(name), _) => return Err(RollError::Unknown { name: name.to_owned(), standing }),
            (None, 0) => return Err(RollError::Empty),
            (None, 1) => standing.remove(0),
            (None, _) => return Err(RollError::Several(standing)),
        };
        let path = self.folder.join(&name);
        match connected(&path) {
            Ok(line) => Ok((name, line)),
            Err(errno) => Err(io_error(&path, "connect to the lab at", errno)),
        }
    }

    fn failed(&self, step: &'static str) -> impl FnOnce(io::Error) -> RollError {
        let path = self.folder.clone();
        move |source| RollError::Io { path, step, source }
    }

    /// Removes what nobody listens to; what is left are the labs that stand, by name. Under the lock.
    fn clear(&self) -> Result<Vec<String>, RollError> {
        let mut standing = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(self.failed("list"))? {
            let entry = entry.map_err(self.failed("list"))?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            match connected(&entry.path()) {
                Err(Errno::ECONNREFUSED) => {
                    fs::remove_file(entry.path())
                        .map_err(self.failed("remove what a killed lab left in"))?;
                }
                // One whose visitors wait is there, too.
                Ok(_) | Err(Errno::EAGAIN) => standing.push(name),
                Err(_) => {}
            }
        }
        standing.sort();
        Ok(standing)
    }

    /// Makes the directory if need be, and locks it.
    fn locked_for_claim(&self) -> Result<File, RollError> {
        for _ in 0..TRIES {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.folder);
            made.map_err(self.failed("make"))?;
            if let Some(lock) = self.locked()? {
                return Ok(lock);
            }
        }
        Err(self.failed("lock")(io::ErrorKind::NotFound.into()))
    }

    /// Locks the directory, if it is there; refuses one that others may write to.
    fn locked(&self) -> Result<Option<File>, RollError> {
        let lock = match File::open(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(self.failed("open"))?,
        };
        let metadata = lock.metadata().map_err(self.failed("look at"))?;
        let (owner, mode, own) = (metadata.uid(), metadata.mode() & 0o7777, geteuid().as_raw());
        if owner != own || mode & 0o077 != 0 || !metadata.is_dir() {
            return Err(RollError::NotOurs { path: self.folder.clone(), owner, mode, own });
        }
        lock.lock().map_err(self.failed("lock"))?;
        // Whoever had the lock may have removed the directory since.
        let is_there =
            fs::symlink_metadata(&self.folder).is_ok_and(|now| now.ino() == metadata.ino());
        Ok(is_there.then_some(lock))
    }
}

impl Claim {
    /// The lab's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The socket that it is asked on.
    pub fn listener(&self) -> &OwnedFd {
        &self.listener
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let Ok(Some(_lock)) = self.roll.locked() else { return };
        let path = self.roll.folder.join(&self.name);
        if fs::symlink_metadata(&path).is_ok_and(|now| now.ino() == self.inode) {
            // What cannot be removed here the next look removes.
            let _ = fs::remove_file(path);
        }
        // The last one takes the directory with it; as long as others have sockets there it stays.
        let _ = fs::remove_dir(&self.roll.folder);
    }
}

fn new_socket() -> nix::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)
}

/// A socket that listens there, and the number of its file.
fn listening(path: &Path) -> nix::Result<(OwnedFd, u64)> {
    let listener = new_socket()?;
    bind(listener.as_raw_fd(), &UnixAddr::new(path)?)?;
    listen(&listener, Backlog::new(BACKLOG)?)?;
    Ok((listener, lstat(path)?.st_ino))
}

/// Connects to whoever listens there.
fn connected(path: &Path) -> nix::Result<Line> {
    let socket = new_socket()?;
    connect(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
    let credentials = getsockopt(&socket, sockopt::PeerCredentials)?;
    if credentials.uid() != geteuid().as_raw() {
        return Err(Errno::EPERM);
    }
    Ok(Line { socket, guard: Pid::from_raw(credentials.pid()) })
}

fn io_error(path: &Path, step: &'static str, errno: Errno) -> RollError {
    RollError::Io { path: path.to_owned(), step, source: errno.into() }
}

fn check_name(name: &str) -> Result<&str, RollError> {
    let is_fine = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let begins = name.starts_with(|letter: char| letter.is_ascii_alphanumeric());
    match begins && name.len() <= LONGEST_NAME && name.chars().all(is_fine) {
        true => Ok(name),
        false => Err(RollError::Name(name.to_owned())),
    }
}

/// A scenario's name as that of a lab, with room for a number behind it.
fn as_name(like: &str) -> String {
    let letters =
        like.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' });
    let name: String = letters.take(LONGEST_NAME - 4).collect();
    let name = name.trim_matches('-');
    if name.is_empty() { "lab".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn roll() -> (tempfile::TempDir, Roll) {
        let folder = tempfile::tempdir().unwrap();
        let roll = Roll::in_folder(folder.path().join("labs"));
        (folder, roll)
    }

    #[test]
    fn names_are_free_again_and_the_directory_goes_with_the_last() {
        let (_folder, roll) = roll();
        assert!(matches!(roll.connect(None), Err(RollError::Empty)));
        let first = roll.claim(None, "nic models!").unwrap();
        let second = roll.claim(None, "nic models!").unwrap();
        assert_eq!((first.name(), second.name()), ("nic-models", "nic-models-2"));
        assert!(matches!(roll.claim(Some("nic-models"), ""), Err(RollError::Taken(_))));
        assert!(matches!(roll.connect(None), Err(RollError::Several(_))));
        let message = roll.connect(Some("other")).unwrap_err().to_string();
        assert!(message.contains("there is: nic-models, nic-models-2"), "{message}");
        drop(first);
        let (name, line) = roll.connect(None).unwrap();
        assert_eq!((name.as_str(), line.guard), ("nic-models-2", nix::unistd::getpid()));
        drop(second);
        assert!(!roll.folder.exists());
    }

    #[test]
    fn what_a_killed_lab_left_is_cleared() {
        let (_folder, roll) = roll();
        let Claim { listener, .. } = &roll.claim(Some("a"), "").unwrap();
        let other = roll.claim(Some("b"), "").unwrap();
        let path = roll.folder.join("c");
        fs::rename(roll.folder.join("b"), &path).unwrap();
        drop(other);
        assert!(path.exists() && listener.as_raw_fd() > 2);
        assert_eq!(roll.standing().unwrap(), ["a"]);
        assert!(!path.exists());
    }

    #[test]
    fn a_directory_that_others_may_write_to_is_refused() {
        let (_folder, roll) = roll();
        fs::create_dir(&roll.folder).unwrap();
        fs::set_permissions(&roll.folder, fs::Permissions::from_mode(0o777)).unwrap();
        let message = roll.claim(Some("a"), "").unwrap_err().to_string();
        assert!(message.contains("mode 777") && message.contains("XDG_RUNTIME_DIR"), "{message}");
    }

    #[test]
    fn names_are_no_paths() {
        let (_folder, roll) = roll();
        for name in ["", ".", "..", "a/b", "-a", "a b", &"a".repeat(41)] {
            assert!(matches!(roll.claim(Some(name), ""), Err(RollError::Name(_))), "{name}");
        }
        assert_eq!(as_name("///"), "lab");
    }
}
