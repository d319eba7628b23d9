//! What a variant has otherwise than the scenario's section.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::section::{Section, all_keys_of, changeable_schema_of, schema_of};

/// Some keys of a section, with their values. What is absent stays as it is in the scenario; tables
/// (options, offloads) are added to those of the scenario. Keys that hold for a whole run can be changed
/// where what is changed is one (`OF_RUN`): of a part, not of a variant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changes<T, const OF_RUN: bool = false> {
    keys: Map<String, Value>,
    section: PhantomData<T>,
}

impl<T, const OF_RUN: bool> Default for Changes<T, OF_RUN> {
    fn default() -> Self {
        Self { keys: Map::new(), section: PhantomData }
    }
}

impl<T: Section, const OF_RUN: bool> Changes<T, OF_RUN> {
    /// One key changed.
    ///
    /// # Errors
    /// In words, when there is no such key or the value is none of its own.
    pub fn of(key: &str, value: impl Into<Value>) -> Result<Self, String> {
        let value = value.into();
        check::<T, OF_RUN>(key)?;
        check_value::<T, OF_RUN>(key, &value)?;
        let mut changes = Self::default();
        changes.keys.insert(key.to_owned(), value);
        Ok(changes)
    }

    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The keys that are changed.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.keys.keys().map(String::as_str)
    }

    /// Whether a key is changed, or something inside of it.
    pub fn changes(&self, path: &str) -> bool {
        let mut table = &self.keys;
        for part in path.split('.') {
            match table.get(part) {
                None => return false,
                Some(Value::Object(inner)) => table = inner,
                Some(_) => return true,
            }
        }
        true
    }

    /// What a key is changed to.
    pub(super) fn value(&self, key: &str) -> Option<&Value> {
        self.keys.get(key)
    }

    /// The section with the changes made in it.
    #[must_use]
    pub fn applied_to(&self, section: &T) -> T {
        // Every key was checked when it was read.
        section.changed(&self.keys).unwrap_or_else(|_| section.clone())
    }
}

fn check<T: Section, const OF_RUN: bool>(key: &str) -> Result<(), String> {
    let known: Vec<String> = match OF_RUN {
        true => all_keys_of::<T>(),
        false => T::NAME.keys().iter().map(|key| key.path.clone()).collect(),
    };
    let known: Vec<&String> = known.iter().filter(|known| !known.contains('.')).collect();
    if known.iter().any(|known| *known == key) {
        return Ok(());
    }
    let names: Vec<String> = known.iter().map(|key| format!("`{key}`")).collect();
    Err(format!("unknown field `{key}`, expected one of {}", names.join(", ")))
}

fn check_value<T: Section, const OF_RUN: bool>(key: &str, value: &Value) -> Result<(), String> {
    if OF_RUN { T::NAME.check_of_run(key, value) } else { T::NAME.check(key, value) }
}

impl<T, const OF_RUN: bool> Serialize for Changes<T, OF_RUN> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.keys.serialize(serializer)
    }
}

impl<'de, T: Section, const OF_RUN: bool> Deserialize<'de> for Changes<T, OF_RUN> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ChangesVisitor::<T, OF_RUN>(PhantomData))
    }
}

impl<T: Section, const OF_RUN: bool> schemars::JsonSchema for Changes<T, OF_RUN> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        let of = if OF_RUN { "ChangesOfRun" } else { "Changes" };
        format!("{of}_{}", T::NAME.name()).into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let mut schema = if OF_RUN { schema_of::<T>() } else { changeable_schema_of::<T>() };
        if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            // What is absent is not changed.
            for property in properties.values_mut().filter_map(Value::as_object_mut) {
                property.remove("default");
                property.remove("x-absent");
            }
        }
        for of_whole in ["$schema", "title", "description", "required"] {
            schema.as_object_mut().map(|schema| schema.remove(of_whole));
        }
        schemars::Schema::try_from(schema).unwrap_or_default()
    }
}

/// Each key and each value is checked while it is read, so that the deserialiser adds its own place to
/// an error, and not that of the table around it.
struct ChangesVisitor<T, const OF_RUN: bool>(PhantomData<T>);

impl<'de, T: Section, const OF_RUN: bool> Visitor<'de> for ChangesVisitor<T, OF_RUN> {
    type Value = Changes<T, OF_RUN>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "keys of {}", T::NAME.name())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut changes = Changes::default();
        while let Some(key) = map.next_key_seed(CheckedText(check::<T, OF_RUN>))? {
            let is_value = |value: &Value| check_value::<T, OF_RUN>(&key, value);
            let value = map.next_value_seed(CheckedValue(is_value))?;
            changes.keys.insert(key, value);
        }
        Ok(changes)
    }
}

/// Reads a text, and checks it where its place is known.
pub(super) struct CheckedText<F>(pub F);

impl<'de, F: Fn(&str) -> Result<(), String>> DeserializeSeed<'de> for CheckedText<F> {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<F: Fn(&str) -> Result<(), String>> Visitor<'_> for CheckedText<F> {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<String, E> {
        (self.0)(text).map_err(E::custom)?;
        Ok(text.to_owned())
    }
}

/// Reads any value, and checks it where its place is known.
pub(super) struct CheckedValue<F>(pub F);

impl<F: Fn(&Value) -> Result<(), String>> CheckedValue<F> {
    fn checked<E: serde::de::Error>(self, value: Value) -> Result<Value, E> {
        (self.0)(&value).map_err(E::custom)?;
        Ok(value)
    }
}

impl<'de, F: Fn(&Value) -> Result<(), String>> DeserializeSeed<'de> for CheckedValue<F> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, F: Fn(&Value) -> Result<(), String>> Visitor<'de> for CheckedValue<F> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Value, E> {
        self.checked(value.into())
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Value, E> {
        self.checked(value.into())
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Value, E> {
        self.checked(value.into())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        self.checked(value.into())
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Value, E> {
        self.checked(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = seq.next_element()? {
            values.push(value);
        }
        self.checked(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Value, A::Error> {
        self.checked(Value::deserialize(MapAccessDeserializer::new(map))?)
    }
}
