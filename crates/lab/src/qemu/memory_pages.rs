//! Which pages of the host a guest's memory is in.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nix::unistd::Pid;
use vioperf_model::scenario::HugePages;

/// Pages of more than 4 KiB: transparent ones, and those that were set aside.
const HUGE: &[&str] = &["AnonHugePages:", "Shared_Hugetlb:", "Private_Hugetlb:"];

/// Why a guest's memory is not in the pages that were asked for.
#[derive(Debug, thiserror::Error)]
pub enum PagesError {
    /// The kernel does not tell.
    #[error("cannot tell which pages the guest's memory is in: {}: {source}", .path.display())]
    Unknown {
        /// What was read.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// It tells something else.
    #[error("the guest has {mib} MiB in huge pages, but guest.huge_pages is `{wanted}`")]
    Others {
        /// In huge pages.
        mib: u64,
        /// What was asked for.
        wanted: HugePages,
    },
}

/// So many MiB of a process are in huge pages, which is seen to be what was asked for.
///
/// # Errors
/// [`PagesError`].
pub fn verify(root: &Path, qemu: Pid, wanted: HugePages) -> Result<u64, PagesError> {
    let path = root.join(format!("proc/{qemu}/smaps_rollup"));
    let text = fs::read_to_string(&path)
        .map_err(|source| PagesError::Unknown { path: path.clone(), source })?;
    let mib = huge_kib(&text) >> 10;
    let is_so = match wanted {
        HugePages::Auto => true,
        HugePages::None => mib == 0,
        HugePages::Transparent | HugePages::Explicit => mib > 0,
    };
    if is_so { Ok(mib) } else { Err(PagesError::Others { mib, wanted }) }
}

fn huge_kib(rollup: &str) -> u64 {
    let kib = |line: &str| {
        let (_, rest) = HUGE.iter().find_map(|name| Some((name, line.strip_prefix(name)?)))?;
        rest.split_whitespace().next()?.parse::<u64>().ok()
    };
    rollup.lines().filter_map(kib).sum()
}

/// What is missing below `root` (`/`) for a guest's memory to be in such pages.
#[must_use]
pub fn lacks(root: &Path, wanted: HugePages, memory_mib: u64) -> Option<String> {
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
    match wanted {
        HugePages::Auto | HugePages::None => None,
        HugePages::Transparent => {
            let setting = read("sys/kernel/mm/transparent_hugepage/enabled");
            let is_off = setting.is_empty() || setting.contains("[never]");
            is_off.then(|| {
                "transparent huge pages are off: `echo madvise | sudo tee \
                 /sys/kernel/mm/transparent_hugepage/enabled`"
                    .to_owned()
            })
        }
        HugePages::Explicit => {
            let SetAside { page_kib, total, free } = SetAside::of(root);
            let wanted = (memory_mib << 10).div_ceil(page_kib);
            let missing = wanted.saturating_sub(free);
            (missing > 0).then(|| {
                format!(
                    "{missing} huge pages of {page_kib} KiB are missing: `sudo sysctl -w vm.nr_hugepages={}`",
                    total + missing
                )
            })
        }
    }
}

/// So many MiB of the huge pages that the machine below `root` has set aside are nobody's.
pub(crate) fn free_huge_mib(root: &Path) -> u64 {
    let SetAside { page_kib, free, .. } = SetAside::of(root);
    free.saturating_mul(page_kib) >> 10
}

/// Huge pages that a machine has set aside.
struct SetAside {
    page_kib: u64,
    total: u64,
    free: u64,
}

impl SetAside {
    fn of(root: &Path) -> Self {
        let meminfo = fs::read_to_string(root.join("proc/meminfo")).unwrap_or_default();
        let field = |name: &str| {
            let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        Self {
            page_kib: field("Hugepagesize:").filter(|kib| *kib > 0).unwrap_or(2048),
            total: field("HugePages_Total:").unwrap_or(0),
            free: field("HugePages_Free:").unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preflight::machine_with;

    #[test]
    fn what_is_missing_is_counted() {
        let meminfo =
            "HugePages_Total:      10\nHugePages_Free:        8\nHugepagesize:  2048 kB\n";
        let setting = "always madvise [never]\n";
        let root = machine_with(&[
            ("proc/meminfo", meminfo),
            ("sys/kernel/mm/transparent_hugepage/enabled", setting),
        ]);
        let lacks = |wanted, mib| lacks(root.path(), wanted, mib);
        assert_eq!(lacks(HugePages::Explicit, 16), None);
        let missing = lacks(HugePages::Explicit, 256).unwrap();
        assert!(missing.starts_with("120 huge pages"), "{missing}");
        assert!(missing.contains("nr_hugepages=130"), "{missing}");
        assert!(lacks(HugePages::Transparent, 16).unwrap().contains("are off"));
        assert_eq!(lacks(HugePages::None, 16), None);
    }

    #[test]
    fn what_a_guest_has_is_held_against_what_was_asked_for() {
        let rollup = "Rss: 300000 kB\nAnonHugePages:    204800 kB\nPrivate_Hugetlb:  0 kB\n";
        let root = machine_with(&[("proc/7/smaps_rollup", rollup)]);
        let verify = |wanted| verify(root.path(), Pid::from_raw(7), wanted);
        assert_eq!(verify(HugePages::Transparent).unwrap(), 200);
        assert_eq!(verify(HugePages::Auto).unwrap(), 200);
        let message = verify(HugePages::None).unwrap_err().to_string();
        assert!(message.contains("200 MiB") && message.contains("`none`"), "{message}");
    }
}
