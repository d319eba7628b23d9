//! What is stored of a run in parts, beside the runs that its parts are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::scenario::Scenario;

/// `parts.json`: a run whose scenario has parts. Each part is a run of its own, in the directory of its name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunInParts {
    /// [`SCHEMA_VERSION`](super::SCHEMA_VERSION) of the writer.
    pub schema_version: u32,
    /// Version of the vioperf that ran.
    pub vioperf_version: String,
    /// When the run began (RFC 3339, UTC).
    pub started_at: String,
    /// The command line.
    pub command_line: Vec<String>,
    /// Where the scenario came from: `built-in` or its file.
    pub scenario_origin: String,
    /// The scenario as it was written.
    pub scenario: Scenario,
    /// Its parts in their order.
    pub parts: Vec<PlannedPart>,
}

/// A part of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedPart {
    /// Its name, and its directory's.
    pub name: String,
    /// Its scenario as it is run, what was changed from outside and the scale applied.
    pub scenario: Scenario,
    /// What measures this part alone.
    pub command_line: Vec<String>,
    /// Why nothing of it can be had on this machine, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lacks: Option<String>,
}
