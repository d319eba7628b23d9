//! What a rate search looks for, and how well it has to know it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::levels::Levels;
use crate::units::{Ratio, TimeSpan};

/// A search for the highest rates at which no more is lost than the goals allow: MLRsearch
/// (draft-ietf-bmwg-mlrsearch). It is made of probes: short loads at one rate each, which the draft
/// calls trials.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Search {
    /// Losses that are allowed, each a goal of its own, four at most: none for the non-drop rate (NDR), some for a
    /// partial-drop rate (PDR). The one that allows most is what paths are ranked by.
    #[serde(skip_serializing_if = "Levels::is_empty")]
    #[schemars(extend("x-absent" = "`[\"0 %\", \"0.5 %\"]`"))]
    pub loss_goals: Levels<Ratio>,
    /// How far apart the rates may be at the end of which one was proved good and one bad, in percent of the higher
    /// one; less than the loss goals makes no sense.
    #[schemars(extend("x-absent" = "1 %"))]
    pub width: Ratio,
    /// How long the probes take that count in the end.
    #[schemars(extend("x-absent" = "1 s"))]
    pub probe_duration: TimeSpan,
    /// How long the probes take by which the search gets near.
    #[schemars(extend("x-absent" = "200 ms"))]
    pub first_probe_duration: TimeSpan,
    /// For how long a rate is probed, all its probes together, until it is decided.
    #[schemars(extend("x-absent" = "3 s"))]
    pub probe_time: TimeSpan,
    /// The part of that time in which a good rate may lose more than its goal allows.
    #[schemars(extend("x-absent" = "50 %"))]
    pub exceed_ratio: Ratio,
    /// How long after a probe late datagrams are waited for; what comes later is lost.
    #[schemars(extend("x-absent" = "100 ms"))]
    pub drain: TimeSpan,
    /// Datagrams a second that every path has to carry: one that loses too many of them is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "a hundredth of the highest rate"))]
    pub min_rate: Option<u32>,
    /// The highest rate of datagrams a second that is tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-absent" = "what the sender can send"))]
    pub max_rate: Option<u32>,
}

impl Default for Search {
    fn default() -> Self {
        Self {
            loss_goals: Levels::default(),
            width: Ratio::from_ppm(10_000),
            probe_duration: TimeSpan::from_millis(1_000),
            first_probe_duration: TimeSpan::from_millis(200),
            probe_time: TimeSpan::from_millis(3_000),
            exceed_ratio: Ratio::from_ppm(500_000),
            drain: TimeSpan::from_millis(100),
            min_rate: None,
            max_rate: None,
        }
    }
}

impl Search {
    /// Whether nothing was asked for.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The losses that are allowed, ascending: 0 and 0.5 % where nothing is asked for.
    pub fn goals(&self) -> Vec<Ratio> {
        let mut goals = match self.loss_goals.as_slice() {
            [] => vec![Ratio::from_ppm(0), Ratio::from_ppm(5_000)],
            goals => goals.to_vec(),
        };
        goals.sort_unstable();
        goals
    }

    /// What contradicts itself, by key. `budget` is the time that the whole search may take.
    pub(super) fn check(
        &self,
        budget: TimeSpan,
        check: &mut impl FnMut(bool, &'static str, String),
    ) {
        let goals = self.goals();
        check(
            goals.len() > MOST_GOALS || goals.last().is_some_and(|goal| goal.as_f64() >= 1.0),
            "workload.search.loss_goals",
            format!("give 1 to {MOST_GOALS} goals, each below 100 %"),
        );
        check(
            self.loss_goals.repeated().is_some(),
            "workload.search.loss_goals",
            "a goal is listed twice".into(),
        );
        check(
            !(0.000_1..=0.5).contains(&self.width.as_f64()),
            "workload.search.width",
            format!("{} is not between 0.01 % and 50 %", self.width),
        );
        check(
            self.exceed_ratio.as_f64() > 0.9,
            "workload.search.exceed_ratio",
            format!(
                "{} is more than 90 %: such a rate would not be called good",
                self.exceed_ratio
            ),
        );
        for (key, span) in [
            ("workload.search.probe_duration", self.probe_duration),
            ("workload.search.first_probe_duration", self.first_probe_duration),
        ] {
            check(
                !(SHORTEST_PROBE..=LONGEST_PROBE).contains(&span),
                key,
                format!("{span} is not between {SHORTEST_PROBE} and {LONGEST_PROBE}"),
            );
        }
        check(
            self.probe_time < self.probe_duration,
            "workload.search.probe_time",
            format!("{} is less than one probe takes ({})", self.probe_time, self.probe_duration),
        );
        check(
            self.drain > TimeSpan::from_millis(10_000),
            "workload.search.drain",
            format!("{} is more than the 10 s that datagrams are waited for", self.drain),
        );
        let least = self.probe_time.as_seconds() * 2.0;
        check(
            budget.as_seconds() < least,
            "workload.duration",
            format!(
                "{budget} is all the time that the search may take, but to prove one good and one bad \
                 rate takes {least} s (twice workload.search.probe_time): give 30s or more"
            ),
        );
        check(
            self.min_rate == Some(0) || self.max_rate == Some(0),
            "workload.search.max_rate",
            "a rate is at least 1 datagram a second".into(),
        );
        let (least, most) = (self.min_rate.unwrap_or(1), self.max_rate.unwrap_or(u32::MAX));
        check(
            least > most,
            "workload.search.min_rate",
            format!("{least} is more than workload.search.max_rate ({most})"),
        );
    }
}

const MOST_GOALS: usize = 4;
const SHORTEST_PROBE: TimeSpan = TimeSpan::from_millis(200);
const LONGEST_PROBE: TimeSpan = TimeSpan::from_millis(120_000);
