//! A file under `/proc` that stays open and is read again and again.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::ReadError;

/// More than any file that we read, on any machine; a guard, as the kernel writes what it likes.
const LARGEST: usize = 8 << 20;

/// Reading at offset 0 makes the kernel write the file anew (seq_file); that spares looking the
/// path up and opening it every time.
#[derive(Debug)]
pub(super) struct KeptFile {
    path: PathBuf,
    file: File,
    buffer: Vec<u8>,
}

impl KeptFile {
    pub(super) fn open(path: &Path) -> Result<Self, ReadError> {
        let file =
            File::open(path).map_err(|source| ReadError::File { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), file, buffer: vec![0; 4096] })
    }

    /// The whole file as it is now.
    pub(super) fn read(&mut self) -> Result<&[u8], ReadError> {
        let mut length = 0;
        loop {
            if length == self.buffer.len() {
                if length >= LARGEST {
                    let error = io::Error::other("implausibly long");
                    return Err(ReadError::File { path: self.path.clone(), source: error });
                }
                self.buffer.resize(length * 2, 0);
            }
            let room = self.buffer.get_mut(length..).unwrap_or_default();
            match self.file.read_at(room, u64::try_from(length).unwrap_or(u64::MAX)) {
                Ok(0) => return Ok(self.buffer.get(..length).unwrap_or_default()),
                Ok(count) => length += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(ReadError::File { path: self.path.clone(), source }),
            }
        }
    }

    /// Reads the file and what it says.
    pub(super) fn parse<T>(
        &mut self,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<T, ReadError> {
        let outcome = match std::str::from_utf8(self.read()?) {
            Ok(text) => parse(text),
            Err(error) => Err(error.to_string()),
        };
        outcome.map_err(|line| ReadError::Format { path: self.path.clone(), line })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_is_in_the_file_now_however_long() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stat");
        std::fs::write(&path, "short").unwrap();
        let mut kept = KeptFile::open(&path).unwrap();
        assert_eq!(kept.read().unwrap(), b"short");
        std::fs::write(&path, vec![b'x'; 100_000]).unwrap();
        assert_eq!(kept.read().unwrap().len(), 100_000);
        std::fs::write(&path, "s").unwrap();
        assert_eq!(kept.read().unwrap(), b"s");
    }
}
