//! What a comparison with a reference gives.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use vioperf_model::plan::CellId;

use crate::result::Summary;
use crate::sanity::ReferenceDefect;

/// A run beside a reference: ratios and rankings. Rates of other machines, years and versions are
/// told, and not compared.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct BesideReference {
    /// The reference's name.
    pub name: String,
    /// The title of its source.
    pub title: String,
    /// Its year.
    pub year: u16,
    /// Whether the source does not tell the year itself.
    pub year_is_inferred: bool,
    /// What it was measured on.
    pub hardware: Vec<String>,
    /// Versions there.
    pub versions: Vec<String>,
    /// The same of this run.
    pub own_hardware: Vec<String>,
    /// Versions of this run.
    pub own_versions: Vec<String>,
    /// What has to be known of it.
    pub notes: Vec<String>,
    /// Figures that cells of this run have the setting of.
    pub figures: Vec<FigureBeside>,
    /// What is ranked there and here by one factor.
    pub rankings: Vec<RankingBeside>,
    /// Why the other figures are not compared, and how many.
    pub not_compared: BTreeMap<String, u32>,
    /// What in the reference cannot be, of those figures that are compared.
    pub impossible: Vec<ReferenceDefect>,
}

/// Whether what was measured here is what was published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Agreement {
    /// It is.
    Agrees,
    /// It is something else.
    Differs,
    /// The intervals are too wide, or there are none.
    NotTold,
}

/// A figure and a cell that has its setting.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FigureBeside {
    /// The figure.
    pub figure: String,
    /// The cell.
    pub cell: CellId,
    /// The metric, by its name in exports.
    pub metric: String,
    /// The values with their unit, as printed.
    pub published: String,
    /// What both are divided by (`baseline`, or another cell).
    pub divided_by: String,
    /// The published figure, in percent of that.
    pub published_percent: f64,
    /// Every repetition of it, in percent of the mean of that.
    pub published_percents: Vec<f64>,
    /// The cell, in percent of its own, block by block.
    pub own_percent: Summary,
    /// The same of each block.
    pub own_percents: Vec<f64>,
    /// Whether the published repetitions reach into the interval of the own.
    pub agreement: Agreement,
    /// In what the cell differs from how the figure was measured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub otherwise: Vec<String>,
    /// What of the figure, or what it is divided by, cannot be.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
}

/// Figures that differ in one factor, in their order there and here.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RankingBeside {
    /// The metric, by its name in exports.
    pub metric: String,
    /// The factor (`nic`).
    pub factor: String,
    /// What they have in common, as in cells' names.
    pub common: String,
    /// Best first, as published.
    pub published: Vec<RankedFigure>,
    /// Best first, as measured here.
    pub own: Vec<RankedCell>,
    /// Whether the orders agree: two that the intervals do not tell apart are not held against it.
    pub agreement: Agreement,
    /// Pairs in the order there that was not told here, or not there.
    pub not_told: u32,
    /// Pairs that are in an order there, and cannot be told apart here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub untold: Vec<Untold>,
    /// Pairs that are the other way round.
    pub reversed: Vec<Reversed>,
}

/// A place in a published ranking.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RankedFigure {
    /// The figure.
    pub figure: String,
    /// Its level of the factor.
    pub level: String,
    /// The values with their unit, as printed.
    pub published: String,
    /// Whether the repetitions of the next do not reach into its own.
    pub is_told_from_next: bool,
}

/// A place in the own ranking.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RankedCell {
    /// The cell.
    pub cell: CellId,
    /// Its level of the factor.
    pub level: String,
    /// The metric, in its own unit.
    pub mean: f64,
    /// Whether the next is told apart from it.
    pub is_told_from_next: bool,
}

/// Two that cannot be told apart here.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Untold {
    /// The better one as published.
    pub better_there: CellId,
    /// The other.
    pub other: CellId,
    /// The former in percent of the latter, as measured here; absent where no block has both.
    pub own_percent: Option<Summary>,
    /// What limits both alike, and the findings of this run that make such intervals wide or say that they differ
    /// elsewhere; empty where there are none.
    pub why: Vec<Reason>,
}

/// Two that are the other way round here.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Reversed {
    /// The better one as published.
    pub better_there: CellId,
    /// The better one here.
    pub better_here: CellId,
    /// The former in percent of the latter, as measured here.
    pub own_percent: Summary,
    /// The findings of this run that say why; empty where none does.
    pub why: Vec<Reason>,
}

/// A finding or a limit of this run that may say why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Reason {
    /// The rule: a stable name.
    pub rule: String,
    /// The cell that it is of; absent where it is of the whole run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cell: Option<CellId>,
    /// What was found.
    pub title: String,
}
