//! What the rules found, and trials that do not count.

use schemars::JsonSchema;
use serde::Serialize;
use vioperf_model::plan::CellId;

/// How grave a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Something is missing or wrong.
    Warning,
    /// Numbers may mean less than they seem to.
    Doubt,
    /// Good to know: a bottleneck, a property.
    Note,
}

/// A bottleneck or a doubt, with its evidence and what follows.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Finding {
    /// The rule that found it: a stable name.
    pub rule: String,
    /// How grave it is.
    pub severity: Severity,
    /// The cells it is about; empty when it is about the run.
    pub cells: Vec<CellId>,
    /// What was found.
    pub title: String,
    /// From what.
    pub evidence: String,
    /// What to do.
    pub advice: String,
    /// What it is to be seen in, of the cells where it is clearest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pictures: Vec<Picture>,
}

/// The raw values that a finding was made from, to be drawn small.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Picture {
    /// The cell.
    pub cell: CellId,
    /// What the values are in the order of.
    pub by: PictureOrder,
    /// In the unit of the cell's headline metric.
    pub values: Vec<f64>,
    /// The places of those that the finding is about, from 0.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub marked: Vec<usize>,
    /// The smallest and the largest value with their unit.
    pub range: String,
}

/// What the values of a picture are in the order of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PictureOrder {
    /// One a trial, in the order of the run.
    Block,
    /// One a tenth of the window.
    TenthOfTrial,
}

/// A trial that does not count.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct VoidTrial {
    /// Its position in the run.
    pub sequence: u32,
    /// Its block.
    pub block: u32,
    /// Its cell.
    pub cell: CellId,
    /// Which attempt it was.
    pub attempt: u32,
    /// Why.
    pub reason: String,
    /// The last lines of the guest's console.
    pub console_tail: Vec<String>,
}
