//! Which of the host's cores the threads of a lab run on.
//!
//! Where the scheduler is free to move them, the virtual CPU, QEMU's other threads and the far end share a
//! core in one second and not in the next, and one trial differs from the other by that alone.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use vioperf_model::record::CorePlacement;

use crate::partition::{Partition, PartitionError};
use crate::sandbox::Sandbox;

/// Threads that begin while others are placed are found by another pass; more than a few have no end.
const MOST_PASSES: u32 = 16;

/// Why threads could not be placed.
#[derive(Debug, thiserror::Error)]
pub enum PlacementError {
    /// The threads of a process cannot be listed.
    #[error("cannot list the threads of {process}: {}: {source}", .path.display())]
    Threads {
        /// Whose.
        process: String,
        /// Where they are listed.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The kernel refused the cores.
    #[error(
        "cannot hold a thread of {process} to the cores {cores:?}: {source}; \
         set testbed.placement to \"free\", or let vioperf use these cores (cpuset of its cgroup)"
    )]
    Refused {
        /// Whose.
        process: String,
        /// The cores.
        cores: Vec<u16>,
        /// The kernel's word.
        source: Errno,
    },
    /// The cores are not to be had alone.
    #[error(transparent)]
    Partition(#[from] PartitionError),
    /// New threads appear faster than they are placed.
    #[error("the threads of {process} do not come to rest: set testbed.placement to \"free\"")]
    Restless {
        /// Whose.
        process: String,
    },
}

/// The cores that this process may use, in the order in which they are to be used up: one thread of every
/// physical core first, as two threads of one core share its execution units. `root` is `/` but in tests.
#[must_use]
pub fn usable_cores(root: &Path) -> Vec<u16> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap_or_else(|_| CpuSet::new());
    let allowed: Vec<u16> = (0..u16::try_from(CpuSet::count()).unwrap_or(u16::MAX))
        .filter(|&core| allowed.is_set(usize::from(core)).unwrap_or(false))
        .collect();
    siblings_last(root, allowed)
}

fn siblings_last(root: &Path, cores: Vec<u16>) -> Vec<u16> {
    let mut threads_seen: BTreeMap<String, u16> = BTreeMap::new();
    let mut ordered: Vec<(u16, u16)> = cores
        .into_iter()
        .map(|core| {
            let list = format!("sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
            // Without a topology every core is one of its own.
            let physical = fs::read_to_string(root.join(list)).unwrap_or_else(|_| core.to_string());
            let seen = threads_seen.entry(physical).or_default();
            *seen += 1;
            (*seen, core)
        })
        .collect();
    ordered.sort_unstable();
    ordered.into_iter().map(|(_, core)| core).collect()
}

/// Gives each of `virtual_cpus` a core of its own, from the first on, and everything else the cores that
/// are left, at least one; where there are too few, virtual CPUs share.
#[must_use]
pub fn apart(cores: &[u16], virtual_cpus: u16) -> CorePlacement {
    let most = cores.len().saturating_sub(1).max(1);
    let wanted = usize::from(virtual_cpus).clamp(1, most);
    let (near, others) = cores.split_at(wanted.min(cores.len()));
    let others = if others.is_empty() { near } else { others };
    CorePlacement { near: near.to_vec(), others: others.to_vec(), ..CorePlacement::default() }
}

/// The most cores that a lab takes away from the host beside those of virtual CPUs.
const MOST_TAKEN: usize = 2;

/// How many cores are needed for virtual CPUs that are alone on theirs: one more for the rest of the lab, and
/// one that everything else keeps.
#[must_use]
pub fn needed_for_exclusive(virtual_cpus: u16) -> usize {
    usize::from(virtual_cpus.max(1)) + 2
}

/// The same as [`apart`], but the first core is left to everything else on the machine, and only the next few
/// are taken: nobody else will be on them. Nothing where there are too few ([`needed_for_exclusive`]).
#[must_use]
pub fn exclusive(cores: &[u16], virtual_cpus: u16) -> Option<CorePlacement> {
    let near = usize::from(virtual_cpus.max(1));
    let taken = cores.get(1..).filter(|_| cores.len() >= needed_for_exclusive(virtual_cpus))?;
    let taken = &taken[..taken.len().min(near + MOST_TAKEN)];
    Some(CorePlacement { exclusive: true, ..apart(taken, virtual_cpus) })
}

/// What a thread of a lab is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Thread {
    /// A baseline's near end: it stands where a guest's virtual CPUs would.
    NearNode,
    /// Another end's load.
    Node,
    /// A worker of vhost.
    Vhost,
    /// An I/O thread of QEMU.
    Io,
    /// Anything else: QEMU's main loop, another guest, a switch's process.
    Other,
}

