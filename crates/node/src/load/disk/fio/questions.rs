//! When fio is asked to tell of itself. Each answer is work for fio: a millisecond as a rule, a tenth of a second in an
//! emulated guest. So the longer answers take, the fewer are asked for.

use super::process::Process;
use crate::clock::monotonic_ns;

/// The shortest time from an answer to the next question.
const SHORTEST_PAUSE_NS: u64 = 100_000_000;
/// The part of its time that fio may spend on answers: one in so many, but for the answers that have to be.
const PAUSES_FOR_EACH: u64 = 50;
/// The longest pause, in percent of what is measured: two fit into it, so that the counts tell of most of it.
const LONGEST_PAUSE_PERCENT: u64 = 45;
/// Between two questions while nothing has ended yet.
const IMPATIENT_NS: u64 = 20_000_000;
/// How long an answer is waited for before it is asked for again.
const ASKED_AGAIN_NS: u64 = 2_000_000_000;

/// What was asked, and when to ask next.
#[derive(Debug)]
pub(super) struct Questions {
    workers: u16,
    hears: bool,
    asked_at_ns: Option<u64>,
    next_ns: u64,
    longest_pause_ns: u64,
    /// When what is measured begins, until there was an answer after it.
    from_ns: Option<u64>,
    has_begun: bool,
}

impl Questions {
    /// Of a load of so many workers that is measured for so long.
    pub(super) fn within(measured_ns: u64, workers: u16) -> Self {
        Self {
            workers,
            hears: false,
            asked_at_ns: None,
            next_ns: 0,
            longest_pause_ns: (measured_ns / 100 * LONGEST_PAUSE_PERCENT).max(SHORTEST_PAUSE_NS),
            from_ns: None,
            has_begun: false,
        }
    }

    /// Asks, where it is time to.
    pub(super) fn ask(&mut self, process: &Process) {
        self.hears = self.hears || process.hears(self.workers);
        let now = monotonic_ns();
        if self.hears && self.is_due(now) {
            process.ask_to_tell();
            self.asked_at_ns = Some(now);
        }
    }

    fn is_due(&self, now_ns: u64) -> bool {
        let is_lost = |at: u64| now_ns.saturating_sub(at) > ASKED_AGAIN_NS;
        self.asked_at_ns.map_or(now_ns >= self.next_ns, is_lost)
    }

    /// That operations end, and when what is measured of them begins: the first answer after that is wanted at once.
    pub(super) fn begin(&mut self, from_ns: u64) {
        self.has_begun = true;
        self.from_ns = Some(from_ns);
        self.next_ns = self.next_ns.min(from_ns);
    }

    /// Takes an answer that was heard then; gives when its numbers were counted: fio tells that by the clock of the wall, of
    /// which the age of the answer is taken.
    pub(super) fn answered(
        &mut self,
        heard_ns: u64,
        counted_unix_ms: u64,
        heard_unix_ms: u64,
    ) -> u64 {
        // The last answer is one that nobody asked for.
        let asked_at = self.asked_at_ns.take().unwrap_or(heard_ns);
        let took_ns = heard_ns.saturating_sub(asked_at);
        let pause =
            took_ns.saturating_mul(PAUSES_FOR_EACH).clamp(SHORTEST_PAUSE_NS, self.longest_pause_ns);
        self.next_ns = heard_ns.saturating_add(if self.has_begun { pause } else { IMPATIENT_NS });
        let age_ns = heard_unix_ms.saturating_sub(counted_unix_ms).saturating_mul(1_000_000);
        let counted_ns = heard_ns.saturating_sub(age_ns.min(took_ns));
        match self.from_ns {
            Some(from) if counted_ns < from => self.next_ns = self.next_ns.min(from),
            _ => self.from_ns = None,
        }
        counted_ns
    }

    /// How long to wait for something at most, in milliseconds.
    pub(super) fn tick_ms(&self) -> u16 {
        if !self.hears {
            return 5;
        }
        let until = self.next_ns.saturating_sub(monotonic_ns()) / 1_000_000;
        u16::try_from(until + 1).unwrap_or(u16::MAX).min(100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// After that many milliseconds it is answered, which took so long; when the next question is.
    fn next_after(questions: &mut Questions, now_ms: u64, took_ms: u64) -> u64 {
        questions.asked_at_ns = Some((now_ms - took_ms) * MS);
        questions.answered(now_ms * MS, now_ms, now_ms);
        questions.next_ns / MS
    }

    #[test]
    fn who_answers_slowly_is_asked_seldom_but_often_enough() {
        let mut questions = Questions::within(2_000 * MS, 1);
        assert!(questions.is_due(0));
        assert_eq!(next_after(&mut questions, 100, 1), 120, "nothing has ended yet");
        questions.begin(500 * MS);
        assert_eq!(next_after(&mut questions, 130, 1), 230);
        assert_eq!(next_after(&mut questions, 230, 4), 430);
        assert_eq!(next_after(&mut questions, 430, 4), 500, "the first that is measured");
        assert_eq!(next_after(&mut questions, 510, 4), 710);
        assert_eq!(
            next_after(&mut questions, 800, 100),
            1_700,
            "no longer, so that there are two more"
        );
    }

    #[test]
    fn an_answer_that_is_lost_is_asked_for_again() {
        let mut questions = Questions::within(2_000 * MS, 1);
        questions.asked_at_ns = Some(10 * MS);
        assert!(!questions.is_due(1_000 * MS));
        assert!(questions.is_due(2_100 * MS));
    }

    #[test]
    fn numbers_are_as_old_as_fio_says_but_no_older_than_the_question() {
        let mut questions = Questions::within(2_000 * MS, 1);
        for (counted, expected) in [(7_960, 960), (7_000, 900), (9_000, 1_000)] {
            questions.asked_at_ns = Some(900 * MS);
            assert_eq!(questions.answered(1_000 * MS, counted, 8_000), expected * MS);
        }
        // The last one: nobody asked.
        assert_eq!(questions.answered(1_000 * MS, 7_000, 8_000), 1_000 * MS);
    }
}
