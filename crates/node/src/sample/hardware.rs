//! Cycles, instructions and cache misses of every core: perf_event_open(2). They are counted from when they
//! are opened, whoever runs; reading them is one system call a core, and counting costs next to nothing.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use vioperf_model::sample::HardwareCounters;

/// Files for more cores are not opened.
const MOST_CORES: usize = 128;

/// `PERF_TYPE_HARDWARE`.
const HARDWARE: u32 = 0;
/// `PERF_COUNT_HW_CPU_CYCLES`, `PERF_COUNT_HW_INSTRUCTIONS`, `PERF_COUNT_HW_CACHE_MISSES`.
const EVENTS: [u64; 3] = [0, 1, 3];
/// `PERF_FORMAT_TOTAL_TIME_ENABLED`, `PERF_FORMAT_TOTAL_TIME_RUNNING`, `PERF_FORMAT_GROUP`.
const FORMAT: u64 = 1 | 2 | 8;
/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: libc::c_ulong = 8;
/// How many events there are, their two times, and each event.
const WORDS: usize = 3 + EVENTS.len();

/// Why there are none.
#[derive(Debug, thiserror::Error)]
pub(super) enum HardwareError {
    #[error(
        "perf_event_open: {0}; the processor's counters are not there, as in most virtual machines"
    )]
    Missing(Errno),
    #[error(
        "perf_event_open: {0}; run as root, or allow it: `sysctl -w kernel.perf_event_paranoid=0`, or CAP_PERFMON"
    )]
    Forbidden(Errno),
    #[error("perf_event_open: {0}")]
    Other(Errno),
    #[error("cannot read a counter: {0}")]
    Read(#[from] io::Error),
    #[error("more than {MOST_CORES} cores")]
    TooManyCores,
    #[error("{0}: no core found")]
    NoCores(String),
    #[error("the counters were never free: something else uses them (perf, the NMI watchdog)")]
    NeverRan,
}

/// `struct perf_event_attr` as it was first (`PERF_ATTR_SIZE_VER0`).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    breakpoint_address: u64,
}

/// The events of each core.
pub(super) struct Reader {
    cores: Vec<Core>,
}

/// The first event leads the others: they are counted together or not at all.
struct Core {
    leader: File,
    _others: Vec<OwnedFd>,
}

impl Reader {
    /// Begins to count. `proc` is `/proc` but in tests.
    pub(super) fn open(proc: &Path) -> Result<Self, HardwareError> {
        Self::open_events(proc, HARDWARE, EVENTS)
    }

    fn open_events(
        proc: &Path,
        kind: u32,
        events: [u64; EVENTS.len()],
    ) -> Result<Self, HardwareError> {
        let path = proc.join("stat");
        let text = std::fs::read_to_string(&path)?;
        let cores: Vec<i32> = text.lines().filter_map(core).collect();
        if cores.is_empty() {
            return Err(HardwareError::NoCores(path.display().to_string()));
        }
        if cores.len() > MOST_CORES {
            return Err(HardwareError::TooManyCores);
        }
        let cores = cores.into_iter().map(|core| Core::open(core, kind, events));
        Ok(Self { cores: cores.collect::<Result<_, _>>()? })
    }

    /// Of all cores together.
    pub(super) fn read(&mut self) -> Result<HardwareCounters, HardwareError> {
        let mut sum = HardwareCounters::default();
        for core in &mut self.cores {
            let [_, enabled, running, cycles, instructions, cache_misses] = core.read()?;
            if enabled > 0 && running == 0 {
                return Err(HardwareError::NeverRan);
            }
            let add = |sum: &mut u64, value: u64| *sum = sum.saturating_add(value);
            add(&mut sum.enabled_ns, enabled);
            add(&mut sum.running_ns, running);
            add(&mut sum.cycles, cycles);
            add(&mut sum.instructions, instructions);
            add(&mut sum.cache_misses, cache_misses);
        }
        Ok(sum)
    }
}

/// The number in `cpu3 …`; the line of all cores together has none.
fn core(line: &str) -> Option<i32> {
    line.strip_prefix("cpu")?.split_ascii_whitespace().next()?.parse().ok().filter(|_| {
        // `cpu  1 2 3` is that of all.
        line.as_bytes().get(3).is_some_and(u8::is_ascii_digit)
    })
}

