//! Cores that the kernel gives to a lab and to nobody else: a partition of cgroup v2's cpuset.
//!
//! The host's scheduler then places nothing else on them, whoever starts it; only kernel threads that belong to a core
//! and interrupts still run there. Source: the kernel's `Documentation/admin-guide/cgroup-v2.rst`, "Cpuset".

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::unistd::{AccessFlags, Pid, access, geteuid};
use serde::{Deserialize, Serialize};
use vioperf_model::record::CorePlacement;

use crate::host::Host;
use crate::journal::{Entry, Held, JournalError};
use crate::switch::Lack;

/// Where cgroup v2 is mounted, below `/sys`: by itself, and beside version 1.
const HIERARCHIES: [&str; 2] = ["fs/cgroup", "fs/cgroup/unified"];

/// The group's name: one at a time on a host.
const GROUP: &str = "vioperf-exclusive";

/// The journal's entry.
const ENTRY: &str = "exclusive";

const CPUS: &str = "cpuset.cpus";
const EFFECTIVE: &str = "cpuset.cpus.effective";
const PARTITION: &str = "cpuset.cpus.partition";
const PROCESSES: &str = "cgroup.procs";
const GIVEN_ON: &str = "cgroup.subtree_control";

/// How long processes that were killed may take to leave the group.
const EMPTIES: Duration = Duration::from_secs(5);

/// What was altered of the host's groups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupsBefore {
    /// The mount of cgroup v2, below `/sys`.
    pub hierarchy: String,
    /// Whether groups had the cpuset controller before.
    pub had_cpusets: bool,
    /// The cores that were given away.
    pub cores: Vec<u16>,
}

impl Entry for GroupsBefore {
    const KIND: &'static str = "cores";
}

/// Why cores could not be had alone, or not be given back.
#[derive(Debug, thiserror::Error)]
pub enum PartitionError {
    /// They are not to be had.
    #[error("{0}")]
    Lack(Lack),
    /// A file of the group could not be read or written.
    #[error("exclusive cores: {step} {}: {source}; set testbed.placement to \"apart\", or see who else manages cpusets here", .path.display())]
    File {
        /// What was being done.
        step: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The kernel made no partition of it.
    #[error(
        "exclusive cores: the kernel does not give {wanted:?} away: cpuset.cpus.partition reads `{state}`, \
         cpuset.cpus.effective `{effective}`; free them of other cpusets (systemd's AllowedCPUs=, libvirt's cpuset), or set \
         testbed.placement to \"apart\""
    )]
    NotGiven {
        /// The cores.
        wanted: Vec<u16>,
        /// What the kernel says of the partition.
        state: String,
        /// Which cores the group has.
        effective: String,
    },
    /// The journal could not be kept.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

fn file(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> PartitionError + use<> {
    let path = path.to_owned();
    move |source| PartitionError::File { step, path, source }
}

fn write(path: &Path, text: &str) -> Result<(), PartitionError> {
    fs::write(path, text).map_err(file("write", path))
}

fn read(path: &Path) -> Result<String, PartitionError> {
    let text = fs::read_to_string(path).map_err(file("read", path))?;
    Ok(text.trim().to_owned())
}

fn has_word(text: &str, word: &str) -> bool {
    text.split_ascii_whitespace().any(|one| one == word)
}

/// The mount of cgroup v2 below `sys`.
fn hierarchy(sys: &Path) -> Option<&'static str> {
    HIERARCHIES.into_iter().find(|mount| sys.join(mount).join("cgroup.controllers").exists())
}

/// What is missing, below `sys`, for `wanted` cores of the `usable` ones that nobody else is on.
#[must_use]
pub fn lacks(sys: &Path, wanted: usize, usable: usize) -> Option<Lack> {
    if usable < wanted {
        return Some(Lack::new(
            format!("{wanted} cores are needed and {usable} may be used"),
            "one for each virtual CPU, one for the rest of the lab and one for everything else: fewer guest.vcpus, or \
             testbed.placement = \"apart\"",
        ));
    }
    let Some(mount) = hierarchy(sys) else {
        return Some(Lack::new(
            "cgroup v2 is not mounted at /sys/fs/cgroup",
            "boot with systemd.unified_cgroup_hierarchy=1, or `mount -t cgroup2 none /sys/fs/cgroup`",
        ));
    };
    let top = sys.join(mount);
    if !has_word(&read(&top.join("cgroup.controllers")).unwrap_or_default(), "cpuset") {
        return Some(Lack::new(
            "cgroup v2 has no cpuset controller here: version 1 has it, or it was not delegated",
            "boot with cgroup_no_v1=cpuset or systemd.unified_cgroup_hierarchy=1; in a container delegate cpuset to it \
             (Delegate=cpuset)",
        ));
    }
    // The root of all groups has no such file; the root of a container's may be a partition.
    let state = read(&top.join(PARTITION)).unwrap_or_else(|_| "root".to_owned());
    if !["root", "isolated"].contains(&state.as_str()) {
        return Some(Lack::new(
            "this is a container's part of the groups, which is no partition itself",
            "run vioperf on the host, or make the container's group a partition (cpuset.cpus.partition)",
        ));
    }
    if !geteuid().is_root() {
        return Some(Lack::new("only root may give cores away", "run vioperf as root"));
    }
    match access(&top, AccessFlags::W_OK) {
        Ok(()) => None,
        Err(errno) => Some(Lack::new(
            format!("groups cannot be made here ({errno})"),
            "mount it for writing: `mount -o remount,rw /sys/fs/cgroup`",
        )),
    }
}

/// Cores that only this lab's processes run on, until this goes.
#[derive(Debug)]
pub(crate) struct Partition {
    top: PathBuf,
    held: Option<Held<GroupsBefore>>,
    /// The paths lead by its descriptors.
    host: Host,
}

