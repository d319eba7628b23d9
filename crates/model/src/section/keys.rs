//! The keys of a section, as its schema has them.

use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::Section;

/// A key of a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Its name; of a key inside a table dotted.
    pub path: String,
    /// What it takes.
    pub takes: Takes,
    /// Its schema.
    pub(crate) schema: Value,
}

/// What a key takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// One value.
    One,
    /// A list, or one value of it.
    List,
    /// A table of keys that are listed themselves.
    Table,
    /// A table of any keys.
    AnyKeys,
}

impl Key {
    /// Whether the path is the key's, or inside of a table of any keys.
    pub fn is_path(&self, path: &str) -> bool {
        let inside = || path.strip_prefix(&self.path).and_then(|rest| rest.strip_prefix('.'));
        path == self.path || (self.takes == Takes::AnyKeys && inside().is_some())
    }

    /// The value that holds without the key, in words; of some keys a sentence that tells it.
    pub fn absent(&self) -> Option<String> {
        Some(self.schema.get("x-absent")?.as_str()?.replace('`', ""))
    }

    /// What a level of the path is called by: the name of a table of any keys is left out, as those
    /// names speak for themselves (`gro` of `offloads.gro`).
    pub(crate) fn spoken(&self, path: &str) -> String {
        let inside = path.strip_prefix(&self.path).and_then(|rest| rest.strip_prefix('.'));
        let Some(inside) = inside else { return path.replace('.', "-") };
        match self.path.rsplit_once('.') {
            Some((outer, _)) => format!("{}-{inside}", outer.replace('.', "-")),
            None => inside.to_owned(),
        }
    }
}

/// The schema of a section with everything in its place.
pub(crate) fn schema_of<T: schemars::JsonSchema>() -> Value {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

/// The keys that can be changed.
pub(crate) fn keys_of<T: Section>() -> Vec<Key> {
    let mut keys = Vec::new();
    collect("", &changeable_schema_of::<T>(), &mut keys);
    keys
}

/// The names of all keys, those that hold for a whole run too; not of those inside of tables.
pub(crate) fn all_keys_of<T: Section>() -> Vec<String> {
    let schema = schema_of::<T>();
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.into_iter().flat_map(|all| all.keys().cloned()).collect()
}

/// The schema of a section without the keys that hold for a whole run.
pub(crate) fn changeable_schema_of<T: Section>() -> Value {
    let mut schema = schema_of::<T>();
    for fixed in T::FIXED {
        let (table, name) = match fixed.rsplit_once('.') {
            Some((table, name)) => {
                (format!("/properties/{}", table.replace('.', "/properties/")), name)
            }
            None => (String::new(), *fixed),
        };
        let Some(table) = schema.pointer_mut(&table) else { continue };
        if let Some(properties) = table.get_mut("properties").and_then(Value::as_object_mut) {
            properties.remove(name);
        }
        if let Some(required) = table.get_mut("required").and_then(Value::as_array_mut) {
            required.retain(|required| required != name);
        }
    }
    schema
}

fn collect(prefix: &str, schema: &Value, keys: &mut Vec<Key>) {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, schema) in properties.into_iter().flatten() {
        let path = format!("{prefix}{name}");
        let inside = format!("{path}.");
        keys.push(Key { path, takes: takes(schema), schema: schema.clone() });
        collect(&inside, schema, keys);
    }
}

pub(crate) fn takes(schema: &Value) -> Takes {
    if schema.get("additionalProperties").is_some_and(Value::is_object) {
        return Takes::AnyKeys;
    }
    if schema.get("properties").is_some() {
        return Takes::Table;
    }
    let is_array = |schema: &Value| {
        let of = schema.get("type");
        let is_it = |of: &Value| of.as_str() == Some("array");
        of.is_some_and(|of| is_it(of) || of.as_array().is_some_and(|all| all.iter().any(is_it)))
    };
    let choices = schema.get("anyOf").and_then(Value::as_array);
    if is_array(schema) || choices.is_some_and(|all| all.iter().any(is_array)) {
        return Takes::List;
    }
    Takes::One
}
