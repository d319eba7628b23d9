//! IOmeter's configuration files (`.icf`): what was to be measured, as its access specifications, its workers and its
//! test setup say. A comment line begins with `'` and names what the lines below it hold.
//!
//! Sources: the files that IOmeter 2006.07.27 and 1.1.0 write, and the "Iometer User's Guide" (2003-12-16), chapters on
//! test configuration files and on access specifications.

mod reading;
mod scenario;

pub use scenario::{Told, plain_name};

/// The longest file that is read: one of a hundred specifications of a hundred lines has a tenth of it.
pub const MAX_FILE_BYTES: usize = 4 << 20;

/// What a file says, as far as disks are concerned.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Icf {
    /// What the test is called.
    pub description: String,
    /// How long each test lasts, in seconds; 0 is until somebody stops it.
    pub run_seconds: u64,
    /// How long it runs before anything is recorded, in seconds.
    pub ramp_up_seconds: u64,
    /// The queue depths that are tried one after the other, where the test is of that type.
    pub queue_depths: Option<QueueDepths>,
    /// Every access specification, in the order of the file.
    pub specifications: Vec<AccessSpecification>,
    /// Every worker that is one of disks.
    pub workers: Vec<Worker>,
}

/// A walk through queue depths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueDepths {
    /// The first.
    pub first: u16,
    /// The last, if it is met.
    pub last: u16,
    /// What is added each time, or what the depth is multiplied by.
    pub step: u16,
    /// Whether it is multiplied.
    pub is_exponential: bool,
}

/// A named mix of operations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccessSpecification {
    /// Its name.
    pub name: String,
    /// Its kinds of operations; their shares add up to 100 %.
    pub lines: Vec<AccessLine>,
}

/// One kind of operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessLine {
    /// Bytes that it moves.
    pub size_bytes: u64,
    /// Of all operations, in percent.
    pub share_percent: u8,
    /// Of these that read, in percent; the others write.
    pub read_percent: u8,
    /// Of these that go to a random place, in percent.
    pub random_percent: u8,
    /// Pause after a burst, in milliseconds.
    pub delay_ms: u64,
    /// Operations of a burst.
    pub burst: u16,
    /// Each begins at a multiple of so many bytes; 0 is a sector.
    pub alignment_bytes: u64,
    /// Bytes of a reply, which operations of disks have not.
    pub reply_bytes: u64,
}

/// One thread that loads disks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Worker {
    /// Its name.
    pub name: String,
    /// Operations that it keeps under way at each of its disks.
    pub queue_depth: Option<u16>,
    /// How much of a disk is in reach, in sectors of 512 bytes; 0 is all of it.
    pub most_sectors: u64,
    /// Names of the specifications that are assigned to it.
    pub assigned: Vec<String>,
}

/// Why a file is none of IOmeter's, or says what cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IcfError {
    /// A line says what cannot be.
    #[error("line {line}: {what}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// What is wrong, and what was expected.
        what: String,
    },
    /// There is nothing that a disk could do.
    #[error(
        "there is no access specification in it: is it a test configuration file that IOmeter saved (`.icf`)?"
    )]
    NoSpecification,
    /// It is longer than such files are.
    #[error("it has more than {MAX_FILE_BYTES} bytes: no file of IOmeter's is that long")]
    TooLong,
}

#[cfg(test)]
mod tests;
