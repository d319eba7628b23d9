//! How often heat has throttled every core: `thermal_throttle/`
//! (Documentation/ABI/testing/sysfs-devices-system-cpu).

use std::path::Path;

use vioperf_model::sample::CoreThrottles;

use super::ReadError;
use super::core_files::CoreFiles;

pub(super) struct Reader {
    of_cores: CoreFiles,
    /// Not every processor counts them.
    of_packages: Option<CoreFiles>,
}

impl Reader {
    pub(super) fn open(sys: &Path) -> Result<Self, ReadError> {
        let of_cores = CoreFiles::open(sys, "thermal_throttle/core_throttle_count")?;
        let of_packages = CoreFiles::open(sys, "thermal_throttle/package_throttle_count").ok();
        let mut reader = Self { of_cores, of_packages };
        reader.read()?;
        Ok(reader)
    }

    pub(super) fn read(&mut self) -> Result<Vec<CoreThrottles>, ReadError> {
        let packages = self.of_packages.as_mut().map(CoreFiles::read).transpose()?;
        let packages = packages.unwrap_or_default();
        let package = |core: u32| {
            let at = packages.binary_search_by_key(&core, |(core, _)| *core).ok()?;
            packages.get(at).map(|(_, count)| *count)
        };
        let now = |(core, core_count)| {
            let package_count = package(core);
            CoreThrottles { core, core_count, package_count }
        };
        Ok(self.of_cores.read()?.into_iter().map(now).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::core_files::tests::write;

    #[test]
    fn reads_a_written_machine() {
        let sys = tempfile::tempdir().unwrap();
        write(sys.path(), 0, "thermal_throttle/core_throttle_count", "4\n");
        write(sys.path(), 1, "thermal_throttle/core_throttle_count", "0\n");
        let counts =
            |core, core_count, package_count| CoreThrottles { core, core_count, package_count };
        let read = Reader::open(sys.path()).unwrap().read().unwrap();
        assert_eq!(read, [counts(0, 4, None), counts(1, 0, None)]);
        write(sys.path(), 1, "thermal_throttle/package_throttle_count", "9\n");
        let read = Reader::open(sys.path()).unwrap().read().unwrap();
        assert_eq!(read, [counts(0, 4, None), counts(1, 0, Some(9))]);
    }
}
