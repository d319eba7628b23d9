//! A file that every core has under `/sys/devices/system/cpu/cpuN`.

use std::path::Path;

use super::ReadError;
use super::kept_file::KeptFile;
use crate::open_files::allow_open_files;

/// So many files of a core are read at the same time.
const FILES_OF_A_CORE: usize = 3;

/// The same file of all cores that have it, by the number of the core.
#[derive(Debug)]
pub(super) struct CoreFiles {
    files: Vec<(u32, KeptFile)>,
}

impl CoreFiles {
    /// Opens `file` (`cpufreq/scaling_cur_freq`) of every core that has it.
    ///
    /// # Errors
    /// When no core has it, or it cannot be opened.
    pub(super) fn open(sys: &Path, file: &'static str) -> Result<Self, ReadError> {
        let folder = sys.join("devices/system/cpu");
        let entries = std::fs::read_dir(&folder)
            .map_err(|source| ReadError::File { path: folder.clone(), source })?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut cores: Vec<u32> =
            names.filter_map(|name| name.strip_prefix("cpu")?.parse().ok()).collect();
        // A core that is offline has no such file.
        let path = |core: u32| folder.join(format!("cpu{core}")).join(file);
        cores.retain(|core| path(*core).exists());
        cores.sort_unstable();
        if cores.is_empty() {
            return Err(ReadError::NoCore { folder, file });
        }
        allow_open_files(cores.len().saturating_mul(FILES_OF_A_CORE));
        let open = |core: u32| Ok((core, KeptFile::open(&path(core))?));
        Ok(Self { files: cores.into_iter().map(open).collect::<Result<_, _>>()? })
    }

    /// The number in each, by the number of the core.
    ///
    /// # Errors
    /// When one of them cannot be read, as of a core that went offline, or holds no number.
    pub(super) fn read(&mut self) -> Result<Vec<(u32, u64)>, ReadError> {
        let number = |text: &str| text.trim().parse().map_err(|_| text.trim().to_owned());
        self.files.iter_mut().map(|(core, file)| Ok((*core, file.parse(number)?))).collect()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Writes a file of a core into a `/sys` of our own.
    pub(in crate::sample) fn write(sys: &Path, core: u32, file: &str, text: &str) {
        let path = sys.join(format!("devices/system/cpu/cpu{core}")).join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    const FILE: &str = "some/count";

    #[test]
    fn reads_every_core_that_has_the_file_in_order() {
        let sys = tempfile::tempdir().unwrap();
        write(sys.path(), 10, FILE, "3\n");
        write(sys.path(), 2, FILE, "1\n");
        write(sys.path(), 7, "other", "9\n");
        // What else lies there: `cpufreq`, `cpuidle`, `online`.
        std::fs::create_dir(sys.path().join("devices/system/cpu/cpuidle")).unwrap();
        let mut files = CoreFiles::open(sys.path(), FILE).unwrap();
        assert_eq!(files.read().unwrap(), [(2, 1), (10, 3)]);
        write(sys.path(), 2, FILE, "18446744073709551615\n");
        assert_eq!(files.read().unwrap(), [(2, u64::MAX), (10, 3)]);
    }

    #[test]
    fn reads_this_machine_again_and_again() {
        let mut files = CoreFiles::open(Path::new("/sys"), "topology/physical_package_id").unwrap();
        let first = files.read().unwrap();
        assert_eq!(files.read().unwrap(), first);
    }

    #[test]
    fn says_why_it_cannot_be_read() {
        let sys = tempfile::tempdir().unwrap();
        assert!(matches!(CoreFiles::open(sys.path(), FILE), Err(ReadError::File { .. })));
        write(sys.path(), 0, "other", "1\n");
        let error = CoreFiles::open(sys.path(), FILE).unwrap_err().to_string();
        assert!(error.contains(FILE) && error.contains("no core"), "{error}");
        write(sys.path(), 0, FILE, "<unknown>\n");
        let error = CoreFiles::open(sys.path(), FILE).unwrap().read().unwrap_err().to_string();
        assert!(error.contains("cpu0/some/count") && error.contains("`<unknown>`"), "{error}");
    }
}
