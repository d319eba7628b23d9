//! What a CPU quota holds the node back by: `cpu.stat` of its control group
//! (Documentation/admin-guide/cgroup-v2.rst, Documentation/scheduler/sched-bwc.rst).

use std::path::{Path, PathBuf};

use vioperf_model::sample::QuotaCounters;

use super::{ReadError, parsed};

/// `cgroups` is `/sys/fs/cgroup` but in tests.
pub(super) fn read(proc: &Path, cgroups: &Path) -> Result<QuotaCounters, ReadError> {
    let folder = parsed(&proc.join("self/cgroup"), |text| {
        folder(text, cgroups).ok_or_else(|| "no control group of the CPU".to_owned())
    })?;
    parsed(&folder.join("cpu.stat"), parse)
}

/// Of the second version (`0::/path`), or of the first's controller (`4:cpu,cpuacct:/path`, cgroups(7)).
fn folder(text: &str, cgroups: &Path) -> Option<PathBuf> {
    let mut unified = None;
    for line in text.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?.trim_start_matches('/'));
        if controllers.is_empty() {
            unified = Some(cgroups.join(path));
        } else if controllers.split(',').any(|controller| controller == "cpu") {
            return Some(cgroups.join(controllers).join(path));
        }
    }
    unified
}

fn parse(text: &str) -> Result<QuotaCounters, String> {
    let value = |wanted: &str| {
        let mut fields = text.lines().filter_map(|line| line.split_once(' '));
        fields.find(|(name, _)| *name == wanted)?.1.trim().parse::<u64>().ok()
    };
    // The root of the second version has no quota, and no such line.
    let throttled_us = value("throttled_usec").or_else(|| Some(value("throttled_time")? / 1_000));
    Ok(QuotaCounters {
        throttled_periods: value("nr_throttled").unwrap_or(0),
        throttled_us: throttled_us.unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn both_versions_are_read() {
        for (groups, path, stat) in [
            ("0::/user/me\n", "user/me", "usage_usec 5\nnr_throttled 3\nthrottled_usec 70000\n"),
            (
                "9:name=systemd:/x\n4:cpu,cpuacct:/user/me\n0::/y\n",
                "cpu,cpuacct/user/me",
                "nr_periods 9\nnr_throttled 3\nthrottled_time 70000000\n",
            ),
        ] {
            let root = tempfile::tempdir().unwrap();
            let (proc, cgroups) = (root.path().join("proc"), root.path().join("cgroup"));
            fs::create_dir_all(proc.join("self")).unwrap();
            fs::write(proc.join("self/cgroup"), groups).unwrap();
            assert!(read(&proc, &cgroups).is_err());
            fs::create_dir_all(cgroups.join(path)).unwrap();
            fs::write(cgroups.join(path).join("cpu.stat"), stat).unwrap();
            let expected = QuotaCounters { throttled_periods: 3, throttled_us: 70_000 };
            assert_eq!(read(&proc, &cgroups).unwrap(), expected);
        }
        assert_eq!(parse("usage_usec 5\n").unwrap(), QuotaCounters::default());
        assert_eq!(folder("nonsense", Path::new("/x")), None);
    }
}
