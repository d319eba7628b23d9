//! `parts.json`: the parts of a run, each of which is a run directory below it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use vioperf_model::record::{RunInParts, SCHEMA_VERSION};

use super::{StoreError, Unreadable, Versioned, io_error, parse_versioned, write_whole};

/// File name of [`RunInParts`].
pub const PARTS_FILE: &str = "parts.json";

impl Versioned for RunInParts {
    fn schema_version(&self) -> u32 {
        self.schema_version
    }
}

/// Whether a run in parts is stored there.
pub fn holds_parts(path: &Path) -> bool {
    path.join(PARTS_FILE).exists()
}

/// Makes the directory of a run in parts.
///
/// # Errors
/// What the system refused.
pub fn create(path: &Path, info: &RunInParts) -> Result<(), StoreError> {
    debug_assert_eq!(info.schema_version, SCHEMA_VERSION);
    fs::create_dir_all(path).map_err(io_error("create the run directory", path))?;
    let mut text = serde_json::to_string_pretty(info)
        .map_err(|error| io_error("write", path)(error.into()))?;
    text.push('\n');
    write_whole(path, PARTS_FILE, text.as_bytes())
}

/// Reads `parts.json`.
///
/// # Errors
/// When there is none, it is damaged, or a newer vioperf wrote it.
pub fn read(path: &Path) -> Result<RunInParts, StoreError> {
    let file = path.join(PARTS_FILE);
    let text = match fs::read(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(StoreError::NoRun(path.to_owned()));
        }
        Err(error) => return Err(io_error("read", &file)(error)),
    };
    parse_versioned(&text).map_err(|unreadable| match unreadable {
        Unreadable::Newer(found) => StoreError::Newer { path: file, found },
        Unreadable::Damaged(message) => StoreError::Damaged { path: file, message },
    })
}

/// The runs that a directory holds: those of its parts that were begun, or the one that it is.
///
/// # Errors
/// As [`read`].
pub fn runs_in(path: &Path) -> Result<Vec<PathBuf>, StoreError> {
    if !holds_parts(path) {
        return Ok(vec![path.to_owned()]);
    }
    let parts = read(path)?.parts.into_iter().map(|part| path.join(part.name));
    Ok(parts.filter(|part| super::holds_run(part)).collect())
}