impl Partition {
    /// Takes the cores from everybody else.
    ///
    /// # Errors
    /// [`PartitionError`]; nothing is altered then, or it is undone by whoever looks into the journal next.
    pub fn take(host: &Host, journal: &Path, cores: &[u16]) -> Result<Self, PartitionError> {
        let sys = host.sys();
        // That there are enough cores was seen to when they were chosen.
        if let Some(lack) = lacks(&sys, 0, 0) {
            return Err(PartitionError::Lack(lack));
        }
        let hierarchy = hierarchy(&sys).unwrap_or(HIERARCHIES[0]);
        let host = host.try_clone().map_err(file("keep hold of", &sys))?;
        let top = host.sys().join(hierarchy);
        let before = GroupsBefore {
            hierarchy: hierarchy.to_owned(),
            had_cpusets: has_word(&read(&top.join(GIVEN_ON))?, "cpuset"),
            cores: cores.to_vec(),
        };
        let had_cpusets = before.had_cpusets;
        let held = Held::begin(journal, ENTRY, before)?;
        let partition = Self { top, held: Some(held), host };
        if !had_cpusets {
            write(&partition.top.join(GIVEN_ON), "+cpuset")?;
        }
        let group = partition.group();
        fs::create_dir(&group).map_err(file("make the group", &group))?;
        write(&group.join(CPUS), &list(cores))?;
        write(&group.join(PARTITION), "root")?;
        let (state, effective) = (read(&group.join(PARTITION))?, read(&group.join(EFFECTIVE))?);
        if state != "root" || CorePlacement::parse_list(&effective) != Ok(sorted(cores)) {
            return Err(PartitionError::NotGiven { wanted: cores.to_vec(), state, effective });
        }
        Ok(partition)
    }

    fn group(&self) -> PathBuf {
        self.top.join(GROUP)
    }

    /// Takes a process in, with all its threads and what it starts.
    ///
    /// # Errors
    /// [`PartitionError::File`].
    pub fn admit(&self, pid: Pid) -> Result<(), PartitionError> {
        write(&self.group().join(PROCESSES), &pid.to_string())
    }
}

impl Drop for Partition {
    fn drop(&mut self) {
        // What fails here is tried again by the process outside, from the journal.
        if let Some(held) = self.held.take() {
            let _ = put_back(&self.host.sys(), &held.entry).and_then(|()| Ok(held.end()?));
        }
    }
}

fn put_back(sys: &Path, before: &GroupsBefore) -> Result<(), PartitionError> {
    let top = sys.join(&before.hierarchy);
    let group = top.join(GROUP);
    if group.exists() {
        // Everybody has the cores again, whatever becomes of the group.
        write(&group.join(PARTITION), "member")?;
        remove(&group)?;
    }
    if !before.had_cpusets {
        // Somebody else may have come to need it meanwhile: then it stays.
        let _ = fs::write(top.join(GIVEN_ON), "-cpuset");
    }
    Ok(())
}

/// A group goes when nobody is left in it, and the dead take a moment.
fn remove(group: &Path) -> Result<(), PartitionError> {
    let deadline = Instant::now() + EMPTIES;
    loop {
        match fs::remove_dir(group) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if error.raw_os_error() == Some(Errno::EBUSY as i32) => {
                if Instant::now() >= deadline {
                    return Err(file("remove the group", group)(error));
                }
                thread::sleep(Duration::from_millis(20));
            }
            Err(error) => return Err(file("remove the group", group)(error)),
        }
    }
}

/// Gives back the cores that a run had alone and did not give back itself, as it was killed: which.
///
/// # Errors
/// When that fails; the entry stays in the journal.
pub fn put_back_what_is_left(journal: &Path) -> Result<Vec<GroupsBefore>, PartitionError> {
    let mut done = Vec::new();
    for held in Held::<GroupsBefore>::left(journal)? {
        put_back(Path::new("/sys"), &held.entry)?;
        done.push(held.entry.clone());
        held.end()?;
    }
    Ok(done)
}

fn list(cores: &[u16]) -> String {
    cores.iter().map(u16::to_string).collect::<Vec<_>>().join(",")
}

fn sorted(cores: &[u16]) -> Vec<u16> {
    let mut cores = cores.to_vec();
    cores.sort_unstable();
    cores
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A written `/sys` with cgroup v2, whose root has those controllers.
    fn sys(mount: &str, controllers: &str) -> tempfile::TempDir {
        let sys = tempfile::tempdir().unwrap();
        fs::create_dir_all(sys.path().join(mount)).unwrap();
        fs::write(sys.path().join(mount).join("cgroup.controllers"), controllers).unwrap();
        sys
    }

    #[test]
    fn what_is_in_the_way_is_told_with_what_to_do() {
        let said = |sys: &Path, wanted, usable| {
            lacks(sys, wanted, usable).map(|lack| lack.to_string()).unwrap_or_default()
        };
        assert!(said(Path::new("/nowhere"), 3, 2).contains("3 cores are needed and 2"));
        assert!(said(Path::new("/nowhere"), 3, 4).contains("not mounted"));
        let beside = sys("fs/cgroup/unified", "io pids\n");
        assert!(said(beside.path(), 3, 4).contains("no cpuset controller"));
        let whole = sys("fs/cgroup", "cpuset cpu io\n");
        let free = said(whole.path(), 3, 4);
        assert!(free.is_empty() || free.contains("root"), "{free}");
        fs::write(whole.path().join("fs/cgroup").join(PARTITION), "member\n").unwrap();
        assert!(said(whole.path(), 3, 4).contains("container"));
    }
}
