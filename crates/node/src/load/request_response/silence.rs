//! How long a peer may say nothing before it is taken for dead.

use std::time::Duration;

/// How long a call may sleep until it is looked whether the load shall stop.
pub(in crate::load) const TICK: Duration = Duration::from_millis(100);
/// After so long without a byte from the peer, though one was due, a stream is over: beyond five
/// retransmissions of TCP and 25 time-outs of UDP.
pub(in crate::load) const SILENCE: Duration = Duration::from_secs(5);

/// Counts the ticks in which a side that only answers heard nothing.
#[derive(Debug, Default)]
pub(in crate::load) struct Silence {
    heard_once: bool,
    ticks: u32,
}

impl Silence {
    pub(in crate::load) fn heard(&mut self) {
        self.heard_once = true;
        self.ticks = 0;
    }

    /// A tick went by. Whether it is too quiet: before the first word it never is, as the other
    /// side starts later.
    pub(in crate::load) fn too_long(&mut self) -> bool {
        self.ticks = self.ticks.saturating_add(1);
        self.heard_once && TICK * self.ticks >= SILENCE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_counts_from_the_last_word_but_not_before_the_first() {
        let mut silence = Silence::default();
        assert!((0..1000).all(|_| !silence.too_long()));
        silence.heard();
        assert!((0..49).all(|_| !silence.too_long()));
        silence.heard();
        assert!((0..49).all(|_| !silence.too_long()));
        assert!(silence.too_long());
    }
}
