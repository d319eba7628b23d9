//! Where each operation goes, and whether it reads or writes: an access specification as IOmeter has it.
//!
//! A worker has one place in the file. An operation that is not random begins there, and the next
//! place is behind it: reads and writes share it, so that a load that goes through the file in order,
//! half of it reads, reads and writes every other block on average. fio keeps a place for reads and
//! one for writes, which then goes through the file twice at once.

use vioperf_model::workload::{OperationKind, Workload};

/// One operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Operation {
    pub(super) offset: u64,
    pub(super) bytes: usize,
    pub(super) writes: bool,
}

/// The operations of one worker, one after the other, without end. They follow from the seed alone.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    /// At least one.
    kinds: Vec<Kind>,
    /// Bytes of the file that are in reach; room for the largest block at least.
    reach: u64,
    place: u64,
    random: Random,
}

/// Operations of one kind.
#[derive(Debug, Clone, Copy)]
struct Kind {
    /// The part of all operations that are of this kind or of one before it.
    until: f64,
    block: u64,
    alignment: u64,
    read_share: f64,
    random_share: f64,
}

impl Pattern {
    /// What a workload asks for, in so many bytes of a file, which have room for its largest block.
    pub(super) fn of(workload: &Workload, reach: u64, seed: u64) -> Self {
        let mut until = 0.0;
        let kind = |kind: OperationKind| {
            until += kind.share.as_f64();
            Kind {
                until,
                block: kind.block_bytes,
                alignment: kind.alignment_bytes.max(1),
                read_share: kind.read_share.as_f64(),
                random_share: kind.random_share.as_f64(),
            }
        };
        let kinds = workload.operation_kinds().into_iter().map(kind).collect();
        Self { kinds, reach, place: 0, random: Random(seed) }
    }

    pub(super) fn next(&mut self) -> Operation {
        let kind = self.kind();
        let writes = self.random.fraction() >= kind.read_share;
        if self.random.fraction() < kind.random_share {
            let last = self.reach.saturating_sub(kind.block) / kind.alignment;
            self.place = self.random.below(last + 1) * kind.alignment;
        }
        // The one before may have been of a kind with another alignment.
        let mut offset = self.place.next_multiple_of(kind.alignment);
        if offset.saturating_add(kind.block) > self.reach {
            offset = 0;
        }
        self.place = offset + kind.block;
        Operation { offset, bytes: usize::try_from(kind.block).unwrap_or(usize::MAX), writes }
    }

    fn kind(&mut self) -> Kind {
        match self.kinds[..] {
            [only] => only,
            ref kinds => {
                let drawn = self.random.fraction();
                // Shares add up to 1, but for what is lost in adding them.
                let found = kinds.iter().find(|kind| drawn < kind.until).or(kinds.last());
                found.copied().unwrap_or(NO_KIND)
            }
        }
    }
}

/// A load has a kind at least; this one would read sectors.
const NO_KIND: Kind =
    Kind { until: 1.0, block: 512, alignment: 512, read_share: 1.0, random_share: 0.0 };

