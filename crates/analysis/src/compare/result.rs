//! What a comparison gives: `compare --format json`, and the input of every other format.

use schemars::JsonSchema;
use serde::Serialize;

use crate::result::{Finding, Interval, Summary};

/// Version of [`RunComparison`]. Raised when a reader of the older version would misread.
pub const COMPARISON_SCHEMA_VERSION: u32 = 1;

/// Two sides compared, cell by cell.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RunComparison {
    /// What has to be said before any number: that guests ran under software emulation.
    pub notice: Option<String>,
    /// [`COMPARISON_SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// How A and B were measured.
    pub design: DesignKind,
    /// What is compared with.
    pub a: Side,
    /// What is compared.
    pub b: Side,
    /// The verdict in plain sentences.
    pub summary: Vec<String>,
    /// How the test was done.
    pub test: TestFacts,
    /// What else differs between the two runs.
    pub changed: Vec<Change>,
    /// What stands against trusting the comparison, gravest first.
    pub doubts: Vec<Finding>,
    /// Every cell by every metric.
    pub rows: Vec<ComparedRow>,
}

/// How A and B were measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DesignKind {
    /// In one run, each block holding both: signs of whole blocks are flipped.
    Paired,
    /// In two runs: whole blocks are permuted.
    Separate,
}

/// One side of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Side {
    /// What it is called: the run's directory, or the variant.
    pub name: String,
    /// When the run began (RFC 3339, UTC).
    pub started_at: String,
    /// Its scenario.
    pub scenario: String,
    /// The vioperf that measured it.
    pub vioperf_version: String,
}

/// How the test was done.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TestFacts {
    /// The part of comparisons without any difference in which one may be told, all rows together.
    pub alpha: f64,
    /// Rows that were tested together; p-values and bounds are adjusted for so many.
    pub rows: usize,
    /// Arrangements of the blocks that were drawn where there were too many to take all.
    pub permutations: u32,
    /// Seed of what was drawn.
    pub seed: u64,
}

/// Something that differs between two runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Change {
    /// What (`vioperf`, `host kernel`, `scenario guest.vcpus`).
    pub what: String,
    /// In A; absent where A has none.
    pub a: Option<String>,
    /// In B; absent where B has none.
    pub b: Option<String>,
}

/// What can be said about a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// B is worse: told apart, and by more than the smallest difference that matters.
    Worse,
    /// B is better: likewise.
    Better,
    /// Told apart, but by less than matters.
    Negligible,
    /// No difference as large as matters.
    NoDifference,
    /// Neither can be said: the blocks scatter too much, or drift would explain it.
    Unclear,
    /// Neither can be said, of so few blocks whatever they show.
    TooFewBlocks,
    /// There is nothing to compare.
    NotComparable,
}

impl Verdict {
    /// Every verdict.
    pub const ALL: [Self; 7] = [
        Self::Worse,
        Self::Better,
        Self::Negligible,
        Self::NoDifference,
        Self::Unclear,
        Self::TooFewBlocks,
        Self::NotComparable,
    ];

    /// Its name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Worse => "worse",
            Self::Better => "better",
            Self::Negligible => "negligible",
            Self::NoDifference => "no-difference",
            Self::Unclear => "unclear",
            Self::TooFewBlocks => "too-few-blocks",
            Self::NotComparable => "not-comparable",
        }
    }

    /// Whether A and B were told apart by more than the smallest difference that matters.
    pub fn is_difference(self) -> bool {
        matches!(self, Self::Worse | Self::Better)
    }

    /// Whether nothing can be said.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Unclear | Self::TooFewBlocks | Self::NotComparable)
    }
}

/// A cell by a metric.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ComparedRow {
    /// The cell; of variants what they share.
    pub cell: String,
    /// The variant that B is, where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// Whether no guest is in its path.
    pub is_baseline: bool,
    /// The metric, as a path in a cell of `report --format json`.
    pub metric: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Whether more is better.
    pub higher_is_better: bool,
    /// The metric of A.
    pub a: Option<Summary>,
    /// The metric of B.
    pub b: Option<Summary>,
    /// Blocks of A that gave a value; of a paired design, pairs.
    pub blocks_a: usize,
    /// Blocks of B that gave a value; of a paired design, pairs.
    pub blocks_b: usize,
    /// B less A; absent where nothing is known.
    pub difference: Option<Difference>,
    /// The smallest difference that matters, in the unit of `difference`.
    pub smallest_difference: f64,
    /// What can be said.
    pub verdict: Verdict,
    /// Why it is no more than that, or what to do.
    pub reason: Option<String>,
    /// So many more blocks (of each run) of the same scatter would tell the smallest difference from
    /// none, where it is unclear.
    pub further_blocks: Option<usize>,
}

impl ComparedRow {
    /// What it is about: the cell, and the variant where there are several.
    pub fn name(&self) -> String {
        match &self.variant {
            Some(variant) => format!("{} {variant}", self.cell),
            None => self.cell.clone(),
        }
    }
}

/// What a difference is told in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DifferenceUnit {
    /// Percent of A.
    Percent,
    /// The metric's own unit.
    Unit,
}

/// B less A.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Difference {
    /// What it is told in.
    pub unit: DifferenceUnit,
    /// The difference: of a ratio that of the geometric means over blocks.
    pub value: f64,
    /// Its 95 % interval; between runs a drift from one to the next and the dependence of blocks are
    /// allowed for. Absent of too few blocks.
    pub interval_95: Option<Interval>,
    /// How often chance does as much somewhere among all rows. Absent of too few blocks.
    pub p_value: Option<f64>,
    /// No difference is larger than this, up or down, at `alpha` for all rows together; of a ratio a
    /// factor of 1 + x / 100 either way. Absent of too few blocks.
    pub no_larger_than: Option<f64>,
    /// Correlation of a block with the next, as it was allowed for.
    pub autocorrelation: Option<f64>,
}
