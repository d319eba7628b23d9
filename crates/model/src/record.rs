//! What is stored of a run: [`RunInfo`] in `run.json`, one [`TrialRecord`] a line in
//! `trials.jsonl`. Raw counters only; everything a report shows is derived from these.

mod guest;
mod parts;
mod place;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::calibration::CalibrationCitation;
use crate::libvirt::MeasuredDomain;
use crate::plan::{Cell, CellId, Plan};
use crate::sample::{InterfaceFacts, NodeReport};
use crate::scenario::Scenario;
use crate::wire::{NodeIdentity, Role};

pub use guest::{CorePlacement, DiskSetup, GuestOrigin, GuestSetup, OtherGuest, Processor};
pub use parts::{PlannedPart, RunInParts};
pub use place::Place;

/// Version of the two files' schema. Raised when a reader of the older version would misread.
pub const SCHEMA_VERSION: u32 = 1;

/// `run.json`: everything about a run that is not a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunInfo {
    /// [`SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// Version of the vioperf that ran.
    pub vioperf_version: String,
    /// When the run began (RFC 3339, UTC).
    pub started_at: String,
    /// The command line.
    pub command_line: Vec<String>,
    /// Where the scenario came from: `built-in` or its file.
    pub scenario_origin: String,
    /// The scenario as it was run, `--set` and other options applied.
    pub scenario: Scenario,
    /// What of the scenario cannot be had here and was left out.
    #[serde(default)]
    pub left_out: Vec<LeftOut>,
    /// The cells and their order.
    pub plan: Plan,
    /// The host.
    pub host: HostFacts,
    /// What ran the guests; absent when the plan needs none.
    pub hypervisor: Option<HypervisorFacts>,
    /// The same of each kind of guest, by its levels and its variant, where guests differ.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variant_hypervisors: BTreeMap<String, HypervisorFacts>,
    /// Which of the host's cores the threads of the first cell's lab were held to; absent where the scheduler
    /// was free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<CorePlacement>,
    /// The same of each kind of cell, by its levels and its variant, where they differ.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variant_placements: BTreeMap<String, CorePlacement>,
    /// Every time that it was resumed, the first first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resumed: Vec<Sitting>,
    /// The calibration of this machine that was stored when the run began; absent where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<CalibrationCitation>,
    /// What went on the machine just before, while vioperf did nothing; absent where nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_before: Option<MachineLook>,
    /// The virtual machine that the other end is, where libvirt looks after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<MeasuredDomain>,
    /// How the run ended; absent while it runs, and when it was killed.
    #[serde(default)]
    pub ended: Option<RunEnd>,
}

impl RunInfo {
    /// What ran the guests of a cell: where guests differ its own.
    pub fn hypervisor_of(&self, cell: Option<&Cell>) -> Option<&HypervisorFacts> {
        let own = cell.and_then(Cell::guest_name);
        own.and_then(|name| self.variant_hypervisors.get(&name)).or(self.hypervisor.as_ref())
    }
}

/// A level that could not be had here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftOut {
    /// The level (`nic igb`).
    pub what: String,
    /// Why, and what to do.
    pub reason: String,
}

/// The setting of a host ([`HostFacts::settings`]) that names the idle state which its cores take longest
/// to come back from (`C6, 133 µs`).
pub const DEEPEST_IDLE_STATE: &str = "deepest idle state";

/// The setting of a host that tells how many huge pages of 2 MiB it has set aside that are nobody's.
pub const FREE_HUGE_PAGES: &str = "free huge pages (2 MiB)";

/// The host, as far as it matters to the numbers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostFacts {
    /// Its name in the network (`uname -n`); empty in records from before it was kept.
    #[serde(default)]
    pub name: String,
    /// Name and version of the distribution.
    pub os: String,
    /// `uname -r`.
    pub kernel_release: String,
    /// CPU model name.
    pub cpu_model: String,
    /// Online cores.
    pub cores: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Load average of the last minute when the run began.
    pub load_average_1min: f64,
    /// Settings that move numbers (`governor`, `turbo`, `mitigations …`), each as read or with the
    /// reason why it could not be.
    pub settings: BTreeMap<String, String>,
}

/// What ran the guests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HypervisorFacts {
    /// QEMU's program.
    pub qemu_path: String,
    /// QEMU's version.
    pub qemu_version: String,
    /// Whether KVM or software emulation executed the guests.
    pub emulated: bool,
    /// Why it was that one.
    pub accel_reason: String,
    /// Release of the guest's kernel.
    pub guest_kernel_release: String,
    /// Where the guest's kernel came from.
    pub guest_kernel_origin: String,
    /// Virtual CPUs of every guest.
    pub vcpus: u16,
    /// How the snapshot came about: absent when guests were booted afresh.
    pub template: Option<TemplateTimes>,
}

