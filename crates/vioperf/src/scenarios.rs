//! The built-in scenarios, and finding the scenario that a user names.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use vioperf_model::scenario::Scenario;
use vioperf_model::scenario_file::{self, Override};
use vioperf_model::suggest::nearest;

/// Name and text of every file in `scenarios/`.
const BUILT_IN: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/scenarios.rs"));

/// A scenario and where it came from.
pub struct Found {
    /// `built-in NAME`, or the file.
    pub origin: String,
    /// The scenario, `--set` applied.
    pub scenario: Scenario,
}

/// The built-in scenarios as they are.
pub fn built_in() -> Result<Vec<Scenario>> {
    BUILT_IN
        .iter()
        .map(|(name, text)| Ok(scenario_file::parse(&format!("built-in {name}"), text, &[])?))
        .collect()
}

/// Finds the scenario of that name, or in that file.
pub fn find(name: &str, overrides: &[Override]) -> Result<Found> {
    if let Some((_, text)) = BUILT_IN.iter().find(|(built_in, _)| *built_in == name) {
        let origin = format!("built-in {name}");
        let scenario = scenario_file::parse(&origin, text, overrides)?;
        return Ok(Found { origin, scenario });
    }
    if !name.ends_with(".toml") && !Path::new(name).exists() {
        let names = BUILT_IN.iter().map(|(name, _)| *name);
        let hint = nearest(name, names.clone())
            .map(|found| format!(", did you mean `{found}`?"))
            .unwrap_or_default();
        bail!(
            "no scenario is called `{name}`{hint}; built in: {}; or name a .toml file",
            names.collect::<Vec<_>>().join(", ")
        );
    }
    let text = fs::read_to_string(name)
        .with_context(|| format!("cannot read the scenario file {name}; check its path"))?;
    let scenario = scenario_file::parse(name, &text, overrides)?;
    Ok(Found { origin: name.to_owned(), scenario })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_scenario_parses_and_bears_its_files_name() {
        let scenarios = built_in().unwrap();
        assert!(!scenarios.is_empty());
        for ((name, _), scenario) in BUILT_IN.iter().zip(&scenarios) {
            assert_eq!(*name, scenario.name);
        }
    }

    #[test]
    fn a_mistyped_name_gets_the_nearest() {
        let message = find("nic-model", &[]).err().unwrap().to_string();
        assert!(message.contains("did you mean `nic-models`?"), "{message}");
    }
}
