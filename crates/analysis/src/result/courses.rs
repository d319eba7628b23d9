//! How trials went over time.

use schemars::JsonSchema;
use serde::Serialize;

use super::Metric;

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
    /// Its peak, sustained rate and dips; absent of a load that is no stream, and where samples are too few.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intervals: Option<CourseIntervals>,
}

/// The intervals of what counts of a trial, whose rates its peak and its sustained rate are told of.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CourseIntervals {
    /// How long each is, in seconds.
    pub seconds: f64,
    /// The highest rate of one, in the unit of the headline metric a second.
    pub peak_per_second: f64,
    /// The highest rate that 95 % of them reach.
    pub sustained_per_second: f64,
    /// Where they fell below three quarters of their median.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dips: Vec<CourseDip>,
}

/// Intervals that follow on each other with less than three quarters of the median.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct CourseDip {
    /// When they begin, in seconds from the begin of what counts.
    pub from_seconds: f64,
    /// How long they last.
    pub seconds: f64,
    /// By what part the lowest is below the median, in percent.
    pub depth_percent: f64,
}

/// The rate of a stream over time, trial by trial: that of equal intervals of a second, of a short trial of less
/// ([`rate_interval_seconds`](crate::columns)).
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct RateOverTime {
    /// How long an interval is, in seconds.
    pub interval_seconds: Metric,
    /// The highest rate of an interval.
    pub peak_bits_per_second: Metric,
    /// The highest rate that 95 % of the intervals reach (their 5th percentile by nearest rank); of fewer than 20
    /// all of them.
    pub sustained_bits_per_second: Metric,
    /// How often it fell below three quarters of the trial's median interval; intervals that follow on each other
    /// are one dip.
    pub dips: Metric,
    /// By what part the lowest interval of those is below the median, in percent; 0 without any.
    pub deepest_dip_percent: Metric,
}
