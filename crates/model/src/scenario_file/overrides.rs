//! Keys of a scenario that are changed from outside of its file: `--set`, `--variant`, other options.

use std::str::FromStr;

use toml::{Table, Value};

use crate::scenario::{Scenario, USUAL, Variant};
use crate::section::{SectionName, Takes, sections_with};
use crate::suggest::nearest;

/// One `--set key=value`, or another option that changes a key of the scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct Override {
    /// As the user typed it, for messages.
    text: String,
    /// The variant that it is about; absent for the scenario itself.
    variant: Option<String>,
    section: Option<String>,
    /// Absent where a variant is only named.
    key: Option<String>,
    value: Value,
    /// Whether it is for the factors, whatever they have now.
    is_factor: bool,
}

/// A `--set` that cannot be meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OverrideError {
    /// There is no `=`.
    #[error("`{0}` has no `=`: write it like `streams=1,4` or `workload.duration=10s`")]
    NoValue(String),
    /// No scenario has such a key.
    #[error("no scenario has a key `{key}`{hint}; write it like `streams=1,4` or `guest.vcpus=2`")]
    UnknownKey {
        /// The key.
        key: String,
        /// The nearest one.
        hint: String,
    },
}

impl FromStr for Override {
    type Err = OverrideError;

    /// Reads `section.key=value`, or `key=value` where the key is a factor's or is found in one
    /// section only. The value is TOML, or a bare word, or bare words with commas between.
    fn from_str(text: &str) -> Result<Self, OverrideError> {
        let (path, value) =
            text.split_once('=').ok_or_else(|| OverrideError::NoValue(text.into()))?;
        let path = path.trim();
        let (path, named) = path.strip_prefix("factors.").map_or((path, false), |key| (key, true));
        let mut known = known_keys::<Scenario>();
        // What can be varied are the keys of the other sections.
        known.retain(|(section, _)| section != "factors" && !section.starts_with("factors."));
        known.push(("factors".to_owned(), ["nic", "disk"].map(str::to_owned).to_vec()));
        let (section, key) = resolve(path, &known)?;
        let value = value_of(value.trim(), section.as_deref(), &known);
        let is_factor = named || USUAL.contains(&path);
        let text = format!("--set {text}");
        Ok(Self { text, variant: None, section, key: Some(key), value, is_factor })
    }
}

impl Override {
    /// An option of the command line (`--blocks`) that stands for the key of a section.
    pub fn option(option: &str, section: &str, key: &str, value: impl Into<Value>) -> Self {
        let value = value.into();
        Self {
            text: format!("{option} {value}"),
            variant: None,
            section: Some(section.to_owned()),
            key: Some(key.to_owned()),
            value,
            is_factor: false,
        }
    }

    /// The same for a key at the scenario's top.
    pub fn top(option: &str, key: &str, value: impl Into<Value>) -> Self {
        Self { section: None, ..Self::option(option, "", key, value) }
    }

    /// A variant (`new`), or something that one has otherwise (`new:qemu=/opt/qemu`,
    /// `new:offloads.gro=off`). What both the load and the rest have a key for is the rest's
    /// (`new:rate=1 Gbit/s` of the testbed's link); the load's is named in full (`new:workload.rate=...`).
    ///
    /// # Errors
    /// When no variant has such a key.
    pub fn of_variant(text: &str) -> Result<Self, OverrideError> {
        let (name, change) = match text.split_once(':') {
            Some((name, change)) => (name, Some(change)),
            None => (text, None),
        };
        let mut own = Self {
            text: format!("--variant {text}"),
            variant: Some(name.trim().to_owned()),
            section: None,
            key: None,
            value: Value::Boolean(true),
            is_factor: false,
        };
        if let Some(change) = change {
            let (path, value) =
                change.split_once('=').ok_or_else(|| OverrideError::NoValue(change.into()))?;
            let known = known_keys::<Variant>();
            let (section, key) = resolve_of_variant(path.trim(), &known)?;
            own.value = value_of(value.trim(), section.as_deref(), &known);
            (own.section, own.key) = (section, Some(key));
        }
        Ok(own)
    }

    /// An option of the command line (`--duration 10s`) that stands for a key of a section; the value
    /// is read as that of `--set` is.
    pub fn flag(flag: &str, section: &str, key: &str, value: &str) -> Self {
        let (section, key) = match key.rsplit_once('.') {
            Some((table, key)) => (format!("{section}.{table}"), key),
            None => (section.to_owned(), key),
        };
        Self {
            text: format!("{flag} {value}"),
            variant: None,
            section: Some(section),
            key: Some(key.to_owned()),
            value: bare_value(value.trim()),
            is_factor: false,
        }
    }

