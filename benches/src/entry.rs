//! One who takes part in a contest: a tool in one of its modes.

use anyhow::Result;

use crate::contests::{Class, Metric};
use crate::process::CommandLine;

/// A tool in one mode.
pub struct Entry {
    /// Its name and version (`iperf3 3.12`).
    pub tool: String,
    /// What of its options is not the same in all modes; empty for the ordinary one.
    pub mode: String,
    /// Whether it is vioperf.
    pub ours: bool,
    pub class: Class,
    pub server: CommandLine,
    /// Where the server listens when it is ready.
    pub port: u16,
    /// Whether the server ends after one client.
    pub server_ends: bool,
    pub client: CommandLine,
    /// How long the client sends.
    pub seconds: u16,
    pub read: Reader,
}

impl Entry {
    /// Its name in tables.
    pub fn name(&self) -> String {
        if self.mode.is_empty() {
            self.tool.clone()
        } else {
            format!("{} {}", self.tool, self.mode)
        }
    }
}

/// Reads what a run printed.
pub type Reader = Box<dyn Fn(&Outputs<'_>) -> Result<Reading>>;

/// What both ends wrote to their standard outputs.
#[derive(Debug, Clone, Copy)]
pub struct Outputs<'a> {
    pub client: &'a str,
    pub server: &'a str,
}

/// What a tool says of a run, as far as it was asked. The receiver's numbers, always.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Reading {
    pub bits_per_second: Option<f64>,
    /// All that was received, whenever: for what the processes cost from start to end.
    pub bytes: Option<f64>,
    pub datagrams_per_second: Option<f64>,
    pub transactions_per_second: Option<f64>,
    /// Of the whole round trip.
    pub median_us: Option<f64>,
    /// Of the whole round trip.
    pub p99_us: Option<f64>,
}

/// One run of an entry.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    pub reading: Reading,
    /// Of both ends' processes.
    pub cpu_seconds: f64,
    /// Of all cores together.
    pub busy_seconds: f64,
    /// Share of all cores' time that the hypervisor gave to others.
    pub stolen_share: f64,
    /// Of the larger of both ends.
    pub resident_peak_bytes: u64,
}

impl Run {
    /// The value of a metric, where the tool tells it.
    pub fn value(&self, metric: Metric) -> Option<f64> {
        let by_gigabyte = |seconds: f64| self.reading.bytes.map(|bytes| seconds / (bytes / 1e9));
        let value = match metric {
            Metric::Throughput => self.reading.bits_per_second,
            Metric::CpuPerGigabyte => by_gigabyte(self.cpu_seconds),
            Metric::BusyPerGigabyte => by_gigabyte(self.busy_seconds),
            Metric::Datagrams => self.reading.datagrams_per_second,
            Metric::Transactions => self.reading.transactions_per_second,
            Metric::MedianLatency => self.reading.median_us,
            Metric::TailLatency => self.reading.p99_us,
        };
        value.filter(|value| value.is_finite() && *value > 0.0)
    }
}
