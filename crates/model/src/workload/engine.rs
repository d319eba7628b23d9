//! Who reads and writes a disk, and what fio does otherwise than IOmeter.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{OperationKind, Workload, WorkloadKind};

/// Who reads and writes the disk.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// vioperf itself, with what IOmeter's access specifications mean.
    #[default]
    Vioperf,
    /// The fio of this machine, also in guests; where what is asked for means something else to it, the
    /// cell is left out.
    Fio,
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Vioperf => "vioperf",
            Self::Fio => "fio",
        })
    }
}

impl Workload {
    /// Whether fio reads and writes the disk.
    pub fn is_by_fio(&self) -> bool {
        self.kind == WorkloadKind::Disk && self.engine == Some(Engine::Fio)
    }

    /// What of a load would be another one if fio did it, and what to do: nothing where fio is not
    /// asked to.
    pub fn unlike_fio(&self) -> Option<String> {
        if !self.is_by_fio() {
            return None;
        }
        if self.delay.is_some() {
            return Some(
                "fio pauses after operations that it has begun or ended, not when a burst has ended: leave \
                 workload.delay out"
                    .into(),
            );
        }
        match self.operation_kinds()[..] {
            [kind] if self.mix.is_empty() => of_kind(kind),
            _ => Some(
                "fio's operations of several sizes have their shares and places otherwise: leave \
                 workload.mix out"
                    .into(),
            ),
        }
    }
}

fn of_kind(kind: OperationKind) -> Option<String> {
    let (reads, random) = (kind.read_share.as_ppb(), kind.random_share.as_ppb());
    let is_part = |share: u64| share != 0 && share != WHOLE_PPB;
    if is_part(reads) && random != WHOLE_PPB {
        return Some(
            "fio keeps a place for reads and another for writes: a load that goes on where the last operation \
             ended, be it a read or a write, is not its own; take random_share = \"100 %\", or reads or writes alone"
                .into(),
        );
    }
    if kind.alignment_bytes != kind.block_bytes {
        return Some(
            "fio goes on right behind the last operation, and leaves other blocks at the end out: leave \
             workload.alignment out"
                .into(),
        );
    }
    let in_percent = |share: u64| share.is_multiple_of(WHOLE_PPB / 100);
    (!in_percent(reads) || !in_percent(random)).then(|| {
        "fio takes shares in whole percent: give read_share and random_share so".to_owned()
    })
}

/// All operations, in parts of a billion.
const WHOLE_PPB: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{ByteSize, Ratio, TimeSpan};
    use crate::workload::MixLine;

    fn shares(reads: u64, random: u64) -> Workload {
        Workload {
            engine: Some(Engine::Fio),
            read_share: Some(Ratio::from_ppm(reads * 10_000)),
            random_share: Some(Ratio::from_ppm(random * 10_000)),
            ..Workload::new(WorkloadKind::Disk)
        }
    }

    #[test]
    fn what_fio_means_otherwise_is_told_and_nothing_else() {
        for (reads, random) in [(100, 0), (0, 0), (100, 50), (0, 30), (67, 100), (100, 100)] {
            assert_eq!(shares(reads, random).unlike_fio(), None, "{reads} {random}");
        }
        for (wrong, says) in [
            (shares(67, 0), "a place for reads"),
            (shares(50, 99), "a place for reads"),
            (
                Workload { alignment: Some(ByteSize::from_kib(8)), ..shares(100, 0) },
                "workload.alignment",
            ),
            (
                Workload { delay: Some(TimeSpan::from_millis(5)), ..shares(100, 0) },
                "workload.delay",
            ),
            (
                Workload { read_share: Some(Ratio::from_ppm(333_333)), ..shares(1, 100) },
                "whole percent",
            ),
        ] {
            let told = wrong.unlike_fio().unwrap();
            assert!(told.contains(says), "{told}");
            // Our own engine does all of it.
            assert_eq!(Workload { engine: Some(Engine::Vioperf), ..wrong }.unlike_fio(), None);
        }
        let line = MixLine {
            share: Ratio::from_ppm(1_000_000),
            block_size: ByteSize::from_kib(4),
            read_share: None,
            random_share: None,
            alignment: None,
        };
        let mixed = Workload { mix: vec![line], ..shares(100, 0) };
        let mixed = Workload { read_share: None, random_share: None, ..mixed };
        assert!(mixed.unlike_fio().unwrap().contains("workload.mix"));
    }
}