/// How long the guest took that the snapshot was taken of.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TemplateTimes {
    /// From starting QEMU to the agent's answer, in milliseconds.
    pub boot_ms: u64,
    /// Taking the snapshot, in milliseconds.
    pub snapshot_ms: u64,
}

/// A run that had stopped goes on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sitting {
    /// When (RFC 3339, UTC).
    pub at: String,
    /// The command line.
    pub command_line: Vec<String>,
    /// Version of the vioperf that went on.
    pub vioperf_version: String,
    /// The host as it was then.
    pub host: HostFacts,
    /// What ran the guests then; absent when the plan needs none.
    pub hypervisor: Option<HypervisorFacts>,
    /// `sequence` of the first record that it could add.
    pub first_sequence: u32,
    /// How the sitting before had ended; absent when it was killed.
    pub stopped: Option<RunEnd>,
    /// What was no more as it was when the run began, each as a sentence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
}

/// A look at a machine on which nothing of ours runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MachineLook {
    /// How long it took, in milliseconds.
    pub took_ms: u64,
    /// What each core did meanwhile.
    pub cores: Vec<CoreTime>,
    /// Context switches of all cores (`ctxt` of `/proc/stat`).
    pub context_switches: u64,
    /// The most threads that were found ready to run, the one that looked aside (`procs_running`).
    pub runnable_at_most: u32,
    /// Load averages of one, five and fifteen minutes.
    pub load_averages: Vec<f64>,
    /// How much later than asked for short sleeps ended: the median, in nanoseconds.
    pub wake_up_late_median_ns: u64,
    /// The latest, in nanoseconds.
    pub wake_up_late_max_ns: u64,
    /// Frequencies of the cores that tell them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frequencies: Vec<CoreFrequency>,
}

/// How a core spent the time of a look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CoreTime {
    /// Not idle and not stolen, in percent.
    pub busy_percent: f64,
    /// Wanted to run but the hypervisor ran something else, in percent.
    pub steal_percent: f64,
}

/// How fast a core may run: cpufreq.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CoreFrequency {
    /// `scaling_governor`.
    pub governor: String,
    /// `scaling_cur_freq`, in kHz.
    pub current_khz: Option<u64>,
    /// `scaling_min_freq`, in kHz.
    pub least_khz: Option<u64>,
    /// `scaling_max_freq`, in kHz.
    pub most_khz: Option<u64>,
    /// How often it was throttled for its heat since boot (`core_throttle_count`).
    pub throttled: Option<u64>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunEnd {
    /// When (RFC 3339, UTC).
    pub at: String,
    /// How.
    #[serde(flatten)]
    pub how: RunEnding,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "how")]
pub enum RunEnding {
    /// Every block was measured.
    Completed,
    /// Every cell's interval had reached the scenario's goal before the most blocks were measured.
    Settled,
    /// The time budget did not allow a further block.
    BudgetUsed,
    /// A signal or Ctrl-C.
    Interrupted {
        /// The signal's name.
        signal: String,
    },
    /// It could not go on.
    Failed {
        /// Why.
        message: String,
    },
}

/// One line of `trials.jsonl`: one execution of one cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialRecord {
    /// [`SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// Position in the run, from 0; attempts that were void count.
    pub sequence: u32,
    /// The block, from 0.
    pub block: u32,
    /// The cell.
    pub cell: CellId,
    /// Which attempt at this cell in this block, from 1.
    pub attempt: u32,
    /// When it began (RFC 3339, UTC).
    pub started_at: String,
    /// When it began, in milliseconds since the run began; of a run that was resumed, in milliseconds
    /// of all its sittings, without the time between them.
    pub started_after_ms: u64,
    /// When it ended, on the same clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_after_ms: Option<u64>,
    /// Whether it counts.
    pub outcome: Outcome,
    /// How the guest came about; absent for a baseline.
    pub guest: Option<GuestSetup>,
    /// What the bytes of its disks are on; absent where no disk is read or written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<StorageFacts>,
    /// How fast the host's cores were at either end of it; absent where nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_speed: Option<CoreSpeed>,
    /// When the load was measured; absent when it never was.
    pub timeline: Option<Timeline>,
    /// What each party saw; in a rate search, during the probe that [`SearchRecord::shown_probe`] names.
    pub parties: Vec<Party>,
    /// The probes of a rate search; absent for every other load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<SearchRecord>,
}

/// What the bytes of disks are on, as the host's kernel tells.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StorageFacts {
    /// The whole block device below, as `/proc/diskstats` names it; absent where the file system has none (memory), or
    /// does not tell (an overlay).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// They are in memory: no device has a part in it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_memory: bool,
}