impl Thread {
    /// By the names that QEMU (`-name debug-threads=on`) and the kernel give.
    fn of_qemu(name: &str) -> Self {
        match name {
            name if name.starts_with("vhost-") => Self::Vhost,
            name if name.starts_with("IO ") => Self::Io,
            _ => Self::Other,
        }
    }

    /// Its cores.
    fn cores(self, placement: &CorePlacement) -> &[u16] {
        let own = match self {
            Self::NearNode => &placement.near,
            Self::Node => &placement.nodes,
            Self::Vhost => &placement.vhost,
            Self::Io => &placement.io,
            Self::Other => &placement.others,
        };
        if own.is_empty() { &placement.others } else { own }
    }
}

/// The cores of a lab, from which it is placed.
#[derive(Debug)]
pub(crate) struct Cores {
    placement: CorePlacement,
    /// Where they are its own.
    partition: Option<Partition>,
}

impl Cores {
    /// Takes them from everybody else, where that is wanted.
    pub fn take(
        sandbox: &Sandbox,
        placement: Option<&CorePlacement>,
    ) -> Result<Option<Self>, PlacementError> {
        let Some(placement) = placement.cloned() else { return Ok(None) };
        let partition = match placement.exclusive {
            true => Some(sandbox.partition(&placement.all())?),
            false => None,
        };
        Ok(Some(Self { placement, partition }))
    }

    /// Which they are.
    pub fn placement(&self) -> &CorePlacement {
        &self.placement
    }

    /// Holds every thread of a process to the cores of what it is there for.
    pub fn place_process(
        &self,
        process: &str,
        pid: Pid,
        what: Thread,
    ) -> Result<(), PlacementError> {
        self.admit(pid)?;
        place_process(process, pid, what.cores(&self.placement))
    }

    /// Holds a guest to its placement: each virtual CPU's thread to a core of its own, vhost's workers and I/O threads
    /// to theirs, and everything else of QEMU to the others.
    pub fn place_guest(&self, qemu: Pid, virtual_cpus: &[Pid]) -> Result<(), PlacementError> {
        const QEMU: &str = "QEMU";
        self.place_process(QEMU, qemu, Thread::Other)?;
        for thread in threads(QEMU, qemu)? {
            let name = fs::read_to_string(format!("/proc/{qemu}/task/{thread}/comm"));
            let what = Thread::of_qemu(name.unwrap_or_default().trim_end());
            let cores = what.cores(&self.placement);
            place_thread(QEMU, thread, &set_of(QEMU, cores)?, cores)?;
        }
        // An emulation without a thread for each virtual CPU names the same thread for all of them.
        let mut of_thread: BTreeMap<Pid, Vec<u16>> = BTreeMap::new();
        for (thread, core) in virtual_cpus.iter().zip(self.placement.near.iter().cycle()) {
            of_thread.entry(*thread).or_default().push(*core);
        }
        for (thread, cores) in of_thread {
            place_thread(QEMU, thread, &set_of(QEMU, &cores)?, &cores)?;
        }
        Ok(())
    }

    /// Only then it may use the cores at all; what it may use else is reset.
    fn admit(&self, pid: Pid) -> Result<(), PlacementError> {
        self.partition.as_ref().map_or(Ok(()), |partition| Ok(partition.admit(pid)?))
    }
}

/// Holds every thread of a process to `cores`, those that it will have as well.
fn place_process(process: &str, pid: Pid, cores: &[u16]) -> Result<(), PlacementError> {
    let wanted = set_of(process, cores)?;
    for _ in 0..MOST_PASSES {
        let mut placed = 0;
        for thread in threads(process, pid)? {
            placed += u32::from(place_thread(process, thread, &wanted, cores)?);
        }
        if placed == 0 {
            return Ok(());
        }
    }
    Err(PlacementError::Restless { process: process.to_owned() })
}

fn threads(process: &str, pid: Pid) -> Result<Vec<Pid>, PlacementError> {
    let path = PathBuf::from(format!("/proc/{pid}/task"));
    let listed = fs::read_dir(&path).map_err(|source| PlacementError::Threads {
        process: process.to_owned(),
        path,
        source,
    })?;
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    Ok(listed.flatten().filter_map(number).map(Pid::from_raw).collect())
}

/// Whether the thread was elsewhere before.
fn place_thread(
    process: &str,
    thread: Pid,
    wanted: &CpuSet,
    cores: &[u16],
) -> Result<bool, PlacementError> {
    let refused = |source| PlacementError::Refused {
        process: process.to_owned(),
        cores: cores.to_vec(),
        source,
    };
    match sched_getaffinity(thread) {
        Ok(now) if now == *wanted => return Ok(false),
        // It has ended meanwhile.
        Err(Errno::ESRCH) => return Ok(false),
        Ok(_) => {}
        Err(errno) => return Err(refused(errno)),
    }
    match sched_setaffinity(thread, wanted) {
        Ok(()) => Ok(true),
        Err(Errno::ESRCH) => Ok(false),
        Err(errno) => Err(refused(errno)),
    }
}

