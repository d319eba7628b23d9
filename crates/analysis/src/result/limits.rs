//! What limits a cell.

use schemars::JsonSchema;
use serde::Serialize;

/// How sure it is that a cell is limited by what was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Confidence {
    /// A counter says so itself.
    Certain,
    /// Several signs agree, and none speaks against it.
    Likely,
    /// Something speaks for it; look there first.
    Possible,
}

impl std::fmt::Display for Confidence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Certain => "certain",
            Self::Likely => "likely",
            Self::Possible => "possible",
        })
    }
}

/// What limits a cell, with the evidence of one of its trials and what follows.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Limit {
    /// The rule that found it: a stable name.
    pub rule: String,
    /// How sure.
    pub confidence: Confidence,
    /// What was found, in a sentence.
    pub title: String,
    /// From what, of the trial in the middle of those that show it.
    pub evidence: Vec<Fact>,
    /// What to do.
    pub advice: String,
    /// Trials that show it.
    pub trials_seen: u32,
    /// Trials that were looked at.
    pub trials: u32,
}

/// A counter or a setting that speaks for a limit.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Fact {
    /// Where it was read (`guest`, `peer`, `host`).
    pub place: String,
    /// What it is; of a counter the name that its own tool gives it.
    pub what: String,
    /// What it was, with its unit.
    pub value: String,
    /// Over how long a counter grew so, in seconds; absent for a setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}
