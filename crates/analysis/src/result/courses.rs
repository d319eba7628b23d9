//! How trials went over time.

use schemars::JsonSchema;
use serde::Serialize;

/// Why a trial's course is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CourseOf {
    /// Its headline metric is the median of the cell's trials.
    Typical,
    /// It has the lowest.
    Lowest,
    /// It has the highest.
    Highest,
}

/// How a trial went, in equal steps on one time axis: what both ends and the host counted.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TimeCourse {
    /// Which trial of the cell it is.
    pub of: CourseOf,
    /// Its position in the run.
    pub sequence: u32,
    /// Its block.
    pub block: u32,
    /// When the first step begins, in seconds from the begin of what counts: below zero is warm-up.
    pub from_seconds: f64,
    /// How long each step is, in seconds.
    pub step_seconds: f64,
    /// When what counts ends, in seconds from its begin.
    pub measured_seconds: f64,
    /// What arrived, in the unit of the headline metric a second; what is not known is absent.
    pub received_per_second: Vec<Option<f64>>,
    /// What was sent, the same way.
    pub sent_per_second: Vec<Option<f64>>,
    /// How busy the host's cores were, all together; 100 is one core.
    pub host_percent_of_core: Vec<Option<f64>>,
    /// How busy the guest's were; empty without a guest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub guest_percent_of_core: Vec<Option<f64>>,
    /// Packets that the interfaces of both ends, switch and taps dropped, a second.
    pub dropped_per_second: Vec<Option<f64>>,
    /// TCP segments that were sent again, a second; empty of a load without.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub retransmitted_per_second: Vec<Option<f64>>,
}
