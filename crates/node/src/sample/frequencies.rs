//! How fast every core runs: `cpufreq/scaling_cur_freq`
//! (Documentation/admin-guide/pm/cpufreq.rst).

use std::path::Path;

use vioperf_model::sample::CoreFrequencyNow;

use super::ReadError;
use super::core_files::CoreFiles;

pub(super) struct Reader {
    files: CoreFiles,
}

impl Reader {
    /// Reads them once: kernels before 5.18 take 10 ms for a core that was not asked for a second.
    pub(super) fn open(sys: &Path) -> Result<Self, ReadError> {
        let mut reader = Self { files: CoreFiles::open(sys, "cpufreq/scaling_cur_freq")? };
        reader.read()?;
        Ok(reader)
    }

    pub(super) fn read(&mut self) -> Result<Vec<CoreFrequencyNow>, ReadError> {
        let now = |(core, khz)| CoreFrequencyNow { core, khz };
        Ok(self.files.read()?.into_iter().map(now).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::core_files::tests::write;

    #[test]
    fn reads_a_written_machine() {
        let sys = tempfile::tempdir().unwrap();
        for (core, khz) in [(1, "800000\n"), (0, "3400000\n")] {
            write(sys.path(), core, "cpufreq/scaling_cur_freq", khz);
        }
        let read = Reader::open(sys.path()).unwrap().read().unwrap();
        let expected = [(0, 3_400_000), (1, 800_000)];
        assert_eq!(read, expected.map(|(core, khz)| CoreFrequencyNow { core, khz }));
    }
}
