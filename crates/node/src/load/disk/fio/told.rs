//! What fio tells of itself (`--output-format=json+`): one JSON document a status, each of everything since it began.

use std::collections::BTreeMap;

use serde::Deserialize;
use vioperf_model::sample::{DiskCounters, LatencyHistogram};

/// The longest document that is read. A worker's has some 2000 buckets for each direction at most, of 40 bytes.
const LONGEST_DOCUMENT: usize = 32 << 20;
/// The longest line beside documents that is kept.
const LONGEST_LINE: usize = 500;

/// Cuts what fio prints into documents: each begins with a line `{` and ends with a line `}`.
#[derive(Debug, Default)]
pub(super) struct Documents {
    /// The line that has not ended.
    line: Vec<u8>,
    /// The document that has not ended.
    document: Option<Vec<u8>>,
    /// The last line that belonged to none, cut.
    pub(super) beside: String,
}

impl Documents {
    /// Takes what was read, and gives the documents that it ends. `Err` where one is too long to be fio's.
    pub(super) fn take(&mut self, mut bytes: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        let mut ended = Vec::new();
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let (line, rest) = bytes.split_at(end + 1);
            self.line.extend_from_slice(line);
            bytes = rest;
            ended.extend(self.end_line());
        }
        self.line.extend_from_slice(bytes);
        let held = self.line.len() + self.document.as_ref().map_or(0, Vec::len);
        if held > LONGEST_DOCUMENT {
            return Err(format!("fio told more than {} MiB at once", LONGEST_DOCUMENT >> 20));
        }
        Ok(ended)
    }

    fn end_line(&mut self) -> Option<Vec<u8>> {
        let line = std::mem::take(&mut self.line);
        match &mut self.document {
            None if line == b"{\n" => self.document = Some(line),
            None => {
                let text = String::from_utf8_lossy(&line);
                let text: String = text.trim().chars().take(LONGEST_LINE).collect();
                if !text.is_empty() {
                    self.beside = text;
                }
            }
            Some(document) => {
                document.extend_from_slice(&line);
                if line == b"}\n" {
                    return self.document.take();
                }
            }
        }
        None
    }
}

/// One status, cumulative.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(super) struct Told {
    #[serde(rename = "fio version", default)]
    version: String,
    /// When it was counted, in milliseconds since 1970.
    #[serde(default)]
    pub(super) timestamp_ms: u64,
    pub(super) jobs: Vec<Job>,
}

/// Of one worker.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Job {
    /// The errno that ended it; 0: none.
    pub(super) error: i32,
    read: Way,
    write: Way,
    /// In percent of `job_runtime`.
    #[serde(default)]
    usr_cpu: f64,
    #[serde(default)]
    sys_cpu: f64,
    /// In milliseconds.
    #[serde(default)]
    job_runtime: u64,
}

/// Reads or writes.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
struct Way {
    io_bytes: u64,
    #[serde(default)]
    lat_ns: Times,
}

/// How long operations took, from when fio had one ready to when it learnt of its end.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(super) struct Times {
    #[serde(default)]
    min: u64,
    #[serde(default)]
    max: u64,
    #[serde(default)]
    mean: f64,
    /// How many have ended.
    #[serde(rename = "N", default)]
    count: u64,
    /// By the middle of each bucket.
    #[serde(default)]
    bins: BTreeMap<u64, u64>,
}

impl Told {
    /// Reads a document; in words why it cannot be read.
    pub(super) fn read(document: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(document)
            .map_err(|error| format!("what fio told cannot be read: {error}"))
    }

    /// As fio tells it (`fio-3.33`).
    pub(super) fn version(&self) -> String {
        self.version.chars().filter(char::is_ascii_graphic).take(40).collect()
    }

    pub(super) fn counters(&self) -> DiskCounters {
        let sum = |of: fn(&Job) -> u64| self.jobs.iter().map(of).fold(0, u64::saturating_add);
        DiskCounters {
            reads: sum(|job| job.read.lat_ns.count),
            writes: sum(|job| job.write.lat_ns.count),
            bytes_read: sum(|job| job.read.io_bytes),
            bytes_written: sum(|job| job.write.io_bytes),
        }
    }

    /// Of all workers' reads.
    pub(super) fn reads(&self) -> Times {
        self.jobs.iter().fold(Times::default(), |sum, job| sum.with(&job.read.lat_ns))
    }

    /// Of all workers' writes.
    pub(super) fn writes(&self) -> Times {
        self.jobs.iter().fold(Times::default(), |sum, job| sum.with(&job.write.lat_ns))
    }
}

impl Job {
    pub(super) fn bytes(&self) -> u64 {
        self.read.io_bytes.saturating_add(self.write.io_bytes)
    }

    /// How long it lived and how much of that it was on a CPU, in nanoseconds.
    pub(super) fn times_ns(&self) -> (u64, u64) {
        let lived = self.job_runtime.saturating_mul(1_000_000);
        let share = ((self.usr_cpu + self.sys_cpu) / 100.0).clamp(0.0, 1.0);
        (lived, whole(lived as f64 * share))
    }
}

impl Times {
    /// With those of another.
    pub(super) fn with(mut self, other: &Self) -> Self {
        if other.count == 0 {
            return self;
        }
        let sum = self.sum_ns() + other.sum_ns();
        self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.count = self.count.saturating_add(other.count);
        self.mean = sum / self.count as f64;
        for (middle, count) in &other.bins {
            let own = self.bins.entry(*middle).or_default();
            *own = own.saturating_add(*count);
        }
        self
    }

    fn sum_ns(&self) -> f64 {
        self.mean * self.count as f64
    }

    /// What has come since an earlier status. The shortest and the longest are exact where they came since; else the ends
    /// of their buckets stand for them.
    pub(super) fn since(&self, earlier: &Self) -> LatencyHistogram {
        let grown = self.bins.iter().filter_map(|(middle, count)| {
            let before = earlier.bins.get(middle).copied().unwrap_or(0);
            let more = count.saturating_sub(before);
            (more > 0).then_some((bucket(*middle), more))
        });
        let grown: Vec<((u64, u64), u64)> = grown.collect();
        let (Some(((first, _), _)), Some(((_, last), _))) = (grown.first(), grown.last()) else {
            return LatencyHistogram::default();
        };
        let is_new = |own: u64, before: u64| earlier.count == 0 || own != before;
        LatencyHistogram {
            minimum_ns: if is_new(self.min, earlier.min) {
                self.min
            } else {
                (*first).max(self.min)
            },
            maximum_ns: if is_new(self.max, earlier.max) {
                self.max
            } else {
                (*last).min(self.max)
            },
            sum_ns: whole(self.sum_ns() - earlier.sum_ns()),
            buckets: grown.into_iter().map(|((_, end), count)| [end, count]).collect(),
        }
    }
}

/// The first and last nanosecond of the bucket around a value. As fio's stat.c has them: up to 127 ns one each, then 64 for each
/// doubling.
fn bucket(middle: u64) -> (u64, u64) {
    let shift = (63 - middle.max(1).leading_zeros()).saturating_sub(BUCKET_BITS);
    let first = middle >> shift << shift;
    (first, first | ((1 << shift) - 1))
}

/// The logarithm of the number of buckets for each doubling.
const BUCKET_BITS: u32 = 6;

/// Nothing below zero, and no fraction.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it saturates, and has 0 for what is no number"
)]
fn whole(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
mod tests;
