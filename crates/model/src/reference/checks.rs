//! What a reference says that contradicts itself. Whether its numbers can be is another question.

use std::collections::BTreeSet;
use std::fmt;

use super::{REFERENCE_SCHEMA_VERSION, Reference};
use crate::suggest::nearest;

/// Why a reference cannot be used: every problem, one a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReferenceError(Vec<String>);

impl fmt::Display for ReferenceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl std::error::Error for ReferenceError {}

/// What the parser says: it tells line and column itself.
pub(super) fn unreadable(error: &serde_json::Error) -> ReferenceError {
    ReferenceError(vec![format!(
        "{error}; `vioperf schema reference` has what a reference is made of"
    )])
}

/// The longest name of a file that every file system takes, with room for `.json`.
const LONGEST_NAME: usize = 100;

/// Whether a reference can be called that: its file is.
pub(super) fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.is_empty()
        && name.len() <= LONGEST_NAME
        && !name.starts_with(['.', '-'])
        && name.chars().all(plain)
}

impl Reference {
    /// Whether `name` can be a reference's.
    ///
    /// # Errors
    /// In words, what it may be made of.
    pub fn check_name(name: &str) -> Result<(), ReferenceError> {
        if is_name(name) {
            return Ok(());
        }
        Err(ReferenceError(vec![format!(
            "`{name}` cannot be the name of a reference: use letters, digits, -, _ and ., {LONGEST_NAME} at most, the \
             first a letter or a digit"
        )]))
    }

    /// Holds it against itself.
    pub(super) fn check(&self) -> Result<(), ReferenceError> {
        let mut found = Vec::new();
        if self.schema_version > REFERENCE_SCHEMA_VERSION {
            found.push(format!(
                "it was written by a newer vioperf (schema version {}, this one reads up to \
                 {REFERENCE_SCHEMA_VERSION}): update vioperf to read it",
                self.schema_version
            ));
        }
        found.extend(Self::check_name(&self.name).err().map(|error| error.to_string()));
        let mut ids = BTreeSet::new();
        for figure in &self.figures {
            if !ids.insert(figure.id.as_str()) {
                found.push(format!("two figures are called `{}`: give each a name", figure.id));
            }
            if figure.values.is_empty() {
                found.push(format!("figure `{}` has no value, not even null", figure.id));
            }
        }
        for figure in &self.figures {
            for other in figure.divided_by.iter().filter(|id| !ids.contains(id.as_str())) {
                let hint = nearest(other, ids.iter().copied());
                let hint = hint.map(|id| format!(", did you mean `{id}`?")).unwrap_or_default();
                found.push(format!(
                    "figure `{}` is divided by `{other}`, which is no figure{hint}",
                    figure.id
                ));
            }
            let machines = [&figure.from, &figure.to].into_iter().flatten();
            for machine in machines.filter(|name| self.machine(name).is_none()) {
                found.push(format!(
                    "figure `{}` names the machine `{machine}`, which is not among `machines`",
                    figure.id
                ));
            }
            let platform = figure.platform.as_ref();
            if let Some(name) = platform.filter(|name| !self.platforms.contains_key(*name)) {
                found.push(format!(
                    "figure `{}` is of the platform `{name}`, which is not among `platforms`",
                    figure.id
                ));
            }
        }
        if found.is_empty() { Ok(()) } else { Err(ReferenceError(found)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"{
        "schema_version": 1, "name": "mine", "title": "t", "year": 2020, "hardware": [], "versions": [],
        "figures": [
            {"id": "a", "kind": "measurement", "row": "1", "printed_metric": "rate", "unit": "Mb/s", "values": [100]},
            {"id": "b", "kind": "claim", "row": "2", "printed_metric": "rate", "unit": "Mb/s", "values": [50, 70],
             "divided_by": ["a"]}
        ]}"#;

    #[test]
    fn a_sound_one_is_read_and_written_as_it_was() {
        let reference = Reference::parse(SMALL).unwrap();
        assert_eq!(reference.percent_of(&reference.figures[1]), Some(60.0));
        assert_eq!(reference.percent_of(&reference.figures[0]), None);
        assert_eq!(reference.figures[1].as_printed(), "50, 70 Mb/s");
        let again = serde_json::to_string(&reference).unwrap();
        assert_eq!(Reference::parse(&again).unwrap(), reference);
    }

    #[test]
    fn every_contradiction_is_told() {
        for (change, said) in [
            (("\"id\": \"b\"", "\"id\": \"a\""), "two figures are called `a`"),
            (("[\"a\"]", "[\"aa\"]"), "did you mean `a`?"),
            (("\"mine\"", "\"../mine\""), "cannot be the name"),
            (("[50, 70]", "[]"), "has no value"),
            (("\"schema_version\": 1", "\"schema_version\": 9"), "update vioperf"),
            (("\"row\": \"2\"", "\"row\": \"2\", \"from\": \"here\""), "not among `machines`"),
            (("\"row\": \"2\"", "\"row\": \"2\", \"platform\": \"x\""), "not among `platforms`"),
            (("\"row\": \"2\"", "\"rows\": \"2\""), "line 5 column"),
        ] {
            let text = SMALL.replace(change.0, change.1);
            let error = Reference::parse(&text).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