    /// As the user typed it.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Whether it changes the key of that dotted name, or something inside of it; what a variant has
    /// otherwise is under `variants`.
    pub(super) fn sets(&self, key: &str) -> bool {
        if self.variant.is_some() {
            return key == "variants";
        }
        let own = self.full_path();
        let is_inside = |key: &str| own == key || own.starts_with(&format!("{key}."));
        let of_factor = |key: &str| match self.varied() {
            Some((section, path)) => key == path || key == format!("{}.{path}", section.name()),
            None => false,
        };
        is_inside(key) || key.strip_prefix("factors.").is_some_and(of_factor)
    }

    /// The key with its section.
    fn full_path(&self) -> String {
        let own = self.key.as_deref().unwrap_or_default();
        self.section.as_ref().map_or_else(|| own.to_owned(), |section| format!("{section}.{own}"))
    }

    /// The section and the path of a key that can be varied.
    fn varied(&self) -> Option<(SectionName, String)> {
        let full = self.full_path();
        let (section, path) = full.split_once('.').filter(|_| self.variant.is_none())?;
        let section = SectionName::named(section)?;
        section.key(path).map(|_| (section, path.to_owned()))
    }

    /// Changes the scenario's table. Several values of a key are its levels, and so is one where it is
    /// varied already.
    pub(super) fn apply(&self, table: &mut Table) {
        let Some(table) = (match &self.variant {
            Some(name) => variant_of(table, name),
            None => Some(table),
        }) else {
            return;
        };
        if let Some((section, path)) = self.varied() {
            let full = format!("{}.{path}", section.name());
            let at = |table: &Table, path: &str| found(table, &format!("factors.{path}"));
            let is_list = section.key(&path).is_some_and(|key| key.takes == Takes::List);
            if at(table, &full)
                || at(table, &path)
                || self.is_factor
                || (self.value.is_array() && !is_list)
            {
                let bare = sections_with(&path).len() == 1 && !at(table, &full);
                let path = if bare { path } else { full };
                return put(table, &format!("factors.{path}"), &self.value);
            }
        }
        if self.key.is_some() {
            put(table, &self.full_path(), &self.value);
        }
    }
}

/// Whether something stands at a dotted path.
fn found(table: &Table, path: &str) -> bool {
    match path.split_once('.') {
        None => table.contains_key(path),
        Some((outer, inner)) => {
            table.get(outer).and_then(Value::as_table).is_some_and(|table| found(table, inner))
        }
    }
}

/// Puts a value at a dotted path. A wrong type on the way is reported when the whole is read.
fn put(table: &mut Table, path: &str, value: &Value) {
    match path.split_once('.') {
        None => drop(table.insert(path.to_owned(), value.clone())),
        Some((outer, inner)) => {
            if let Value::Table(table) = table.entry(outer).or_insert(Value::Table(Table::new())) {
                put(table, inner, value);
            }
        }
    }
}

/// The table of a variant, made where there is none of that name. Nothing where `variants` is no list:
/// that is reported when the whole is read.
fn variant_of<'t>(table: &'t mut Table, name: &str) -> Option<&'t mut Table> {
    let variants = table.entry("variants").or_insert(Value::Array(Vec::new())).as_array_mut()?;
    let is_it = |variant: &Value| variant.get("name").and_then(Value::as_str) == Some(name);
    let at = match variants.iter().position(is_it) {
        Some(at) => at,
        None => {
            let mut made = Table::new();
            made.insert("name".to_owned(), Value::String(name.to_owned()));
            variants.push(Value::Table(made));
            variants.len() - 1
        }
    };
    variants.get_mut(at)?.as_table_mut()
}

/// Sections, and the keys of each.
type Known = Vec<(String, Vec<String>)>;

/// Stands among the keys of a section that may have any.
const ANY_KEY: &str = "*";

/// The sections of a scenario (`guest`, `workload.search`) and the keys of each, top-level keys under
/// the empty name; read off the schema, so that there is one place that knows them.
fn known_keys<T: schemars::JsonSchema>() -> Known {
    let generator = schemars::generate::SchemaSettings::draft2020_12()
        .with(|settings| settings.inline_subschemas = true)
        .into_generator();
    let schema = generator.into_root_schema_for::<T>();
    let mut known = Vec::new();
    collect_keys("", &schema.to_value(), &mut known);
    known
}

