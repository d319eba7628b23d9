//! What is written down, and on the disk, before a domain is altered: its description as it was, and whether
//! it ran. From this it is put back, by the run that altered it or, where that was killed, by a later one.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::journal;

/// The entry itself: where it is not, nothing was altered.
const ENTRY: &str = "journal.json";
/// The description as it was.
const ORIGINAL: &str = "original.xml";
/// The description that stands in its place at the moment.
const CHANGED: &str = "changed.xml";
/// Held by the run that has the domain.
const LOCK: &str = "lock";

/// One domain that is, or may be, altered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The canonical URI of its libvirt.
    pub uri: String,
    /// Its UUID.
    pub uuid: String,
    /// Its name.
    pub name: String,
    /// The MAC address of the interface that is altered.
    pub interface: String,
    /// Whether it ran.
    pub ran: bool,
    /// Whether altering it was begun.
    pub altered: bool,
}

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
    /// It is no journal.
    #[error(
        "{path} is no journal of this vioperf: {reason}; {ORIGINAL} beside it is the domain as it was"
    )]
    Malformed {
        /// Which.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Another run has the domain.
    #[error("another vioperf is measuring the domain {0} at this moment: wait for its end")]
    InUse(String),
    /// An earlier run did not put the domain back.
    #[error(
        "an earlier run was ended before it had put the domain {0} back: `vioperf libvirt restore` does it"
    )]
    LeftOver(String),
}

/// A journal that is held: nobody else has the domain.
#[derive(Debug)]
pub struct Journal {
    folder: PathBuf,
    entry: Entry,
    /// Unlocked when closed, by whatever end.
    _lock: File,
}

/// What an earlier run left behind.
#[derive(Debug)]
pub struct Left {
    /// Of which domain.
    pub entry: Entry,
    folder: PathBuf,
}

impl Journal {
    /// Writes down what there is, before anything is altered; `state` is vioperf's directory for that.
    ///
    /// # Errors
    /// When it cannot be written, or the domain is somebody else's at the moment.
    pub(super) fn begin(state: &Path, entry: Entry, original: &str) -> Result<Self, JournalError> {
        let folder = state.join(&entry.uuid);
        let failed = |source| JournalError::File { path: folder.clone(), source };
        journal::make_folder(&folder).map_err(failed)?;
        let lock = lock(&folder, &entry.name)?;
        if folder.join(ENTRY).exists() {
            return Err(JournalError::LeftOver(entry.name));
        }
        let journal = Self { folder, entry, _lock: lock };
        journal.write(ORIGINAL, original.as_bytes())?;
        journal.write_entry()?;
        // The directories' own names have to last too.
        for folder in [state, state.parent().unwrap_or(state)] {
            let failed = |source| JournalError::File { path: folder.to_owned(), source };
            File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
        }
        Ok(journal)
    }

    /// What it is about.
    #[must_use]
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// Writes down that altering begins.
    pub(super) fn note_altered(&mut self) -> Result<(), JournalError> {
        if !self.entry.altered {
            self.entry.altered = true;
            self.write_entry()?;
        }
        Ok(())
    }

    /// Where the description as it was is.
    pub(super) fn original(&self) -> PathBuf {
        self.folder.join(ORIGINAL)
    }

    /// Keeps a description that is to stand in its place; gives its file.
    pub(super) fn keep_changed(&self, xml: &str) -> Result<PathBuf, JournalError> {
        self.write(CHANGED, xml.as_bytes())?;
        Ok(self.folder.join(CHANGED))
    }

    /// The description as it was.
    pub(super) fn read_original(&self) -> Result<String, JournalError> {
        let path = self.original();
        fs::read_to_string(&path).map_err(|source| JournalError::File { path, source })
    }

    /// All is as it was: the journal goes, the entry first.
    pub(super) fn end(self) -> Result<(), JournalError> {
        for name in [ENTRY, ORIGINAL, CHANGED, LOCK] {
            let path = self.folder.join(name);
            match fs::remove_file(&path) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    return Err(JournalError::File { path, source });
                }
                _ => {}
            }
        }
        // Whoever waits for the lock made its file anew, and then it stays.
        let _ = fs::remove_dir(&self.folder);
        Ok(())
    }

    fn write_entry(&self) -> Result<(), JournalError> {
        let failed = |source| JournalError::File { path: self.folder.join(ENTRY), source };
        let text = serde_json::to_vec_pretty(&self.entry).map_err(|error| failed(error.into()))?;
        self.write(ENTRY, &text)
    }

    /// A file is there whole, or as it was; a description may hold passwords, so it is its owner's alone.
    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), JournalError> {
        let written = journal::write_whole(&self.folder, name, bytes);
        written.map_err(|source| JournalError::File { path: self.folder.join(name), source })
    }
}

