//! What is written down, and on the disk, before something of the host is altered that does not go with the lab: as it
//! was. From this it is undone, by the run that altered it or, where that was killed, by a later one.
//!
//! An entry is a file, and whoever alters what it tells of holds a lock on it (flock(2)), which the kernel takes from
//! the dead. That of a virtual machine ([`crate::libvirt`]) is a folder, as it has files that `virsh` reads, and is locked and
//! written in the same way.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// No entry is longer; one that is was not written by vioperf.
const MOST_BYTES: u64 = 64 * 1024;

/// Why the journal could not be kept or read.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// A file of it failed.
    #[error("cannot keep the journal in {path}: {source}; nothing is altered without it")]
    File {
        /// Which.
        path: PathBuf,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// It is no entry.
    #[error("{path} is no journal of this vioperf: {reason}; look at it, then remove it")]
    Malformed {
        /// Which.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Another run has it.
    #[error("another vioperf has {0} at this moment: wait for its end")]
    InUse(String),
    /// An earlier run did not put it back, and neither could this one.
    #[error("an earlier run was ended before it had put {0} back")]
    LeftOver(String),
}

/// What an entry tells of.
pub trait Entry: Serialize + DeserializeOwned {
    /// What the names of its files begin with: entries of several kinds are in one folder.
    const KIND: &'static str;
}

/// An entry that is held: nobody else has what it tells of.
#[derive(Debug)]
pub struct Held<E> {
    /// As it was.
    pub entry: E,
    path: PathBuf,
    /// Unlocked when closed, by whatever end.
    _file: File,
}

impl<E: Entry> Held<E> {
    /// Writes an entry down in `folder`; `name` is what is altered, as the end of a file's name.
    ///
    /// # Errors
    /// When it cannot be written, or what it tells of is somebody else's.
    pub fn begin(folder: &Path, name: &str, entry: E) -> Result<Self, JournalError> {
        let path = folder.join(format!("{}-{name}", E::KIND));
        let failed = |source| JournalError::File { path: path.clone(), source };
        make_folder(folder).map_err(failed)?;
        let file = lock(&path).map_err(failed)?;
        let mut file = file.ok_or_else(|| JournalError::InUse(name.to_owned()))?;
        if file.metadata().map_err(failed)?.len() > 0 {
            return Err(JournalError::LeftOver(name.to_owned()));
        }
        let text = serde_json::to_vec_pretty(&entry).map_err(|error| failed(error.into()))?;
        let write = |file: &mut File| {
            file.write_all(&text)?;
            file.sync_all()?;
            // The name has to last too.
            File::open(folder)?.sync_all()
        };
        write(&mut file).map_err(failed)?;
        Ok(Self { entry, path, _file: file })
    }

    /// Takes over every entry of this kind in `folder` that nobody holds any more.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn left(folder: &Path) -> Result<Vec<Self>, JournalError> {
        let failed = |source| JournalError::File { path: folder.to_owned(), source };
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed)?,
        };
        let mut paths = Vec::new();
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let kind = name.to_str().and_then(|name| name.split_once('-')).map(|(kind, _)| kind);
            if kind == Some(E::KIND) {
                paths.push(entry.path());
            }
        }
        paths.sort();
        paths.into_iter().filter_map(|path| take_over(path).transpose()).collect()
    }

    /// All is as it was: the entry goes.
    ///
    /// # Errors
    /// When its file cannot be removed.
    pub fn end(self) -> Result<(), JournalError> {
        let failed = |source| JournalError::File { path: self.path.clone(), source };
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(error)),
            _ => Ok(()),
        }
    }
}

/// The entry in a file; nothing where it is held, gone, or was never finished: then nothing was altered.
fn take_over<E: Entry>(path: PathBuf) -> Result<Option<Held<E>>, JournalError> {
    let failed = |source| JournalError::File { path: path.clone(), source };
    let file = match open(&path, false) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(failed)?,
    };
    let Some(mut file) = locked(file).map_err(failed)? else { return Ok(None) };
    let mut text = Vec::new();
    file.seek(SeekFrom::Start(0)).map_err(failed)?;
    (&mut file).take(MOST_BYTES).read_to_end(&mut text).map_err(failed)?;
    if text.is_empty() {
        return Ok(None);
    }
    let malformed = |error: serde_json::Error| JournalError::Malformed {
        path: path.clone(),
        reason: error.to_string(),
    };
    let entry = serde_json::from_slice(&text).map_err(malformed)?;
    Ok(Some(Held { entry, path, _file: file }))
}

/// Opens a file, which is made where it is not there yet, and locks it; nothing where somebody else has it. The lock goes
/// with the file, by whatever end.
pub(crate) fn lock(path: &Path) -> io::Result<Option<File>> {
    locked(open(path, true)?)
}

fn open(path: &Path, create: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(create).truncate(false).mode(0o600).open(path)
}

fn locked(file: File) -> io::Result<Option<File>> {
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Makes a folder for a journal, its owner's alone.
pub(crate) fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Writes a file in the place of what there was: it is there whole, or as it was, and lasts. It is its owner's alone.
pub(crate) fn write_whole(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let new = folder.join(format!("{name}.new"));
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, folder.join(name))?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Number = Held<u32>;

    impl Entry for u32 {
        const KIND: &'static str = "number";
    }

    impl Entry for String {
        const KIND: &'static str = "text";
    }

    #[test]
    fn what_was_begun_is_found_again_by_whoever_comes_after() {
        let state = tempfile::tempdir().unwrap();
        let folder = state.path().join("vioperf/journal");
        assert!(Number::left(&folder).unwrap().is_empty());
        let held = Held::begin(&folder, "card", 7_u32).unwrap();
        assert!(matches!(Held::begin(&folder, "card", 8_u32), Err(JournalError::InUse(_))));
        assert!(Number::left(&folder).unwrap().is_empty(), "it is held");
        // As if killed.
        drop(held);
        assert!(matches!(Held::begin(&folder, "card", 8_u32), Err(JournalError::LeftOver(_))));
        let left = Number::left(&folder).unwrap().pop().unwrap();
        assert_eq!(left.entry, 7);
        assert!(Held::<String>::left(&folder).unwrap().is_empty(), "it is of another kind");
        left.end().unwrap();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        Held::begin(&folder, "card", 9_u32).unwrap().end().unwrap();
    }

    #[test]
    fn what_was_never_finished_altered_nothing_and_what_is_no_entry_is_told() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("number-card"), "").unwrap();
        assert!(Number::left(folder.path()).unwrap().is_empty());
        fs::write(folder.path().join("number-card"), "{").unwrap();
        let message = Number::left(folder.path()).unwrap_err().to_string();
        assert!(message.contains("card") && message.contains("no journal"), "{message}");
    }
}
