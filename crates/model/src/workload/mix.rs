//! Operations of several kinds at once: an access specification of more than one line, as IOmeter has them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Workload;
use crate::units::{ByteSize, Ratio};

/// All of them.
const WHOLE: Ratio = Ratio::from_ppm(1_000_000);
/// As IOmeter has.
const MOST_LINES: usize = 100;

/// One kind of operation of a mix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MixLine {
    /// The part of all operations that are of this kind; all lines together are 100 %.
    pub share: Ratio,
    /// Bytes that it reads or writes, in whole sectors of 512 bytes.
    pub block_size: ByteSize,
    /// The part of these that read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "100 %"))]
    pub read_share: Option<Ratio>,
    /// The part of these that go to a random place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "0 %"))]
    pub random_share: Option<Ratio>,
    /// Each begins at a multiple of so many bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "the block size"))]
    pub alignment: Option<ByteSize>,
}

/// A kind of operation with everything that is asked for or holds without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperationKind {
    /// The part of all operations that are of this kind.
    pub share: Ratio,
    /// Bytes that it reads or writes.
    pub block_bytes: u64,
    /// The part of these that read.
    pub read_share: Ratio,
    /// The part of these that go to a random place.
    pub random_share: Ratio,
    /// Each begins at a multiple of so many bytes.
    pub alignment_bytes: u64,
}

impl Workload {
    /// The kinds of operations of a disk's load: those of its mix, or the one that its own keys tell.
    pub fn operation_kinds(&self) -> Vec<OperationKind> {
        if self.mix.is_empty() {
            let bytes = |size: Option<ByteSize>| size.map(ByteSize::as_bytes);
            let block_bytes = bytes(self.block_size).unwrap_or(4096);
            return vec![OperationKind {
                share: WHOLE,
                block_bytes,
                read_share: self.read_share.unwrap_or(WHOLE),
                random_share: self.random_share.unwrap_or(Ratio::from_ppm(0)),
                alignment_bytes: bytes(self.alignment).unwrap_or(block_bytes),
            }];
        }
        let kind = |line: &MixLine| OperationKind {
            share: line.share,
            block_bytes: line.block_size.as_bytes(),
            read_share: line.read_share.unwrap_or(WHOLE),
            random_share: line.random_share.unwrap_or(Ratio::from_ppm(0)),
            alignment_bytes: line.alignment.unwrap_or(line.block_size).as_bytes(),
        };
        self.mix.iter().map(kind).collect()
    }

    /// The part of the operations of all kinds that read, 1 being all.
    pub fn read_fraction(&self) -> f64 {
        self.fraction_of_all(|kind| kind.read_share)
    }

    /// The part of the operations of all kinds that go to a random place, 1 being all.
    pub fn random_fraction(&self) -> f64 {
        self.fraction_of_all(|kind| kind.random_share)
    }

    fn fraction_of_all(&self, of: fn(&OperationKind) -> Ratio) -> f64 {
        let kinds = self.operation_kinds();
        kinds.iter().map(|kind| kind.share.as_f64() * of(kind).as_f64()).sum()
    }

    /// What of a mix contradicts itself, but for its sizes.
    pub(super) fn check_mix(&self, check: &mut impl FnMut(bool, &str, String)) {
        if self.mix.is_empty() {
            return;
        }
        for (key, is_set) in [
            ("workload.block_size", self.block_size.is_some()),
            ("workload.read_share", self.read_share.is_some()),
            ("workload.random_share", self.random_share.is_some()),
            ("workload.alignment", self.alignment.is_some()),
        ] {
            let message = "each line of workload.mix has its own: leave it out here".into();
            check(is_set, key, message);
        }
        check(
            self.mix.len() > MOST_LINES,
            "workload.mix",
            format!("more than {MOST_LINES} kinds of operations"),
        );
        let shares = self.mix.iter().map(|line| line.share.as_ppb());
        let sum = shares.fold(0, u64::saturating_add);
        let percent = sum as f64 / 1e7;
        let message = format!("the shares add up to {percent} %, not to {WHOLE}");
        check(sum != WHOLE.as_ppb(), "workload.mix", message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::WorkloadKind;

    fn line(percent: u64, kib: u64, reads: u64) -> MixLine {
        MixLine {
            share: Ratio::from_ppm(percent * 10_000),
            block_size: ByteSize::from_kib(kib),
            read_share: Some(Ratio::from_ppm(reads * 10_000)),
            random_share: None,
            alignment: None,
        }
    }

    fn mixed(mix: Vec<MixLine>) -> Workload {
        Workload { mix, ..Workload::new(WorkloadKind::Disk) }
    }

    #[test]
    fn a_load_of_one_kind_is_a_mix_of_one() {
        let [kind] = Workload::new(WorkloadKind::Disk).operation_kinds()[..] else { panic!() };
        assert_eq!((kind.share, kind.block_bytes, kind.alignment_bytes), (WHOLE, 4096, 4096));
        assert_eq!((kind.read_share, kind.random_share), (WHOLE, Ratio::from_ppm(0)));
    }

    #[test]
    fn a_mix_reads_as_much_as_its_lines_do_together() {
        let workload = mixed(vec![line(25, 1, 100), line(75, 64, 20)]);
        assert!((workload.read_fraction() - 0.4).abs() < 1e-9);
        assert_eq!(workload.largest_block_bytes(), 65_536);
        assert_eq!(workload.contradictions(), []);
    }

    #[test]
    fn what_a_mix_cannot_be_is_told() {
        let keys = |workload: Workload| {
            let found = workload.contradictions();
            found.into_iter().map(|one| one.key).collect::<Vec<_>>()
        };
        assert_eq!(keys(mixed(vec![line(25, 1, 100), line(74, 64, 20)])), ["workload.mix"]);
        assert_eq!(keys(mixed(vec![line(100, 1, 101)])), ["workload.mix"]);
        assert_eq!(keys(mixed(vec![line(100, 1 << 15, 100)])), ["workload.mix"; 2]);
        let twice = Workload { read_share: Some(WHOLE), ..mixed(vec![line(100, 4, 50)]) };
        assert_eq!(keys(twice), ["workload.read_share"]);
    }
}