fn collect_keys(section: &str, schema: &serde_json::Value, known: &mut Known) {
    if schema.get("additionalProperties").is_some_and(serde_json::Value::is_object) {
        known.push((section.to_owned(), vec![ANY_KEY.to_owned()]));
    }
    let Some(properties) = schema.get("properties").and_then(serde_json::Value::as_object) else {
        return;
    };
    known.push((section.to_owned(), properties.keys().cloned().collect()));
    for (name, inner) in properties {
        let inside = if section.is_empty() { name.clone() } else { format!("{section}.{name}") };
        collect_keys(&inside, inner, known);
    }
}

/// The same of a variant: of guest and testbed, and where these have no such key of the load.
fn resolve_of_variant(
    path: &str,
    known: &Known,
) -> Result<(Option<String>, String), OverrideError> {
    let is_load = |section: &str| section == "workload" || section.starts_with("workload.");
    let rest = known.iter().filter(|(section, _)| !is_load(section)).cloned().collect();
    resolve(path, &rest).or_else(|_| resolve(path, known))
}

fn resolve(path: &str, known: &Known) -> Result<(Option<String>, String), OverrideError> {
    let has = |section: &str, key: &str| {
        let is_it = |known: &String| known == key || known == ANY_KEY;
        known.iter().any(|(name, keys)| name == section && keys.iter().any(is_it))
    };
    if let Some((section, key)) = path.rsplit_once('.') {
        // `search.width` is enough for `workload.search.width`.
        let inner = format!(".{section}");
        let named = known
            .iter()
            .map(|(name, _)| name.as_str())
            .filter(|name| (*name == section || name.ends_with(&inner)) && has(name, key))
            // The outermost is meant: what is inside of another table is named with it.
            .min_by_key(|name| name.matches('.').count());
        if let Some(section) = named {
            return Ok((Some(section.to_owned()), key.to_owned()));
        }
    } else if has("factors", path) {
        return Ok((Some("factors".to_owned()), path.to_owned()));
    } else {
        let names = |(_, keys): &&(String, Vec<String>)| keys.iter().any(|key| key == path);
        let mut sections: Vec<&str> =
            known.iter().filter(names).map(|(name, _)| name.as_str()).collect();
        let depth = |name: &&str| name.matches('.').count();
        let outermost = sections.iter().map(depth).min();
        sections.retain(|name| Some(depth(name)) == outermost);
        if let [section] = sections[..] {
            let section = (!section.is_empty()).then(|| section.to_owned());
            return Ok((section, path.to_owned()));
        }
    }
    let full: Vec<String> = known
        .iter()
        .flat_map(|(section, keys)| {
            keys.iter().map(move |key| {
                if section.is_empty() { key.clone() } else { format!("{section}.{key}") }
            })
        })
        .collect();
    let last = path.rsplit('.').next().unwrap_or(path);
    let hint = nearest(path, full.iter().map(String::as_str))
        .or_else(|| {
            let keys = known.iter().flat_map(|(_, keys)| keys.iter().map(String::as_str));
            let found = nearest(last, keys)?;
            full.iter().map(String::as_str).find(|name| name.rsplit('.').next() == Some(found))
        })
        .map(|found| format!(", did you mean `{found}`?"))
        .unwrap_or_default();
    Err(OverrideError::UnknownKey { key: path.to_owned(), hint })
}

/// The value of a key; where any key may be, `on` and `off` are what they are to ethtool and QEMU.
fn value_of(text: &str, section: Option<&str>, known: &Known) -> Value {
    let is_open = known.iter().any(|(name, keys)| {
        Some(name.as_str()) == section && keys.iter().any(|key| key == ANY_KEY)
    });
    match bare_value(text) {
        Value::Array(values) if is_open => Value::Array(values.into_iter().map(switched).collect()),
        value if is_open => switched(value),
        value => value,
    }
}

fn switched(value: Value) -> Value {
    match value.as_str() {
        Some("on") => Value::Boolean(true),
        Some("off") => Value::Boolean(false),
        _ => value,
    }
}

fn bare_value(text: &str) -> Value {
    let as_toml = |text: &str| {
        format!("value = {text}").parse::<Table>().ok().and_then(|mut table| table.remove("value"))
    };
    as_toml(text).unwrap_or_else(|| {
        if text.contains(',') {
            Value::Array(text.split(',').map(|part| bare_value(part.trim())).collect())
        } else {
            Value::String(text.to_owned())
        }
    })
}
