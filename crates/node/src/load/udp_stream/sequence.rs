//! Telling from the numbers of a flow's datagrams what became of them.

use vioperf_model::sample::DatagramOutcome;

/// How many numbers back an arrival is remembered, for all flows together.
const REMEMBERED: usize = 1 << 22;
/// The least and the most for one flow.
const LEAST_REMEMBERED: usize = 512;
const MOST_REMEMBERED: usize = 1 << 16;
/// No path loses so many datagrams in a row: such a number is none that was sent.
const FURTHEST_JUMP: u64 = 1 << 40;

/// How far back each of so many flows remembers arrivals: bounded for all together.
pub(super) fn window_for(flows: u16) -> usize {
    (REMEMBERED / usize::from(flows).max(1)).clamp(LEAST_REMEMBERED, MOST_REMEMBERED)
}

/// What is known of one flow.
#[derive(Debug)]
pub(super) struct Sequence {
    /// A bit for each of the last numbers, set if that one has arrived; number n is at n modulo the
    /// number of bits.
    arrived: Vec<u64>,
    /// One more than the highest number that has arrived: RFC 4737's NextExp.
    next: u64,
    /// How many were sent, once the sender has told.
    sent: Option<u64>,
    received: u64,
    duplicated: u64,
    reordered: u64,
    late: u64,
    last_transit_ns: Option<i64>,
    /// Sixteen times the jitter, as RFC 3550 (appendix A.8) keeps it for rounding's sake.
    jitter_times_16: u64,
}

impl Sequence {
    pub(super) fn new(window: usize) -> Self {
        Self {
            arrived: vec![0; window.div_ceil(64)],
            next: 0,
            sent: None,
            received: 0,
            duplicated: 0,
            reordered: 0,
            late: 0,
            last_transit_ns: None,
            jitter_times_16: 0,
        }
    }

    /// Notes an arrival, and its times of sending and arriving, which may be of different clocks.
    /// `None` when that number cannot be one of the flow.
    pub(super) fn arrive(&mut self, number: u64, times_ns: Option<(u64, u64)>) -> Option<()> {
        let remembered = self.remembered();
        if number >= self.next {
            if number - self.next > FURTHEST_JUMP {
                return None;
            }
            self.forget(self.next, (number - self.next).min(remembered));
            self.next = number + 1;
            self.set(number);
        } else if self.next - number > remembered {
            self.late += 1;
            return Some(());
        } else if self.is_set(number) {
            self.duplicated += 1;
            return Some(());
        } else {
            self.set(number);
            self.reordered += 1;
        }
        self.received += 1;
        if let Some((sent_ns, arrived_ns)) = times_ns {
            self.time(arrived_ns.wrapping_sub(sent_ns).cast_signed());
        }
        Some(())
    }

    /// The sender says how many there were.
    pub(super) fn end_at(&mut self, sent: u64) {
        self.sent = Some(sent);
    }

    pub(super) fn outcome(&self) -> DatagramOutcome {
        let sent = self.sent.unwrap_or(0).max(self.next);
        DatagramOutcome {
            received: self.received,
            lost: sent.saturating_sub(self.received),
            duplicated: self.duplicated,
            reordered: self.reordered,
            late: self.late,
            jitter_ns: self.jitter_times_16 / 16,
        }
    }

    /// RFC 3550, section 6.4.1: J += (|D| - J) / 16, in the order of arrival.
    fn time(&mut self, transit_ns: i64) {
        if let Some(last) = self.last_transit_ns.replace(transit_ns) {
            let difference = transit_ns.wrapping_sub(last).unsigned_abs();
            let decay = self.jitter_times_16.saturating_add(8) / 16;
            self.jitter_times_16 = (self.jitter_times_16 - decay).saturating_add(difference);
        }
    }

    fn remembered(&self) -> u64 {
        self.arrived.len() as u64 * 64
    }

    /// Where a number's bit is: the word, and the bit in it.
    fn place(&self, number: u64) -> (usize, u64) {
        let at = number % self.remembered().max(1);
        (usize::try_from(at / 64).unwrap_or(usize::MAX), 1 << (at % 64))
    }

    fn is_set(&self, number: u64) -> bool {
        let (word, bit) = self.place(number);
        self.arrived.get(word).is_some_and(|word| word & bit != 0)
    }

    fn set(&mut self, number: u64) {
        let (word, bit) = self.place(number);
        if let Some(word) = self.arrived.get_mut(word) {
            *word |= bit;
        }
    }