impl Left {
    /// What there is in vioperf's directory for that, in the order of the names.
    ///
    /// # Errors
    /// When a journal cannot be read.
    pub fn all(state: &Path) -> Result<Vec<Self>, JournalError> {
        let failed = |source| JournalError::File { path: state.to_owned(), source };
        let entries = match fs::read_dir(state) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed)?,
        };
        let mut all = Vec::new();
        for folder in entries {
            let folder = folder.map_err(failed)?.path();
            let path = folder.join(ENTRY);
            let text = match fs::read(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                text => text.map_err(|source| JournalError::File { path: path.clone(), source })?,
            };
            let entry = serde_json::from_slice(&text);
            let entry: Entry = entry.map_err(|error| JournalError::Malformed {
                path: path.clone(),
                reason: error.to_string(),
            })?;
            all.push(Self { entry, folder });
        }
        all.sort_by(|a, b| a.entry.name.cmp(&b.entry.name));
        Ok(all)
    }

    /// Takes it over, so that the domain can be put back.
    ///
    /// # Errors
    /// When the run that wrote it still lives.
    pub(super) fn take(self) -> Result<Journal, JournalError> {
        let lock = lock(&self.folder, &self.entry.name)?;
        Ok(Journal { folder: self.folder, entry: self.entry, _lock: lock })
    }
}

fn lock(folder: &Path, name: &str) -> Result<File, JournalError> {
    let path = folder.join(LOCK);
    let locked = journal::lock(&path).map_err(|source| JournalError::File { path, source })?;
    locked.ok_or_else(|| JournalError::InUse(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        Entry {
            uri: "qemu:///system".into(),
            uuid: "6f1c7a52-1111-4222-8333-444455556666".into(),
            name: "web".into(),
            interface: "52:54:00:aa:bb:01".into(),
            ran: true,
            altered: false,
        }
    }

    #[test]
    fn what_was_begun_is_found_again_by_whoever_comes_after() {
        let state = tempfile::tempdir().unwrap();
        let state = state.path().join("vioperf/libvirt");
        assert!(Left::all(&state).unwrap().is_empty());
        let mut journal = Journal::begin(&state, entry(), "<domain/>").unwrap();
        journal.note_altered().unwrap();
        let taken = Journal::begin(&state, entry(), "<domain/>");
        assert!(matches!(taken, Err(JournalError::InUse(_))));
        let left = Left::all(&state).unwrap().pop().unwrap();
        assert!(left.entry.altered && left.entry.ran);
        assert!(matches!(left.take(), Err(JournalError::InUse(_))));
        // As if killed.
        drop(journal);
        let again = Journal::begin(&state, entry(), "<domain/>");
        assert!(matches!(again, Err(JournalError::LeftOver(_))));
        drop(again);
        let journal = Left::all(&state).unwrap().pop().unwrap().take().unwrap();
        assert_eq!(journal.read_original().unwrap(), "<domain/>");
        journal.end().unwrap();
        assert!(Left::all(&state).unwrap().is_empty());
        assert_eq!(fs::read_dir(&state).unwrap().count(), 0);
    }

    #[test]
    fn a_description_is_its_owners_alone() {
        use std::os::unix::fs::PermissionsExt;
        let state = tempfile::tempdir().unwrap();
        let journal = Journal::begin(state.path(), entry(), "<domain/>").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&journal.original()), 0o600);
        assert_eq!(mode(journal.original().parent().unwrap()), 0o700);
    }

    #[test]
    fn what_is_no_journal_says_where_the_original_is() {
        let state = tempfile::tempdir().unwrap();
        fs::create_dir(state.path().join("x")).unwrap();
        fs::write(state.path().join("x").join(ENTRY), "{}").unwrap();
        let message = Left::all(state.path()).unwrap_err().to_string();
        assert!(message.contains("original.xml"), "{message}");
    }
}