/// Numbers that look random: `SplitMix64` (Steele, Lea, Flood 2014), which takes a few instructions each.
#[derive(Debug, Clone)]
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// At least 0 and less than 1.
    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Less than `end`, which is at least 1.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        let product = u128::from(self.next()) * u128::from(end);
        u64::try_from(product >> 64).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use vioperf_model::units::{ByteSize, Ratio};
    use vioperf_model::workload::{MixLine, WorkloadKind};

    use super::*;

    fn workload(read_percent: u64, random_percent: u64) -> Workload {
        Workload {
            read_share: Some(Ratio::from_ppm(read_percent * 10_000)),
            random_share: Some(Ratio::from_ppm(random_percent * 10_000)),
            ..Workload::new(WorkloadKind::Disk)
        }
    }

    fn first(pattern: &mut Pattern, count: usize) -> Vec<Operation> {
        std::iter::repeat_with(|| pattern.next()).take(count).collect()
    }

    #[test]
    fn reads_and_writes_in_order_share_one_place_and_wrap_at_the_end() {
        // Room for ten blocks and a half.
        let mut pattern = Pattern::of(&workload(50, 0), 43_008, 7);
        let operations = first(&mut pattern, 1000);
        for (number, operation) in (0_u64..).zip(&operations) {
            assert_eq!(operation.offset, number % 10 * 4096);
        }
        let writes = operations.iter().filter(|operation| operation.writes).count();
        assert!((400..600).contains(&writes), "{writes}");
    }

    #[test]
    fn shares_are_kept_and_nothing_is_drawn_where_there_is_no_choice() {
        let reach = 1 << 30;
        for (read, random) in [(100, 100), (0, 0), (67, 100), (70, 20), (100, 0)] {
            let operations = first(&mut Pattern::of(&workload(read, random), reach, 1), 20_000);
            let reads = operations.iter().filter(|operation| !operation.writes).count() as u64;
            let jumps = operations.windows(2).filter(|two| two[1].offset != two[0].offset + 4096);
            let jumps = jumps.count() as u64;
            for (percent, count) in [(read, reads), (random, jumps)] {
                // The standard deviation is 0.35 % at most; where it is all or nothing, 0.
                let slack = if percent % 100 == 0 { 1 } else { 400 };
                assert!(count.abs_diff(percent * 200) <= slack, "{percent} % {count}");
            }
        }
    }

    #[test]
    fn a_random_operation_moves_the_place_that_the_next_goes_on_from() {
        let operations = first(&mut Pattern::of(&workload(100, 25), 1 << 30, 3), 4000);
        let went_on = operations.windows(2).filter(|two| two[1].offset == two[0].offset + 4096);
        assert!((2900..3100).contains(&went_on.count()));
    }

    #[test]
    fn random_places_are_spread_evenly_to_the_last() {
        let mut counts = [0_u32; 16];
        for operation in first(&mut Pattern::of(&workload(100, 100), 16 * 4096, 5), 16_000) {
            counts[usize::try_from(operation.offset / 4096).unwrap()] += 1;
        }
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_mix_goes_through_the_file_with_operations_of_every_size() {
        let line = |percent: u64, kib| MixLine {
            share: Ratio::from_ppm(percent * 10_000),
            block_size: ByteSize::from_kib(kib),
            read_share: None,
            random_share: None,
            alignment: Some(ByteSize::from_kib(4)),
        };
        let workload =
            Workload { mix: vec![line(20, 4), line(80, 64)], ..Workload::new(WorkloadKind::Disk) };
        let operations = first(&mut Pattern::of(&workload, 1 << 30, 9), 10_000);
        let small = operations.iter().filter(|operation| operation.bytes == 4096).count();
        assert!((1800..2200).contains(&small), "{small}");
        assert_eq!(small + operations.iter().filter(|one| one.bytes == 65_536).count(), 10_000);
        // One place for all of them.
        for two in operations.windows(2) {
            assert_eq!(two[1].offset, two[0].offset + two[0].bytes as u64);
        }
    }

    #[test]
    fn a_seed_gives_the_same_operations_again_and_another_gives_others() {
        let of = |seed| first(&mut Pattern::of(&workload(50, 50), 1 << 30, seed), 100);
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }

    proptest! {
        #[test]
        fn every_operation_is_aligned_and_inside(
            block in 1_u64..2048, alignment in 1_u64..4096, more in 0_u64..1 << 20,
            random in 0_u64..=100, seed in any::<u64>(),
        ) {
            let (block, alignment) = (block * 512, alignment * 512);
            let workload = Workload {
                block_size: Some(ByteSize::from_bytes(block)),
                alignment: Some(ByteSize::from_bytes(alignment)),
                ..workload(50, random)
            };
            let reach = block + more * 512;
            for operation in first(&mut Pattern::of(&workload, reach, seed), 200) {
                prop_assert_eq!(operation.offset % alignment, 0);
                prop_assert!(operation.offset + block <= reach);
            }
        }
    }
}