/// A rate search, raw: bounds and throughput are derived from what each probe gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SearchRecord {
    /// The lowest rate that was to be tried, in datagrams a second.
    pub min_rate: u64,
    /// The highest.
    pub max_rate: u64,
    /// Every probe, in the order of time.
    pub probes: Vec<Probe>,
    /// Which of them the parties' reports are of, from 0.
    pub shown_probe: Option<usize>,
    /// Whether the time for the search was over before the goals were reached.
    pub out_of_time: bool,
}

/// A short load of a rate search, and what was counted at its two ends when it was over.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Probe {
    /// Datagrams a second that were asked for; absent for a load as fast as the sender could.
    pub asked_per_second: Option<u64>,
    /// How long was asked for, in nanoseconds.
    pub asked_ns: u64,
    /// When it began, in nanoseconds since the trial did.
    pub began_after_ns: u64,
    /// How long it took from start to stop, in nanoseconds.
    pub took_ns: u64,
    /// Datagrams that the sender's kernel took.
    pub sent: u64,
    /// Datagrams that were due but not sent in time.
    pub not_sent: u64,
    /// Datagrams that the receiver was given, until the drain was over.
    pub received: u64,
    /// Of those lost, what the receiver's sockets had no room for.
    pub socket_drops: Option<u64>,
}

/// Whether a trial counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "result")]
pub enum Outcome {
    /// It counts.
    Completed,
    /// It does not: others used the physical cores just before or just after it, and it was measured
    /// again. What it measured has no part in that.
    Disturbed,
    /// It does not.
    Void {
        /// Why, for a person.
        reason: String,
        /// The last lines of the guest's console, where that helps.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        console_tail: Vec<String>,
        /// Whether the testbed never became ready, so that its other cells would not have either.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        never_ready: bool,
    },
}

/// A core that takes so many times longer than at its best is shared with somebody at this moment.
pub const DISTURBED_SLOWDOWN: f64 = 1.25;

/// How fast the host's cores were around a trial, while nothing of vioperf ran: known work, timed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CoreSpeed {
    /// How many times longer than at its best the slowest core took just before.
    pub slowdown_before: f64,
    /// The same just after; absent where the trial did not come that far.
    pub slowdown_after: Option<f64>,
    /// How long was waited for the cores to be at their best, in milliseconds.
    pub waited_ms: u64,
}

impl CoreSpeed {
    /// How many times longer at worst.
    pub fn slowdown(&self) -> f64 {
        self.slowdown_before.max(self.slowdown_after.unwrap_or(1.0))
    }

    /// Whether somebody else used the cores at either end.
    pub fn is_disturbed(&self) -> bool {
        self.slowdown() >= DISTURBED_SLOWDOWN
    }
}

/// The common window, on the conductor's `CLOCK_MONOTONIC`, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Timeline {
    /// When the last party had started.
    pub started_ns: u64,
    /// When the warm-up was over.
    pub measured_from_ns: u64,
    /// When the first party was told to stop.
    pub measured_until_ns: u64,
}

/// One party's view of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Party {
    /// Who it is.
    pub place: Place,
    /// What it did.
    pub role: Role,
    /// Why it did that.
    #[serde(default)]
    pub purpose: Purpose,
    /// What else it did at the same time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further_legs: Vec<Leg>,
    /// Who its node is.
    pub identity: NodeIdentity,
    /// How its clock relates to the conductor's.
    pub clock: ClockRelation,
    /// The interface under test, as it really was; of an observer the guest's port, where it was set up.
    pub interface: Option<InterfaceFacts>,
    /// What it read.
    pub report: NodeReport,
}

impl Party {
    /// Everything it did, in the order of its counters ([`NodeReport::load_of_leg`]).
    pub fn legs(&self) -> impl Iterator<Item = Leg> {
        let first = Leg { purpose: self.purpose, role: self.role };
        std::iter::once(first).chain(self.further_legs.iter().copied())
    }
}

/// One end of one load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Leg {
    /// Why it is there.
    #[serde(default)]
    pub purpose: Purpose,
    /// Its end.
    pub role: Role,
}

/// What a load is there for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// It is what is measured.
    #[default]
    Measured,
    /// It keeps the path busy beside what is measured.
    Background,
    /// It is what a neighbour does meanwhile.
    Neighbour,
}

/// `node clock = conductor clock + offset`, as measured over the control channel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClockRelation {
    /// The offset in nanoseconds.
    pub offset_ns: i64,
    /// It is wrong by at most this much (half the best round trip), in nanoseconds.
    pub error_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_were_written() {
        for busy in 1..=600_u32 {
            for of in [7.0, 59.0, 60.0, 61.0] {
                let busy_percent = 100.0 * f64::from(busy) / of;
                let core = CoreTime { busy_percent, steal_percent: 0.0 };
                let written = serde_json::to_string(&core).unwrap();
                let read: CoreTime = serde_json::from_str(&written).unwrap();
                assert_eq!(read.busy_percent.to_bits(), busy_percent.to_bits(), "{written}");
            }
        }
    }
}
