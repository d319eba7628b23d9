//! The sections of a scenario whose keys a factor or a variant can change. **A key is a field of its section's
//! struct, and nothing else**: which keys there are, and what each takes, is read off their schemas.

mod keys;
mod value;

use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::scenario::{Guest, Testbed};
use crate::workload::Workload;

pub use keys::{Key, Takes};
pub(crate) use keys::{all_keys_of, changeable_schema_of, keys_of, schema_of, takes};
pub use value::in_words;
pub(crate) use value::level_names;

/// A section whose keys can be changed.
pub trait Section: Clone + PartialEq + Serialize + DeserializeOwned + JsonSchema {
    /// Which it is.
    const NAME: SectionName;
    /// Keys that hold for a whole run.
    const FIXED: &'static [&'static str];
    /// What the first of two keys is changed without is not kept: the second.
    const GOES_WITH: &'static [(&'static str, &'static str)] = &[];

    /// The section with some of its keys changed; tables are added to, everything else is replaced.
    ///
    /// # Errors
    /// In words, when a value is none of its key.
    fn changed(&self, changes: &Map<String, Value>) -> Result<Self, String> {
        let mut table = serde_json::to_value(self).map_err(|error| error.to_string())?;
        if let Value::Object(table) = &mut table {
            for (key, other) in Self::GOES_WITH {
                if changes.contains_key(*key) {
                    table.remove(*other);
                }
            }
            merge(table, changes);
        }
        serde_json::from_value(table).map_err(|error| error.to_string())
    }
}

impl Section for Guest {
    const NAME: SectionName = SectionName::Guest;
    const FIXED: &'static [&'static str] = &["accel", "reuse", "ready_timeout"];
    // A kernel has modules of its own.
    const GOES_WITH: &'static [(&'static str, &'static str)] = &[("kernel", "modules")];
}

impl Section for Testbed {
    const NAME: SectionName = SectionName::Testbed;
    const FIXED: &'static [&'static str] =
        &["server", "libvirt.domain", "libvirt.uri", "libvirt.interface"];
}

impl Section for Workload {
    const NAME: SectionName = SectionName::Workload;
    const FIXED: &'static [&'static str] = &["kind", "search"];
}

/// Which of the sections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SectionName {
    /// What concerns the guest alone: it does not multiply baselines.
    Guest,
    /// What the path is made of.
    Testbed,
    /// The load.
    Workload,
}

static GUEST: LazyLock<Vec<Key>> = LazyLock::new(keys_of::<Guest>);
static TESTBED: LazyLock<Vec<Key>> = LazyLock::new(keys_of::<Testbed>);
static WORKLOAD: LazyLock<Vec<Key>> = LazyLock::new(keys_of::<Workload>);

impl SectionName {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Guest, Self::Testbed, Self::Workload];

    /// What users write.
    pub fn name(self) -> &'static str {
        match self {
            Self::Guest => "guest",
            Self::Testbed => "testbed",
            Self::Workload => "workload",
        }
    }

    /// The one of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|section| section.name() == name)
    }

    /// The keys that can be changed, in alphabetical order.
    pub fn keys(self) -> &'static [Key] {
        match self {
            Self::Guest => &GUEST,
            Self::Testbed => &TESTBED,
            Self::Workload => &WORKLOAD,
        }
    }

    /// Keys that hold for a whole run, dotted.
    fn fixed(self) -> &'static [&'static str] {
        match self {
            Self::Guest => Guest::FIXED,
            Self::Testbed => Testbed::FIXED,
            Self::Workload => Workload::FIXED,
        }
    }

    /// The key that a dotted path names, or is inside of (`offloads.gro`).
    pub fn key(self, path: &str) -> Option<&'static Key> {
        self.keys().iter().find(|key| key.is_path(path))
    }

    /// Whether the key takes such a value.
    ///
    /// # Errors
    /// In words, what it takes instead.
    pub fn check(self, path: &str, value: &Value) -> Result<(), String> {
        let mut table = Map::new();
        set(&mut table, path, value.clone());
        let table = Value::Object(table);
        if let Some(fixed) = self.fixed().iter().find(|fixed| at(&table, fixed).is_some()) {
            return Err(format!(
                "{}.{fixed} holds for a whole run: leave it out here",
                self.name()
            ));
        }
        self.check_of_run(path, value)
    }

    /// Whether the key takes such a value, also one that holds for a whole run.
    ///
    /// # Errors
    /// In words, what it takes instead.
    pub fn check_of_run(self, path: &str, value: &Value) -> Result<(), String> {
        let mut table = Map::new();
        set(&mut table, path, value.clone());
        let mut table = Value::Object(table);
        // What there is no section, or no table in it, without.
        match (self, table.as_object_mut()) {
            (Self::Testbed, Some(table)) => {
                if let Some(Value::Object(domain)) = table.get_mut("libvirt") {
                    domain.entry("domain").or_insert_with(|| Value::from("any"));
                }
            }
            (Self::Workload, Some(table)) => {
                table.entry("kind").or_insert_with(|| Value::from("tcp-stream"));
            }
            _ => {}
        }
        let checked = match self {
            Self::Guest => serde_json::from_value::<Guest>(table).map(drop),
            Self::Testbed => serde_json::from_value::<Testbed>(table).map(drop),
            Self::Workload => serde_json::from_value::<Workload>(table).map(drop),
        };
        checked.map_err(|error| error.to_string())
    }
}

/// The sections that have a key of that path.
pub fn sections_with(path: &str) -> Vec<SectionName> {
    SectionName::ALL.into_iter().filter(|section| section.key(path).is_some()).collect()
}

/// Puts a value at a dotted path, into tables that are made where there are none.
pub(crate) fn set(table: &mut Map<String, Value>, path: &str, value: Value) {
    match path.split_once('.') {
        None => drop(table.insert(path.to_owned(), value)),
        Some((outer, inner)) => {
            let entry = table.entry(outer).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(entry) = entry {
                set(entry, inner, value);
            }
        }
    }
}

/// What stands at a dotted path.
pub(crate) fn at<'v>(table: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').try_fold(table, |value, part| value.get(part))
}

/// Tables are added to, everything else is replaced.
fn merge(into: &mut Map<String, Value>, changes: &Map<String, Value>) {
    for (key, change) in changes {
        match (into.get_mut(key), change) {
            (Some(Value::Object(inner)), Value::Object(change)) => merge(inner, change),
            _ => drop(into.insert(key.clone(), change.clone())),
        }
    }
}