fn set_of(process: &str, cores: &[u16]) -> Result<CpuSet, PlacementError> {
    let mut set = CpuSet::new();
    for core in cores {
        set.set(usize::from(*core)).map_err(|source| PlacementError::Refused {
            process: process.to_owned(),
            cores: cores.to_vec(),
            source,
        })?;
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn virtual_cpus_have_cores_of_their_own_as_far_as_there_are_any() {
        for (cores, virtual_cpus, near, others) in [
            (vec![0, 1], 1, vec![0], vec![1]),
            (vec![0, 1, 2, 3], 2, vec![0, 1], vec![2, 3]),
            (vec![4, 6, 5], 8, vec![4, 6], vec![5]),
            (vec![3], 2, vec![3], vec![3]),
            (vec![0, 1], 0, vec![0], vec![1]),
        ] {
            let placed = apart(&cores, virtual_cpus);
            assert_eq!((placed.near, placed.others), (near, others), "{cores:?} {virtual_cpus}");
        }
        let nowhere = apart(&[], 1);
        assert!(nowhere.near.is_empty() && nowhere.others.is_empty());
    }

    #[test]
    fn exclusive_cores_leave_the_first_to_everything_else_and_most_of_a_large_machine() {
        let cores = |count: u16| (0..count).collect::<Vec<u16>>();
        assert_eq!(exclusive(&cores(2), 1), None);
        assert_eq!(exclusive(&cores(3), 2), None);
        for (count, virtual_cpus, near, others) in
            [(3, 1, vec![1], vec![2]), (4, 2, vec![1, 2], vec![3]), (64, 2, vec![1, 2], vec![3, 4])]
        {
            let placed = exclusive(&cores(count), virtual_cpus).unwrap();
            assert_eq!((placed.near, placed.others), (near, others), "{count} {virtual_cpus}");
            assert!(placed.exclusive);
        }
    }

    #[test]
    fn threads_are_told_apart_by_their_names_and_have_cores_of_their_own_where_given() {
        let plain = apart(&[0, 1], 1);
        assert_eq!(Thread::of_qemu("vhost-4711").cores(&plain), [1]);
        let given = CorePlacement { vhost: vec![2], io: vec![3], nodes: vec![4, 5], ..plain };
        assert_eq!(Thread::of_qemu("vhost-4711").cores(&given), [2]);
        assert_eq!(Thread::of_qemu("IO iothread0").cores(&given), [3]);
        assert_eq!(Thread::of_qemu("CPU 0/KVM").cores(&given), [1]);
        assert_eq!(Thread::Node.cores(&given), [4, 5]);
        assert_eq!(Thread::NearNode.cores(&given), [0]);
        assert_eq!(given.all(), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn the_second_thread_of_a_physical_core_comes_last() {
        let root = tempfile::tempdir().unwrap();
        for (core, siblings) in [(0, "0,2"), (1, "1,3"), (2, "0,2"), (3, "1,3")] {
            let folder = format!("sys/devices/system/cpu/cpu{core}/topology");
            fs::create_dir_all(root.path().join(&folder)).unwrap();
            let list = root.path().join(folder).join("thread_siblings_list");
            fs::write(list, format!("{siblings}\n")).unwrap();
        }
        assert_eq!(siblings_last(root.path(), vec![0, 1, 2, 3]), [0, 1, 2, 3]);
        assert_eq!(siblings_last(root.path(), vec![0, 2, 3]), [0, 3, 2]);
        assert_eq!(siblings_last(Path::new("/nowhere"), vec![1, 0]), [0, 1]);
    }

    #[test]
    fn every_thread_of_a_process_is_placed() {
        let core = usable_cores(Path::new("/"))[0];
        let mut child = Command::new("sleep").arg("5").spawn().unwrap();
        let pid = Pid::from_raw(child.id().cast_signed());
        place_process("sleep", pid, &[core]).unwrap();
        let now = sched_getaffinity(pid).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(now, set_of("sleep", &[core]).unwrap());
        let gone = place_process("sleep", pid, &[core]).unwrap_err().to_string();
        assert!(gone.contains("sleep") && gone.contains("/task"), "{gone}");
        let own = Pid::from_raw(0);
        let refused = place_thread("this", own, &set_of("this", &[1000]).unwrap(), &[1000]);
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("1000") && refused.contains("testbed.placement"), "{refused}");
    }
}
