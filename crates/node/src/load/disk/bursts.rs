//! When a worker may begin an operation: always, or in bursts with a pause after each.

/// So many operations, a pause when the last of them has ended, and so on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bursts {
    burst: u64,
    delay_ns: u64,
    /// How many of this burst have not begun.
    left: u64,
    /// When this burst may begin.
    from_ns: u64,
}

impl Bursts {
    /// No delay: one burst without end.
    pub(super) fn new(burst: u64, delay_ns: u64) -> Self {
        let burst = if delay_ns == 0 { u64::MAX } else { burst.max(1) };
        Self { burst, delay_ns, left: burst, from_ns: 0 }
    }

    /// Whether an operation may begin now.
    pub(super) fn allow(&self, now_ns: u64) -> bool {
        self.left > 0 && now_ns >= self.from_ns
    }

    /// When the next one may begin, while none is under way.
    pub(super) fn begins_at_ns(&self) -> u64 {
        self.from_ns
    }

    /// One has begun.
    pub(super) fn begun(&mut self) {
        self.left = self.left.saturating_sub(1);
    }

    /// One has ended, and so many are under way still.
    pub(super) fn ended(&mut self, now_ns: u64, under_way: usize) {
        if self.left == 0 && under_way == 0 {
            self.left = self.burst;
            self.from_ns = now_ns.saturating_add(self.delay_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_follows_the_end_of_the_last_of_a_burst() {
        let mut bursts = Bursts::new(2, 1_000);
        for from in [0, 5_000 + 1_000] {
            assert!(bursts.allow(from) && bursts.begins_at_ns() == from);
            assert!(from == 0 || !bursts.allow(from - 1));
            bursts.begun();
            assert!(bursts.allow(from));
            bursts.begun();
            assert!(!bursts.allow(u64::MAX));
            // The first of two ends: no pause begins.
            bursts.ended(4_000, 1);
            assert!(!bursts.allow(u64::MAX));
            bursts.ended(5_000, 0);
        }
    }

    #[test]
    fn without_a_delay_there_is_no_pause() {
        let mut bursts = Bursts::new(1, 0);
        for _ in 0..1000 {
            assert!(bursts.allow(0));
            bursts.begun();
            bursts.ended(9, 0);
        }
    }
}
