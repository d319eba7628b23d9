//! The search for the highest rate that loses no more than a goal: MLRsearch
//! (draft-ietf-bmwg-mlrsearch, which builds on RFC 2544, section 26.1, and RFC 8219, section 7.1).
//!
//! A *probe* is a short load at one rate; the draft calls it a trial, which is something else here.
//! [`Search`] says what to probe next, [`proved`] what the probes prove, goal by goal: the relevant
//! upper bound is the lowest rate that was proved bad, the relevant lower bound the highest rate below
//! that was proved good. Both are pure: the conductor asks the one while it searches, the analysis the
//! other whenever a report is made.

mod bounds;
mod next;
#[cfg(test)]
mod simulated;

use vioperf_model::record::SearchRecord;
use vioperf_model::workload;

use crate::window::Reading;

pub use bounds::{Bound, Bounds, bounds, is_short_of_sending, loss_ratio};
pub use next::{Ask, Search};

/// What is searched for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Goal {
    /// The part of the datagrams that may be lost.
    pub loss_ratio: f64,
    /// How long a probe is that counts in full.
    pub probe_seconds: f64,
    /// For how long a rate is probed at most until it is decided.
    pub sum_seconds: f64,
    /// The part of that in which a good rate may lose more.
    pub exceed_ratio: f64,
    /// How far apart the bounds may be, as a part of the upper one.
    pub width: f64,
}

impl Goal {
    /// Those of a workload, by ascending loss.
    pub fn all(search: &workload::Search) -> Vec<Self> {
        let goal = |loss_ratio: f64| Self {
            loss_ratio,
            probe_seconds: search.probe_duration.as_seconds(),
            sum_seconds: search.probe_time.as_seconds(),
            exceed_ratio: search.exceed_ratio.as_f64(),
            width: search.width.as_f64(),
        };
        search.goals().iter().map(|ratio| goal(ratio.as_f64())).collect()
    }

    /// `NDR`, or `PDR 0.5 %`.
    pub fn name(&self) -> String {
        if self.loss_ratio == 0.0 {
            return "NDR".into();
        }
        // As it was asked for, in parts of a thousand million.
        format!("PDR {} %", (self.loss_ratio * 1e9).round() / 1e7)
    }

    /// Whether bounds are as near to each other as they have to be.
    fn is_reached(&self, lower: u64, upper: u64) -> bool {
        upper <= lower.saturating_add(1)
            || upper.saturating_sub(lower) as f64 <= self.width * upper as f64
    }
}

/// What a search has proved of one goal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Proved {
    /// The goal.
    pub goal: Goal,
    /// The bounds.
    pub bounds: Bounds,
    /// Why the search went no further.
    pub end: End,
}

impl Proved {
    /// The highest rate that was proved good, in datagrams a second.
    ///
    /// # Errors
    /// When there is none.
    pub fn lower_bound(&self) -> Reading {
        let lower = self.bounds.lower.map(|bound| bound.per_second as f64);
        lower.ok_or_else(|| match self.end {
            End::LosesAtMinRate { .. } => "the path loses too much even at the lowest rate".into(),
            _ => "the time for the search was over before a rate was proved good".into(),
        })
    }

    /// The lowest rate that was proved bad.
    ///
    /// # Errors
    /// When there is none.
    pub fn upper_bound(&self) -> Reading {
        let upper = self.bounds.upper.map(|bound| bound.per_second as f64);
        upper.ok_or_else(|| match self.end {
            End::MaxRate => "the highest rate that was tried is good".into(),
            _ => "the time for the search was over before a rate was proved bad".into(),
        })
    }

    /// What typically arrives at the lower bound: conditional throughput.
    ///
    /// # Errors
    /// As [`Self::lower_bound`].
    pub fn throughput(&self) -> Reading {
        self.lower_bound()?;
        let lower = self.bounds.lower.map(|bound| bound.throughput_per_second);
        lower.ok_or_else(|| "no rate was proved good".into())
    }
}

/// Why a search went no further.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum End {
    /// The bounds are as near to each other as was asked for, and it is the path that loses beyond.
    Reached,
    /// The same, but beyond it is the sender that cannot send at the rate.
    SenderIsTheLimit,
    /// The highest rate that was to be tried is good.
    MaxRate,
    /// Even the lowest rate is bad: such a path has no rate to be found.
    LosesAtMinRate {
        /// The median loss there, as a part of what was sent.
        loss_ratio: f64,
    },
    /// The time for the search was over.
    OutOfTime,
}

impl End {
    /// In a few words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reached => "reached",
            Self::SenderIsTheLimit => "the sender is the limit",
            Self::MaxRate => "good at the highest rate",
            Self::LosesAtMinRate { .. } => "loses at the lowest rate",
            Self::OutOfTime => "out of time",
        }
    }
}

/// What the probes of a search prove, goal by goal.
pub fn proved(search: &workload::Search, record: &SearchRecord) -> Vec<Proved> {
    Goal::all(search).into_iter().map(|goal| of_goal(goal, record)).collect()
}

fn of_goal(goal: Goal, record: &SearchRecord) -> Proved {
    let bounds = bounds(&goal, &record.probes);
    let end = match (bounds.lower, bounds.upper) {
        (None, Some(upper)) if upper.per_second <= record.min_rate => {
            End::LosesAtMinRate { loss_ratio: upper.loss_ratio }
        }
        (Some(lower), Some(upper)) if goal.is_reached(lower.per_second, upper.per_second) => {
            if upper.sender_is_short {
                End::SenderIsTheLimit
            } else {
                End::Reached
            }
        }
        (Some(lower), None) if lower.per_second >= record.max_rate => End::MaxRate,
        _ => End::OutOfTime,
    };
    Proved { goal, bounds, end }
}
