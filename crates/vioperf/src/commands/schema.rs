//! `vioperf schema`.

use std::process::ExitCode;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, schema_for};
use vioperf_analysis::compare::result::RunComparison;
use vioperf_analysis::result::RunAnalysis;
use vioperf_model::calibration::Calibration;
use vioperf_model::record::{RunInParts, RunInfo, TrialRecord};
use vioperf_model::reference::Reference;
use vioperf_model::scenario::Scenario;

use crate::cli::{SchemaArgs, SchemaOf};
use crate::exit::Failure;
use crate::output::Output;
use crate::store::to_json;

/// Prints the schema.
pub fn execute(args: &SchemaArgs, output: &Output) -> Result<ExitCode, Failure> {
    output.result(&to_json(&schema_of(args.of))?)?;
    Ok(ExitCode::SUCCESS)
}

/// The schema.
pub fn schema_of(of: SchemaOf) -> Schema {
    match of {
        SchemaOf::Scenario => schema_for!(Scenario),
        SchemaOf::Run => schema_for!(RunInfo),
        SchemaOf::Parts => schema_for!(RunInParts),
        SchemaOf::Calibration => schema_for!(Calibration),
        SchemaOf::Trial => schema_for!(TrialRecord),
        SchemaOf::Report => written::<RunAnalysis>(),
        SchemaOf::Compare => written::<RunComparison>(),
        SchemaOf::Reference => schema_for!(Reference),
    }
}

/// Of what is only ever written: what is left out where it is empty is not required.
fn written<T: JsonSchema>() -> Schema {
    SchemaSettings::default().for_serialize().into_generator().into_root_schema_for::<T>()
}
