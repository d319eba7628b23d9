//! References: figures that somebody published, or a run of one's own, as they are set beside later runs.
//! What is printed is kept as it is printed; how it is compared is said beside it.

mod checks;
mod unit;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

pub use checks::ReferenceError;
pub use unit::{Counted, in_base_units};

/// Version of the schema. Raised when a reader of the older version would misread.
pub const REFERENCE_SCHEMA_VERSION: u32 = 1;

/// Figures that others are set beside: one article's, or one run's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// [`REFERENCE_SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// Its name: letters, digits, `-`, `_` and `.`; also the file's, without `.json`.
    pub name: String,
    /// Title of the source, as printed.
    pub title: String,
    /// The year of the figures.
    pub year: u16,
    /// Whether the source does not tell the year itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub year_is_inferred: bool,
    /// Who made them; absent where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// Where they can be read; absent where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// What they were measured on, as printed.
    pub hardware: Vec<String>,
    /// Versions of what was measured, as printed.
    pub versions: Vec<String>,
    /// What has to be known to read them, known defects too.
    #[serde(default)]
    pub notes: Vec<String>,
    /// What each figure was measured on, by a short name.
    #[serde(default)]
    pub platforms: BTreeMap<String, String>,
    /// The machines, so far as they are named.
    #[serde(default)]
    pub machines: Vec<Machine>,
    /// The figures.
    pub figures: Vec<Figure>,
}

/// A machine that figures name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// What figures call it.
    pub name: String,
    /// What it was (`host`, `guest`, `remote`, `disk`).
    pub role: String,
    /// As it is described.
    pub about: String,
    /// How many cores it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    /// How many the source says it has, where that is another number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores_printed: Option<u32>,
}

/// What a figure is.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum FigureKind {
    /// Read from an instrument.
    Measurement,
    /// Said, without the numbers that it is from.
    Claim,
    /// A measurement that is told again.
    Restated,
    /// How something was set up.
    Setting,
    /// Computed.
    Theory,
}

/// One figure, as printed, with what it takes to compare it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Its name, another one for each figure of a reference.
    pub id: String,
    /// What it is.
    pub kind: FigureKind,
    /// The measurement that it is of: figures of one row were read at the same time.
    pub row: String,
    /// The table that it is of: figures of one series are ranked among each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<String>,
    /// What it was measured on: a key of [`Reference::platforms`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<String>,
    /// The machine that sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The machine that received, or the disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The kind of load, as scenarios name it; absent where no scenario has such a load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<String>,
    /// Whether no guest was in the path.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_baseline: bool,
    /// What tells it from the other figures, by the names that scenarios have for it (`nic`, `streams`,
    /// `far_end`); a list is any of its values. A cell is compared with it if it has all of them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub setting: BTreeMap<String, Value>,
    /// What held for all of them, by the same names: a cell that differs in it is compared, and the
    /// difference told.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub circumstances: BTreeMap<String, Value>,
    /// The metric of a cell that it is compared with, by its name in exports; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    /// What it is called where it is printed.
    pub printed_metric: String,
    /// Its unit, as printed.
    pub unit: String,
    /// Every repetition, as printed; null where a word stands in place of a number.
    pub values: Vec<Option<Number>>,
    /// The mean of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<Number>,
    /// Whether that was `printed`, `computed` from the values, or is the `single value`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_source: Option<String>,
    /// The figures by whose mean it is divided: of the same without a guest, or of what it is to be
    /// held against.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub divided_by: Vec<String>,
    /// Whether it is such a quotient itself, in percent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_percent_of_baseline: bool,
    /// How many repetitions the source promises.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<u32>,
    /// How busy machines were meanwhile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpu: Vec<CpuReading>,
    /// What else is printed of it.
    #[serde(default, skip_serializing_if = "AsPrinted::is_empty")]
    pub printed: AsPrinted,
}

/// How busy a machine was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CpuReading {
    /// The machine.
    pub machine: String,
    /// Its cores that are told of, one number each, in percent.
    pub percent_of_core: Vec<Number>,
}

/// What is printed of a figure's set-up, in the words of the source.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AsPrinted {
    /// The NIC, or its model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nic_model: Option<String>,
    /// Its driver's version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver_version: Option<String>,
    /// What was behind it on the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// MTU, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// The program that measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// How it was called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// How long it measured, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_s: Option<Number>,
    /// The protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Which way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<String>,
    /// Parallel connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<u32>,
    /// Payload of a datagram, or a disk operation, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_bytes: Option<u64>,
}

impl AsPrinted {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Reference {
    /// Reads one from JSON, and holds it against itself.
    ///
    /// # Errors
    /// What cannot be read, by line and column, or everything that contradicts itself.
    pub fn parse(text: &str) -> Result<Self, ReferenceError> {
        let reference: Self =
            serde_json::from_str(text).map_err(|error| checks::unreadable(&error))?;
        reference.check()?;
        Ok(reference)
    }

    /// The figure of that name.
    pub fn figure(&self, id: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.id == id)
    }

    /// The machine of that name.
    pub fn machine(&self, name: &str) -> Option<&Machine> {
        self.machines.iter().find(|machine| machine.name == name)
    }

    /// What a figure is divided by: the mean of the figures that it names, in base units; absent where it names none.
    pub fn divisor_of(&self, figure: &Figure) -> Option<f64> {
        let means: Vec<f64> = figure
            .divided_by
            .iter()
            .map(|id| self.figure(id).and_then(Figure::base_mean))
            .collect::<Option<_>>()?;
        let mean = means.iter().sum::<f64>() / means.len() as f64;
        (mean.is_finite() && mean > 0.0).then_some(mean)
    }

    /// A figure in percent of what it is divided by; absent where there is no such thing.
    pub fn percent_of(&self, figure: &Figure) -> Option<f64> {
        if figure.is_percent_of_baseline {
            return figure.mean();
        }
        Some(100.0 * figure.base_mean()? / self.divisor_of(figure)?)
    }
}

impl Figure {
    /// Its repetitions that are numbers.
    pub fn numbers(&self) -> Vec<f64> {
        self.values.iter().flatten().filter_map(Number::as_f64).collect()
    }

    /// The same in the base unit of what is counted (bits a second, µs); of a unit that is not known, as printed.
    pub fn base_numbers(&self) -> Vec<f64> {
        let factor = in_base_units(&self.unit).map_or(1.0, |(_, factor)| factor);
        self.numbers().into_iter().map(|number| number * factor).collect()
    }

    /// Mean of those.
    pub fn base_mean(&self) -> Option<f64> {
        let numbers = self.base_numbers();
        let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
        mean.is_finite().then_some(mean)
    }

    /// Whether it cannot be: no rate or size is below zero, and a time not even zero.
    pub fn is_impossible(&self) -> bool {
        let is_time =
            in_base_units(&self.unit).is_some_and(|(counted, _)| counted == Counted::Microseconds);
        let cannot_be = |number: &f64| *number < 0.0 || (is_time && *number == 0.0);
        self.metric.is_some() && self.numbers().iter().any(cannot_be)
    }

    /// Mean of its repetitions, as printed.
    pub fn mean(&self) -> Option<f64> {
        let numbers = self.numbers();
        let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
        mean.is_finite().then_some(mean)
    }

    /// The values with their unit, as printed.
    pub fn as_printed(&self) -> String {
        let values = self.values.iter().map(|value| match value {
            Some(number) => number.to_string(),
            None => "no number".to_owned(),
        });
        format!("{} {}", values.collect::<Vec<_>>().join(", "), self.unit)
    }
}
