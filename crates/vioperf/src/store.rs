//! The run directory: `run.json` and `trials.jsonl`.
//!
//! Records are appended and synced one by one, so that a run that dies loses nothing it had
//! finished; `run.json` is replaced whole, so that a reader never sees half of it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, eaccess};
use serde::Serialize;
use serde::de::DeserializeOwned;
use vioperf_model::record::{RunInfo, SCHEMA_VERSION, TrialRecord};

pub mod parts;
mod repair;

pub use self::repair::Repair;
use self::repair::repair_end;

/// File name of [`RunInfo`].
pub const RUN_FILE: &str = "run.json";
/// File name of the trial records.
pub const TRIALS_FILE: &str = "trials.jsonl";

/// A run directory that cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The directory already holds a run.
    #[error("{} already holds a run; give another --out", .0.display())]
    Taken(PathBuf),
    /// Another process writes into it.
    #[error(
        "another vioperf is writing into {}; wait until it has ended, or end it",
        .0.display()
    )]
    InUse(PathBuf),
    /// The system refused.
    #[error("cannot {action} {}: {source}{}", path.display(), advice(source))]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The directory holds no run.
    #[error("{} holds no run (no {RUN_FILE}); name a directory that `vioperf run` wrote", .0.display())]
    NoRun(PathBuf),
    /// The directory holds a run in parts, and one run is wanted.
    #[error(
        "{} holds a run in parts: name one of them, such as {}",
        .0.display(), .0.join(.1).display()
    )]
    InParts(PathBuf, String),
    /// `run.json` does not parse.
    #[error(
        "{} is damaged ({message}): without it the trials beside it cannot be read",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What the parser says.
        message: String,
    },
    /// A later vioperf wrote it.
    #[error(
        "{} was written by a newer vioperf (schema version {found}, this one reads up to \
         {SCHEMA_VERSION}): update vioperf to read it",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u64,
    },
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; make room, or give --out on another disk"
        }
        io::ErrorKind::PermissionDenied
        | io::ErrorKind::ReadOnlyFilesystem
        | io::ErrorKind::NotADirectory => "; give --out a directory that you may write",
        _ => "",
    }
}

/// Holds others off for as long as `trials` is open. A file system that knows no locks holds nobody.
fn lock(trials: &File, directory: &Path) -> Result<(), StoreError> {
    match trials.try_lock() {
        Err(TryLockError::WouldBlock) => Err(StoreError::InUse(directory.to_owned())),
        Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
    }
}

fn io_error<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> StoreError + 'a {
    move |source| StoreError::Io { action, path: path.to_owned(), source }
}

/// Whether a run is stored there.
pub fn holds_run(path: &Path) -> bool {
    path.join(RUN_FILE).exists()
}

/// Asks whether a run can be stored there, before anything is made.
///
/// # Errors
/// [`StoreError::Taken`] when a run is there already, else what the system would refuse.
pub fn check_vacant(path: &Path) -> Result<(), StoreError> {
    if holds_run(path) || parts::holds_parts(path) || path.join(TRIALS_FILE).exists() {
        return Err(StoreError::Taken(path.to_owned()));
    }
    let here = Path::new(".");
    let nearest = path.ancestors().find(|above| above.exists()).unwrap_or(here);
    let writable = match nearest.is_dir() {
        true => eaccess(nearest, AccessFlags::W_OK | AccessFlags::X_OK).map_err(io::Error::from),
        false => Err(io::ErrorKind::NotADirectory.into()),
    };
    writable.map_err(io_error("create the run directory", path))
}

/// A run directory being written.
#[derive(Debug)]
pub struct RunDirectory {
    path: PathBuf,
    trials: File,
}

impl RunDirectory {
    /// Makes the directory and its two files.
    ///
    /// # Errors
    /// [`StoreError::Taken`] when a run is there already, else what the system refused.
    pub fn create(path: &Path, info: &RunInfo) -> Result<Self, StoreError> {
        fs::create_dir_all(path).map_err(io_error("create the run directory", path))?;
        let trials_file = path.join(TRIALS_FILE);
        if holds_run(path) || trials_file.exists() {
            return Err(StoreError::Taken(path.to_owned()));
        }
        let trials = OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(&trials_file)
            .map_err(io_error("create", &trials_file))?;
        lock(&trials, path)?;
        let directory = Self { path: path.to_owned(), trials };
        directory.write_info(info)?;
        Ok(directory)
    }