    /// Clears the bits of `count` numbers that are about to be jumped over, and of the one behind.
    fn forget(&mut self, first: u64, count: u64) {
        for number in first..=first.saturating_add(count) {
            let (word, bit) = self.place(number);
            if let Some(word) = self.arrived.get_mut(word) {
                *word &= !bit;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn outcome(numbers: &[u64], sent: Option<u64>) -> [u64; 5] {
        let mut sequence = Sequence::new(128);
        for number in numbers {
            sequence.arrive(*number, None).unwrap();
        }
        sent.into_iter().for_each(|sent| sequence.end_at(sent));
        let DatagramOutcome { received, lost, duplicated, reordered, late, .. } =
            sequence.outcome();
        [received, lost, duplicated, reordered, late]
    }

    #[test]
    fn lost_duplicated_and_reordered_are_told_apart() {
        assert_eq!(outcome(&[], None), [0; 5]);
        assert_eq!(outcome(&[], Some(3)), [0, 3, 0, 0, 0]);
        assert_eq!(outcome(&[0, 1, 2], Some(3)), [3, 0, 0, 0, 0]);
        assert_eq!(outcome(&[0, 2], None), [2, 1, 0, 0, 0]);
        assert_eq!(outcome(&[2], Some(5)), [1, 4, 0, 0, 0]);
        assert_eq!(outcome(&[0, 1, 1, 0, 2], Some(3)), [3, 0, 2, 0, 0]);
        assert_eq!(outcome(&[1, 0, 2], Some(3)), [3, 0, 0, 1, 0]);
        assert_eq!(outcome(&[3, 0, 1, 2, 1], Some(4)), [4, 0, 1, 3, 0]);
    }

    #[test]
    fn beyond_what_is_remembered_nothing_is_claimed() {
        // 0 is 128 behind 127: the last that is remembered.
        assert_eq!(outcome(&[127, 0, 0], Some(128)), [2, 126, 1, 1, 0]);
        assert_eq!(outcome(&[128, 0], Some(129)), [1, 128, 0, 0, 1]);
        // A jump over everything remembered leaves no bit of before.
        let before: Vec<u64> = (0..128).collect();
        let jump = [&before[..], &[1_000_000], &(999_900..1_000_000).collect::<Vec<_>>()].concat();
        assert_eq!(outcome(&jump, None), [229, 1_000_001 - 229, 0, 100, 0]);
    }

    #[test]
    fn no_number_takes_long_or_panics() {
        let mut sequence = Sequence::new(512);
        for number in [u64::MAX, 1 << 41, FURTHEST_JUMP, 0, u64::MAX - 1, FURTHEST_JUMP * 2 + 1] {
            let _ = sequence.arrive(number, Some((u64::MAX, 0)));
            let _ = sequence.arrive(number, Some((0, u64::MAX)));
        }
        sequence.end_at(u64::MAX);
        assert!(sequence.outcome().lost > 0);
        assert!(window_for(u16::MAX) * usize::from(u16::MAX) / 8 <= 8 << 20);
    }

    #[test]
    fn agrees_with_a_set_of_all_numbers() {
        // Knuth's MMIX generator: numbers that wander forwards, with repetitions and gaps.
        let mut state = 7_u64;
        let mut numbers = Vec::new();
        for step in 0..20_000_u64 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            numbers.push(step + (state >> 33) % 60);
        }
        let (mut seen, mut expected) = (BTreeSet::new(), [0; 5]);
        for number in &numbers {
            let highest = seen.last().copied();
            if !seen.insert(*number) {
                expected[2] += 1;
            } else if highest.is_some_and(|highest| *number < highest) {
                expected[3] += 1;
            }
        }
        expected[0] = seen.len() as u64;
        expected[1] = seen.last().unwrap() + 1 - expected[0];
        assert_eq!(outcome(&numbers, None), expected);
    }

    #[test]
    fn jitter_is_that_of_rfc_3550() {
        let mut steady = Sequence::new(64);
        let mut shaking = Sequence::new(64);
        let (mut reference, mut last) = (0.0_f64, None);
        for number in 0..500_u64 {
            let sent = number * 1_000_000;
            steady.arrive(number, Some((sent, sent.wrapping_sub(5_000_000_000)))).unwrap();
            let transit = 100_000 + number * number * 7_919 % 50_000;
            shaking.arrive(number, Some((sent, sent + transit))).unwrap();
            if let Some(last) = last.replace(transit) {
                reference += (transit.abs_diff(last) as f64 - reference) / 16.0;
            }
        }
        assert_eq!(steady.outcome().jitter_ns, 0);
        assert!((shaking.outcome().jitter_ns as f64 - reference).abs() < 2.0);
    }
}
