//! How fast cores ran, and what held them back.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How fast a core ran when it was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CoreFrequencyNow {
    /// The number of the core.
    pub core: u32,
    /// Its frequency in kHz: what the hardware counted (APERF and MPERF on x86), or what was last set,
    /// as the driver has it (Documentation/admin-guide/pm/cpufreq.rst).
    pub khz: u64,
}

/// How often heat has throttled a core since boot
/// (Documentation/ABI/testing/sysfs-devices-system-cpu).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CoreThrottles {
    /// The number of the core.
    pub core: u32,
    /// For its own heat (`core_throttle_count`).
    pub core_count: u64,
    /// For that of the package that it is in (`package_throttle_count`), the same for every core in
    /// there; absent where it is not told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package_count: Option<u64>,
}