    /// Opens the directory of a run that stopped, so that it can go on: nobody else writes there, and
    /// its last record is whole or gone.
    ///
    /// # Errors
    /// As [`read`]; [`StoreError::InUse`] when another process writes there.
    pub fn reopen(path: &Path) -> Result<(Self, StoredRun, Option<Repair>), StoreError> {
        let trials_file = path.join(TRIALS_FILE);
        // What a newer vioperf wrote is not touched.
        read_info(path)?;
        let trials = OpenOptions::new()
            .append(true)
            .read(true)
            .create(true)
            .open(&trials_file)
            .map_err(io_error("open", &trials_file))?;
        lock(&trials, path)?;
        let repair = repair_end(&trials).map_err(io_error("repair", &trials_file))?;
        let stored = read(path)?;
        Ok((Self { path: path.to_owned(), trials }, stored, repair))
    }

    /// Replaces `run.json`.
    ///
    /// # Errors
    /// What the system refused; the former `run.json` then still stands.
    pub fn write_info(&self, info: &RunInfo) -> Result<(), StoreError> {
        let mut text = serde_json::to_string_pretty(info)
            .map_err(|error| io_error("write", &self.path)(error.into()))?;
        text.push('\n');
        write_whole(&self.path, RUN_FILE, text.as_bytes())
    }

    /// Appends a record and syncs it to the disk.
    ///
    /// # Errors
    /// What the system refused.
    pub fn append(&self, record: &TrialRecord) -> Result<(), StoreError> {
        let path = self.path.join(TRIALS_FILE);
        let write = |mut trials: &File| {
            let mut line = serde_json::to_vec(record)?;
            line.push(b'\n');
            let whole = trials.metadata()?.len();
            let written = trials.write_all(&line).and_then(|()| trials.sync_data());
            if written.is_err() {
                // Half a record would only be reported as damage.
                trials.set_len(whole)?;
            }
            written
        };
        write(&self.trials).map_err(io_error("append a record to", &path))
    }
}

/// Writes a file of a run directory whole or not at all.
///
/// # Errors
/// What the system refused.
pub fn write_whole(directory: &Path, name: &str, content: &[u8]) -> Result<(), StoreError> {
    let path = directory.join(name);
    let unfinished = directory.join(format!(".{name}.unfinished"));
    let written = File::create(&unfinished)
        .and_then(|mut file| {
            file.write_all(content)?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&unfinished, &path));
    if written.is_err() {
        // The half-written file is of no use to anyone; that it stays is the lesser trouble.
        let _ = fs::remove_file(&unfinished);
    }
    written.map_err(io_error("write", &path))
}

/// A run that is read back.
#[derive(Debug)]
pub struct StoredRun {
    /// `run.json`.
    pub info: RunInfo,
    /// The records, one by one.
    pub records: Records,
}

/// Opens a run directory.
///
/// # Errors
/// When there is no run, `run.json` is damaged, or a newer vioperf wrote it.
pub fn read(path: &Path) -> Result<StoredRun, StoreError> {
    let info = read_info(path)?;
    Ok(StoredRun { info, records: Records::open(path.join(TRIALS_FILE))? })
}

/// Reads `run.json`.
///
/// # Errors
/// As [`read`].
pub fn read_info(path: &Path) -> Result<RunInfo, StoreError> {
    let run_file = path.join(RUN_FILE);
    let text = match fs::read(&run_file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(match parts::read(path) {
                Ok(whole) => {
                    let first = whole.parts.iter().map(|part| part.name.clone()).next();
                    StoreError::InParts(path.to_owned(), first.unwrap_or_default())
                }
                Err(_) => StoreError::NoRun(path.to_owned()),
            });
        }
        Err(error) => return Err(io_error("read", &run_file)(error)),
    };
    parse_versioned(&text).map_err(|unreadable| match unreadable {
        Unreadable::Newer(found) => StoreError::Newer { path: run_file, found },
        Unreadable::Damaged(message) => StoreError::Damaged { path: run_file, message },
    })
}

