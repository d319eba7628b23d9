//! Programs of the host for a guest that is to be looked at, or whose load is one of them: each with the libraries that it is linked with, at the paths that
//! its loader looks for.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use object::read::elf::{ElfFile64, ProgramHeader};

/// What a guest has beside its agent; nothing in one that is measured, but for the program that does its load.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Programs {
    /// By their paths in the guest, without the leading slash.
    files: BTreeMap<String, Vec<u8>>,
}

/// Why a program could not be packed.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// There is none.
    #[error("there is no program `{0}` on this machine: install it, or give its path")]
    NotFound(String),
    /// It, or a library of it, could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// It is no program for this machine.
    #[error("{} is no program that a guest could run (ELF of 64 bits): {reason}", path.display())]
    NotElf {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Its loader does not say what it needs.
    #[error("cannot find the libraries of {}: {reason}; a static program needs none", path.display())]
    Libraries {
        /// The program.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

impl Programs {
    /// Packs a program, by its name in PATH or its path; in the guest it is in `/bin`.
    ///
    /// # Errors
    /// [`ProgramError`].
    pub fn add(&mut self, program: &str) -> Result<(), ProgramError> {
        let path =
            find_program(program).ok_or_else(|| ProgramError::NotFound(program.to_owned()))?;
        let bytes = read(&path)?;
        for library in libraries(&path, &bytes)? {
            let bytes = read(&library)?;
            self.files.insert(within(&library), bytes);
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.files.insert(format!("bin/{name}"), bytes);
        Ok(())
    }

    /// Whether a program of that name is packed.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.files.contains_key(&format!("bin/{name}"))
    }

    /// Bytes of all of them.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.files.values().map(|bytes| bytes.len() as u64).sum()
    }

    /// The files by their paths, without the leading slash.
    pub fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice()))
    }

    /// The folders that they are in, each before what is in it.
    #[must_use]
    pub fn folders(&self) -> Vec<String> {
        let mut folders: Vec<String> = Vec::new();
        for path in self.files.keys() {
            let parents: Vec<&Path> = Path::new(path).ancestors().skip(1).collect();
            for parent in parents.into_iter().rev() {
                let parent = parent.to_string_lossy().into_owned();
                if !parent.is_empty() && !folders.contains(&parent) {
                    folders.push(parent);
                }
            }
        }
        folders
    }
}

fn within(path: &Path) -> String {
    path.to_string_lossy().trim_start_matches('/').to_owned()
}

fn read(path: &Path) -> Result<Vec<u8>, ProgramError> {
    fs::read(path).map_err(|source| ProgramError::Read { path: path.to_owned(), source })
}

/// The program of that path, or of that name in PATH or where administrators' programs are.
#[must_use]
pub fn find_program(program: &str) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| {
        fs::metadata(path)
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(is_program);
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    folders.map(|folder| folder.join(program)).find(is_program)
}

/// What the loader of a program needs for it, itself among them; nothing for a static one.
fn libraries(path: &Path, bytes: &[u8]) -> Result<Vec<PathBuf>, ProgramError> {
    let Some(loader) = loader(path, bytes)? else { return Ok(Vec::new()) };
    let failed = |reason: String| ProgramError::Libraries { path: path.to_owned(), reason };
    let mut list = Command::new(&loader);
    list.arg("--list").arg(path).stdin(Stdio::null());
    let listed = list.output().map_err(|error| failed(format!("{}: {error}", loader.display())))?;
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    if !listed.status.success() || text.contains("not found") {
        let said = String::from_utf8_lossy(&listed.stderr);
        return Err(failed(format!("{} says: {text}{said}", loader.display())));
    }
    let mut found = listed_in(&text);
    found.push(loader);
    Ok(found)
}

/// The files in what a loader lists (`libz.so.1 => /lib/libz.so.1 (0x7f…)`).
fn listed_in(text: &str) -> Vec<PathBuf> {
    let path = |line: &str| {
        line.split_ascii_whitespace().rfind(|word| word.starts_with('/')).map(PathBuf::from)
    };
    text.lines().filter_map(path).collect()
}

/// The program interpreter that an ELF file asks for.
fn loader(path: &Path, bytes: &[u8]) -> Result<Option<PathBuf>, ProgramError> {
    let failed = |reason: String| ProgramError::NotElf { path: path.to_owned(), reason };
    let file: ElfFile64<'_> = ElfFile64::parse(bytes).map_err(|error| failed(error.to_string()))?;
    for header in file.elf_program_headers() {
        let found = header.interpreter(file.endian(), bytes);
        if let Some(name) = found.map_err(|error| failed(error.to_string()))? {
            return Ok(Some(PathBuf::from(String::from_utf8_lossy(name).into_owned())));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_comes_with_its_libraries_and_their_folders() {
        let mut programs = Programs::default();
        programs.add("sh").unwrap();
        assert!(programs.has("sh") && !programs.has("bash"));
        let files: Vec<&str> = programs.files().map(|(path, _)| path).collect();
        assert!(
            files.iter().any(|path| path.contains("ld-linux") || path.contains("ld-musl")),
            "{files:?}"
        );
        let folders = programs.folders();
        for path in files {
            let folder = Path::new(path).parent().unwrap().to_string_lossy().into_owned();
            assert!(folders.contains(&folder), "{folder} of {path}");
        }
        let place = |name: &str| folders.iter().position(|folder| folder == name);
        assert!(folders.iter().all(|folder| match Path::new(folder).parent().unwrap().to_str() {
            Some("") | None => true,
            Some(parent) => place(parent) < place(folder),
        }));
    }

    #[test]
    fn what_is_no_program_is_told() {
        let mut programs = Programs::default();
        assert!(matches!(programs.add("no-such-program"), Err(ProgramError::NotFound(_))));
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        fs::write(&script, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let message = programs.add(script.to_str().unwrap()).unwrap_err().to_string();
        assert!(message.contains("no program that a guest could run"), "{message}");
        assert_eq!(programs, Programs::default());
    }

    #[test]
    fn lists_of_both_loaders_are_read() {
        let glibc = "\tlinux-vdso.so.1 (0x1)\n\tlibc.so.6 => /lib/libc.so.6 (0x2)\n\t/lib64/ld-linux-x86-64.so.2 (0x3)\n";
        let expected = ["/lib/libc.so.6", "/lib64/ld-linux-x86-64.so.2"].map(PathBuf::from);
        assert_eq!(listed_in(glibc), expected);
        let musl = "\tldd (0x1)\n\tlibc.musl-x86_64.so.1 => ldd (0x1)\n\tlibz.so.1 => /lib/libz.so.1 (0x2)\n";
        assert_eq!(listed_in(musl), [PathBuf::from("/lib/libz.so.1")]);
    }
}