impl Core {
    fn open(core: i32, kind: u32, events: [u64; EVENTS.len()]) -> Result<Self, HardwareError> {
        let [first, others @ ..] = events;
        let leader = open(core, kind, first, None)?;
        let others = others.map(|event| open(core, kind, event, Some(&leader)));
        let others = others.into_iter().collect::<Result<_, _>>()?;
        Ok(Self { leader: File::from(leader), _others: others })
    }

    fn read(&mut self) -> io::Result<[u64; WORDS]> {
        let mut bytes = [0; WORDS * 8];
        self.leader.read_exact(&mut bytes)?;
        let mut words = [0; WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = bytes.try_into().map(u64::from_ne_bytes).unwrap_or_default();
        }
        Ok(words)
    }
}

/// Everything that runs on a core, in user mode, kernel and guests.
fn open(
    core: i32,
    kind: u32,
    config: u64,
    leader: Option<&OwnedFd>,
) -> Result<OwnedFd, HardwareError> {
    let attributes = Attributes {
        kind,
        size: u32::try_from(size_of::<Attributes>()).unwrap_or_default(),
        config,
        read_format: FORMAT,
        ..Attributes::default()
    };
    let everyone: libc::pid_t = -1;
    let group = leader.map_or(-1, AsRawFd::as_raw_fd);
    // SAFETY: the structure is as large as it says, lives until the call has returned, and the kernel only
    // reads it.
    let descriptor = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            everyone,
            core,
            group,
            CLOSE_ON_EXEC,
        )
    };
    match i32::try_from(descriptor) {
        // SAFETY: the kernel has just opened it for us, and nobody else knows it.
        Ok(descriptor) if descriptor >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
        _ => Err(match Errno::last() {
            errno @ (Errno::ENOENT | Errno::ENODEV | Errno::EOPNOTSUPP | Errno::ENOSYS) => {
                HardwareError::Missing(errno)
            }
            errno @ (Errno::EACCES | Errno::EPERM) => HardwareError::Forbidden(errno),
            errno => HardwareError::Other(errno),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `PERF_TYPE_SOFTWARE`; clock of the CPU, page faults, context switches: those every kernel has.
    const SOFTWARE: u32 = 1;
    const OF_SOFTWARE: [u64; 3] = [0, 2, 3];

    #[test]
    fn cores_are_found_by_their_lines() {
        let cores: Vec<i32> =
            "cpu  1 2\ncpu0 1 2\ncpu11 1 2\nintr 5\ncpux 1".lines().filter_map(core).collect();
        assert_eq!(cores, [0, 11]);
    }

    #[test]
    fn events_of_every_core_grow_while_work_is_done() {
        let opened = Reader::open_events(Path::new("/proc"), SOFTWARE, OF_SOFTWARE);
        let mut reader = match opened {
            Ok(reader) => reader,
            Err(HardwareError::Forbidden(_)) if !nix::unistd::geteuid().is_root() => return,
            Err(error) => panic!("{error}"),
        };
        let before = reader.read().unwrap();
        let began = std::time::Instant::now();
        while began.elapsed() < std::time::Duration::from_millis(30) {
            std::hint::black_box(vec![0_u8; 1 << 16]);
        }
        let after = reader.read().unwrap();
        // The clock of a CPU runs in nanoseconds.
        assert!(after.cycles >= before.cycles + 10_000_000, "{before:?} {after:?}");
        assert!(after.enabled_ns > before.enabled_ns && after.running_ns > before.running_ns);
    }

    #[test]
    fn what_is_not_there_is_said() {
        let nothing = tempfile::tempdir().unwrap();
        assert!(Reader::open(nothing.path()).is_err());
        std::fs::write(nothing.path().join("stat"), "intr 1\n").unwrap();
        assert!(matches!(Reader::open(nothing.path()), Err(HardwareError::NoCores(_))));
        let many: String = (0..=MOST_CORES).map(|core| format!("cpu{core} 1\n")).collect();
        std::fs::write(nothing.path().join("stat"), many).unwrap();
        assert!(matches!(Reader::open(nothing.path()), Err(HardwareError::TooManyCores)));
        // No such kind of event.
        let odd = Reader::open_events(Path::new("/proc"), 0xffff, OF_SOFTWARE).err().unwrap();
        let advice = odd.to_string();
        assert!(advice.contains("perf_event_open"), "{advice}");
    }
}
