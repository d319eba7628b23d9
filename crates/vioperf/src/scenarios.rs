//! The built-in scenarios, and finding the scenario that a user names.

use std::borrow::Cow;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use vioperf_model::scenario::Scenario;
use vioperf_model::scenario_file::{self, Override, ScenarioFile};
use vioperf_model::suggest::nearest;

/// Name and text of every file in `scenarios/`.
const BUILT_IN: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/scenarios.rs"));

/// A scenario and where it came from.
pub struct Found {
    /// `built-in NAME`, or the file.
    pub origin: String,
    /// The scenario, `--set` applied; where it has parts as it was written.
    pub scenario: Scenario,
    /// The scenarios of its parts, `--set` applied.
    pub parts: Vec<Scenario>,
}

impl Found {
    /// Refuses a scenario that has parts, for what takes one measurement.
    ///
    /// # Errors
    /// Which of them can be named.
    pub fn single(self) -> Result<Self> {
        if self.parts.is_empty() {
            return Ok(self);
        }
        let names = self.parts.iter().map(|part| part.name.as_str()).collect::<Vec<_>>();
        bail!("{} has parts: name one of them ({})", self.scenario.name, names.join(", "))
    }
}

/// The built-in scenarios as they are.
pub fn built_in() -> Result<Vec<Found>> {
    BUILT_IN.iter().map(|(name, text)| read(&format!("built-in {name}"), text, &[])).collect()
}

/// Finds the scenario of that name, or in that file; `NAME/PART` is a part of it by itself.
pub fn find(name: &str, overrides: &[Override]) -> Result<Found> {
    if let Some((origin, text)) = text_of(name)? {
        return read(&origin, &text, overrides);
    }
    if let Some((whole, part)) = name.rsplit_once('/')
        && let Some((origin, text)) = text_of(whole)?
    {
        return read_part(&origin, &text, part, overrides);
    }
    let names = BUILT_IN.iter().map(|(name, _)| *name);
    let hint = nearest(name, names.clone())
        .map(|found| format!(", did you mean `{found}`?"))
        .unwrap_or_default();
    if name.ends_with(".toml") {
        bail!("cannot read the scenario file {name}: there is none; check its path");
    }
    bail!(
        "no scenario is called `{name}`{hint}; built in: {}; or name a .toml file",
        names.collect::<Vec<_>>().join(", ")
    );
}

/// The origin and the text of a scenario, where it is there.
fn text_of(name: &str) -> Result<Option<(String, Cow<'static, str>)>> {
    if let Some((_, text)) = BUILT_IN.iter().find(|(built_in, _)| *built_in == name) {
        return Ok(Some((format!("built-in {name}"), Cow::Borrowed(*text))));
    }
    if !Path::new(name).exists() {
        return Ok(None);
    }
    let text = fs::read_to_string(name)
        .with_context(|| format!("cannot read the scenario file {name}; check its path"))?;
    Ok(Some((name.to_owned(), Cow::Owned(text))))
}

fn read_part(origin: &str, text: &str, part: &str, overrides: &[Override]) -> Result<Found> {
    if let Some(scenario) = scenario_file::parse_part(origin, text, part, overrides)? {
        return Ok(Found { origin: origin.to_owned(), scenario, parts: Vec::new() });
    }
    let whole = scenario_file::parse(origin, text, &[])?;
    if whole.parts.is_empty() {
        bail!("{} has no parts, and so no part `{part}`: leave that out", whole.name);
    }
    let names: Vec<&str> = whole.parts.iter().map(|own| own.name.as_str()).collect();
    let hint = nearest(part, names.iter().copied())
        .map(|found| format!(", did you mean `{found}`?"))
        .unwrap_or_default();
    bail!("{} has no part `{part}`{hint}; its parts: {}", whole.name, names.join(", "))
}

fn read(origin: &str, text: &str, overrides: &[Override]) -> Result<Found> {
    let ScenarioFile { scenario, parts } = scenario_file::parse_file(origin, text, overrides)?;
    Ok(Found { origin: origin.to_owned(), scenario, parts })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_scenario_parses_and_bears_its_files_name() {
        let scenarios = built_in().unwrap();
        assert!(!scenarios.is_empty());
        for ((name, _), scenario) in BUILT_IN.iter().zip(&scenarios) {
            assert_eq!(*name, scenario.scenario.name);
        }
    }

    const TWO: &str = "name = \"two\"\nquestion = \"?\"\n[workload]\nkind = \"tcp-stream\"\n\
                       [[parts]]\nname = \"one\"\n[[parts]]\nname = \"other\"\n";

    #[test]
    fn a_part_can_be_named_by_itself() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("two.toml");
        fs::write(&file, TWO).unwrap();
        let name = file.to_str().unwrap();
        assert_eq!(find(name, &[]).unwrap().parts.len(), 2);
        let refused = find(name, &[]).unwrap().single().err().unwrap().to_string();
        assert!(refused.contains("two/one, two/other"), "{refused}");
        let part = find(&format!("{name}/other"), &[]).unwrap();
        assert_eq!((part.scenario.name.as_str(), part.parts.len()), ("two/other", 0));
        let message = find(&format!("{name}/othre"), &[]).err().unwrap().to_string();
        assert!(message.contains("did you mean `other`?"), "{message}");
    }

    #[test]
    fn a_mistyped_name_gets_the_nearest() {
        let message = find("nic-model", &[]).err().unwrap().to_string();
        assert!(message.contains("did you mean `nic-models`?"), "{message}");
    }
}