/// The longest line of `trials.jsonl` that is read; a record of an hour's trial is far shorter.
const MAX_RECORD_BYTES: u64 = 1 << 30;

/// A line of `trials.jsonl`.
#[derive(Debug)]
pub enum Line {
    /// A record that is whole.
    Record(Box<TrialRecord>),
    /// What could not be read and is left out, for a person.
    Damage(String),
}

/// The lines of `trials.jsonl`, of which one at a time is in memory.
#[derive(Debug)]
pub struct Records {
    path: PathBuf,
    /// Absent when the file is missing, or read to its end.
    reader: Option<BufReader<File>>,
    is_missing: bool,
    line: Vec<u8>,
    number: u64,
}

impl Records {
    fn open(path: PathBuf) -> Result<Self, StoreError> {
        let reader = match File::open(&path) {
            Ok(file) => Some(BufReader::with_capacity(1 << 16, file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(io_error("read", &path)(error)),
        };
        Ok(Self { is_missing: reader.is_none(), path, reader, line: Vec::new(), number: 0 })
    }

    fn read_line(&mut self) -> Result<Option<Line>, StoreError> {
        let path = self.path.display();
        if std::mem::take(&mut self.is_missing) {
            return Ok(Some(Line::Damage(format!("{path} is missing: no trial can be reported"))));
        }
        let Some(reader) = &mut self.reader else { return Ok(None) };
        self.line.clear();
        let read = io::Read::take(reader, MAX_RECORD_BYTES)
            .read_until(b'\n', &mut self.line)
            .map_err(io_error("read", &self.path))?;
        if read == 0 {
            self.reader = None;
            return Ok(None);
        }
        self.number += 1;
        match parse_versioned(&self.line) {
            Ok(record) => Ok(Some(Line::Record(record))),
            Err(Unreadable::Newer(found)) => {
                Err(StoreError::Newer { path: self.path.clone(), found })
            }
            Err(Unreadable::Damaged(message)) => {
                let cut = if self.line.ends_with(b"\n") { "damaged" } else { "cut off" };
                let number = self.number;
                Ok(Some(Line::Damage(format!(
                    "{path}:{number}: record {cut}, left out ({message})"
                ))))
            }
        }
    }
}

impl Iterator for Records {
    type Item = Result<Line, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let line = self.read_line();
        if line.is_err() {
            self.reader = None;
        }
        line.transpose()
    }
}

enum Unreadable {
    Newer(u64),
    Damaged(String),
}

/// What a newer writer wrote is not called damaged: where it does not parse, its version is asked for
/// alone.
fn parse_versioned<T: DeserializeOwned + Versioned>(text: &[u8]) -> Result<T, Unreadable> {
    // Whole text is checked at once much faster than word by word.
    let text = std::str::from_utf8(text).map_err(|error| Unreadable::Damaged(error.to_string()))?;
    let parsed: Result<T, _> = serde_json::from_str(text);
    let version = match &parsed {
        Ok(whole) => u64::from(whole.schema_version()),
        Err(_) => {
            #[derive(serde::Deserialize)]
            struct VersionOnly {
                schema_version: u64,
            }
            serde_json::from_str(text).map_or(0, |only: VersionOnly| only.schema_version)
        }
    };
    if version > u64::from(SCHEMA_VERSION) {
        return Err(Unreadable::Newer(version));
    }
    parsed.map_err(|error| Unreadable::Damaged(error.to_string()))
}

/// What says which version of the schema it was written by.
trait Versioned {
    fn schema_version(&self) -> u32;
}

impl Versioned for RunInfo {
    fn schema_version(&self) -> u32 {
        self.schema_version
    }
}

impl Versioned for Box<TrialRecord> {
    fn schema_version(&self) -> u32 {
        self.schema_version
    }
}

/// Pretty JSON with a final newline, as every JSON output of vioperf is.
pub fn to_json<T: Serialize>(value: &T) -> serde_json::Result<String> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    Ok(text)
}
