//! The scale of a scenario: all its durations multiplied alike.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Scenario;
use crate::units::TimeSpan;

/// What durations are multiplied by: `0.02` or `"1/60"`. Kept in parts of a thousand million.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scale(u64);

const WHOLE: u64 = 1_000_000_000;

/// No trial is made shorter than this, unless it was: a few moments of a path say nothing about it.
pub const LEAST_DURATION: TimeSpan = TimeSpan::from_millis(200);
/// The same of a warm-up: a connection has to find its pace.
pub const LEAST_WARMUP: TimeSpan = TimeSpan::from_millis(100);

/// A scale that cannot be meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no scale: write it like 0.02 or \"1/60\", from 0.0001 to 100")]
pub struct ScaleError(String);

impl Scale {
    /// As a number.
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / WHOLE as f64
    }

    fn of(number: f64) -> Option<Self> {
        let is_meant = (0.0001..=100.0).contains(&number);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // checked just above
        is_meant.then(|| Self((number * WHOLE as f64).round() as u64))
    }

    /// A span multiplied, but not below `least` where it was not.
    fn applied_to(self, span: TimeSpan, least: TimeSpan) -> TimeSpan {
        let micros = (span.as_seconds() * self.as_f64() * 1e6).round();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        // spans are up to 30 days
        let scaled = TimeSpan::from_micros(micros as u64);
        scaled.max(span.min(least))
    }
}

impl FromStr for Scale {
    type Err = ScaleError;

    fn from_str(text: &str) -> Result<Self, ScaleError> {
        let number = |text: &str| text.trim().parse::<f64>().ok();
        let value = match text.split_once('/') {
            Some((above, below)) => number(above).zip(number(below)).map(|(a, b)| a / b),
            None => number(text),
        };
        value.and_then(Self::of).ok_or_else(|| ScaleError(text.to_owned()))
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.as_f64().to_string())
    }
}

impl Serialize for Scale {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.as_f64())
    }
}

impl<'de> Deserialize<'de> for Scale {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScaleVisitor)
    }
}

struct ScaleVisitor;

impl serde::de::Visitor<'_> for ScaleVisitor {
    type Value = Scale;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number such as 0.02, or a fraction such as \"1/60\"")
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Scale, E> {
        Scale::of(number).ok_or_else(|| E::custom(ScaleError(number.to_string())))
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Scale, E> {
        self.visit_f64(number as f64)
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Scale, E> {
        self.visit_f64(number as f64)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Scale, E> {
        text.parse().map_err(E::custom)
    }
}

impl schemars::JsonSchema for Scale {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Scale".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": ["number", "string"] })
    }
}

impl Scenario {
    /// The scenario with its scale applied to every duration: of trials and their warm-ups, also where these are
    /// varied, of probes, and the budget. Only for one whose durations are still as they were written.
    #[must_use]
    pub(crate) fn scaled(mut self) -> Self {
        let Some(scale) = self.scale else { return self };
        let workload = &mut self.workload;
        workload.duration = scale.applied_to(workload.duration, LEAST_DURATION);
        workload.warmup = scale.applied_to(workload.warmup, LEAST_WARMUP);
        for (path, least) in [("duration", LEAST_DURATION), ("warmup", LEAST_WARMUP)] {
            self.factors.map_levels(crate::section::SectionName::Workload, path, |level| {
                let span = level.as_str().and_then(|text| text.parse::<TimeSpan>().ok());
                span.map(|span| Value::from(scale.applied_to(span, least).to_string()))
            });
        }
        let budget = self.repeat.budget;
        self.repeat.budget =
            budget.map(|span| scale.applied_to(span, TimeSpan::from_millis(1_000)));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario_file;

    const TEXT: &str = "name = \"s\"\nquestion = \"q\"\nscale = \"1/60\"\n[workload]\nkind = \"tcp-stream\"\n\
                        duration = \"60 s\"\nwarmup = \"5 s\"\n[repeat]\nbudget = \"10m\"\n";

    fn scenario(set: &[&str]) -> Scenario {
        let set: Vec<_> = set.iter().map(|set| set.parse().unwrap()).collect();
        scenario_file::parse("s", TEXT, &set).unwrap()
    }

    #[test]
    fn all_durations_are_multiplied_and_none_is_too_short() {
        let scaled = scenario(&[]);
        assert_eq!(scaled.workload.duration, TimeSpan::from_millis(1000));
        assert_eq!(scaled.workload.warmup, LEAST_WARMUP);
        assert_eq!(scaled.repeat.budget, Some(TimeSpan::from_millis(10_000)));
        let tiny = scenario(&["scale=0.001", "workload.warmup=20ms"]);
        assert_eq!(tiny.workload.duration, LEAST_DURATION);
        assert_eq!(tiny.workload.warmup, TimeSpan::from_millis(20));
        let longer = scenario(&["scale=2"]);
        assert_eq!(longer.workload.duration, TimeSpan::from_millis(120_000));
    }

    #[test]
    fn a_scale_is_a_number_or_a_fraction() {
        for (text, number) in [("0.02", 0.02), ("1/60", 1.0 / 60.0), ("1", 1.0)] {
            let scale: Scale = text.parse().unwrap();
            assert!((scale.as_f64() - number).abs() < 1e-9, "{text}");
            assert_eq!(
                serde_json::from_str::<Scale>(&serde_json::to_string(&scale).unwrap()).unwrap(),
                scale
            );
        }
        for text in ["0", "-1", "1/0", "x", "1e9", "nan"] {
            assert!(text.parse::<Scale>().is_err(), "{text}");
        }
    }
}
