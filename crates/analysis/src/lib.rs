//! Pure analysis of a run: from raw counters to numbers, a ranking and findings. No file, no
//! clock, no randomness: the same records give the same analysis, and every format of the report
//! is rendered from it.

mod analyser;
mod between;
pub mod calibration;
mod cell;
pub mod change_points;
pub mod columns;
pub mod compare;
mod cores;
mod cpu_shares;
mod datagrams;
mod diagnose;
mod disk;
mod flow;
mod headline;
mod hops;
mod impossible_times;
pub mod iperf3;
#[cfg(test)]
mod kinds;
mod latency;
mod layers;
pub mod ledger;
pub mod machine_look;
pub mod measure;
mod over_time;
mod parties;
mod ports;
#[cfg(test)]
mod properties;
pub mod provenance;
mod ranking;
pub mod rate_search;
mod rates;
mod ratio;
pub mod references;
pub mod result;
pub mod sanity;
pub mod settling;
mod shapes;
mod speeds;
mod statistics;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod threads;
mod time_course;
pub mod trend;
pub mod trial_table;
mod window;
pub mod wording;

pub use analyser::{Analyser, analyse};
