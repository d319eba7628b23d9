//! What `vioperf calibrate` stores: what was known, what was read, and the noise floor of a machine.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::record::LeftOut;

/// Version of the stored calibration. Raised when a reader of the older version would misread.
pub const CALIBRATION_SCHEMA_VERSION: u32 = 1;

/// A whole calibration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Calibration {
    /// [`CALIBRATION_SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// When it was done (RFC 3339, UTC).
    pub made_at: String,
    /// Whether it was the short one.
    pub quick: bool,
    /// What it holds for.
    pub machine: CalibratedMachine,
    /// What was known and what was read.
    pub checks: Vec<Check>,
    /// What could not be checked here.
    pub left_out: Vec<LeftOut>,
    /// What is read where nothing changes.
    pub noise_floor: NoiseFloor,
}

/// What a calibration holds for: another kernel, QEMU or vioperf may read otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CalibratedMachine {
    /// Version of vioperf.
    pub vioperf_version: String,
    /// `uname -r` of the host.
    pub kernel_release: String,
    /// CPU model name.
    pub cpu_model: String,
    /// Online cores.
    pub cores: u32,
    /// QEMU's version; absent where no guest took part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qemu_version: Option<String>,
    /// Whether guests were emulated in software.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulated: Option<bool>,
}

/// What is read.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Area {
    /// Payload a second over a link of known rate.
    Rate,
    /// Packets, by several counters of the same ones.
    Counts,
    /// Packets that were dropped on purpose.
    Loss,
    /// Latency that was added on purpose.
    Delay,
    /// CPU time that was burned on purpose.
    Cpu,
}

impl fmt::Display for Area {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Rate => "rate",
            Self::Counts => "counts",
            Self::Loss => "loss",
            Self::Delay => "delay",
            Self::Cpu => "cpu",
        })
    }
}

/// The unit of truth, reading and what is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CheckUnit {
    /// Bits a second.
    BitsPerSecond,
    /// Packets.
    Packets,
    /// Microseconds.
    Microseconds,
    /// Percent of one core.
    PercentOfCore,
}

/// One thing that was known, and what was read of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// What is read.
    pub area: Area,
    /// Of what, for a person.
    pub what: String,
    /// The unit of the numbers.
    pub unit: CheckUnit,
    /// What is known.
    pub truth: f64,
    /// What vioperf read: of several trials the median.
    pub reading: f64,
    /// Every trial's reading.
    pub trials: Vec<f64>,
    /// The least reading that is right.
    pub allowed_low: f64,
    /// The greatest.
    pub allowed_high: f64,
    /// Whether the reading is within.
    pub passed: bool,
}

impl Check {
    /// Reading less truth.
    pub fn error(&self) -> f64 {
        self.reading - self.truth
    }

    /// The same in percent of the truth; absent where the truth is nothing.
    pub fn error_percent(&self) -> Option<f64> {
        (self.truth != 0.0).then(|| 100.0 * self.error() / self.truth)
    }
}

/// What is read of this machine where nothing changes: no smaller effect can be told from nothing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NoiseFloor {
    /// Payload of one TCP connection over the host's own path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<Scatter>,
    /// Median latency of one request at a time over the host's own path, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_p50_us: Option<Scatter>,
    /// Its 99th percentile, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_p99_us: Option<Scatter>,
    /// Busy time of all cores while next to nothing was done; 100 is one core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_busy_percent_of_core: Option<Scatter>,
    /// Time of all cores that a hypervisor gave to others meanwhile; 100 is one core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stolen_percent_of_core: Option<f64>,
    /// How late a thread wakes up from a sleep of a millisecond, in microseconds: half of the times it
    /// is later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wake_up_p50_us: Option<f64>,
    /// One time in a hundred it is later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wake_up_p99_us: Option<f64>,
}

/// How much equal trials differ.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Scatter {
    /// Trials.
    pub n: usize,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation.
    pub standard_deviation: f64,
    /// The smallest difference between two means of five trials each that a t test at 5 % would show,
    /// with this scatter.
    pub smallest_effect_of_5: f64,
}

impl Scatter {
    /// `value` in percent of the mean; absent where that is nothing.
    pub fn percent(&self, value: f64) -> Option<f64> {
        (self.mean != 0.0).then(|| 100.0 * value / self.mean)
    }
}

/// What a run says of the calibration of the machine it was measured on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CalibrationCitation {
    /// When it was done (RFC 3339, UTC).
    pub made_at: String,
    /// Whether it was the short one.
    pub quick: bool,
    /// How many checks there were.
    pub checks: usize,
    /// The check of each area whose error was the largest against what is allowed.
    pub worst: Vec<Check>,
    /// What did not read right.
    pub failed: Vec<String>,
    /// The noise floor.
    pub noise_floor: NoiseFloor,
}
