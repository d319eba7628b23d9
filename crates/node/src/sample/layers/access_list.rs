//! The counters of a lab's access list, where one is in this network namespace.

use vioperf_model::sample::AccessListCounters;
use vioperf_netlink::access_counters;

/// Nothing where there is none: on an ordinary machine, on which a node may not ask, that is no want.
pub(super) fn read() -> Option<AccessListCounters> {
    let counters = access_counters().ok().flatten()?;
    Some(AccessListCounters { entered: counters.entered, passed: counters.passed })
}
